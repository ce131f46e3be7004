"""A stream whose reader has gone: it costs the text that was to be printed, nothing else."""

from __future__ import annotations

import contextlib
import os
from typing import TextIO


def mute_if_broken(stream: TextIO) -> None:
    """Discards what a stream still holds if it cannot be written any more, so that it is not tried again at exit."""
    try:
        stream.flush()
    except OSError:
        with contextlib.suppress(OSError):
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
