"""`holdfast verify RUN --replay TRIAL`: does the solver of a trial still follow its record?"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator

import click

from holdfast.cli.session.replay_process import replay_apart
from holdfast.cli.ui.json_output import print_json
from holdfast.engine.replay.recorded_trial import load_recorded_trial
from holdfast.engine.replay.trial_replay import PATIENCE_SECONDS, TrialReplay
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import find_run
from holdfast.run.trial_reference import TrialReferences
from holdfast.terminal.text import printable, quantity


def replay_command(run: str, reference: str, patience: float | None, *, as_json: bool) -> int:
    """Replays a trial and prints how that went; the exit code."""
    with contextlib.closing(RunReader(find_run(run))) as reader:
        references = TrialReferences(reader.fold, reader.place)
        trial = references.find(reference)
        label, place = references.label(trial), reader.place
        # What the task's code prints is for people.
        with contextlib.redirect_stdout(sys.stderr):
            recorded = load_recorded_trial(reader, trial, label)
            result = replay_apart(recorded, PATIENCE_SECONDS if patience is None else patience)
    if as_json:
        fields = {name: getattr(result, name) for name in result.__struct_fields__}
        print_json({"run": place, "trial": trial.key, "reference": label, "ok": result.ok, **fields})
    else:
        for line in _replay_lines(place, label, result):
            click.echo(printable(line))
    return 0 if result.ok else 1


def _replay_lines(place: str, label: str, result: TrialReplay) -> Iterator[str]:
    yield f"{place}: {label}, attempt {result.attempt}: {'OK' if result.ok else 'DIFFERS'}"
    yield f"  {result.replayed} of {quantity(result.steps, 'recorded step')} replayed; no model was called"
    if result.difference is not None:
        yield f"  {result.difference.text}"
        yield from (f"    {line}" for line in result.difference.diff)
    elif result.verdict == "same":
        yield "  the solver reached the recorded end"
    elif result.ends_at:
        yield f"  the record ends here; the solver asks next for {result.asks_next}"
    else:
        yield "  the solver ended; its end is not recorded yet"
    yield from (f"  note: {note}" for note in result.notes)
    if result.difference is not None:
        yield "  What a solver may do: docs/solvers.md in Holdfast's repository"
