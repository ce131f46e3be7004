"""Durable steps: what a trial has done is never done again.

The key of a step is its scope, its name, the fingerprint of what was asked, and how many times that had been asked
there before. So branches that run side by side find their own replies again in whatever order they arrive, and a
request that is not recorded is made live without affecting the others.

Where branches get other numbers than before (another Python starts its tasks in another order, or a branch is
started as others complete), a branch may borrow a reply to the same request that nobody else will ask for: of a branch
that does not exist now, has ended, or has left its own record, or of the branch that it was started in; and, once it
has left its own record, of one that has not asked for anything yet.
"""

from __future__ import annotations

import math
import typing
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from hashlib import blake2b
from typing import Any, TypeVar

import msgspec

from holdfast.engine.trials.scopes import (
    AttemptScopes,
    Scope,
    family_of,
    is_below,
    is_in_sampling,
    names_in,
    sampling_in_path,
    scope_in_key,
)
from holdfast.errors import UsageError
from holdfast.models.content import Part, ToolCall, joined_text
from holdfast.models.fingerprints import MessageHash, fingerprint
from holdfast.models.message import Message, Reply, Request, encodable
from holdfast.models.redaction import key_free_json
from holdfast.run.core.keys.key_free_records import key_free_value
from holdfast.run.core.records import DIVERGED, INTERRUPTED_CALL, StepRecord
from holdfast.spec import Generation
from holdfast.tasks.json_values import RECORDABLE, Unrecordable, recorded

Recordable = TypeVar("Recordable", bound=msgspec.Struct)
_encoder = msgspec.json.Encoder(order="deterministic")
_DEFAULT_GENERATION = Generation()


def request_fingerprint(request: Request, messages: MessageHash | None = None) -> str:
    """The fingerprint of a request, in the key of its step; sooner made where the hash of its messages is known."""
    return blake2b(_whole_fingerprint(request, messages), digest_size=12).hexdigest()


def _whole_fingerprint(request: Request, messages: MessageHash | None) -> bytes:
    if messages is None:
        return fingerprint(request)
    try:
        return messages.fingerprint(request.generation, request.response_schema)
    except UnicodeEncodeError:
        return fingerprint(request)


def arguments_fingerprint(arguments: Any) -> str:
    """The fingerprint of a step's arguments, in its key: a list, or a map where some have names."""
    return blake2b(key_free_json(_encoder.encode(arguments)), digest_size=12).hexdigest()


def fingerprint_in_key(key: str) -> str:
    """The fingerprint of the request in a step's key."""
    return key.rpartition(":")[2].partition("#")[0]


def request_in_key(key: str) -> str:
    """The name and the fingerprint in a step's key, without its scope and how many times that was asked."""
    request = key.rpartition("#")[0]
    return request.partition(" ")[2] if request.startswith("/") else request


def as_recorded(name: str, part: str, value: object) -> Any:
    """A step's arguments or result as they are read back.

    Raises:
        UsageError: they cannot be recorded.
    """
    try:
        return recorded(value)
    except Unrecordable as error:
        raise UsageError(f"The {part} of the step {name!r} {error}.", hint=RECORDABLE) from None


