"""How the work is done: limits, retries, patience, display.

The same keys may be written at the top of an eval file, in `runner`, and, where they mean something for one task
alone, in that task or in its own `runner`. Loading brings them all into `runner`; the narrower block wins.
"""

from typing import Annotated, Literal

from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Count, GraceSeconds, Retries, Seconds, SegmentBytes, Words


class StageLimits(Block, frozen=True):
    """How many trials may be in each stage at once."""

    prepare: Annotated[Count | None, Drift.THROUGHPUT] = None
    """How many trials may be in preparation at once, of tasks whose solver has this stage. Default: only the other
    limits.
    Example: `4`
    """

    solve: Annotated[Count | None, Drift.THROUGHPUT] = None
    """How many trials may be waiting for or receiving answers at once. Default: only the other limits.
    Example: `128`
    """

    capture: Annotated[Count | None, Drift.THROUGHPUT] = None
    """How many trials may capture their results at once, of tasks whose solver has this stage. Default: only the other
    limits.
    Example: `4`
    """

    score: Annotated[Count | None, Drift.THROUGHPUT] = None
    """How many trials may be in scoring at once. Default: only the other limits. Example: `32`"""


class RunnerSpec(Block, frozen=True):
    """How the run is executed: limits, retries, display."""

    concurrency_limit: Annotated[Count, Drift.THROUGHPUT] = 256
    """How many trials may run at once. Example: `64`"""

    concurrency_limits: Annotated[StageLimits, Drift.THROUGHPUT] = StageLimits()
    """How many trials may be in one stage at once. Example: `{solve: 128, score: 32}`"""

    max_retries: Annotated[Retries, Drift.RECORDED] = 2
    """How many further attempts a trial gets after an error in the task's own code. Failures of infrastructure (429,
    5xx, timeouts) are not counted here.
    Example: `0`
    """

    fail_fast: Annotated[bool, Drift.THROUGHPUT] = True
    """Whether a task is stopped, before its trials are retried, if the first ten of them and ten others all fail with
    the same error in the task's own code. Trials that are already running by then are paid for, up to
    `concurrency_limit` of them. `--redo 'status=failed'` starts it again.
    Example: `false`
    """

    retry_deadline: Annotated[Seconds, Drift.THROUGHPUT] = 3600.0
    """How many seconds to keep retrying a call that fails because of infrastructure. After that the trial stays
    unfinished, and a resume runs it.
    Example: `30m`
    """

    grace_period: Annotated[GraceSeconds, Drift.THROUGHPUT] = 30.0
    """How many seconds calls in flight get to finish after the first Ctrl-C. Example: `10`"""

    durability: Annotated[Literal["local", "remote"], Drift.RECORDED] = "local"
    """When a trial of a run in an object store counts as finished: once it is on this machine's disk, or once it is in
    the store.
    Example: `remote`
    """

    upload_interval: Annotated[Seconds | None, Drift.THROUGHPUT] = None
    """For a run in an object store: after how many seconds finished records are uploaded. At most that much is lost
    with a machine under `durability: local`. Default: 5; under `durability: local` 60 once a session has run for ten
    minutes, so that a long run has few objects.
    Example: `30`
    """

    lease: Annotated[Seconds, Drift.THROUGHPUT] = 30.0
    """For a run in an object store: how many seconds a session may continue while it cannot renew its lease there.
    Then it pauses until the store answers. Another machine has to wait as long before it takes over the run of a
    machine that was lost.
    Example: `5m`
    """

    show_progress: Annotated[bool, Drift.THROUGHPUT] = True
    """Whether progress is shown. Example: `false`"""

    progress_interval: Annotated[Seconds, Drift.THROUGHPUT] = 1.0
    """Seconds between two updates of the progress on a terminal. Example: `10`"""

    log_interval: Annotated[Seconds, Drift.THROUGHPUT] = 10.0
    """Seconds between two lines of progress where stderr is not a terminal, and in the log file. Example: `60`"""

    progress_file: Annotated[Words | None, Drift.LOCATION] = None
    """A JSON file with the progress, for dashboards; replaced every `progress_interval`. Default: no file.
    Example: `progress.json`
    """

    result_files: Annotated[bool | None, Drift.RECORDED] = None
    """Whether each finished trial also gets a file `artifacts/TRIAL/result.json`, from which `repair` recovers its
    result if the journal is lost. Default: only for tasks whose solver has stages.
    Example: `true`
    """

    segment_bytes: Annotated[SegmentBytes, Drift.RECORDED] = 16 << 20
    """The size at which a file of the journal is sealed and the next one is started. Example: `67108864`"""


class TaskRunner(Block, frozen=True):
    """What one task may set for itself.

    Resolving fills in `max_retries`, `fail_fast` and `retry_deadline` from the run. The limits stay as they are: a
    task's limit is a level of its own, beneath the run's.
    """

    concurrency_limit: Annotated[Count | None, Drift.THROUGHPUT] = None
    """How many trials of this task may run at once. Default: only the limits of the run. Example: `16`"""

    concurrency_limits: Annotated[StageLimits, Drift.THROUGHPUT] = StageLimits()
    """How many trials of this task may be in one stage at once. Example: `{score: 4}`"""

    max_retries: Annotated[Retries | None, Drift.RECORDED] = None
    """How many further attempts a trial of this task gets after an error in the task's own code. Default: that of the
    run.
    Example: `0`
    """

    fail_fast: Annotated[bool | None, Drift.THROUGHPUT] = None
    """Whether this task is stopped if its first trials all fail with the same error. Default: that of the run.
    Example: `false`
    """

    result_files: Annotated[bool | None, Drift.RECORDED] = None
    """Whether each finished trial of this task also gets a result file. Default: that of the run. Example: `true`"""

    retry_deadline: Annotated[Seconds | None, Drift.THROUGHPUT] = None
    """How many seconds to keep retrying a call of this task that fails because of infrastructure. Default: that of
    the run.
    Example: `30m`
    """
