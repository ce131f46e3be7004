"""The workspace of a task: the directory in which an agent works, and what is done with it."""

from typing import Annotated, Literal

import msgspec

from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Words


class WorkspaceSpec(Block, frozen=True):
    """The directory in which an agent works: each trial gets a copy of its own."""

    path: Annotated[Words | None, Drift.LOCATION] = None
    """A directory that is copied, without a `.git` in it. Its content counts, not its place. Default: an empty
    directory.
    Example: `templates/shop`
    """

    repo: Annotated[Words | None, Drift.LOCATION] = None
    """A git repository instead: a directory, or a URL. It is copied into the run once and is never changed.
    Example: `../shop`
    """

    commit: Annotated[Words | None, Drift.IDENTITY] = None
    """The commit of the repository that is checked out. A name such as `main` is looked up when the run starts.
    Default: `HEAD`.
    Example: `4b825dc`
    """

    files: Annotated[dict[str, str], Drift.LOCATION] = msgspec.field(default_factory=dict)
    """Files or directories that are laid over the template: their place in the workspace, and where they come from.
    Their content counts.
    Example: `{TASK.md: notes/task.md}`
    """

    setup: Annotated[Words | None, Drift.IDENTITY] = None
    """A shell command that completes the workspace before the agent starts. What it makes is not part of the agent's
    changes. If it fails, the attempt fails, and nothing of the workspace is left.
    Example: `make deps`
    """

    checks: Annotated[list[Words], Drift.IDENTITY] = msgspec.field(default_factory=list)
    """Shell commands that are run in the workspace after the agent. Their exit codes and outputs are recorded; the
    scorer `checks` scores them.
    Example: `[make test]`
    """

    keep: Annotated[Literal["never", "failed", "always"], Drift.THROUGHPUT] = "failed"
    """Which workspaces are kept after their trial: those of failed trials, all, or none. That of an unfinished trial is
    always kept.
    Example: `always`
    """
