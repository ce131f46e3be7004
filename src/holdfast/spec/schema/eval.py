"""The whole of an eval file, typed."""

import posixpath
from typing import Annotated, ClassVar

import msgspec

from holdfast.spec.schema.dataset import DatasetSpec
from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Name, Seed, Title
from holdfast.spec.schema.model import ModelSpec
from holdfast.spec.schema.runner import RunnerSpec
from holdfast.spec.schema.task import TaskSpec


class EvalSpec(Block, frozen=True):
    """What a person asks for; `resolve` makes every value explicit."""

    inlined: ClassVar[str] = "runner"

    name: Annotated[Title, Drift.UNMATCHED] = ""
    description: Annotated[str, Drift.UNMATCHED] = ""
    tags: Annotated[list[str], Drift.UNMATCHED] = msgspec.field(default_factory=list)
    seed: Annotated[Seed, Drift.IDENTITY] = 0
    deterministic: Annotated[bool | None, Drift.IDENTITY] = None
    """Whether every call gets a seed derived from `seed`, and no choice among candidates depends on timing; resolving
    leaves it out where it is not so.
    """

    currency: Annotated[Name | None, Drift.DERIVED] = None
    """The currency of every price and cost, as in `EUR`; USD if not set. It is printed beside costs; nothing is
    converted.
    """

    models: Annotated[dict[Name, ModelSpec], Drift.ADDITIVE] = msgspec.field(default_factory=dict)
    datasets: Annotated[dict[Name, DatasetSpec], Drift.ADDITIVE] = msgspec.field(default_factory=dict)
    tasks: Annotated[dict[Name, TaskSpec], Drift.ADDITIVE] = msgspec.field(default_factory=dict)
    runner: Annotated[RunnerSpec, Drift.THROUGHPUT] = RunnerSpec()
    directory: Annotated[str, Drift.LOCATION] = ""
    """Where relative paths start: the eval file's directory, unless it says otherwise."""

    def locate(self, path: str) -> str:
        """A path written in this eval, as one that can be opened from anywhere; a URL stays as it is."""
        return path if "://" in path else posixpath.normpath(posixpath.join(self.directory, path))
