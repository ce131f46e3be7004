"""What was asked: the schema with a drift class on every field, loading, resolving."""

from holdfast.spec.dataset import DatasetSpec, Filter, Operation, Repeat, Shuffle, Slice
from holdfast.spec.drift import Block, Drift
from holdfast.spec.eval import EvalSpec
from holdfast.spec.model import Generation, ModelSpec, Price, RateLimit, Timeouts
from holdfast.spec.runner import RunnerSpec, StageLimits, TaskRunner
from holdfast.spec.task import Limits, Shot, TaskSpec

__all__ = [
    "Block",
    "DatasetSpec",
    "Drift",
    "EvalSpec",
    "Filter",
    "Generation",
    "Limits",
    "ModelSpec",
    "Operation",
    "Price",
    "RateLimit",
    "Repeat",
    "RunnerSpec",
    "Shot",
    "Shuffle",
    "Slice",
    "StageLimits",
    "TaskRunner",
    "TaskSpec",
    "Timeouts",
]
