"""Mellea's strategies by their names, with their constructors and static methods; only `sample` differs."""

from __future__ import annotations

from typing import Any, ClassVar

from mellea.core import Backend, Context, Requirement, SampleActionType, SamplingResult
from mellea.stdlib.context import ChatContext
from mellea.stdlib.sampling import base, feedback

from holdfast.interop.mellea.sampling import MelleaSampling, SampleSettings
from holdfast.sampling.strategies.strategy import check_budget


class WholeNumber:
    """An attribute that takes whole numbers from 1 up, whoever sets it: Mellea's constructors do, and users may."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, strategy: Any, owner: type) -> Any:
        if strategy is None:
            return self
        if self._name not in strategy.__dict__:
            raise AttributeError(f"{type(strategy).__name__} has no {self._name}: call super().__init__() first.")
        return strategy.__dict__[self._name]

    def __set__(self, strategy: Any, value: Any) -> None:
        check_budget(self._name, value)
        strategy.__dict__[self._name] = value


class OnEngine:
    """Put before a strategy of Mellea's, it runs its samplings on the engine."""

    loop_budget: Any = WholeNumber()
    concurrency_budget: Any = WholeNumber()
    _sampling_type: ClassVar[type[MelleaSampling]] = MelleaSampling

    async def sample(  # noqa: PLR0913 - Mellea's signature
        self,
        action: SampleActionType,
        context: Context,
        backend: Backend,
        requirements: list[Requirement] | None,
        *,
        validation_ctx: Context | None = None,
        format: type | None = None,  # noqa: A002 - Mellea's name
        model_options: dict[str, Any] | None = None,
        tool_calls: bool = False,
        show_progress: bool = True,
    ) -> SamplingResult:
        """Draws candidates until one meets all requirements. When this returns or raises, nothing of it is running.

        Requirements of the strategy replace those given here. Candidates are listed by turn, then by lane.

        Raises:
            Exception: every lane has ended with an error: the first lane's, with those of the others as notes.
            PluginViolationError: a hook blocked, in whatever lane.
            TypeError: a requirement or a repair returned something of the wrong type, or the strategy cannot repair
                over this context.
            ValueError: a hook set an invalid budget, or `select_from_failure` returned no index.
        """
        settings = SampleSettings(validation_ctx, format, model_options, tool_calls, show_progress)
        in_force = self._in_force(requirements)
        return await self._sampling_type(self, action, context, backend, in_force, settings).run()

    def check_context(self, context: Context, loops: int) -> None:
        """Raises TypeError if the strategy cannot repair over such a context."""

    def _in_force(self, requirements: list[Requirement] | None) -> list[Requirement]:
        """The strategy's requirements or, if it has none, the call's; each once, in the order given."""
        own = getattr(self, "requirements", None)
        return list(dict.fromkeys(own if own is not None else requirements or []))


class BaseSamplingStrategy(OnEngine, base.BaseSamplingStrategy):
    """To be subclassed as Mellea's: with `repair` and `select_from_failure`."""


class RejectionSamplingStrategy(BaseSamplingStrategy, base.RejectionSamplingStrategy):
    """Asks the same again until a candidate is valid."""


class RepairTemplateStrategy(BaseSamplingStrategy, base.RepairTemplateStrategy):
    """Asks again with the reasons for the failure in the instruction."""


class MultiTurnStrategy(BaseSamplingStrategy, base.MultiTurnStrategy):
    """Answers each failed candidate with a message that says what is wrong."""

    def check_context(self, context: Context, loops: int) -> None:
        is_own = type(self).repair is not base.MultiTurnStrategy.repair
        if loops > 1 and not is_own and not isinstance(context, ChatContext):
            raise TypeError(f"{type(self).__name__} needs a ChatContext to repair over, not {type(context).__name__}.")


class ModelFriendlyRepairStrategy(RepairTemplateStrategy, feedback.ModelFriendlyRepairStrategy):
    """Asks again with the reasons for the failure rewritten for the model, for generated code."""
