"""A sampling inside a trial: its calls, candidates and choice are steps, in scopes of its own.

The N-th sampling of a scope has the scope `sampling~N` below it, and a turn of a lane `sampling~N/lane-L/turn-T`. Its
calls take the same path as every call of the trial. Its own code runs where no scope may be used, so that nothing
depends on how many tasks it starts, or in which order.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from holdfast.engine.model_calls.caller import ModelClosed
from holdfast.engine.trials.asking.durable_calls import AskedModel, DurableCalls
from holdfast.engine.trials.asking.recorded_sampling import RecordedSampling
from holdfast.engine.trials.asking.sampling_tally import STRATEGY, SamplingTally, turn_path
from holdfast.engine.trials.asking.trial_account import TrialAccount
from holdfast.engine.trials.asking.trial_recorder import TrialRecorder
from holdfast.engine.trials.asking.user_code import run_user_code
from holdfast.engine.trials.conversation import EMPTY_CONVERSATION, Conversation
from holdfast.engine.trials.error_boundary import LimitReached, Outcome
from holdfast.engine.trials.scopes import Scope
from holdfast.engine.trials.steps import Steps, arguments_fingerprint, recordable
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import RunHeld, StorageFailure, UsageError
from holdfast.event_type import Event
from holdfast.models.errors import PassingError
from holdfast.models.message import Message, Reply, Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import CANDIDATE, CHOICE, Failure, SamplingSummary, StepRecord
from holdfast.sampling.candidate import Candidate, CandidateRecord, CandidateStatus
from holdfast.sampling.host import SamplingChoice, check_price
from holdfast.sampling.on_record import sampling_place
from holdfast.sampling.place import Place, derive_seed

_CANCELLED = Failure("cancelled", "the call was cancelled: the sampling ended without it")
_NOT_FINAL = Failure("not final", "It is drawn again.")


class SamplingTrial(Protocol):
    """What a sampling needs to know of its trial."""

    account: TrialAccount

    def check_running(self, what: str) -> None: ...


class TrialSampling:
    """One sampling of a trial, or of a score slot: the host of its candidates."""

    def __init__(
        self,
        trial: SamplingTrial,
        environment: TrialEnvironment,
        recorder: TrialRecorder,
        calls: DurableCalls,
        steps: Steps,
        scope: Scope,
        asked: AskedModel,
        conversation: Conversation,
    ) -> None:
        """`scope` is the one in which it is asked for, `asked` the model that is asked where none is named."""
        self._trial, self._environment, self._recorder, self._calls = trial, environment, recorder, calls
        self._steps, self._asked, self._conversation = steps, asked, conversation
        self.number, self._scope = scope.start_sampling()
        self.trial, self.model = recorder.key, asked.model.name
        # Samplings in different scopes have the same numbers; their draws must not be the same.
        self.seed = derive_seed(recorder.seed, scope.path) if scope.path else recorder.seed
        self.is_deterministic = environment.deterministic
        self.recorded: list[CandidateRecord] = []
        self._others: dict[tuple[int, int], CandidateRecord] = {}
        """By lane and turn, the last that ended neither valid nor invalid."""
        self._replayed: set[tuple[int, int]] = set()
        """The lanes and turns whose reply was recorded."""
        self.choice: SamplingChoice | None = None
        self._said: dict[tuple[int, int], Conversation] = {}
        """By lane and turn, the conversation that a candidate ends."""
        self._last: dict[int, Conversation] = {}
        """By lane, the last of them."""
        self._models: dict[tuple[str, ModelRole], AskedModel] = {}
        self._ended: set[tuple[int, int]] = set()
        """The lanes and turns of candidates that were checked."""
        self._is_over = False

    def begin(self, strategy: str, messages: tuple[Message, ...], generation: Mapping[str, Any]) -> None:
        """Finds what is recorded of it: only if the same was asked for."""
        self._strategy = strategy
        self._fingerprint = arguments_fingerprint([strategy, messages, generation])
        self._tally = SamplingTally(self._scope.path, strategy)
        found = self._on_record = RecordedSampling(self._steps, self._scope.path, self._fingerprint)
        self.choice = self._tally.choice = found.choice
        for candidate, is_final in found.candidates:
            self._tally.note(candidate)
            if is_final:
                self._take(candidate)
            else:
                self._others[candidate.lane, candidate.turn] = candidate

    def _take(self, candidate: CandidateRecord) -> None:
        self.recorded.append(candidate)
        self._ended.add((candidate.lane, candidate.turn))

    @property
    def others(self) -> list[CandidateRecord]:
        """The recorded candidates that ended neither valid nor invalid."""
        return [one for place, one in self._others.items() if place not in self._ended]

    @property
    def calls(self) -> int:
        """How many calls it has taken so far, those recorded included."""
        return self._tally.calls

    def was_replayed(self, place: Place) -> bool:
        """Whether the candidate of that place has its reply from the record."""
        return (place.lane, place.turn) in self._replayed

    @property
    def path(self) -> str:
        """The path of its scope."""
        return self._scope.path

    def end(self) -> SamplingSummary:
        """How it went; nothing more is asked for it."""
        self.finish()
        return self._tally.summary()

    def conversation_at(self, place: Place) -> Conversation:
        """The conversation that the candidate of a place ends."""
        return self._said.get((place.lane, place.turn), self._conversation)

    # Calls.

    def check_model(self, name: str, *, has_price: bool = False) -> None:
        """Raises UsageError if the eval has no model of that name, ConfigurationError if it has no price."""
        found = self._environment.find_model(name) if name else self._asked.model
        if has_price:
            check_price(found.name, found.spec)

    async def ask(
        self,
        place: Place,
        messages: tuple[Message, ...],
        generation: Mapping[str, Any],
        *,
        model: str = "",
        role: ModelRole = ModelRole.UNDER_TEST,
    ) -> Reply:
        """One call of a model, as a step of that place; replayed where its reply is recorded.

        Raises:
            ModelError: the model gave no reply.
            LimitReached: the trial has used up its tokens or its cost.
            UsageError: the eval has no such model, or the trial has ended.
        """
        self._trial.check_running("generate")
        is_judged = role is ModelRole.JUDGE
        conversation = EMPTY_CONVERSATION if is_judged else self._continued(place.lane, messages)
        asked, scope = self._asking(model, role), self._scope.below(turn_path(place.lane, place.turn))
        sent = self._trial.account.calls
        reply, said = await self._calls.ask(asked, scope, messages, dict(generation), conversation)
        if self._trial.account.calls == sent:
            self._replayed.add((place.lane, place.turn))
        if not is_judged:
            self._said[place.lane, place.turn] = self._last[place.lane] = said
        self._trial.account.check_limits()
        return reply

    def _asking(self, model: str, role: ModelRole) -> AskedModel:
        """A model as it is asked here: in a score slot, everybody is asked as a judge."""
        if (known := self._models.get((model, role))) is not None:
            return known
        own, name, is_judge = self._asked, model or self.model, role is ModelRole.JUDGE
        call_name = own.call_name if name == self.model and not is_judge else f"generate@{name}"
        asked_as = ModelRole.JUDGE if is_judge else own.role
        opened = own.model if name == self.model else self._environment.find_model(name)
        found = self._models[model, role] = AskedModel(opened, asked_as, call_name, self._tally.add)
        return found

    def _continued(self, lane: int, messages: tuple[Message, ...]) -> Conversation:
        """The conversation that a request continues: that of its lane, if it does, or that of the solver."""
        last = self._last.get(lane)
        if last is not None and messages[: len(last.messages)] == last.messages:
            return last
        return self._conversation

    async def call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Calls code of the user's: a plain function in a thread, and what can be awaited is awaited."""
        outcome = await run_user_code(self._environment, self._recorder.activity, function, args)
        return outcome.result()

    # Records.

    def put(self, candidate: Candidate, *, is_final: bool) -> None:
        """Queues the record of a candidate; one that is not final is drawn again when the sampling is resumed.

        What the end of the session has cancelled is not recorded at all: it is asked again. Nor is what another model
        has answered, which ends the session too.
        """
        record, is_cancelled = candidate.record(), candidate.status is CandidateStatus.CANCELLED
        is_refused = record.error is not None and record.error.kind == ModelClosed.kind
        if (is_cancelled or is_refused) and self._environment.admission.is_closed:
            return
        if is_cancelled:
            # Its reply, or that of a judge, may have become durable while its lane was cancelled.
            place = record.lane, record.turn
            usage, judging = self._tally.reply_usage(*place), self._tally.judging_usage(*place)
            record = msgspec.structs.replace(record, usage=usage, judging=judging)
        self._tally.note(record)
        scope = self._scope.below(turn_path(record.lane, record.turn))
        if is_final and not self._trial.account.has_unanswered(scope.path):
            self._hand_in(self._step(scope, CANDIDATE, record))
            self._ended.add((record.lane, record.turn))
            return
        # Also if a requirement caught the error of an unreachable judge: without a reply there is no verdict.
        error = _CANCELLED if is_cancelled else record.error or _NOT_FINAL
        with contextlib.suppress(StorageFailure):  # whoever waits for the journal gets the error
            self._hand_in(self._step(scope, CANDIDATE, record, error))

    def _hand_in(self, step: StepRecord) -> None:
        try:
            self._environment.sink.put(step)
        except UsageError:
            self._environment.sink.put(_recordable(step))

    async def keep(self, choice: SamplingChoice, errors: Sequence[BaseException]) -> None:
        """Makes the choice durable, unless the infrastructure has kept a lane from what it was to contribute.

        A success needs no other lane, unless the choice is to depend on no timing. Otherwise the trial is unfinished,
        whatever becomes of the result: the same lane continues when it is resumed.
        """
        account, path = self._trial.account, self._scope.path
        if choice.success:
            account.forgive(path, but=f"{path}/lane-{choice.lane}")
        for error in errors:
            if isinstance(error, PassingError | ModelClosed):
                account.note_unanswered(f"/{path} {CHOICE}:#1", error)
        if account.has_unanswered(path):
            return
        step = self._step(self._scope, CHOICE, choice)
        with self._recorder.activity.in_flight():
            try:
                await self._environment.sink.keep(step)
            except UsageError:
                await self._environment.sink.keep(_recordable(step))
        self.choice = self._tally.choice = choice
        # What became of its calls is recorded before it.
        account.end_failed_calls(self._environment.admission)

    def _step(self, scope: Scope, name: str, result: msgspec.Struct, error: Failure | None = None) -> StepRecord:
        return StepRecord(
            trial=self._recorder.key,
            attempt=self._recorder.attempt,
            step=scope.key(name, self._fingerprint),
            name=name,
            role=self._asked.role,
            request={STRATEGY: self._strategy},
            result=result,
            at=self._environment.clock.wall(),
            error=error,
            about=self._recorder.about(),
        )

    def finish(self) -> None:
        """The sampling has ended. What else it has recorded counts as used; replies to something else stay unused."""
        if self._is_over:
            return
        self._is_over = True
        settled = self._on_record.take_settled(self._ended)
        self._trial.account.add_unused(settled)
        for step in settled:
            if step.name not in {CANDIDATE, CHOICE}:
                self._tally.add(step)
                if step.error is None and (place := sampling_place(step)) is not None:
                    self._tally.note_given_up(place.lane, place.turn)

    # What else a sampling needs.

    def cost_of(self, model: str, usage: Usage | None) -> float | None:
        """What a reply costs by the price that is set now; None where that is unknown."""
        found = self._asked.model if model in {"", self.model} else self._environment.find_model(model)
        return None if usage is None or found.spec.price is None else found.cost_of(usage)

    def is_observed(self, kind: type[Event]) -> bool:
        """Whether anybody wants such events."""
        return self._environment.events.is_observed(kind)

    def emit(self, event: Event) -> None:
        """Delivers an event to those who observe."""
        self._environment.events.emit(event)

    def failure_of(self, error: BaseException) -> Failure:
        """An error as it is recorded."""
        return Outcome(error=error).failure()

    def is_fatal(self, error: BaseException) -> bool:
        """Whether nothing can continue after this error, in no lane."""
        return isinstance(error, StorageFailure | RunHeld | LimitReached)

    def monotonic(self) -> float:
        return self._environment.clock.monotonic()

    def wall(self) -> float:
        return self._environment.clock.wall()


def _recordable(step: StepRecord) -> StepRecord:
    """The same, with what JSON cannot hold replaced: verdicts and notes are of whoever wrote the requirements."""
    return msgspec.structs.replace(step, result=recordable(step.result))
