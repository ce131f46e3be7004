"""A task: a dataset with a prompt and scorers, or a Python task by name."""

from typing import Annotated, Any, ClassVar

import msgspec

from holdfast.spec.code_reference import is_code_reference
from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Cost, Count, LargeCount, Seconds, Words
from holdfast.spec.schema.runner import TaskRunner
from holdfast.spec.schema.sampling import SamplingSpec


class TrialLimits(Block, frozen=True):
    """What one trial may take: seconds, tokens, money; an absent one is no limit."""

    time: Annotated[Seconds | None, Drift.IDENTITY] = None
    tokens: Annotated[LargeCount | None, Drift.IDENTITY] = None
    cost: Annotated[Cost | None, Drift.IDENTITY] = None


class Shot(Block, frozen=True):
    """A worked example, shown before the question."""

    input: Annotated[str, Drift.IDENTITY]
    output: Annotated[str, Drift.IDENTITY]


class TaskSpec(Block, frozen=True):
    """One entry of `tasks`: either `dataset` (declarative) or `use` (a Python task) is given."""

    inlined: ClassVar[str] = "runner"

    dataset: Annotated[Words | None, Drift.IDENTITY] = None
    limit: Annotated[LargeCount | None, Drift.ADDITIVE] = None
    """The first so many samples after the dataset's operations."""

    models: Annotated[list[Words] | None, Drift.ADDITIVE] = None
    """Names in `models`; resolving puts every model that is nobody's judge here, if none is named."""

    prompt: Annotated[str | list[str] | dict[str, str] | None, Drift.IDENTITY] = None
    """A template; several of them, in a list or by name, are an axis called `prompt`."""

    system: Annotated[str | None, Drift.IDENTITY] = None
    few_shot: Annotated[list[Shot], Drift.IDENTITY] = msgspec.field(default_factory=list)
    few_shot_template: Annotated[str | None, Drift.IDENTITY] = None
    """With `{input}` and `{output}`: the examples as text; without it, as turns of the conversation."""

    choices: Annotated[list[str] | str | None, Drift.IDENTITY] = None
    """The options of a multiple-choice task, or the column that holds them."""

    target: Annotated[str | None, Drift.SCORING] = None
    sample_ids: Annotated[list[str] | None, Drift.ADDITIVE] = None
    """Only the samples with these ids, of those that the limit leaves."""

    epochs: Annotated[Count | None, Drift.ADDITIVE] = None
    """Repetitions; resolving puts 1 here, except for a Python task, which may bring its own number."""

    scorers: Annotated[list[str | dict[str, Any]], Drift.SCORING] = msgspec.field(default_factory=list)
    """A scorer's name, or its name with its arguments: a built-in scorer (`holdfast list scorers`), or one of your own
    as `file.py:name` or `package.module:name`; resolving keeps a bare name where there are no arguments.
    """

    solver: Annotated[Words | None, Drift.IDENTITY] = None
    """Code that asks the model instead of the prompt: an async function as `file.py:name` or `package.module:name`. Its
    `trial.sample.input` is the rendered prompt or, without a prompt, the dataset's input.
    """

    sampling: Annotated[SamplingSpec | None, Drift.IDENTITY] = None
    """Draws several candidates and chooses one; for a Python task only if its solver is `generate(...)`."""

    limits: Annotated[TrialLimits, Drift.IDENTITY] = TrialLimits()
    use: Annotated[Words | None, Drift.IDENTITY] = None
    """`file.py:name`, `package.module:name`, or the name of a built-in task."""

    args: Annotated[dict[str, Any], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    runner: Annotated[TaskRunner, Drift.THROUGHPUT] = TaskRunner()

    def code_references(self) -> list[str]:
        """Every reference to code in files or modules: of the task, its solver, its scorers and its sampling."""
        checks = [given for _, given in self.sampling.checks()] if self.sampling else []
        functions = [_argument(given, "function") for given in checks]
        named = [self.use, self.solver, *map(_first_name, self.scorers), *functions]
        return [name for name in named if isinstance(name, str) and is_code_reference(name)]


def _first_name(given: str | dict[str, Any]) -> str:
    return given if isinstance(given, str) else str(next(iter(given), ""))


def _argument(given: Any, name: str) -> Any:
    """The argument of a check that is given as `{name: value}` or as `{name: {name: value}}`."""
    value = given.get(name) if isinstance(given, dict) else None
    return value.get(name) if isinstance(value, dict) else value
