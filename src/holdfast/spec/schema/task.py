"""A task: a dataset with a prompt and scorers, or a Python task by name."""

from typing import Annotated, Any, ClassVar

import msgspec

from holdfast.spec.code_reference import is_code_reference
from holdfast.spec.schema.agent import AgentSpec
from holdfast.spec.schema.axis import AxisValue
from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Cost, Count, LargeCount, Name, Seconds, Words
from holdfast.spec.schema.runner import TaskRunner
from holdfast.spec.schema.sampling import SamplingSpec
from holdfast.spec.schema.workspace import WorkspaceSpec


class TrialLimits(Block, frozen=True):
    """What one trial may use. A limit that is left out does not apply."""

    time: Annotated[Seconds | None, Drift.IDENTITY] = None
    """At most this many seconds. Example: `2m`"""

    tokens: Annotated[LargeCount | None, Drift.IDENTITY] = None
    """At most this many tokens, input and output together. Example: `4000`"""

    cost: Annotated[Cost | None, Drift.IDENTITY] = None
    """At most this much money, in the currency of the prices. Example: `0.05`"""


class Shot(Block, frozen=True):
    """A worked example, shown before the question."""

    input: Annotated[str, Drift.IDENTITY]
    """What is asked in the example. Example: `What is the capital of Italy?`"""

    output: Annotated[str, Drift.IDENTITY]
    """The answer in the example. Example: `Rome`"""


