"""Budget forcing: a reply is made of several raw calls, which think for as long as the budget says."""

from __future__ import annotations

from mellea.core import ComputedModelOutputThunk, Context
from mellea.stdlib.sampling import budget_forcing
from mellea.stdlib.sampling.sampling_algos import think_budget_forcing

from holdfast.interop.mellea.attempts import MelleaLane
from holdfast.interop.mellea.sampling import MelleaSampling
from holdfast.interop.mellea.strategies import RejectionSamplingStrategy
from holdfast.interop.mellea.validation import Validator


class _ForcedSampling(MelleaSampling):
    def check_settings(self, loops: int) -> None:
        """Mellea's algorithm needs Ollama's raw completions, and knows no tools."""
        from mellea.backends.ollama import OllamaModelBackend  # noqa: PLC0415 - loads its client

        super().check_settings(loops)
        if self.settings.tool_calls:
            raise ValueError("Budget forcing cannot call tools: leave tool_calls at False.")
        if not isinstance(self.backend, OllamaModelBackend):
            name = type(self.backend).__name__
            raise TypeError(f"Budget forcing works with OllamaModelBackend only; this backend is {name}.")

    def make_validator(self) -> Validator:
        """Here, Mellea has the output format for judges as well."""
        return Validator(self.backend, self.settings.format, self.settings.model_options)

    async def generate(self, lane: MelleaLane) -> tuple[ComputedModelOutputThunk, Context]:
        """One reply; the context stays as it is, since raw calls are no part of a conversation."""
        strategy = self.strategy
        thunk = await think_budget_forcing(
            self.backend,
            lane.action,
            ctx=self.context,
            format=self.settings.format,
            tool_calls=False,
            think_max_tokens=strategy.think_max_tokens,
            answer_max_tokens=strategy.answer_max_tokens,
            start_think_token=strategy.start_think_token,
            end_think_token=strategy.end_think_token,
            think_more_suffix=strategy.think_more_suffix,
            answer_suffix=strategy.answer_suffix,
            model_options=dict(self.settings.model_options or {}),  # it writes into them
        )
        return self.parsed(thunk), lane.context


class BudgetForcingSamplingStrategy(RejectionSamplingStrategy, budget_forcing.BudgetForcingSamplingStrategy):
    """Thinks within one budget of tokens, and answers within another."""

    _sampling_type = _ForcedSampling