class Steps:
    """The steps of one attempt that are recorded; each is given once."""

    def __init__(
        self,
        records: list[StepRecord],
        in_flight: Collection[str] = (),
        path: str = "",
        diverged: Collection[str] = (),
    ) -> None:
        """`in_flight` are the keys of calls that were sent, and of which nothing more is recorded.

        `path` is that of a score slot, if they are its steps. `diverged` are the keys of calls that stood in the place
        of others.
        """
        self._waiting = _unlent(records) if records else {}
        self._failed = {id(step): step for step in records if step.error is not None} if records else {}
        self._records, self._in_flight, self._diverged = records, in_flight, diverged
        self._families: dict[str, set[str]] = {}
        """By names, the paths of the recorded named scopes that have them and have not moved since."""
        self._by_request: dict[tuple[str, str], list[str]] | None = None
        self._lenders: set[str] = set()
        self._by_sampling: dict[str, list[StepRecord]] | None = None
        self._replies_left: Counter[str] | None = None
        """By scope, the recorded replies that nobody has asked for; counted from the first call that is made on."""
        self._made: Counter[str] = Counter()
        """By scope, the calls that were made while it had such replies, and the replies that it borrowed."""
        self.scopes = AttemptScopes(path)

    def replay(self, scope: Scope, key: str) -> StepRecord | None:
        """The recorded step that this scope asks for, or one that it may borrow, whose key is then another."""
        found = self._give(key) if key in self._waiting else None
        if found is None:
            scope.has_missed = True
            # A call that was in flight is this scope's own, and is made again. What a lane draws is nobody else's.
            if self._waiting and key not in self._in_flight and not is_in_sampling(scope.path):
                found = self._borrow(scope, request_in_key(key))
        return found

    def has_started(self, scope: Scope, key: str) -> bool:
        """Whether a step that may not run twice was started and has no outcome: in this scope or in one of the same
        names, for another Python may number branches otherwise. The attempt fails in any case.
        """
        started = {step.step for step in self._failed.values() if step.has_only_started}
        if not started:
            return False
        place = names_in(scope.path), request_in_key(key)
        left = started.difference(step.step for step in self._records if step.error is None)
        return any(place == (names_in(scope_in_key(one)), request_in_key(one)) for one in left)

    def _borrow(self, scope: Scope, request: str) -> StepRecord | None:
        keys = self._keys_by_request().get((names_in(scope.path), request), ())
        unused = [key for key in keys if key in self._waiting]
        lent = next((key for key in unused if self._may_lend(scope_in_key(key), scope)), None)
        if lent is None:
            return None
        self._lenders.add(scope_in_key(lent))
        # It has the record of another scope now, and another has its own.
        self._made[scope.path] += 1
        return self._give(lent)

    def _give(self, key: str) -> StepRecord:
        """A recorded result, which from now on nobody can ask for."""
        found = self._waiting.pop(key)
        if self._replies_left is not None and found.model and key not in self._diverged:
            self._replies_left[scope_in_key(key)] -= 1
        return found

    def _is_place(self, key: str) -> bool:
        return bool(self._waiting[key].model) and key not in self._diverged

    def why_again(self, scope: Scope, key: str) -> str:
        """Why a call that is not recorded repeats one; empty if it does not.

        Each place of a scope's record is repeated by one call at the most: what a solver asks beyond them is new. A
        reply that was itself bought in the place of another adds no place.
        """
        if key in self._in_flight:
            return INTERRUPTED_CALL
        if not self._waiting:
            return ""
        if self._replies_left is None:
            self._replies_left = Counter(scope_in_key(key) for key in filter(self._is_place, self._waiting))
        self._made[scope.path] += 1
        return DIVERGED if self._made[scope.path] <= self._replies_left[scope.path] else ""

    def _may_lend(self, path: str, borrower: Scope) -> bool:
        if family_of(path) != borrower.family:
            return self._has_moved(family_of(path))
        lender = self.scopes.find(path)
        if lender is None or lender is borrower:
            return lender is None
        if lender.has_ended or lender.has_missed or lender.holds(borrower):
            return True
        # Both are numbered otherwise than before: the borrower does not ask for what it has recorded, and the lender
        # has not asked for anything yet.
        return not lender.has_asked and self._has_own_record(borrower.path)

    def _has_moved(self, family: str) -> bool:
        """Whether a named scope that was made inside a task is now made inside another: no second recorded one has its
        names, and nothing has its place now.
        """
        return len(self._families[names_in(family)]) <= 1 and self.scopes.find(family) is None

    def _has_own_record(self, path: str) -> bool:
        """Whether a scope has something recorded that it has not asked for, or had it and has lent it."""
        return path in self._lenders or any(scope_in_key(key) == path for key in self._waiting)

    def _keys_by_request(self) -> dict[tuple[str, str], list[str]]:
        """The keys of recorded steps by the names of their scopes and what was asked; made when needed."""
        if self._by_request is None:
            self._by_request = {}
            self._families = _families(self._records)
            for key in self._waiting:
                place = names_in(scope_in_key(key)), request_in_key(key)
                self._by_request.setdefault(place, []).append(key)
        return self._by_request

    def of_sampling(self, path: str) -> list[StepRecord]:
        """What is recorded of the sampling at this path, in the order of the records."""
        if self._by_sampling is None:
            self._by_sampling = {}
            for step in self._records:
                if found := sampling_in_path(scope_in_key(step.step)):
                    self._by_sampling.setdefault(found, []).append(step)
        return self._by_sampling.get(path, [])

    def below(self, path: str) -> list[StepRecord]:
        """What is recorded below the scope at this path, in the order of the records."""
        return [step for step in self._records if is_below(scope_in_key(step.step), path)]

    def is_waiting(self, step: StepRecord) -> bool:
        """Whether it is a recorded result that nobody has asked for."""
        return self._waiting.get(step.step) is step

    def waiting(self) -> list[StepRecord]:
        """The recorded results that nobody has asked for so far, in the order of the records."""
        return list(self._waiting.values())

    def take(self, steps: list[StepRecord]) -> list[StepRecord]:
        """Those of the given steps that nobody has asked for, failed ones too; each is given once."""
        waiting = [self._give(step.step) for step in steps if self.is_waiting(step)]
        failed = [self._failed.pop(id(step)) for step in steps if id(step) in self._failed]
        return [*waiting, *failed]

    def unused(self) -> list[StepRecord]:
        """Recorded steps that nobody has asked for in this session; each is given once."""
        unused, self._waiting, self._failed = [*self._waiting.values(), *self._failed.values()], {}, {}
        return unused


