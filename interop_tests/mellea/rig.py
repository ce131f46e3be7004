"""What the cases share: a registry of cases, requirements, hooks that write down what they see."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from backend import FakeBackend
from mellea.core import Requirement, SamplingResult, ValidationResult
from mellea.plugins import HookType, hook, plugin_scope
from mellea.stdlib.components import Instruction
from mellea.stdlib.context import SimpleContext

Case = Callable[[], Awaitable[Any]]


@dataclass(frozen=True)
class Listed:
    """A case, and what the contract says it has to show."""

    name: str
    promise: str
    expected: Any
    run: Case


CASES: list[Listed] = []


def shows(expected: Any) -> Callable[[Case], Case]:
    """Registers a case: what it returns is compared with this, on both sides."""

    def register(run: Case) -> Case:
        CASES.append(Listed(run.__name__, (run.__doc__ or "").strip(), expected, run))
        return run

    return register


def said(*replies: str | Exception) -> FakeBackend:
    """A backend that gives these replies in turn, the last one for ever."""

    def reply(call: Any) -> str:
        given = replies[min(call.number, len(replies)) - 1]
        if isinstance(given, Exception):
            raise given
        return given

    return FakeBackend(reply)


def lane_of(call: Any, loop_budget: int) -> tuple[int, int]:
    """The lane and turn of a call, from 0, by the iteration that telemetry gives it."""
    return divmod(call.iteration - 1, loop_budget)


def need(text: str, *, reason: str | None = None, **settings: Any) -> Requirement:
    """Met by a reply that contains the text."""

    def check(context: Any) -> ValidationResult:
        return ValidationResult(text in str(context.last_output()), reason=reason)

    return Requirement(f"needs {text}", check, **settings)


def unmet(reason: str | None = "never") -> Requirement:
    """Met by no reply."""
    return Requirement("unmet", lambda _context: ValidationResult(False, reason=reason))


async def sample(strategy: Any, backend: FakeBackend, requirements: Any = None, **settings: Any) -> SamplingResult:
    """One sampling of a short instruction, without a progress bar."""
    action = settings.pop("action", None) or Instruction("say")
    context = settings.pop("context", None) or SimpleContext()
    return await strategy.sample(action, context, backend, requirements, show_progress=False, **settings)


async def error_of(awaitable: Awaitable[Any]) -> BaseException | None:
    """What it raised, or None."""
    try:
        await awaitable
    except BaseException as error:  # noqa: BLE001 - cancellation is an outcome like any other here
        return error
    return None


def outline(result: SamplingResult) -> dict[str, Any]:
    """A result in short."""
    return {
        "index": result.result_index,
        "success": result.success,
        "values": [str(generation) for generation in result.sample_generations],
        "passed": [[bool(verdict) for _, verdict in pairs] for pairs in result.sample_validations],
    }


@dataclass
class Seen:
    """The payloads of the four sampling hooks, in the order in which they came."""

    payloads: list[tuple[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[Any]:
        return [payload for name, payload in self.payloads if name == kind]

    @property
    def kinds(self) -> list[str]:
        return [kind for kind, _ in self.payloads]


KINDS = {
    "start": HookType.SAMPLING_LOOP_START,
    "iteration": HookType.SAMPLING_ITERATION,
    "repair": HookType.SAMPLING_REPAIR,
    "end": HookType.SAMPLING_LOOP_END,
}


@contextmanager
def watching(**answers: Callable[[Any], Any]) -> Iterator[Seen]:
    """Registers a hook of each kind; what a function in `answers` returns is the answer of the hook of that kind."""
    seen = Seen()

    def watcher(kind: str) -> Any:
        async def watch(payload: Any, _context: Any) -> Any:
            seen.payloads.append((kind, payload))
            return answers[kind](payload) if kind in answers else None

        watch.__qualname__ = f"watch_{kind}_{id(seen)}"
        return hook(KINDS[kind])(watch)

    with plugin_scope([watcher(kind) for kind in KINDS]):
        yield seen


@contextmanager
def logged() -> Iterator[list[logging.LogRecord]]:
    """The records that Mellea's logger is given, from warnings up."""
    records: list[logging.LogRecord] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = records.append  # type: ignore[method-assign]
    logger = logging.getLogger("mellea")
    logger.addHandler(handler)
    try:
        yield records
    finally:
        logger.removeHandler(handler)


def other_tasks() -> int:
    """How many tasks there are beside this one."""
    return len([task for task in asyncio.all_tasks() if task is not asyncio.current_task() and not task.done()])


async def others_first() -> None:
    """Comes back once everything else that could go on has gone on."""
    for _ in range(100):
        await asyncio.sleep(0)
