"""A value on an axis of a task: what is special about its trials, and the values that it depends on."""

from typing import Annotated, Any

import msgspec

from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Name, Words


class AxisValue(Block, frozen=True):
    """What is special about one value on an axis; everything that is left out is as the task has it."""

    prompt: Annotated[str | None, Drift.IDENTITY] = None
    """The template of the question. Default: that of the task. Example: `'Think first. {question}'`"""

    system: Annotated[str | None, Drift.IDENTITY] = None
    """The template of the system message. Default: that of the task. Example: `You are careful.`"""

    model: Annotated[Words | None, Drift.IDENTITY] = None
    """The model that is asked, a name in `models`: the value is combined with this model and with no other. Default:
    every model of the task.
    Example: `small`
    """

    files: Annotated[dict[Words, Words], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """Files and directories for the workspace of the trial: the path in the workspace, and where it is copied from.
    Example: `{CLAUDE.md: tiers/t1/CLAUDE.md}`
    """

    args: Annotated[dict[str, Any], Drift.IDENTITY] = msgspec.field(default_factory=dict)
    """What the code of the task reads as `trial.args`, instead of the argument of the task with the same name.
    Example: `{budget: 3}`
    """

    best_of: Annotated[list[Name], Drift.IDENTITY] = msgspec.field(default_factory=list)
    """Values of the same axis. Once all of their trials are finished, the best of them is chosen for this value, which
    takes whatever the chosen one has and does not give itself. The choice is recorded. Default: it depends on none.
    Example: `[T1, T2]`
    """

    scorer: Annotated[Words | None, Drift.IDENTITY] = None
    """The scorer whose scores decide which value of `best_of` is the best. Default: the only scorer of the task.
    Example: `exact`
    """
