"""The records of a run: one JSON object each.

Every record is a typed struct with a tag. A field that has its default is left out of the bytes; a field or a type
that this version does not know is skipped by it and kept in the journal.
"""

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.journal import SegmentId, SegmentPin
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.slots.slot_names import base_name
from holdfast.storage.leases.holder import UnrecordedEnd


class Status(enum.StrEnum):
    """How an attempt ended. The first three are kept on resume, UNFINISHED is continued, and FAILED is retried, but
    for a trial that failed in a scorer.
    """

    VALID = "valid"
    LIMITED = "limited"
    BLOCKED = "blocked"
    FAILED = "failed"
    UNFINISHED = "unfinished"

    @property
    def is_kept(self) -> bool:
        return self in KEPT_STATUSES


KEPT_STATUSES = frozenset({Status.VALID, Status.LIMITED, Status.BLOCKED})


class Input(msgspec.Struct, frozen=True, omit_defaults=True):
    """A file that the run depends on; `digest` names the copy in `inputs`."""

    digest: str
    size: int
    source: str = ""
    copied: bool = True
    raw: str = ""
    """The digest of the file that it was copied from, as that file was."""


UNKNOWN_DIGEST = "unknown"
"""The digest of an input that a rebuilt session could not find: its plan is unknown."""


MEAN_OF_JUDGES, MAJORITY_OF_JUDGES = "mean", "majority"
"""How the scores of several judges become one: the mean of the valid ones, or 1 or 0 by strict majority of all."""


class PanelEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """A scorer with judges. Their combined score is never recorded: it is computed whenever the scores are read."""

    slots: list[str]
    """One for each judge, of those in `scorers` of the plan."""
    combine: str = MEAN_OF_JUDGES
    pass_at: float = 0.5
    """The lowest score of a judge that is a pass."""
    pairwise: bool = False
    """Whether the judges compare two answers, once in each order."""


class PlanEntry(msgspec.Struct, frozen=True, omit_defaults=True):
    """How many trials of a task are planned for a model."""

    task: str
    model: str
    planned: int
    scorers: list[str] = []
    binary: list[str] | None = None
    """Those of the scorers that say of themselves that every score is 0 or 1; None where that was not recorded."""
    panels: dict[str, PanelEntry] = {}
    """The scorers with judges, by name."""
    axes: dict[str, dict[str, int]] = {}
    """By axis and value, how many of the trials have it; empty where there are no axes."""
    depends: dict[str, dict[str, list[str]]] = {}
    """By axis and value, the values that it depends on, of which one is chosen before its trials start."""

    @property
    def shown_scorers(self) -> list[str]:
        """The names under which people see scores: a panel before its judges, and without them if there is only one."""
        return shown_scorers(map(base_name, self.scorers), self.panels)


def shown_scorers(scorers: Iterable[str], panels: Mapping[str, PanelEntry]) -> list[str]:
    """As `PlanEntry.shown_scorers`."""
    panel_of = {slot: name for name, panel in panels.items() for slot in panel.slots}
    there = list(scorers)
    found: list[str] = []
    for slot in there:
        name = panel_of.get(slot, slot)
        judges = panels[name].slots if name in panels else []
        found += [name, *(judge for judge in judges if judge in there)] if len(judges) != 1 else [name]
    return list(dict.fromkeys(found))


class RowReading(msgspec.Struct, frozen=True, omit_defaults=True):
    """How a task makes samples of its rows: enough to read them without its code."""

    columns: dict[str, str] = {}
    target: str | None = None
    options: list[str] = []
    asked: list[str] = []
    stand_in: str | None = None
    """The prompt that is the input of rows without one."""
    operations: list[dict[str, Any]] = []
    shuffle_choices: int | None = None
    key_paths: list[str] | None = None
    """Where the target was at first, if it has moved: keys of rows without ids are made without these."""


VALUE, MEMBER, CODE, BYTECODE, PACKAGE, STATEMENTS, OPAQUE, UNSTEADY = (
    "value",
    "member",
    "code",
    "bytecode",
    "package",
    "statements",
    "opaque",
    "unsteady",
)
"""What a node of a code tree is. `statements` are the lines behind a value, which count if it is opaque or unsteady.
A `member` is in a container that is a node as a whole: it counts where both sides have it.
"""
STATEMENTS_OF = " (statements)"
"""What follows the name of a value in the name of the node with its statements."""
REMEMBERED = " (remembered)"
"""In the name of what a cache or a property has kept from the import: it is compared where both sides have it."""
ORDER_OF = " (order)"
"""What follows the name of a map in the name of the node with the order of its keys."""
CLASS = "class"
"""The text of a node that is the code of a class."""


