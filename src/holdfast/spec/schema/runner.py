"""How the work is carried out: limits, retries, patience, display.

The same keys may stand at the top of an eval file, in `runner`, and, where they mean something for one task
alone, in that task or in its own `runner`. Loading brings them all into `runner`; the narrower block wins.
"""

from typing import Annotated, Literal

from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.field_types import Count, GraceSeconds, Retries, Seconds, SegmentBytes, Words


class StageLimits(Block, frozen=True):
    """How many trials may be in a stage at once; an absent one is bounded by the limits above."""

    solve: Annotated[Count | None, Drift.THROUGHPUT] = None
    score: Annotated[Count | None, Drift.THROUGHPUT] = None


class RunnerSpec(Block, frozen=True):
    """The run's own settings."""

    concurrency_limit: Annotated[Count, Drift.THROUGHPUT] = 256
    concurrency_limits: Annotated[StageLimits, Drift.THROUGHPUT] = StageLimits()
    max_retries: Annotated[Retries, Drift.RECORDED] = 2
    """Further attempts after a task error; failures of infrastructure are not counted here."""

    retry_deadline: Annotated[Seconds, Drift.RECORDED] = 3600.0
    """Seconds for which a failing infrastructure is tried again before the trial is left unfinished."""

    grace_period: Annotated[GraceSeconds, Drift.THROUGHPUT] = 30.0
    """Seconds that calls in flight are given to finish after the first interrupt."""

    durability: Annotated[Literal["local", "remote"], Drift.RECORDED] = "local"
    """When a trial of a run in an object store counts: once it is on this machine's disk, or once it is in the store.
    """

    upload_interval: Annotated[Seconds, Drift.THROUGHPUT] = 5.0
    """Seconds after which what was written is sealed and uploaded, where the run is in an object store."""

    show_progress: Annotated[bool, Drift.THROUGHPUT] = True
    progress_interval: Annotated[Seconds, Drift.THROUGHPUT] = 1.0
    log_interval: Annotated[Seconds, Drift.THROUGHPUT] = 10.0
    """Seconds between two lines of progress where stderr is not a terminal, and in the log file. Example: `60`"""

    progress_file: Annotated[Words | None, Drift.LOCATION] = None
    """A JSON file with the progress, for dashboards; replaced every `progress_interval`. Default: no file.
    Example: `progress.json`
    """

    segment_bytes: Annotated[SegmentBytes, Drift.RECORDED] = 16 << 20
    """The size at which a file of the journal is sealed and the next one is started. Example: `67108864`"""


class TaskRunner(Block, frozen=True):
    """What one task may set for itself; resolving fills in `max_retries` and `retry_deadline` from the run.

    The limits stay as they are: a task's limit is a level of its own, beneath the run's.
    """

    concurrency_limit: Annotated[Count | None, Drift.THROUGHPUT] = None
    concurrency_limits: Annotated[StageLimits, Drift.THROUGHPUT] = StageLimits()
    max_retries: Annotated[Retries | None, Drift.RECORDED] = None
    retry_deadline: Annotated[Seconds | None, Drift.RECORDED] = None
