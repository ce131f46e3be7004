"""An agent: a command that works on a task in a workspace."""

from typing import Annotated, ClassVar, Literal

import msgspec

from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Bytes, Count, ExitCode, GraceSeconds, LargeCount, Words

OUTPUT_BYTES = 10 << 20
MOST_PROCESSES = 1024


class AgentLimits(Block, frozen=True):
    """What the processes of one agent may use. An agent that reaches one is ended, and the attempt fails."""

    memory: Annotated[Bytes | None, Drift.IDENTITY] = None
    """Bytes of memory of all its processes together. Default: no limit. Example: `4294967296`"""

    processes: Annotated[Count, Drift.IDENTITY] = MOST_PROCESSES
    """How many processes it may have at once. Example: `256`"""

    cpu: Annotated[LargeCount | None, Drift.IDENTITY] = None
    """Seconds of processor time of each process. Default: no limit. Example: `3600`"""

    file_size: Annotated[Bytes | None, Drift.IDENTITY] = None
    """Bytes of each file that it writes. Default: no limit. Example: `1073741824`"""

    output: Annotated[Bytes, Drift.RECORDED] = OUTPUT_BYTES
    """Bytes of its standard output, its standard error and its patch that are kept: the beginning and the end.
    Example: `1048576`
    """


class AgentSpec(Block, frozen=True):
    """A command that works on the task, in a workspace of its own, without any other program's help."""

    may_be_empty: ClassVar[bool] = False

    command: Annotated[list[Words] | Words, Drift.IDENTITY]
    """The command: a list of arguments, or a text for the shell. `{prompt}`, `{prompt_file}`, `{workspace}`, `{model}`
    and `{output}` (a file for its final message) are filled in.
    Example: `[claude, -p, '{prompt}', --model, '{model}', --output-format, json]`
    """

    resume_command: Annotated[list[Words] | Words | None, Drift.IDENTITY] = None
    """The command that continues a session of the agent, after a rate limit or a kill, while its workspace is as the
    agent left it; `{session}` is the id that its output has named. Default: the agent starts again.
    Example: `[claude, -p, Continue., --resume, '{session}', --output-format, json]`
    """

    output: Annotated[Literal["text", "json", "stream-json"], Drift.IDENTITY] = "text"
    """What it prints: plain text, one JSON object, or JSON lines; with JSON, its tokens, its session and its errors are
    known.
    Example: `json`
    """

    answer: Annotated[Literal["message", "diff", "both"], Drift.IDENTITY] = "message"
    """The text that is scored: its final message, the patch of its changes, or one after the other. Example: `diff`"""

    exit_codes: Annotated[list[ExitCode], Drift.IDENTITY] = msgspec.field(default_factory=lambda: [0])
    """The exit codes of an agent that has done its work. With any other, the attempt fails. Example: `[0, 2]`"""

    env: Annotated[list[Words], Drift.LOCATION] = msgspec.field(default_factory=list)
    """The names of the environment variables that the agent gets, beside PATH and a HOME and a TMPDIR of its own. The
    values of keys among them are replaced in everything that is recorded.
    Example: `[ANTHROPIC_API_KEY]`
    """

    wrap: Annotated[list[Words], Drift.IDENTITY] = msgspec.field(default_factory=list)
    """What is put before the command, such as the run command of a container engine; placeholders are filled in.
    Example: `[docker, run, --rm, -v, '{workspace}:{workspace}', -w, '{workspace}', image]`
    """

    sandbox: Annotated[Literal["none", "bubblewrap", "sandlock"], Drift.IDENTITY] = "none"
    """What keeps the agent from writing outside of its workspace. If it is not installed, nothing is started.
    Example: `bubblewrap`
    """

    network: Annotated[bool, Drift.IDENTITY] = True
    """Whether the agent may use the network; only a sandbox can forbid it. Example: `false`"""

    limits: Annotated[AgentLimits, Drift.IDENTITY] = AgentLimits()
    """What its processes may use. Example: `{memory: 4294967296, processes: 256}`"""

    tries: Annotated[Count, Drift.THROUGHPUT] = 3
    """How often it is started, in one session, for a trial in which it ends by a signal or without having done
    anything. After that the trial stays unfinished.
    Example: `5`
    """

    grace: Annotated[GraceSeconds, Drift.THROUGHPUT] = 5.0
    """Seconds that it gets to end by itself when it has to end. Example: `10`"""
