"""Mellea's sampling strategies on this project's engine: the names are those of `mellea.stdlib.sampling`.

A strategy from here is one of Mellea's, with its constructor, its static `repair` and `select_from_failure`, its hooks
and its result. Nothing that it started is running when it returns. `docs/interop-mellea.md` says what else differs.
"""

from typing import Any

from holdfast.lazy_names import load_lazily

_HERE = "holdfast.interop.mellea"
_find = load_lazily(
    _HERE,
    {
        f"{_HERE}.strategies": (
            "BaseSamplingStrategy",
            "ModelFriendlyRepairStrategy",
            "MultiTurnStrategy",
            "RejectionSamplingStrategy",
            "RepairTemplateStrategy",
        ),
        f"{_HERE}.budget_forcing": ("BudgetForcingSamplingStrategy",),
        f"{_HERE}.presets": ("python_code_generation_sampling", "python_plotting_sampling"),
        f"{_HERE}.solvers": ("SOFAISamplingStrategy",),
        f"{_HERE}.voting": ("BaseMBRDSampling", "MBRDRougeLStrategy", "MajorityVotingStrategyForMath"),
        "mellea.stdlib.sampling": (
            "ModelFriendlyFeedbackFormatter",
            "SamplingPreset",
            "SamplingResult",
            "SamplingStrategy",
        ),
    },
)

__all__ = [
    "BaseMBRDSampling",
    "BaseSamplingStrategy",
    "BudgetForcingSamplingStrategy",
    "MBRDRougeLStrategy",
    "MajorityVotingStrategyForMath",
    "ModelFriendlyFeedbackFormatter",
    "ModelFriendlyRepairStrategy",
    "MultiTurnStrategy",
    "RejectionSamplingStrategy",
    "RepairTemplateStrategy",
    "SOFAISamplingStrategy",
    "SamplingPreset",
    "SamplingResult",
    "SamplingStrategy",
    "python_code_generation_sampling",
    "python_plotting_sampling",
]


def __getattr__(name: str) -> Any:
    try:
        return _find(name)
    except ModuleNotFoundError as missing:
        if missing.name != "mellea":
            raise
        raise ImportError(
            f"{_HERE} needs Mellea, which is not installed. Install it: pip install 'mellea>=0.8,<0.9'"
        ) from missing