class TaskSpec(Block, frozen=True):
    """One task: declarative, with `dataset` and `scorers`; or in Python, with `use`."""

    inlined: ClassVar[str] = "runner"

    dataset: Annotated[Words | None, Drift.IDENTITY] = None
    """The dataset that is asked about: a name in `datasets`. Example: `capitals`"""

    limit: Annotated[LargeCount | None, Drift.ADDITIVE] = None
    """Only the first N samples, after the operations of the dataset. Default: all. Example: `100`"""

    models: Annotated[list[Words] | None, Drift.ADDITIVE] = None
    """The models under test: names in `models`. Default: every model that is neither a judge nor one to escalate to.
    Example: `[small]`
    """

    prompt: Annotated[str | list[str] | dict[str, str] | None, Drift.IDENTITY] = None
    """The template of the question: `{field}` is replaced by that field of the sample. Several templates, in a list or
    by name, are variants: each is asked, and results are reported per variant (the axis `prompt`). Default: the
    sample's input.
    Example: `'What is the capital of {country}?'`
    """

    system: Annotated[str | None, Drift.IDENTITY] = None
    """The template of the system message. Example: `You are a geographer.`"""

    few_shot: Annotated[list[Shot], Drift.IDENTITY] = msgspec.field(default_factory=list)
    """Worked examples, shown before the question. Example: `[{input: What is the capital of Italy?, output: Rome}]`"""

    few_shot_template: Annotated[str | None, Drift.IDENTITY] = None
    """How a worked example is written into the prompt, with `{input}` and `{output}`. Default: examples are turns of
    the conversation.
    Example: `'Q: {input} A: {output}'`
    """

    choices: Annotated[list[str] | str | None, Drift.IDENTITY] = None
    """Makes the task multiple choice: a list of options (templates), or the name of the column that holds them. The
    options are added to the prompt as `A) …`, `B) …`, and the target is a letter, the text of an option, or a number:
    its position counted from 0. Use the scorer `choice` with it.
    Example: `['{a}', '{b}', '{c}']`
    """

    target: Annotated[str | None, Drift.SCORING] = None
    """The template of the expected answer; `{field}` alone keeps a list of accepted answers a list. Default: the
    sample's target.
    Example: `'{capital}'`
    """

    sample_ids: Annotated[list[str] | None, Drift.ADDITIVE] = None
    """Only the samples with these ids, among those that `limit` leaves. Default: all. Example: `[fr, jp]`"""

    epochs: Annotated[Count | None, Drift.ADDITIVE] = None
    """How often every sample is asked. Scores are averaged per sample before errors are computed. Default: 1, or what a
    Python task says.
    Example: `4`
    """

    axes: Annotated[dict[Name, list[Name] | dict[Name, AxisValue]], Drift.ADDITIVE] = msgspec.field(
        default_factory=dict
    )
    """The axes of the grid: every sample is asked with every combination of their values, and results are reported
    per value. An axis is a list of values, or a map of values with what is special about each. In templates,
    `{axes.tier}` is the value of the axis `tier`.
    Example: `{tier: [T0, T1], subtest: {a: null, b: {system: Be brief.}}}`
    """

    include: Annotated[list[dict[Name, Name]], Drift.ADDITIVE] = msgspec.field(default_factory=list)
    """Only these combinations of axis values; one that names some axes stands for all values of the others. Default:
    all.
    Example: `[{tier: T0}, {tier: T1, subtest: a}]`
    """

    exclude: Annotated[list[dict[Name, Name]], Drift.ADDITIVE] = msgspec.field(default_factory=list)
    """Not these combinations of axis values, written as for `include`. Default: none.
    Example: `[{tier: T1, subtest: b}]`
    """

    scorers: Annotated[list[str | dict[str, Any]], Drift.SCORING] = msgspec.field(default_factory=list)
    """How answers are scored: names of scorers, or a name with its arguments (see Scorers), or code of your own as
    `file.py:name` or `package.module:name`. A declarative task needs at least one; those of a Python task are replaced.
    Example: `[exact, {regex: {pattern: 'Answer: (.*)'}}]`
    """

    solver: Annotated[Words | None, Drift.IDENTITY] = None
    """Code that asks the model instead of the prompt: an async function as `file.py:name` or `package.module:name`. Its
    `trial.sample.input` is the rendered prompt or, without a prompt, the dataset's input.
    Example: `solver.py:solve`
    """

    tools: Annotated[list[Words], Drift.IDENTITY] = msgspec.field(default_factory=list)
    """Functions that the model may call: with typed parameters, as `file.py:name` or `package.module:name`. The prompt
    is asked with them until the model answers without calling one. Default: none.
    Example: `[tools.py:search, tools.py:fetch]`
    """

    sampling: Annotated[SamplingSpec | None, Drift.IDENTITY] = None
    """Draws several candidates and chooses the answer among them. For a Python task only if its solver is
    `generate(...)`. Default: one call gives the answer.
    Example: `{strategy: repair, loop_budget: 3, requirements: [python]}`
    """

    agent: Annotated[AgentSpec | None, Drift.IDENTITY] = None
    """A command that works on the task in a workspace, instead of a call of a model. Its models have the provider
    `command`.
    Example: `{command: ['./agent.sh', '{prompt_file}']}`
    """

    workspace: Annotated[WorkspaceSpec | None, Drift.IDENTITY] = None
    """The directory in which the agent works; each trial has a copy of its own. Default: an empty directory.
    Example: `{repo: ../shop, commit: 4b825dc}`
    """

    limits: Annotated[TrialLimits, Drift.IDENTITY] = TrialLimits()
    """What one trial may use. A trial that reaches a limit ends as `limited`. Default: no limit.
    Example: `{time: 2m, tokens: 4000}`
    """

    max_iterations: Annotated[Count | None, Drift.IDENTITY] = None
    """At most this many calls of the model in one attempt, for solvers and tools that loop. A trial that wants more
    ends as `limited`. Default: no limit, or what a Python task says; with `tools`, 10.
    Example: `20`
    """

    use: Annotated[Words | None, Drift.IDENTITY] = None
    """A Python task instead of a dataset and a prompt: `file.py:name` or `package.module:name`; `file.py` is enough
    where the file defines one task.
    Example: `tasks/code.py:fix_bug`
    """

    args: Annotated[dict[str, Any], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """The arguments of the Python task. Example: `{difficulty: hard}`"""

    runner: Annotated[TaskRunner, Drift.THROUGHPUT] = TaskRunner()
    """Limits and retries of this task alone. Its keys may also be written directly in the task.
    Example: `{concurrency_limit: 16}`
    """

    def code_references(self) -> list[str]:
        """Every reference to code in files or modules: of the task, its solver, tools, scorers and sampling."""
        checks = [given for _, given in self.sampling.checks()] if self.sampling else []
        functions = [_argument(given, "function") for given in checks]
        named = [self.use, self.solver, *self.tools, *map(_first_name, self.scorers), *functions]
        return [name for name in named if isinstance(name, str) and is_code_reference(name)]


def _first_name(given: str | dict[str, Any]) -> str:
    return given if isinstance(given, str) else str(next(iter(given), ""))


def _argument(given: Any, name: str) -> Any:
    """The argument of a check that is given as `{name: value}` or as `{name: {name: value}}`."""
    value = given.get(name) if isinstance(given, dict) else None
    return value.get(name) if isinstance(value, dict) else value


DECLARATIVE_FIELDS = (
    "prompt",
    "target",
    "choices",
    "few_shot",
    "few_shot_template",
    "solver",
    "tools",
    "agent",
    "workspace",
)
"""What a declarative task has beside its dataset, and a Python task brings itself."""
