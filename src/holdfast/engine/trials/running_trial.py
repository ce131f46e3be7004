"""A running trial as its solver sees it: every call of a model and every step goes through here and is durable.

A text or a message continues the conversation; a list of messages is a conversation of its own.
"""

from __future__ import annotations

import asyncio
import datetime as dt
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn, TypeVar

from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.trials.asking.durable_calls import AskedModel, DurableCalls
from holdfast.engine.trials.asking.durable_steps import (
    AGAIN,
    CHOICES,
    FAIL,
    DurableSteps,
    StepCall,
    takes_interruption,
)
from holdfast.engine.trials.asking.trial_account import NO_LIMITS, TrialAccount
from holdfast.engine.trials.asking.trial_recorder import TrialRecorder
from holdfast.engine.trials.conversation import CURRENT_CONVERSATION, EMPTY_CONVERSATION, Conversation
from holdfast.engine.trials.history import AttemptState
from holdfast.engine.trials.named_scope import NamedScope
from holdfast.engine.trials.scopes import CURRENT_SCOPE, IN_SAMPLING, Masked, Masking, Scope, holding
from holdfast.engine.trials.steps import Steps
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.errors import UsageError
from holdfast.models.message import Message, Reply
from holdfast.models.role import ModelRole
from holdfast.run.core.records import CANDIDATE, CHOICE, Coordinates, SamplingSummary, StepRecord
from holdfast.tasks.prompt import as_messages
from holdfast.tasks.sample import Sample
from holdfast.tasks.solver import TOOLS
from holdfast.tasks.trial_interface import Prompt

if TYPE_CHECKING:
    from uuid import UUID

    # Most runs have no samplings: what carries them out is loaded with the first one.
    from holdfast.sampling.result import SamplingResult
    from holdfast.sampling.strategies.strategy import Strategy
    from holdfast.tasks.workspaces.workspace_template import PackedTemplate


_Function = TypeVar("_Function", bound=Callable[..., Any])


class SlotPlace(NamedTuple):
    """Where calls and steps belong that a scorer makes: not to the solver, but to the scorer's slot."""

    steps: Steps
    activity: TrialActivity
    bought_before: int = 0
    """How many replies an earlier attempt of the slot got, at the most."""


def _written_as(name: str) -> Callable[[_Function], _Function]:
    """The function under the name that people call it by: an error about a missing `await` has it from there."""

    def renamed(function: _Function) -> _Function:
        function.__name__ = name
        return function

    return renamed


