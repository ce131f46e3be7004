"""Every error a caller can meet, by who must act.

HoldfastError                the base of all; carries a hint (the way out) and an exit code
├── UsageError               2   the command or the call is wrong; nothing was written
│   └── ConfigurationError   2   an eval file, a dataset or a task is wrong
│       └── NotARun          2   the path holds no run, or nothing was recorded in it
├── ResumeAborted            3   the run cannot be resumed as asked (also a RuntimeError)
│   ├── NewerFormat          3   written by a newer version
│   └── OlderFormat          3   written by an older version: it can be read and forked
├── RunHeld                  4   another session is executing the run
├── StorageFailure           5   the disk or the store failed; acknowledged records are intact
│   ├── RunGone              5   the run was moved, deleted or replaced while it was in use
│   └── SegmentConflict      5   the store holds other bytes under the name of a segment
├── RunDamaged               1   bytes of the run are lost; named one by one
├── ReplyWithoutText         1   a solver wants the text of a reply that has none
│   ├── ToolCallReply        1   the reply calls tools instead
│   └── UndecodableReply     1   the reply has bytes that are not text
├── StepError                1   a step raised what cannot be raised again as itself
└── StepInterrupted          1   a step that may not run twice was killed half-way
"""

from __future__ import annotations

PAUSED_EXIT_CODE = 75
"""A session did what it was to do, and trials are left for a later one."""


class HoldfastError(Exception):
    """Something went wrong that a person can act on."""

    exit_code = 2
    kind = "error"

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message} {self.hint}".strip()


class UsageError(HoldfastError):
    """The command or the call is wrong; nothing was written."""

    kind = "usage"


class ConfigurationError(UsageError):
    """An eval file, a dataset or a task is wrong."""

    kind = "configuration"


class NotARun(ConfigurationError):  # noqa: N818 - reads as a sentence where it is raised
    """The path holds no run, or a run in which nothing was recorded."""

    kind = "not_a_run"


class ResumeAborted(HoldfastError, RuntimeError):  # noqa: N818 - the name is a contract
    """The run cannot be resumed as asked; nothing on disk was changed."""

    exit_code = 3
    kind = "resume_aborted"


class NewerFormat(ResumeAborted):
    """The run was written by a newer version."""

    kind = "newer_format"


class OlderFormat(ResumeAborted):
    """The run was written in an older format: this version reads it, and does not add trials to it."""

    kind = "older_format"


class RunHeld(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """Another session is executing the run."""

    exit_code = 4
    kind = "held"


class StorageFailure(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """The disk or the store failed; what was acknowledged is intact."""

    exit_code = 5
    kind = "storage"


class RunGone(StorageFailure):
    """The run was moved, deleted or replaced while a session was using it; nothing is known of what is gone."""

    kind = "gone"

    def __init__(self, message: str, *, hint: str = "", moved_to: str = "") -> None:
        super().__init__(message, hint=hint)
        self.moved_to = moved_to
        """Where the run is now; empty where that is not known."""


class SegmentConflict(StorageFailure):
    """The store holds other bytes under the name of a segment; a person has to say which are right."""

    kind = "conflict"


class RunDamaged(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """Bytes of the run are lost; each loss is named."""

    exit_code = 1
    kind = "damaged"


class ReplyWithoutText(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """A reply holds no text, but something else; another attempt would meet the same."""

    exit_code = 1
    kind = "no_text"


class ToolCallReply(ReplyWithoutText):
    """A reply calls tools and holds no text."""

    kind = "tool_call"


class UndecodableReply(ReplyWithoutText):
    """The bytes of a reply are not valid UTF-8, so its text is unknown."""

    kind = "undecodable"


class StepError(HoldfastError):
    """A step raised an exception that cannot be made again from its record; it is raised instead, live and replayed."""

    exit_code = 1
    kind = "step"

    def __init__(self, step: str, error_type: str, error_message: str, *, hint: str = "") -> None:
        super().__init__(f"The step {step!r} raised {error_type}: {error_message}".rstrip(": "), hint=hint)
        self.step, self.error_type, self.error_message = step, error_type, error_message


class StepInterrupted(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """A step with on_interrupted="fail" was started and has no recorded outcome: it is not run again."""

    exit_code = 1
    kind = "step_interrupted"

    def __init__(self, step: str) -> None:
        super().__init__(
            f'The step {step!r} was interrupted half-way; with on_interrupted="fail" it is not run again.',
            hint="Check what it has done, then run the trial again: holdfast resume RUN --redo 'status=failed'",
        )
        self.step = step
