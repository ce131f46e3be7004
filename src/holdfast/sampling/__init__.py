"""Sampling: one request, several candidates, in depth and in breadth, until one meets its requirements.

`docs/sampling.md` explains it. Each name is loaded when it is first used.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from holdfast.sampling.budget import SamplingBudget
    from holdfast.sampling.candidate import Candidate, CandidateRecord, CandidateStatus
    from holdfast.sampling.hooks import Changes, SamplingHook
    from holdfast.sampling.place import Place, current_place, derive_seed
    from holdfast.sampling.requirements import (
        Checking,
        Draft,
        Requirement,
        Verdict,
        VerdictKind,
        function,
        includes,
        json_schema,
        judge,
        length,
        numeric,
        python,
        regex,
    )
    from holdfast.sampling.result import SamplingResult, result_of
    from holdfast.sampling.selection import SelectionMode
    from holdfast.sampling.solver import sampled
    from holdfast.sampling.strategies.best_of_n import BestOfN
    from holdfast.sampling.strategies.escalate import Escalate
    from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
    from holdfast.sampling.strategies.strategy import Strategy
    from holdfast.sampling.strategies.vote import Vote

__all__ = [
    "BestOfN",
    "Candidate",
    "CandidateRecord",
    "CandidateStatus",
    "Changes",
    "Checking",
    "Draft",
    "Escalate",
    "MultiTurn",
    "Place",
    "Rejection",
    "Repair",
    "Requirement",
    "SamplingBudget",
    "SamplingHook",
    "SamplingResult",
    "SelectionMode",
    "Strategy",
    "Verdict",
    "VerdictKind",
    "Vote",
    "current_place",
    "derive_seed",
    "function",
    "includes",
    "json_schema",
    "judge",
    "length",
    "numeric",
    "python",
    "regex",
    "result_of",
    "sampled",
]

__getattr__ = load_lazily(
    "holdfast.sampling",
    {
        "holdfast.sampling.budget": ("SamplingBudget",),
        "holdfast.sampling.candidate": ("Candidate", "CandidateRecord", "CandidateStatus"),
        "holdfast.sampling.hooks": ("Changes", "SamplingHook"),
        "holdfast.sampling.place": ("Place", "current_place", "derive_seed"),
        "holdfast.sampling.requirements": (
            "Checking",
            "Draft",
            "Requirement",
            "Verdict",
            "VerdictKind",
            "function",
            "includes",
            "json_schema",
            "judge",
            "length",
            "numeric",
            "python",
            "regex",
        ),
        "holdfast.sampling.result": ("SamplingResult", "result_of"),
        "holdfast.sampling.selection": ("SelectionMode",),
        "holdfast.sampling.solver": ("sampled",),
        "holdfast.sampling.strategies.best_of_n": ("BestOfN",),
        "holdfast.sampling.strategies.escalate": ("Escalate",),
        "holdfast.sampling.strategies.repair": ("MultiTurn", "Rejection", "Repair"),
        "holdfast.sampling.strategies.strategy": ("Strategy",),
        "holdfast.sampling.strategies.vote": ("Vote",),
    },
)
