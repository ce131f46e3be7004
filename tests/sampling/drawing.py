"""A model that answers by lane and turn, requirements to check it with, and samplings in a loop of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from holdfast.api.sample import sample
from holdfast.models.message import Reply, Request, Usage
from holdfast.sampling.place import current_place
from holdfast.sampling.requirements.requirement import Draft, Requirement
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.result import SamplingResult

At = tuple[int, int]


class Drawing:
    """A provider: what it says, how long that takes and what it raises is given by (lane, turn)."""

    def __init__(
        self,
        said: dict[At, str] | Callable[[int, int], str] | None = None,
        *,
        rounds: dict[At, int] | Callable[[int, int], int] | int = 1,
        raised: dict[At, BaseException] | None = None,
        default: str = "no",
    ) -> None:
        """`rounds` is how many rounds of the loop an answer takes: no clock is involved."""
        self._said, self._rounds, self._raised, self._default = said or {}, rounds, raised or {}, default
        self.requests: dict[At, Request] = {}
        self.order: list[At] = []
        self.in_flight = self.most_in_flight = self.cancelled = 0

    async def send(self, request: Request) -> Reply:
        place = current_place()
        assert place is not None
        at = place.lane, place.turn
        self.requests[at] = request
        self.order.append(at)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            for _ in range(_given(self._rounds, at, 1)):
                await asyncio.sleep(0)
            if at in self._raised:
                raise self._raised[at]
            return Reply(_given(self._said, at, self._default), "stop", Usage(10, 5))
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        finally:
            self.in_flight -= 1

    async def close(self) -> None:
        """Nothing is held."""


def _given(source: Any, at: At, default: Any) -> Any:
    if callable(source):
        return source(*at)
    return source.get(at, default) if isinstance(source, dict) else source


class Says(Requirement, frozen=True):
    """The text holds a word."""

    is_quick = True
    word: str = "yes"

    def check(self, draft: Draft) -> Verdict:
        is_met = self.word in draft.text
        kind = VerdictKind.PASSED if is_met else VerdictKind.FAILED
        return Verdict(self.id, kind, "" if is_met else f"Say {self.word!r}.", score=float(is_met))

    def identity(self) -> dict[str, Any]:
        return {"says": self.word}


class Asks(Requirement, frozen=True):
    """Checked by a function of the test's own, which may be async."""

    function: Callable[..., Any] = str

    async def check_later(self, draft: Draft, checking: Any) -> Any:
        return await checking.call(self.function, draft)

    def identity(self) -> dict[str, Any]:
        return {"asks": self.id}


YES = Says(id="yes")


def run_sample(model: object, *, requirements: Any = (YES,), **options: Any) -> SamplingResult:
    """One sampling in a loop of its own; when it returns or raises, no task is left."""
    return run(sample(model, "the question", requirements=requirements, **{"seed": 0, **options}))


def run(work: Coroutine[Any, Any, Any]) -> Any:
    """Runs it, and checks that nothing of it is left."""

    async def checked() -> Any:
        try:
            return await work
        finally:
            left = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
            assert left == []

    return asyncio.run(checked())
