"""What a scorer holds that takes a `scope`: calls of models and steps of its slot, durable as those of a solver are."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.engine.model_calls.open_model import OpenModel
from holdfast.engine.planning.plan import PlannedTrial
from holdfast.engine.scheduling.activity import TrialActivity
from holdfast.engine.scheduling.slots import SlotGrant
from holdfast.engine.trials.conversation import CURRENT_CONVERSATION, EMPTY_CONVERSATION
from holdfast.engine.trials.history import AttemptState
from holdfast.engine.trials.named_scope import NamedScope
from holdfast.engine.trials.running_trial import RunningTrial, SlotPlace
from holdfast.engine.trials.scopes import Scope
from holdfast.engine.trials.steps import Steps
from holdfast.engine.trials.trial_environment import TrialEnvironment
from holdfast.models.message import Reply, Usage
from holdfast.run.core.records import ShareKey, UsageShare
from holdfast.tasks.sample import Sample
from holdfast.tasks.trial_interface import Prompt


class SlotScope:
    """The scope of one attempt of a score slot."""

    def __init__(
        self,
        environment: TrialEnvironment,
        planned: PlannedTrial,
        state: AttemptState,
        sample: Sample,
        grant: SlotGrant,
        activity: TrialActivity,
        path: str,
    ) -> None:
        """To be made in the asyncio task that runs the slot; `path` is that of the slot's attempt."""
        self._environment, self._planned, self._state, self._sample = environment, planned, state, sample
        self._grant, self._activity = grant, activity
        self._steps = Steps(state.slot_steps.get(path, []), state.in_flight, path)
        self._asked: dict[str, RunningTrial] = {}
        self._shares: dict[ShareKey, Usage] = {}
        self._own = self._asking(planned.model)
        CURRENT_CONVERSATION.set(EMPTY_CONVERSATION)

    def _asking(self, name: str) -> RunningTrial:
        """What asks a model of that name here.

        Raises:
            UsageError: the eval has no such model.
        """
        if name not in self._asked:
            model: OpenModel = self._environment.find_model(name)
            call_name = "generate" if name == self._planned.model else f"generate@{name}"
            place = SlotPlace(self._steps, self._activity, self._shares, call_name)
            self._asked[name] = RunningTrial(
                self._environment, self._planned, self._state, self._sample, model, self._grant, place
            )
        return self._asked[name]

    @property
    def root_scope(self) -> Scope:
        return self._own.root_scope

    async def generate(self, prompt: Prompt, *, model: str = "", **generation: Any) -> Reply:
        """One call of a model, the one under test if none is named; a call of a named one is a conversation of its own.

        Raises:
            ModelError: no reply could be had.
            UsageError: the eval has no such model, or the slot is over.
        """
        if not model:
            return await self._own.generate(prompt, **generation)
        self._own.check_running("generate")
        asking, token = self._asking(model), CURRENT_CONVERSATION.set(EMPTY_CONVERSATION)
        try:
            return await asking.generate(prompt, **generation)
        finally:
            CURRENT_CONVERSATION.reset(token)

    async def step(self, name: str, function: Callable[..., Any], *args: Any) -> Any:
        """As `Trial.step`, in this slot."""
        return await self._own.step(name, function, *args)

    def scope(self, name: str) -> NamedScope:
        """As `Trial.scope`, in this slot."""
        return NamedScope(self, self._own.scope_below(name))

    def check_answered(self) -> None:
        """Raises the error that a scorer has swallowed, if a request of its never got an answer.

        Raises:
            ModelError: the infrastructure failed, and what the scorer made of that is no score.
        """
        for asking in self._asked.values():
            asking.check_answered()

    def finish(self) -> int:
        """Ends the attempt of the slot; how many steps on record it did not ask for again. They count as paid."""
        unused = [step for asking in self._asked.values() for step in asking.finish()]
        self._own.account_for(unused)
        return sum(1 for step in unused if step.error is None)

    def end_failed_calls(self) -> None:
        """The end of the slot's attempt is durable: none of its calls is in flight."""
        for asking in self._asked.values():
            asking.end_failed_calls()

    def give_failed_calls(self, trial: RunningTrial) -> None:
        """Has them ended with those of the trial."""
        for asking in self._asked.values():
            trial.adopt_failed_calls(asking)

    @property
    def usage(self) -> Usage | None:
        known = [asking.usage for asking in self._asked.values() if asking.usage is not None]
        return sum(known[1:], known[0]) if known else None

    @property
    def shares(self) -> tuple[UsageShare, ...]:
        """The parts of it that are of other models than the one under test, or of replies from other runs."""
        return self._own.shares
