"""A strategy from the `sampling` of an eval file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.sampling.budget import SamplingBudget
from holdfast.sampling.requirements.from_spec import build_requirement, with_unique_ids
from holdfast.sampling.strategies.best_of_n import BestOfN
from holdfast.sampling.strategies.escalate import Escalate
from holdfast.sampling.strategies.repair import MultiTurn, Rejection, Repair
from holdfast.sampling.strategies.strategy import Strategy
from holdfast.sampling.strategies.vote import Vote
from holdfast.spec import SamplingSpec, plain_data

_STRATEGIES: dict[str, Callable[..., Strategy]] = {
    kind.name: kind for kind in (Rejection, Repair, MultiTurn, Vote, BestOfN, Escalate)
}
