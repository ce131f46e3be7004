"""What a change to a field means on resume: every field of the schema says so in its own type.

A schema field is written `Annotated[T, Drift.X]`, with exactly one class. A field without one, or with two,
is a TypeError at import that names the struct and the field. The rule behind the classes: a field may change
on resume if and only if changing it touches neither sample data nor any persisted result.

A field that holds a block (a struct) or a map of blocks is classed too, but its own class speaks only of
whether a key is there: the values inside are classed field by field.

The modules of the schema do not postpone their annotations: those are read when the classes are made and again by
whoever decodes, and each would be compiled from text every time.
"""

import enum
import typing
from typing import Annotated, Any, ClassVar

import msgspec


class Drift(enum.Enum):
    """The eight classes; the value is the word users read."""

    IDENTITY = "identity"
    """Changes what is asked or answered: refused."""

    RECORDED = "recorded"
    """Changes what is written about it: refused."""

    SCORING = "scoring"
    """Changes how answers are judged: refused, but for a rescoring of the recorded answers."""

    ADDITIVE = "additive"
    """May grow: what is missing is run; when fewer are offered, the saved ones are kept."""

    THROUGHPUT = "throughput"
    """Only how fast or how shown: applied and recorded."""

    LOCATION = "location"
    """Where things are reached: applied and recorded."""

    DERIVED = "derived"
    """Only used when reading: applied and recorded, and everything on record is read by the newest."""

    UNMATCHED = "unmatched"
    """Not part of the work: never compared, never noted."""


class Block(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The base of every struct of the schema; a subclass with an unclassed field cannot be defined."""

    inlined: ClassVar[str] = ""
    """The field whose keys may also be written directly in this block (`runner`), or nothing."""

    shorthand: ClassVar[tuple[str, ...]] = ()
    """The fields that a single text stands for, with `/` between them (`provider/model`)."""

    exactly_one: ClassVar[tuple[str, ...]] = ()
    """Keys of which exactly one must be given."""

    may_be_empty: ClassVar[bool] = True
    """Whether an empty map says the same as no map, where the block is optional."""

    def __init_subclass__(cls) -> None:
        for name, hint in typing.get_type_hints(cls, include_extras=True).items():
            if typing.get_origin(hint) is not ClassVar:
                _check_class(cls.__name__, name, hint)


def drift_of(hint: Any) -> Drift:
    """The class of a field, from its annotation."""
    (drift,) = _classes(hint)
    return drift


def without_drift(hint: Any) -> Any:
    """The annotation without its class; constraints on values (`msgspec.Meta`) stay."""
    kept = [item for item in _metadata(hint) if not isinstance(item, Drift)]
    plain = typing.get_args(hint)[0] if _metadata(hint) else hint
    for item in kept:
        plain = Annotated[plain, item]
    return plain


def _check_class(struct: str, field: str, hint: Any) -> None:
    classes = _classes(hint)
    if len(classes) == 1:
        return
    found = ", ".join(drift.name for drift in classes) or "none"
    raise TypeError(
        f"{struct}.{field} must carry exactly one drift class, found {found}; write it as Annotated[..., Drift.X]"
    )


def _classes(hint: Any) -> list[Drift]:
    return [item for item in _metadata(hint) if isinstance(item, Drift)]


def _metadata(hint: Any) -> tuple[Any, ...]:
    return getattr(hint, "__metadata__", ())
