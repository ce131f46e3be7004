"""Ending the process for certain: an interrupt does not wait for threads and commands that a task left behind."""

from __future__ import annotations

import os
import sys
import threading

from holdfast.api.execute import end_child_processes
from holdfast.engine.interrupt import STUCK_SECONDS, Interrupt
from holdfast.tasks.source.unpacked_copies import remove_directories
from holdfast.terminal.broken_stream import mute_if_broken


def exit_soon(code: int) -> None:
    """Lets the process end by itself, and ends it with `code` if it has not after a few seconds."""
    Interrupt.ignore()
    end_child_processes()
    watch = threading.Timer(STUCK_SECONDS, exit_now, [code])
    watch.daemon = True
    watch.start()


def exit_now(code: int) -> None:
    """Ends the process without waiting for anything; what was acknowledged is durable."""
    end_child_processes()
    mute_if_broken(sys.stdout)
    mute_if_broken(sys.stderr)
    remove_directories()
    os._exit(code)
