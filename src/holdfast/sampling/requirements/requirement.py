"""A requirement: something that a candidate must meet, with a name, a description and a check."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar, Protocol, Self

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.message import Message, Reply
from holdfast.sampling.place import Place
from holdfast.sampling.requirements.verdict import Verdict


class Draft(msgspec.Struct, frozen=True):
    """What is checked: a candidate's text, with where it comes from."""

    text: str
    reply: Reply
    messages: tuple[Message, ...]
    """What was asked, with whatever a repair has added."""
    place: Place
    context: Any = None
    """The validation context that the caller gave, exactly as it is; in a trial, its sample if none was given."""
    request: tuple[Message, ...] = ()
    """What the sampling was asked for, without repairs."""


class Checking(Protocol):
    """What a check may use that has to wait."""

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls code of the user's: a plain function in a thread, and what can be awaited is awaited."""

    async def ask(self, model: str, messages: tuple[Message, ...], generation: Mapping[str, Any]) -> Reply:
        """Asks a model as a judge; durable, limited, and counted in the sampling's budget."""


class Requirement(msgspec.Struct, frozen=True, kw_only=True):
    """What a candidate must meet. A subclass has one of the two checks."""

    is_quick: ClassVar[bool] = False
    """Whether `check` answers at once, without waiting and without code of the user's."""
    calls: ClassVar[int] = 0
    """How many calls of models one check may take, at most: those that take some are checked last."""

    id: str
    """Its name in records and reports. Default: the name of the requirement; that of the function for a function.
    Example: `letter`
    """

    description: str = ""
    """What it asks for, in words that a model can follow. Default: derived from the other arguments; for a function,
    the first paragraph of its docstring.
    Example: `Answer with one letter.`
    """

    check_only: bool = False
    """Whether it is hidden from the model, and with it the reason why an answer did not meet it. Example: `true`"""

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that it asks."""
        return ()

    @property
    def has_derived_id(self) -> bool:
        """Whether nobody gave it its id: then it is numbered where another one has the same."""
        return False

    def derived_id(self) -> str:
        """Its id, before numbers, where nobody gave it one."""
        return self.id

    @property
    def gives_score(self) -> bool:
        """Whether its verdicts have a score that ranks candidates, as `best_of_n` needs it."""
        return False

    def check(self, draft: Draft) -> Verdict:  # noqa: ARG002 - for those who have one
        """The verdict, at once."""
        raise self._without("check()", "check(draft) that returns a Verdict")

    async def check_later(self, draft: Draft, checking: Checking) -> Verdict:  # noqa: ARG002 - for those who need it
        """The verdict of one that is not quick."""
        return self.check(draft)

    def identity(self) -> dict[str, Any]:
        """What its verdicts depend on, for the identity of a trial."""
        raise self._without(
            "identity()", 'identity() that returns a map, such as {"requirement": "mine", "revision": 1}'
        )

    def _without(self, method: str, way_out: str) -> ConfigurationError:
        return ConfigurationError(
            f"The requirement {self.id!r} is of the class {type(self).__qualname__}, which has no {method}.",
            hint=f"Give the class {way_out}.",
        )

    def with_id(self, given: str) -> Self:
        """The same requirement under another id."""
        renamed = copy.copy(self)
        msgspec.structs.force_setattr(renamed, "id", given)
        return renamed


def in_order(requirements: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """As they are checked: in the order given, those that ask models after all others.

    Of those without an id of their own, the second `regex` becomes `regex-2`.

    Raises:
        ValueError: two of them were given the same id.
    """
    given = tuple(requirements)
    if len({requirement.id for requirement in given}) < len(given):
        given = _with_unique_ids(given)
    if any(requirement.calls for requirement in given):
        return tuple(sorted(given, key=lambda requirement: requirement.calls > 0))
    return given


def with_changes(present: Sequence[Requirement], wanted: Iterable[Requirement]) -> tuple[Requirement, ...]:
    """The requirements with those of a hook: one that was given the id of another takes its place, others are added.

    Raises:
        ValueError: two of them were given the same id.
    """
    added = list(wanted)
    ids = {requirement.id for requirement in present}
    replacing = {one.id: one for one in added if one.id in ids and not one.has_derived_id}
    kept = [replacing.get(requirement.id, requirement) for requirement in present]
    return in_order((*kept, *(one for one in added if one.has_derived_id or one.id not in ids)))


def _with_unique_ids(requirements: Sequence[Requirement]) -> tuple[Requirement, ...]:
    taken: set[str] = set()
    for requirement in requirements:
        if requirement.has_derived_id:
            continue
        if requirement.id in taken:
            raise ValueError(f"Two requirements have the id {requirement.id!r}: give each an id of its own.")
        taken.add(requirement.id)
    return tuple([_numbered(one, taken) if one.has_derived_id else one for one in requirements])


def _numbered(requirement: Requirement, taken: set[str]) -> Requirement:
    """The requirement under its id if that is free, or else under the first number that is."""
    name = requirement.derived_id()
    numbered = (f"{name}-{number}" for number in itertools.count(2))
    free = next(one for one in itertools.chain([requirement.id, name], numbered) if one not in taken)
    taken.add(free)
    return requirement if free == requirement.id else requirement.with_id(free)