class ValueNode(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A piece of code or a value that a task reaches, as it was when it was taken."""

    kind: str
    """One of those above."""
    digest: str = ""
    """Salted: neither a short value nor a key can be found out from it."""
    text: str = ""
    """For people, cut; empty for code, and for what is not to be shown."""


class CodeTree(msgspec.Struct, frozen=True, omit_defaults=True):
    """Everything that a task's solver, sampling, tools and scorers reach, by dotted name."""

    salt: str
    """Of the run, in hexadecimal."""
    roots: dict[str, dict[str, ValueNode]] = {}
    """By what it is reached from: `solver`, `sampling`, `tools`, `scorer NAME`."""


SOLVER_ROOT, SAMPLING_ROOT, TOOLS_ROOT, SCORER_ROOT = "solver", "sampling", "tools", "scorer "
"""The names of the roots; that of a scorer is followed by its own name."""
BUILT_IN_SOLVER = "generate "
"""How `solver` begins for the built-in one, whose behaviour number follows."""


class TaskCode(msgspec.Struct, frozen=True, omit_defaults=True):
    """The code behind a task, and how much the task asks for."""

    name: str
    solver: str
    rule: int = 1
    """How the digests were made: only digests of one rule can be compared."""
    scorers: dict[str, str] = {}
    files: list[str] = []
    settings: dict[str, str] = {}
    """What the task itself sets beside its code, such as its system text and its prompts, as digests."""
    epochs: int = 1
    limit: int | None = None
    axes: dict[str, list[str]] = {}
    rows: RowReading | None = None
    """None in runs of earlier versions."""
    tree: CodeTree | None = None
    """None under earlier rules, and where an earlier session has recorded the same."""
    tree_session: int = 0
    """The number of that session."""
    targets: str = ""
    """The digest of the targets, if a rescoring has changed them."""
    axis_files: dict[str, str] = {}
    """By axis, value and path in the workspace, the digest of a file that the value brings."""


class Change(msgspec.Struct, frozen=True):
    """A field of the configuration that differs from the session before."""

    path: str
    old: Any
    new: Any


class Failure(msgspec.Struct, frozen=True, omit_defaults=True):
    """What went wrong: its class, its message, and where."""

    kind: str
    message: str
    traceback: str = ""
    setting: str = ""
    """The key of the eval to change, with its value, where a model's server has told which."""


class RaisedError(msgspec.Struct, frozen=True, omit_defaults=True):
    """An exception that the function of a step raised: enough to raise it again, without any code of its class."""

    type: str
    """Its module and its qualified name: `builtins:ValueError`."""
    message: str = ""
    args: list[Any] = []
    """As JSON; a tuple is `{"!tuple": […]}`, bytes are `{"!bytes": "base64"}`."""
    attributes: dict[str, Any] = {}
    """Those that can be recorded, spelled in the same way."""
    members: tuple["RaisedError", ...] = ()
    """Of a group, its exceptions."""
    traceback: str = ""
    lost: str = ""
    """Why it cannot be raised again as itself, if it cannot: `StepError` is raised instead, live too."""

    @property
    def class_name(self) -> str:
        return self.type.rpartition(":")[2]


_UNAWAITED = "a limit was reached, a sampling ended, or the solver no longer waited"
GIVEN_UP = Failure("cancelled", f"cancelled before a reply came: {_UNAWAITED}")
"""Why a call has no reply that was in flight when a limit or the task's own code ended it: it may have been billed."""
GIVEN_UP_WAITING = Failure("cancelled", f"cancelled before the next try: {_UNAWAITED}")
"""The same of one that had nothing in flight."""


def _tag_of(name: str) -> str:
    """The `type` of a record in the journal: its class name without the ending."""
    return name.removesuffix("Record").lower()


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False, tag_field="type", tag=_tag_of):
    """Anything that is written to the journal."""

    v: int = 1
    """The version of this record's layout."""


