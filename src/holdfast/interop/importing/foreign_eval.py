"""What a reader of another tool's files yields: an eval, and its trials one at a time.

A reader says what it found and decides nothing: names are made valid, duplicates are refused and numbers are checked
by the writer (`import_run`), the same for every tool. What a reader has no place for goes into `fields`, as it was.
"""

import enum
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import msgspec

from holdfast.models.message import Usage
from holdfast.run.core.records import Failure


class ForeignState(enum.StrEnum):
    """How far a trial came in the other tool."""

    VALID = "valid"
    LIMITED = "limited"
    FAILED = "failed"
    NO_VERDICT = "no verdict"
    """It ran, and nothing says how it was judged."""
    INTERRUPTED = "interrupted"
    NOT_STARTED = "not started"
    """It was planned, and there is nothing of it."""


class ForeignSample(msgspec.Struct, omit_defaults=True):
    """What was asked."""

    id: str
    """Of the sample within its task."""
    input: Any = ""
    """A text, or messages as `{"role": …, "content": …}`."""
    target: Any = None
    choices: list[str] | None = None
    metadata: dict[str, Any] = {}


class ForeignScore(msgspec.Struct, omit_defaults=True):
    """One judgement of an answer."""

    scorer: str
    value: Any = None
    """A number or a boolean; anything else is kept, and counts as unscored."""
    is_number: bool = False
    """Whether the format has numbers only: a boolean is then unscored too, and a value of another type is named."""
    judge: str = ""
    """Who gave it, if a model did."""
    answer: str | None = None
    explanation: str = ""
    metadata: dict[str, Any] = {}


class ForeignCall(msgspec.Struct, omit_defaults=True):
    """One call of a model, with everything that was said before it."""

    messages: list[Any]
    """As `{"role": …, "content": …}`, or with the other fields of `holdfast.models.message.Message`."""
    text: str = ""
    """What the model replied."""
    reply: dict[str, Any] = {}
    """More of the reply: the fields of a recorded reply (`finish`, `model`, `reasoning`, `tool_calls`, …)."""
    model: str = ""
    """Another model than the one under test, if it was one."""
    usage: Usage | None = None
    at: float = 0.0
    seconds: float = 0.0


class ForeignTrial(msgspec.Struct, omit_defaults=True):
    """One trial."""

    place: str
    """Where it is, as a person finds it: a file, a line, an entry."""
    task: str
    model: str
    sample: ForeignSample
    state: ForeignState
    epoch: int = 1
    axes: dict[str, str] = {}
    answer: str | None = None
    calls: tuple[ForeignCall, ...] = ()
    scores: tuple[ForeignScore, ...] = ()
    usage: Usage | None = None
    """Of all models together; without it, the sum of the calls."""
    usage_by_model: dict[str, Usage] = {}
    """The parts of it that belong to other models than the one under test."""
    cost: Any = None
    """What the other tool says that it cost."""
    at: float = 0.0
    """When it ended, in seconds since 1970."""
    seconds: Any = None
    limit: str = ""
    """The limit that it reached, of one that is `limited`."""
    error: Failure | None = None
    fields: dict[str, Any] = {}
    """Everything that has no place above, by the names of the other tool."""
    unknown: tuple[str, ...] = ()
    """The names among those that the reader does not know."""
    unusable: tuple[str, ...] = ()
    """The names of fields whose value is not of the type that the format has; they are among `fields`."""


class SkippedItem(msgspec.Struct, frozen=True):
    """Something that cannot be imported, and why."""

    where: str
    reason: str


@dataclass(frozen=True)
class ForeignEval:
    """An eval that another tool has carried out."""

    tool: str
    """The name of the tool."""
    name: str
    place: str
    """The file or the directory."""
    items: Callable[[], Iterable[ForeignTrial | SkippedItem]]
    """Its trials; called once."""
    currency: str = "USD"
    """Of the costs that it has recorded."""
    details: dict[str, Any] = field(default_factory=dict)
    """What is known of the eval itself: kept in the run, and shown by nobody."""
    notes: list[str] = field(default_factory=list)
    """What a person should know; may grow while the items are read."""
    faults: list[str] = field(default_factory=list)
    """What contradicts itself or is known to be missing; the import is then no success. May grow as well."""
