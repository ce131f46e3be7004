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
    """The keys at the top of an eval file.

    `resolve` makes every value explicit.
    """

    inlined: ClassVar[str] = "runner"

    name: Annotated[Title, Drift.UNMATCHED] = ""
    """The name of the eval; run directories are named after it. Default: the name of the file without its ending.
    Example: `capitals`
    """

    description: Annotated[str, Drift.UNMATCHED] = ""
    """A note for people. Example: `Capitals of the world, one word each.`"""

    tags: Annotated[list[str], Drift.UNMATCHED] = msgspec.field(default_factory=list)
    """Labels for people. Example: `[geography, nightly]`"""

    seed: Annotated[Seed, Drift.IDENTITY] = 0
    """The seed that the seeds of all trials are derived from: `trial.seed` in solvers, the lanes of a sampling and, if
    `deterministic` is true, every call.
    Example: `1`
    """

    deterministic: Annotated[bool | None, Drift.IDENTITY] = None
    """Whether every call gets a seed derived from `seed`, and no choice among candidates depends on timing.
    Example: `true`
    """

    currency: Annotated[Name | None, Drift.DERIVED] = None
    """The currency of every price, budget and cost. It is printed beside costs; nothing is converted. Default: USD.
    Example: `EUR`
    """

    models: Annotated[dict[Name, ModelSpec], Drift.ADDITIVE] = msgspec.field(default_factory=dict)
    """The models by name: those under test, and judges. `openai/gpt-4o-mini` is short for a model with a provider
    and nothing else.
    Example: `{small: openai/gpt-4o-mini}`
    """

    datasets: Annotated[dict[Name, DatasetSpec], Drift.ADDITIVE] = msgspec.field(default_factory=dict)
    """The datasets by name. A path is short for a dataset with a path and nothing else.
    Example: `{capitals: capitals.jsonl}`
    """

    tasks: Annotated[dict[Name, TaskSpec], Drift.ADDITIVE] = msgspec.field(default_factory=dict)
    """The tasks by name: what is asked, and how answers are scored.
    Example: `{capitals: {dataset: capitals, prompt: '{country}?', target: '{capital}', scorers: [exact]}}`
    """

    runner: Annotated[RunnerSpec, Drift.THROUGHPUT] = RunnerSpec()
    """How the work is done: limits, retries, display. Its keys may also be written directly at the top level.
    Example: `{concurrency_limit: 64}`
    """

    directory: Annotated[str, Drift.LOCATION] = ""
    """Where relative paths start. Default: the directory of the eval file. Example: `/srv/evals`"""

    def locate(self, path: str) -> str:
        """A path written in this eval, as one that can be opened from anywhere; a URL stays as it is."""
        return path if "://" in path else posixpath.normpath(posixpath.join(self.directory, path))