class SessionRecord(Record, frozen=True):
    """A process attached itself to the run. Holds everything that is needed to resume it."""

    number: int
    run: str
    name: str
    at: str
    version: str
    config: dict[str, Any] = {}
    inputs: dict[str, Input] = {}
    environment: dict[str, str] = {}
    packages: dict[str, str] = {}
    """The versions of the packages that were installed."""
    invocation: list[str] = []
    source: str = ""
    planned: int = 0
    plan: list[PlanEntry] = []
    code: dict[str, TaskCode] = {}
    serving: str = ""
    """The digest of serving.yaml, if the run has one."""
    pins: list[SegmentPin] = []
    lost: list[SegmentId] = []
    """Segments that were lost, and noted as such by this session: with their machine before they were uploaded, so that
    their trials remained, or, noted by a repair, after everything in them had been made good.
    """
    damaged: list[SegmentPin] = []
    """Segments that had lost something which was made good later, as they were when a repair noted that."""
    changes: list[Change] = []
    mark: int = 0
    """The first admission mark of the session: at most this many calls are in flight until another mark is recorded."""
    weights: dict[str, str] = {}
    """By model, the digest of its weights, where they are a file on the machine that runs it."""
    unrecorded_end: UnrecordedEnd | None = None
    """How the session before ended, if it could not write its end, as on a full disk."""
    takes_seed: dict[str, bool] = {}
    """Of a deterministic eval, by model: whether its provider takes a seed; one that does not say so is not here."""