class RunningTrial:
    """The trial as its solver uses it: calls, steps, and their usage.

    A score slot has one as well.
    """

    __slots__ = (
        "_actions",
        "_asked",
        "_calls",
        "_environment",
        "_is_over",
        "_loop",
        "_planned",
        "_recorder",
        "_samplings",
        "_steps",
        "_system",
        "account",
        "activity",
        "artifacts",
        "attempt",
        "key",
        "sample",
        "slot_activities",
    )

    def __init__(
        self,
        environment: TrialEnvironment,
        planned: PlannedTrial,
        state: AttemptState,
        sample: Sample,
        model: OpenModel,
        grant: CapacityGrant,
        slot: SlotPlace | None = None,
    ) -> None:
        """To be made in the asyncio task that runs the attempt, or the slot."""
        self._environment, self._planned = environment, planned
        self._steps = Steps(state.steps, state.in_flight, diverged=state.diverged) if slot is None else slot.steps
        self._system = None
        if slot is None:
            task = planned.task.task
            self._system = task.system if task.grid is None else task.system_at(planned.axes, planned.chosen)
        self._asked = AskedModel(model, ModelRole.UNDER_TEST if slot is None else ModelRole.JUDGE)
        self._loop = asyncio.get_running_loop()
        self.key, self.attempt, self.sample = planned.key, state.attempt, sample
        self.activity = TrialActivity(environment.on_idle) if slot is None else slot.activity
        self.slot_activities: list[TrialActivity] = []
        """What its score slots are doing, each in a task of its own."""
        limits = planned.task.limits if slot is None else NO_LIMITS
        iterations = planned.task.max_iterations if slot is None else None
        self.account = TrialAccount(planned.model, limits, environment.find_model, iterations)
        # Before a slot asks anything, the trial's answer is recorded.
        is_named = slot is not None
        self._recorder = TrialRecorder(environment, planned, state.attempt, self.activity, is_named=is_named)
        bought_before = state.bought_before if slot is None else slot.bought_before
        self._calls = DurableCalls(environment, self._recorder, self.account, self._steps, grant, bought_before)
        self._actions: DurableSteps | None = None
        self._samplings: dict[str, SamplingSummary] = {}
        """By the path of their scope, how samplings went."""
        self.artifacts: dict[str, str] = {}
        """The files that its stages have kept in the run, for its end to cite."""
        self._is_over = False
        CURRENT_CONVERSATION.set(EMPTY_CONVERSATION)

    @property
    def epoch(self) -> int:
        return self._planned.epoch

    @property
    def axes(self) -> Mapping[str, str]:
        return self._planned.axes

    @property
    def chosen(self) -> Mapping[str, str]:
        """The value that was chosen for each axis value of the trial that depends on others."""
        return {axis: line[0] for axis, line in self._planned.chosen.items()}

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments of the task, and those that the trial's axis values give instead."""
        task, planned = self._planned.task.task, self._planned
        return task.args if task.grid is None else {**task.args, **task.grid.args_at(planned.axes, planned.chosen)}

    @property
    def axis_files(self) -> Mapping[str, str]:
        """The files of the trial's axis values: by the path in its workspace, where the run's copy of each is."""
        grid, planned = self._planned.task.task.grid, self._planned
        if grid is None or not (found := self.axis_copies):
            return {}
        if self._environment.root is None:
            return grid.files_at(planned.axes, planned.chosen)
        from holdfast.tasks.workspaces.checkout import unpacked_file  # noqa: PLC0415 - few axes have files

        return {path: str(unpacked_file(self.run_root, packed, path)) for path, packed in found.items()}

    @property
    def axis_copies(self) -> Mapping[str, PackedTemplate]:
        """The same files as the run keeps them; what comes later is laid over what comes before."""
        grid, planned = self._planned.task.task.grid, self._planned
        return {} if grid is None else grid.copies_at(planned.axes, planned.chosen)

    @property
    def model(self) -> str:
        return self._asked.model.name

    @property
    def model_name(self) -> str:
        """The name of the model at its provider."""
        return self._asked.model.spec.model

    def cite_artifacts(self, files: Mapping[str, str]) -> None:
        """The end of the attempt will cite these files in `artifacts/<trial>`, each by the digest of its content."""
        self.artifacts |= files

    def note_cut_answer(self, text: str) -> None:
        """Warns that an answer of the model is not whole, and has the report say so."""
        self._environment.caller.note_cut_answer(self._asked.model, text)

    @property
    def run_root(self) -> Path:
        """The directory of the run on this machine.

        Raises:
            UsageError: there is none, because nothing is run here.
        """
        if self._environment.root is None:
            raise UsageError("This trial only follows its record: it has no directory.")
        return self._environment.root

    @property
    def seed(self) -> int:
        """The seed of this trial, the same in every session."""
        return self._recorder.seed

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, as this branch of the solver sees it."""
        return CURRENT_CONVERSATION.get().messages

    def about(self) -> Coordinates | None:
        """Which trial it is, for the first record that this session writes about it."""
        return self._recorder.about()

    def activities(self) -> list[TrialActivity]:
        """What the trial is doing, and each of its score slots."""
        return [self.activity, *self.slot_activities]

    @property
    def samplings(self) -> tuple[SamplingSummary, ...]:
        """How its samplings went, in an order that no timing decides."""
        if not (found := self._samplings):
            return ()
        from holdfast.engine.trials.asking.sampling_tally import by_number  # noqa: PLC0415 - as below

        return tuple([found[path] for path in sorted(found, key=by_number)])

    # Stages.

    def use_steps_below(self, path: str) -> None:
        """Counts the recorded steps below a scope as used: the stage that asked for them is not run again."""
        self.use_steps(self._steps.below(path))

    def use_steps(self, steps: list[StepRecord]) -> None:
        """Counts recorded steps as used, with what they took."""
        taken = self._steps.take(steps)
        self.account.add_unused(taken)
        if any(step.name in {CANDIDATE, CHOICE} for step in taken):
            from holdfast.engine.trials.asking.sampling_tally import summaries_by_path  # noqa: PLC0415 - as below

            self._samplings |= summaries_by_path(taken)

    async def keep_step(self, step: StepRecord) -> None:
        """Makes the outcome of a stage durable."""
        await self._recorder.keep(step)

    # The end.

    def end_solving(self) -> None:
        """Its solver has returned: nothing more can be asked on its behalf."""
        self._is_over = True

    def unasked(self) -> list[StepRecord]:
        """The recorded results that nobody has asked for so far."""
        return self._steps.waiting()

    def finish(self) -> list[StepRecord]:
        """Ends the attempt: nothing more can be asked of it. The recorded steps that it did not ask for again."""
        self._is_over = True
        self._steps.scopes.forget()
        return self._steps.unused()

    # Calls of models.

    def generate(
        self,
        prompt: Prompt,
        *,
        requirements: Sequence[Any] = (),
        strategy: Strategy | None = None,
        validation_context: Any = None,
        **generation: Any,
    ) -> Coroutine[Any, Any, Any]:
        """One call of the model under test, or one sampling of it; replayed as far as it is recorded.

        Raises:
            ModelError: the model gave no reply.
            LimitReached: the trial has used up its tokens, its cost or its iterations.
            ConfigurationError: a generation parameter is unknown or out of range.
            UsageError: the trial has ended.
        """
        # No coroutine of its own: nearly every call of a run comes through here.
        if strategy is None and not requirements:
            return self.ask(self._asked, prompt, generation)
        context = self.sample if validation_context is None else validation_context
        return self._sample(prompt, strategy, requirements, generation, context)

    @_written_as("generate")
    async def ask(self, asked: AskedModel, prompt: Prompt, generation: dict[str, Any]) -> Reply:
        """One call of a model, in the conversation of this branch."""
        self.check_running("generate")
        self.account.count_iteration()
        scope, conversation = self._current_scope("generate"), CURRENT_CONVERSATION.get()
        messages = self._request_messages(prompt, conversation)
        reply, said = await self._calls.ask(asked, scope, messages, generation, conversation)
        CURRENT_CONVERSATION.set(said)
        self.account.check_limits()
        return reply

    @_written_as("generate")
    async def _sample(
        self,
        prompt: Prompt,
        strategy: Strategy | None,
        requirements: Sequence[Any],
        generation: dict[str, Any],
        context: Any,
    ) -> SamplingResult:
        """One sampling, in the conversation of this branch, which continues from the chosen candidate."""
        # Imported here: a run without samplings does not need these thirty modules.
        from holdfast.engine.trials.asking.sampling_host import TrialSampling  # noqa: PLC0415
        from holdfast.sampling.lanes.sampler import run_sampling  # noqa: PLC0415
        from holdfast.sampling.strategies.repair import Rejection  # noqa: PLC0415

        if TOOLS in generation:
            raise UsageError(
                "A sampling offers the model no tools.", hint="Leave out tools, or the strategy and the requirements."
            )
        strategy = strategy or Rejection(loop_budget=1)
        self.check_running("generate")
        # One, however many candidates it draws: those have budgets of their own, and lanes would race for the last.
        self.account.count_iteration()
        scope, conversation = self._current_scope("generate"), CURRENT_CONVERSATION.get()
        messages = self._request_messages(prompt, conversation)
        host = TrialSampling(
            self, self._environment, self._recorder, self._calls, self._steps, scope, self._asked, conversation
        )
        host.begin(strategy.name, messages, generation)
        try:
            with Masking(IN_SAMPLING):
                result = await run_sampling(host, strategy, messages, requirements, generation, context)
        finally:
            self._samplings[host.path] = host.end()
        if result.chosen is not None:
            CURRENT_CONVERSATION.set(host.conversation_at(result.chosen.place))
        return result

    def _request_messages(self, prompt: Prompt, conversation: Conversation) -> tuple[Message, ...]:
        continues = bool(conversation.messages) and isinstance(prompt, (str, Message))
        messages = as_messages(prompt, None if continues else self._system)
        return (*conversation.messages, *messages) if continues else messages

    def reach_limit(self, name: str) -> NoReturn:
        """Ends the trial as limited: a bound that the solver sets itself was reached.

        Raises:
            LimitReached: always.
        """
        self.check_running("reach_limit")
        self.account.reach(name)

    def check_running(self, what: str) -> None:
        """Raises UsageError once the trial, or the slot, is over, and LimitReached once a limit is."""
        if self._is_over:
            raise self._steps.scopes.user.already_over(what)
        self.account.check_limits()

    # Scopes.

    def scope(self, name: str) -> NamedScope:
        """A named place inside the trial, below the one where this is called.

        Raises:
            UsageError: the name is not one, or this is called inside a step.
        """
        return NamedScope(self, self.scope_below(name))

    def scope_below(self, name: str) -> Scope:
        """The named scope itself."""
        current = CURRENT_SCOPE.get()
        if isinstance(current, Masked):
            raise self._steps.scopes.user.inside_step("scope", current)
        parent = current if isinstance(current, Scope) and current.scopes is self._steps.scopes else self.root_scope
        return self._steps.scopes.named(parent, name)

    @property
    def root_scope(self) -> Scope:
        """Where a solver starts."""
        return self._steps.scopes.root

    def _current_scope(self, what: str) -> Scope:
        scope, scopes = CURRENT_SCOPE.get(), self._steps.scopes
        if isinstance(scope, Masked):
            raise scopes.user.inside_step(what, scope)
        if not isinstance(scope, Scope) or scope.scopes is not scopes:
            raise scopes.user.unknown_branch(what)
        if asyncio.get_running_loop() is not self._loop:
            raise scopes.user.other_loop(what)
        return scope

    # Steps.

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, on_interrupted: str = AGAIN, **kwargs: Any
    ) -> Any:
        """One durable action: a function, its arguments, and what it returned or raised, which is recorded.

        A plain function runs in one of the session's threads. Arguments and result must be msgspec-encodable.

        Raises:
            UsageError: an argument or the result cannot be recorded, or the trial has ended.
            StepError: it raised something that cannot be raised again as itself.
            StepInterrupted: it was killed half-way, and is not to run again.
        """
        self.check_running("step")
        if not isinstance(name, str) or not callable(function):
            raise self._steps.scopes.user.wrong_step()
        if on_interrupted not in CHOICES or (on_interrupted == FAIL and takes_interruption(function)):
            raise self._steps.scopes.user.wrong_interruption(name, on_interrupted)
        scope, called = self._current_scope("step"), StepCall(name, function, args, kwargs, on_interrupted == FAIL)
        return await self._durable_steps().run(scope, called)

    async def call_tools(
        self, reply: Reply, tools: Sequence[Any], *, parallel: bool = True, on_error: str = "report"
    ) -> list[Message]:
        """Carries out the tool calls of a reply, each as a durable step; a message with the result of each.

        Raises:
            UsageError: the result of a tool cannot be recorded, or the trial has ended.
            ConfigurationError: something that is given is not a tool.
        """
        # Imported here: most runs have no tools.
        from holdfast.engine.trials.asking.tool_calls import call_tools  # noqa: PLC0415

        self.check_running("call_tools")
        place = self._current_scope("call_tools")

        async def run_step(name: str, call: StepCall) -> StepRecord:
            scope = self._steps.scopes.named(place, name)
            with holding(scope):
                step, _ = await self._durable_steps().outcome(scope, call)
            return step

        return await call_tools(run_step, reply, tools, parallel=parallel, on_error=on_error)

    def _durable_steps(self) -> DurableSteps:
        """Made when it is needed: most trials only call their model."""
        if self._actions is None:
            of_trial = self._environment, self._recorder, self.account, self._steps
            self._actions = DurableSteps(*of_trial, self._asked.role)
        return self._actions

    async def now(self) -> dt.datetime:
        """The time, in UTC; the same when replayed."""
        self.check_running("now")
        return await self._durable_steps().now(self._current_scope("now"))

    async def random(self) -> float:
        """A random number from 0 up to 1; the same when replayed."""
        self.check_running("random")
        return await self._durable_steps().random(self._current_scope("random"))

    async def uuid(self) -> UUID:
        """A random UUID; the same when replayed."""
        self.check_running("uuid")
        return await self._durable_steps().uuid(self._current_scope("uuid"))
