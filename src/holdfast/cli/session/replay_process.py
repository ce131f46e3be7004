"""A replay in a process of its own: a solver may block its thread, or end the process, and still gets a verdict.

The child says that it is alive as long as its event loop runs, and then how the replay went.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import sys
from typing import NoReturn

import msgspec

from holdfast.engine.replay.recorded_trial import RecordedTrial
from holdfast.engine.replay.trial_replay import ReplayDifference, TrialReplay, replay_trial

_ALIVE = b"."
_MARGIN_SECONDS = 5.0
"""How much longer than its own patience the child may be silent: it needs a moment to start and to end."""
_PART_BYTES = 1 << 16


def replay_apart(recorded: RecordedTrial, patience: float) -> TrialReplay:
    """How the replay of a trial went; the solver is ended if its thread does not come back."""
    sys.stdout.flush()
    sys.stderr.flush()
    ours, theirs = os.pipe()
    child = os.fork()
    if child == 0:
        _replay(recorded, patience, theirs)
    with contextlib.suppress(OSError):  # whichever of the two comes first
        os.setpgid(child, child)
    os.close(theirs)
    try:
        said, is_silent = _listen(ours, patience + _MARGIN_SECONDS)
    finally:
        os.close(ours)
        # With whatever the solver has started; of a child that has ended, its exit code is what it left.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
    if found := said.lstrip(_ALIVE):
        return msgspec.json.decode(found, type=TrialReplay)
    return _without_verdict(recorded, _silence_text(patience) if is_silent else _exit_text(status))


def _replay(recorded: RecordedTrial, patience: float, pipe: int) -> NoReturn:
    """What the child does; whatever happens, it ends here."""
    try:
        os.setpgid(0, 0)
        result = replay_trial(recorded, patience, lambda: os.write(pipe, _ALIVE))
        data = msgspec.json.encode(result)
        while data:
            data = data[os.write(pipe, data) :]
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(0)


def _listen(pipe: int, seconds: float) -> tuple[bytes, bool]:
    """All that the child says, and whether it fell silent."""
    said = b""
    while select.select([pipe], [], [], seconds)[0]:
        part = os.read(pipe, _PART_BYTES)
        if not part:
            return said, False
        said = (said + part).lstrip(_ALIVE)
    return said, True


def _silence_text(patience: float) -> str:
    return f"The solver blocked its thread for more than {patience:g} seconds, and was ended."


def _exit_text(status: int) -> str:
    code = os.waitstatus_to_exitcode(status)
    how = f"by the signal {-code}" if code < 0 else f"with exit code {code}"
    return f"The solver ended the process itself, {how}."


def _without_verdict(recorded: RecordedTrial, text: str) -> TrialReplay:
    state = recorded.state
    return TrialReplay(state.attempt, "differs", len(state.steps), 0, ReplayDifference("waiting", text))