class Coordinates(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Which trial it is."""

    task: str
    model: str
    sample: str = ""
    epoch: int = 1
    axes: dict[str, str] = {}


RETRIED, DIVERGED, INTERRUPTED_CALL = "retried", "diverged", "interrupted"
"""Why a call repeats another one: an attempt started anew; the record has something else in its place; nothing more
than its sending is recorded of the other one.
"""


class CallRecord(Record, frozen=True):
    """A request to a model is about to be sent; not waited for."""

    trial: str
    attempt: int
    step: str
    model: str = ""
    role: ModelRole = ModelRole.UNDER_TEST
    repeats: str = ""
    """Why it repeats a call, if it does."""
    about: Coordinates | None = None
    """In the first record of an attempt in a session: a trial that is interrupted would have no name without it."""


class RefusedRecord(Record, frozen=True):
    """The reply to a call that came from another model than those on record: nothing of it is used."""

    trial: str
    attempt: int
    step: str
    model: str = ""
    role: ModelRole = ModelRole.UNDER_TEST
    name: str = ""
    """The model that the server said it is."""
    usage: Usage | None = None
    """What the reply took; not part of the usage of the trial or of the run."""
    tries: int = 0


ShareKey = tuple[str, bool]
"""A model, and whether its replies are from other runs."""


class UsageShare(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The usage of one model in an attempt: of replies of this run, or of other runs, which cost nothing here."""

    model: str
    usage: Usage
    reused: bool = False


class StepRecord(Record, frozen=True):
    """One durable action inside a trial, with its result."""

    trial: str
    attempt: int
    step: str
    """Scope path, name, fingerprint and occurrence: the identity under which it is replayed."""
    lender: str = ""
    """The step of another branch whose reply this one reused, if it did: that reply is used once."""
    name: str = ""
    parent: str = ""
    request: Any = None
    """What was added since the parent's request and result."""
    result: Any = None
    model: str = ""
    role: ModelRole = ModelRole.UNDER_TEST
    """`judge` for calls and steps of a score slot."""
    usage: Usage | None = None
    """Tokens of this model; what they cost is computed when reading, by the newest price."""
    tries: int = 0
    """How many requests a call took, also one that got no reply."""
    at: float = 0.0
    seconds: float = 0.0
    source: str = ""
    """The run that its reply is from, if that is another one: it cost nothing here."""
    error: Failure | None = None
    """Why it has no result: a call that failed, a candidate that is drawn again, a step that has only started."""
    raised: RaisedError | None = None
    """The outcome of a function that raised; it is replayed as a result is."""
    about: Coordinates | None = None
    """As of a call."""

    @property
    def is_unmetered(self) -> bool:
        """Whether it is a call whose tokens are unknown: it got no reply, or one without usage."""
        return bool(self.model) and self.usage is None

    @property
    def has_only_started(self) -> bool:
        """Whether it says that a step which may not run twice is about to run."""
        return self.error is not None and self.error.kind == STARTED


STARTED = "started"
"""The kind of error of a step that was about to run when it was recorded."""
CANDIDATE, CHOICE = "candidate", "choice"
"""The names of steps that record the course of a sampling; no solver asks for them."""
STAGES = PREPARE, SOLVE, CAPTURE, SCORE_STAGE = "prepare", "solve", "capture", "score"
"""The stages of a trial, in order."""
OF_STAGE = "stage/"
"""How the keys of steps begin that record the outcome of a stage; no solver asks for them."""
KEPT_STAGES, CLEAN_UP = "kept", "clean_up"
"""The names of two more of them: one has the outcomes that an attempt keeps from an earlier one, the other says that
what the attempt left beside the run was kept or removed by policy.
"""


class AnswerRecord(Record, frozen=True):
    """The solver's outcome; journaled before scoring starts."""

    trial: str
    attempt: int
    text: str = ""
    value: Any = None
    unscored: str = ""
    """Why there is nothing to judge, if there is nothing."""
    redone_by: str = ""
    """What the trial was selected by, where `--redo` has run a finished trial again."""
    about: Coordinates | None = None
    """As of a call."""


class ScoreRecord(Record, frozen=True):
    """One scorer's judgement of an answer, or why an attempt at it has failed."""

    trial: str
    attempt: int
    scorer: str
    task: str = ""
    model: str = ""
    axes: dict[str, str] = {}
    """Given, as the two before it, where the trial had already ended when it was judged."""
    value: float | None = None
    unscored: bool = False
    """The slot is filled, and not with a number; `explanation` says why."""
    answer: str | None = None
    explanation: str = ""
    metadata: dict[str, Any] = {}
    usage: Usage | None = None
    """Tokens that this attempt of the slot used, of any model; not part of the usage in the trial's end."""
    shares: tuple[UsageShare, ...] = ()
    """As of a trial."""
    source: str = ""
    """As of a trial."""
    error: Failure | None = None
    slot_attempt: int = 1
    """A slot has attempts of its own, within the same attempt of the trial."""
    unused: int = 0
    """Recorded replies that the scorer did not ask for again."""
    will_retry: bool = False
    """It failed, and another attempt of the slot was to follow at once."""

    @property
    def is_filled(self) -> bool:
        """Whether it fills the slot: with a number, or without one for a reason."""
        return self.error is None and (self.value is not None or self.unscored)


class SamplingSummary(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How one sampling of a trial went; its candidates and its choice are steps."""

    strategy: str
    success: bool = False
    lane: int = -1
    """Of the chosen candidate; -1 if absent."""
    turn: int = -1
    turns: int = 0
    """How many turns its deepest lane has started."""
    calls: int = 0
    """Calls of models, those of judges included."""
    candidates: dict[str, int] = {}
    """How many ended in which way."""
    wasted: tuple[UsageShare, ...] = ()
    """Usage of candidates that were not chosen, by model; their judges included."""
    capped: str = ""
    """The cap of its budget that was reached, if one was."""


class TrialRecord(Record, frozen=True):
    """The end of an attempt at a trial; final or not is said by its status."""

    trial: str
    attempt: int
    status: Status
    task: str = ""
    model: str = ""
    sample: str = ""
    epoch: int = 1
    axes: dict[str, str] = {}
    digest: str = ""
    scores: dict[str, float | None] = {}
    """A copy; None for a slot that is filled without a score."""
    usage: Usage | None = None
    """Tokens of all replies to the solver, of any model; the usage of scorers is in their own records."""
    shares: tuple[UsageShare, ...] = ()
    """The parts of them that are not of the trial's own model, or that are of replies from other runs."""
    calls: int = 0
    replayed: int = 0
    unused: int = 0
    """Recorded replies that the solver did not ask for again; they are among `replayed`."""
    tries: int = 0
    at: float = 0.0
    seconds: float = 0.0
    limit: str = ""
    stage: str = ""
    source: str = ""
    """The run that it was copied from; `artifact` if it was recorded from a result file, `import` if it is a result of
    another tool.
    """
    error: Failure | None = None
    artifacts: dict[str, str] = {}
    """The files of the attempt in `artifacts/TRIAL`, by their paths there, with the digests of their contents; none for
    an attempt that is not finished.
    """
    will_retry: bool = False
    """It failed, and another attempt was to follow at once."""
    samplings: tuple[SamplingSummary, ...] = ()
    """How its samplings went, if it had any."""
    paused: bool = False
    """The session was to stop after this stage: nothing has gone wrong, and the attempt continues on resume."""
    imported: dict[str, Any] = {}
    """Of a result of another tool: where it was, what it cost by that tool's own figures, and every field that has no
    place elsewhere in the records, as it was.
    """
    chosen: dict[str, str] = {}
    """By axis, the value that was chosen for that of the trial, where it depends on others."""
    redone_by: str = ""
    """As of an answer, where a finished trial was attempted once more with the answer that it had."""


FAILURE = "failure"
"""The kind of a note about a failed write outside the journal."""
FAILURES = "failures"
"""Where the ledger of a session's end counts those."""


REPLY_NOTE = "reply"
"""The kind of a note about replies of a model, which are kept although something is wrong with them."""
EMPTY_REPLY, CUT_OFF_REPLY, CUT_ANSWER = "empty", "cut off", "cut answer"
"""What such a note is about, where the reply is empty, or reached its longest length, or the answer is not whole."""
ODD_REPLIES = "odd_replies"
"""Where the ledger of a session's end counts them, by model and by what they are about."""


class NoteRecord(Record, frozen=True):
    """Something a person should know about the run."""

    kind: str
    text: str
    trial: str = ""
    data: Any = None


REDO_NOTE = "redo"
"""The kind of a note that finished trials are run again."""
BY_SCORES, BY_RESULTS, BY_NAMES = "scores", "results", "names"
"""What such trials were selected by: their scores, something else of their results, such as their cost, or names."""


SERVED_NOTE = "served"
"""The kind of a note about the name that a model's server reports: one for each name in each session."""


class AppliedRecord(Record, frozen=True):
    """Changes of the session that waited: of where a model is reached, until the model there has answered."""

    config: dict[str, Any]
    """The whole configuration from here on."""
    changes: list[Change] = []


class MarkRecord(Record, frozen=True):
    """The admission mark: from here on at most this many calls of the session are in flight; durable before that."""

    calls: int


class SessionEndRecord(Record, frozen=True, tag="session_end"):
    """The session ended in an orderly way; vouches for all its segments."""

    number: int
    how: str
    exit_code: int = 0
    at: str = ""
    finished: int = -1
    """Trials with a final record that is kept, as far as the session knew; -1 if it could not be found out."""
    failed: int = 0
    planned: int = 0
    ledger: dict[str, Any] = {}
    pins: list[SegmentPin] = []
    states: dict[str, int] = {}
    """How many trials of the plan are in which state, as far as the session knew."""


AnyRecord = (
    SessionRecord
    | CallRecord
    | RefusedRecord
    | StepRecord
    | AnswerRecord
    | ScoreRecord
    | TrialRecord
    | NoteRecord
    | AppliedRecord
    | MarkRecord
    | SessionEndRecord
)
RECORD_TYPES: tuple[type[Record], ...] = (
    SessionRecord,
    CallRecord,
    RefusedRecord,
    StepRecord,
    AnswerRecord,
    ScoreRecord,
    TrialRecord,
    NoteRecord,
    AppliedRecord,
    MarkRecord,
    SessionEndRecord,
)


ARTIFACT = "artifact"
"""The source of a record that `repair` made from a result file."""
IMPORTED = "import"
"""The source of a record that was made from a result of another tool."""
OWN_SOURCES = frozenset({"", ARTIFACT, IMPORTED})
"""The sources of records that speak of this run: with any other, another run has paid for what it says."""


def with_applied(
    sessions: Sequence[SessionRecord], applied: Sequence[tuple[int, AppliedRecord]]
) -> list[SessionRecord]:
    """The records of sessions with the changes that each has applied later, which come with its number, in order."""
    found = {session.number: session for session in sessions}
    for number, record in applied:
        if (session := found.get(number)) is not None:
            changes = [*session.changes, *record.changes]
            found[number] = msgspec.structs.replace(session, config=record.config, changes=changes)
    return [found[session.number] for session in sessions] if applied else list(sessions)
