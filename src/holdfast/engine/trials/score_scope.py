"""The `scope` of a scorer: model calls and steps of its slot, as durable as those of a solver."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.capacity import CapacityGrant
from holdfast.engine.trials.asking.durable_calls import AskedModel
from holdfast.engine.trials.conversation import CURRENT_CONVERSATION, EMPTY_CONVERSATION
from holdfast.engine.trials.error_boundary import Outcome
from holdfast.engine.trials.history import AttemptState
from holdfast.engine.trials.named_scope import NamedScope
from holdfast.engine.trials.running_trial import RunningTrial, SlotPlace
from holdfast.engine.trials.scopes import Scope
from holdfast.engine.trials.steps import Steps, unused_replies
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.models.message import Usage
from holdfast.models.role import ModelRole
from holdfast.run.core.records import UsageShare
from holdfast.tasks.judges.marked_text import question_text
from holdfast.tasks.sample import Sample
from holdfast.tasks.solver import Generate
from holdfast.tasks.trial_interface import Prompt

if TYPE_CHECKING:
    from uuid import UUID


class SlotScope:
    """The scope of one attempt of a score slot."""

    def __init__(
        self,
        environment: TrialEnvironment,
        planned: PlannedTrial,
        state: AttemptState,
        sample: Sample,
        grant: CapacityGrant,
        activity: TrialActivity,
        path: str,
        bought_before: int = 0,
    ) -> None:
        """To be made in the asyncio task that runs the slot; `path` is that of the slot's attempt, and an earlier one
        got `bought_before` replies.
        """
        self._environment, self._own_model = environment, planned.model
        self._planned, self._sample = planned, sample
        steps = Steps(state.slot_steps.get(path, []), state.in_flight, path, state.diverged)
        place = SlotPlace(steps, activity, bought_before)
        model = environment.find_model(planned.model)
        self._own = RunningTrial(environment, planned, state, sample, model, grant, place)

    @property
    def question(self) -> str:
        """What the model under test was asked: the prompt of the task or, with a solver of one's own, the input."""
        planned, sample = self._planned, self._sample
        solver = planned.task.task.solver_at(planned.axes, planned.chosen)
        asked = solver.question(sample, self._planned.axes) if isinstance(solver, Generate) else sample.input
        return question_text(asked)

    @property
    def sample_key(self) -> str:
        """The id of the sample or, where it has none, the digest that stands for it."""
        return self._planned.sample

    @property
    def epoch(self) -> int:
        """Which repetition of the sample is scored, from 1."""
        return self._planned.epoch

    @property
    def axes(self) -> Mapping[str, str]:
        """The value on each axis of the task's grid."""
        return self._planned.axes

    @property
    def root_scope(self) -> Scope:
        return self._own.root_scope

    async def generate(self, prompt: Prompt, *, model: str = "", **generation: Any) -> Any:
        """One call of a model, the one under test if none is named; a call of a named one is a conversation of its own.

        Raises:
            ModelError: the model gave no reply.
            UsageError: the eval has no such model, or the slot has ended.
        """
        if not model:
            return await self._own.generate(prompt, **generation)
        call_name = "generate" if model == self._own_model else f"generate@{model}"
        self._own.check_running("generate")
        asked = AskedModel(self._environment.find_model(model), ModelRole.JUDGE, call_name)
        token = CURRENT_CONVERSATION.set(EMPTY_CONVERSATION)
        try:
            return await self._own.ask(asked, prompt, generation)
        finally:
            CURRENT_CONVERSATION.reset(token)

    async def step(
        self, name: str, function: Callable[..., Any], /, *args: Any, on_interrupted: str = "again", **kwargs: Any
    ) -> Any:
        """As `Trial.step`, in this slot."""
        return await self._own.step(name, function, *args, on_interrupted=on_interrupted, **kwargs)

    async def call_tools(self, *args: Any, **options: Any) -> Any:
        """As `Trial.call_tools`, in this slot."""
        return await self._own.call_tools(*args, **options)

    async def now(self) -> dt.datetime:
        """As `Trial.now`, in this slot."""
        return await self._own.now()

    async def random(self) -> float:
        """As `Trial.random`, in this slot."""
        return await self._own.random()

    async def uuid(self) -> UUID:
        """As `Trial.uuid`, in this slot."""
        return await self._own.uuid()

    def scope(self, name: str) -> NamedScope:
        """As `Trial.scope`, in this slot."""
        return NamedScope(self, self._own.scope_below(name))

    def check_answered(self) -> None:
        """Raises the error that a scorer has caught, if one of its requests never got an answer.

        Raises:
            StepInterrupted: a step that may not run twice has no outcome.
            ModelError: the infrastructure failed, and what the scorer made of that is not a score.
        """
        self._own.account.check_answered()

    def deciding(self, outcome: Outcome) -> Outcome:
        """How the slot's attempt failed."""
        return self._own.account.deciding(outcome)

    def finish(self) -> int:
        """Ends the attempt of the slot; how many recorded replies it did not ask for again. They count as paid."""
        unused = self._own.finish()
        self._own.account.add_unused(unused)
        return unused_replies(unused)

    @property
    def replies(self) -> int:
        """How many it has got, replayed ones too."""
        return self._own.account.replies

    def end_failed_calls(self) -> None:
        """The end of the slot's attempt is durable: none of its calls is in flight."""
        self._own.account.end_failed_calls(self._environment.admission)

    def give_failed_calls(self, trial: RunningTrial) -> None:
        """Has them ended with those of the trial."""
        trial.account.adopt_failed_calls(self._own.account)

    @property
    def usage(self) -> Usage | None:
        return self._own.account.usage

    @property
    def shares(self) -> tuple[UsageShare, ...]:
        """The parts of it that are of other models than the one under test, or of replies from other runs."""
        return self._own.account.shares
