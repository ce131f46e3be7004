"""What the built-in requirements share: named arguments, checked; an id and a description where none is given."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, ClassVar, Self, TypedDict

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.run.core.records import Failure
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.spec.loading.error_messages import describe_value
from holdfast.spec.loading.validate import allowed_values
from holdfast.spec.whole_numbers import convert_arguments, with_whole_numbers
from holdfast.suggestions import did_you_mean, listing

LONGEST_ID = 100
QUOTED_CHARACTERS = 200
"""How much of a pattern, a text or an answer a sentence quotes."""


class Naming(TypedDict, total=False):
    """The arguments that all of them take."""

    id: str
    description: str
    check_only: bool


class BuiltInRequirement(Requirement, frozen=True, kw_only=True, forbid_unknown_fields=True, dict=True):
    """A requirement whose arguments are its fields. What a check needs is made ready when it is built."""

    kind: ClassVar[str]
    """Its name in eval files."""
    revision: ClassVar[int] = 1
    """Raised whenever the same arguments decide differently than before."""
    short_argument: ClassVar[str] = ""
    """The argument that may be given alone: `{regex: "..."}` is `{regex: {pattern: "..."}}`."""
    is_quick: ClassVar[bool] = True

    id: str = ""

    def __post_init__(self) -> None:
        if len(self.id) > LONGEST_ID or not self.id.isprintable() or self.id != self.id.strip():
            raise ConfigurationError(
                f"The id {quoted(self.id)} of the requirement {self.kind} cannot be used.",
                hint=f"Give a name of at most {LONGEST_ID} printable characters.",
            )
        self.prepare()
        derived = {"id": self.derived_id, "description": self.derived_description}
        absent = [name for name in derived if not getattr(self, name)]
        for name in absent:
            msgspec.structs.force_setattr(self, name, derived[name]())
        self.__dict__["derived"] = frozenset(absent)

    @classmethod
    def build(cls, arguments: Mapping[str, Any], place: str) -> Self:
        """A requirement from arguments as written in an eval file.

        Raises:
            ConfigurationError: an argument is unknown, missing or wrong.
        """
        cls._check_names(arguments, place)
        try:
            return convert_arguments(dict(arguments), cls)
        except msgspec.ValidationError:
            raise ConfigurationError(f"{place}: {_wrong_argument(cls, arguments)}.") from None
        except ConfigurationError as error:
            raise ConfigurationError(f"{place}: {error.message}", hint=error.hint) from None

    @property
    def has_derived_id(self) -> bool:
        return "id" in self.__dict__["derived"]

    def prepare(self) -> None:
        """Refuses wrong arguments, and keeps what checks need in `__dict__`."""

    def derived_id(self) -> str:
        return self.kind

    def derived_description(self) -> str:
        """Its description where none is given."""
        raise NotImplementedError

    def with_id(self, given: str) -> Self:
        renamed = super().with_id(given)
        # A copy of a struct has its fields only.
        renamed.__dict__.update(self.__dict__)
        return renamed

    def identity(self) -> dict[str, Any]:
        return {"requirement": self.kind, "revision": self.revision, "arguments": self.arguments()}

    def arguments(self) -> dict[str, Any]:
        """Its arguments; a description that nobody gave follows from the others."""
        held = msgspec.structs.asdict(self)
        if "description" in self.__dict__["derived"]:
            del held["description"]
        return held

    def passed(self, reason: str = "", score: float | None = None) -> Verdict:
        return Verdict(self.id, VerdictKind.PASSED, reason, score)

    def failed(self, reason: str, score: float | None = None) -> Verdict:
        return Verdict(self.id, VerdictKind.FAILED, reason, score, hidden=self.check_only)

    def undecided(self, reason: str, kind: str) -> Verdict:
        """The verdict where it could not be found out; `kind` is that of the error."""
        return Verdict(self.id, VerdictKind.ERROR, reason, error=Failure(kind, reason), hidden=self.check_only)

    @classmethod
    def _check_names(cls, arguments: Mapping[str, Any], place: str) -> None:
        valid = cls.__struct_fields__
        for argument in arguments:
            if argument not in valid:
                raise ConfigurationError(
                    f"{place}: the requirement {cls.kind} takes no argument {argument!r}; it takes {listing(valid)}.",
                    hint=did_you_mean(str(argument), valid),
                )
        missing = next((name for name in _required_names(cls) if name not in arguments), None)
        if missing is not None:
            raise ConfigurationError(
                f"{place}: the requirement {cls.kind} needs the argument {missing!r}.",
                hint=f"Write {{{cls.kind}: {{{missing}: ...}}}}.",
            )


@functools.cache
def _required_names(kind: type[BuiltInRequirement]) -> tuple[str, ...]:
    return tuple(field.name for field in msgspec.structs.fields(kind) if field.required)


def _wrong_argument(kind: type[BuiltInRequirement], arguments: Mapping[str, Any]) -> str:
    """The first argument that does not have the type of its field, and what is allowed there."""
    hints = {field.name: field.type for field in msgspec.structs.fields(kind)}
    name = next(name for name, value in arguments.items() if not _fits(value, hints[name]))
    allowed = allowed_values(hints[name])
    return f"{kind.kind}.{name} is {describe_value(arguments[name])}; allowed: {allowed}"


def _fits(value: Any, hint: Any) -> bool:
    try:
        msgspec.convert(with_whole_numbers(value, hint), hint)
    except msgspec.ValidationError:
        return False
    return True


def quoted(text: str, limit: int = QUOTED_CHARACTERS) -> str:
    """A text as a sentence quotes it: of bounded length, and with control characters spelled out."""
    shown = text if len(text) <= limit else f"{text[: limit - 1]}…"
    if not shown.isprintable():
        shown = "".join([character if character.isprintable() else _escape(character) for character in shown])
    return f'"{shown}"'


def bounds_text(least: float | None, most: float | None) -> str:
    """Two bounds in words, of which one may be absent."""
    parts = [
        f"{word} {_spelled(bound)}" for word, bound in (("at least", least), ("at most", most)) if bound is not None
    ]
    return " and ".join(parts)


def _spelled(bound: float) -> str:
    return f"{int(bound):,}" if float(bound).is_integer() and abs(bound) < 1e15 else f"{bound:,}"


def _escape(character: str) -> str:
    return character.encode("unicode_escape").decode()