def unused_replies(unused: list[StepRecord]) -> int:
    """How many of the steps that nobody has asked for are replies of models."""
    return sum(1 for step in unused if step.model and step.error is None)


def _unlent(records: list[StepRecord]) -> dict[str, StepRecord]:
    """The recorded results by their keys, without those that another branch has borrowed.

    A branch whose reply was borrowed may have asked for another one since, under the same key.
    """
    loans = Counter(step.lender for step in records if step.lender)
    found: dict[str, StepRecord] = {}
    for step in records:
        if step.error is None and not loans[step.step]:
            found[step.step] = step
        elif step.error is None:
            loans[step.step] -= 1
    return found


def _families(records: list[StepRecord]) -> dict[str, set[str]]:
    moved = {
        family
        for step in records
        if step.lender and (family := family_of(scope_in_key(step.lender))) != family_of(scope_in_key(step.step))
    }
    found: dict[str, set[str]] = {}
    for family in {family_of(scope_in_key(step.step)) for step in records}:
        found.setdefault(names_in(family), set()).update({family} - moved)
    return found


def recorded_request(request: Request, added: Sequence[Message]) -> dict[str, Any]:
    """What is new in a request, and how the reply was to be drawn."""
    record: dict[str, Any] = {"messages": added}
    if request.generation != _DEFAULT_GENERATION:
        plain = msgspec.to_builtins(request.generation)
        record["generation"] = {name: value for name, value in plain.items() if value not in (None, {})}
    if request.response_schema is not None:
        record["response_schema"] = request.response_schema
    return record


class RecordedReply(msgspec.Struct, frozen=True, omit_defaults=True):
    """A reply as it is in a step's record; its usage is beside it."""

    text: str
    finish: str = "stop"
    model: str = ""
    id: str = ""
    logprobs: Any = None
    reasoning: str = ""
    refusal: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    parts: tuple[Part, ...] | None = None
    """The content where it is not one text; `text` is then what text there is in it."""
    other: dict[str, Any] = {}
    undecoded: str = ""
    warnings: dict[str, str] = {}


def record_reply(reply: Reply) -> RecordedReply:
    content = reply.content
    if reply.is_plain:
        return RecordedReply(joined_text(content), reply.finish, reply.model, reply.id, reply.logprobs, reply.reasoning)
    return RecordedReply(
        joined_text(content),
        reply.finish,
        reply.model,
        reply.id,
        reply.logprobs,
        reply.reasoning,
        reply.refusal,
        reply.tool_calls,
        None if isinstance(content, str) else content,
        reply.other,
        reply.undecoded,
        reply.warnings,
    )


def replay_reply(step: StepRecord) -> Reply:
    """The reply that a recorded step holds."""
    kept = msgspec.convert(step.result, RecordedReply)
    return Reply(
        kept.text if kept.parts is None else kept.parts,
        kept.finish,
        step.usage,
        kept.model,
        kept.id,
        kept.logprobs,
        kept.reasoning,
        kept.refusal,
        kept.tool_calls,
        kept.other,
        kept.undecoded,
        kept.warnings,
    )


def recordable_reply(reply: Reply) -> Reply:
    """A reply that was paid for, with what JSON cannot hold replaced: lone surrogates, infinities, NaN."""
    return recordable(reply)


def reply_without_keys(reply: Reply) -> Reply:
    """A reply as the solver sees it, live and replayed: without any known key, and without tokens that spell one."""
    redacted = key_free_value(reply)
    return reply if redacted is reply else msgspec.structs.replace(redacted, logprobs=None)


def recordable(value: Recordable) -> Recordable:
    """The same struct, with what JSON cannot hold replaced."""
    plain = encodable(_finite(msgspec.to_builtins(value, str_keys=True)))
    return msgspec.convert(plain, type(value))


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    return [_finite(item) for item in value] if isinstance(value, list | tuple) else value


def typed_result(value: Any, function: Callable[..., Any]) -> Any:
    """A step's recorded result, as the type that its function says it returns; as it is where that does not fit."""
    try:
        hint = typing.get_type_hints(function).get("return", Any)
    except (NameError, TypeError, AttributeError):
        return value
    try:
        return value if hint is Any else msgspec.json.decode(msgspec.json.encode(value), type=hint)
    except (msgspec.MsgspecError, TypeError):
        return value
