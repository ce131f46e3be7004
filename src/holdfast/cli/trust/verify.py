"""`holdfast verify`: check that every record exists and is what was written."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click
import msgspec

from holdfast.cli.ui.json_output import print_json
from holdfast.errors import HoldfastError, ResumeAborted, UsageError
from holdfast.journal.damage import Damage, DamageKind
from holdfast.run.core.config_file import check_config, is_as_written
from holdfast.run.core.display_text import shell_word
from holdfast.run.fold.acknowledged_frames import damaged_segment
from holdfast.run.fold.reader import RunReader
from holdfast.run.locate import LATEST, find_run
from holdfast.run.verify.cross_check_records import RecordCrossCheck
from holdfast.run.verify.verify import HEADER_DIFFERS, Verification, verify_run
from holdfast.storage.store_url import is_url
from holdfast.terminal.text import quantity

_NAMED = 3


@click.command("verify")
@click.argument("run", default=LATEST)
@click.option("--deep", is_flag=True, help="Also cross-check records, trial by trial.")
@click.option("--replay", "trial", metavar="TRIAL", help="Run the solver of TRIAL against its record instead.")
@click.option(
    "--timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="SECONDS",
    help="With --replay: how long the solver may ask for nothing (default: 60).",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, deep: bool, trial: str | None, timeout: float | None, as_json: bool) -> int:
    """Check every frame, digest and count of RUN. Without RUN, the newest run.

    With --replay, check whether the solver of a trial still asks for what is recorded. Its code is executed; no model
    is called, no step is run, and nothing is written.

    Exits with 1 if anything is lost or differs.
    """
    if trial is not None and deep:
        raise UsageError("--replay checks one trial, --deep the whole run: use one of them.")
    if trial is None and timeout is not None:
        raise UsageError("--timeout is for --replay TRIAL.")
    if trial is not None:
        # Solvers and everything that runs them are needed here only.
        from holdfast.cli.session.replay import replay_command  # noqa: PLC0415

        return replay_command(run, trial, timeout, as_json=as_json)
    checked = _find_checked(run)
    reader = RunReader(checked.root)
    try:
        result = _verify_deep(reader) if deep else verify_run(reader)
        result = _with_notes(result, checked, _config_notes(reader))
    finally:
        reader.close()
    if as_json:
        print_json(result)
    else:
        _print_verification(result)
    return 0 if result.ok else 1


class _CheckedPlace(NamedTuple):
    """The directory to check: of a run in a store, the store's own bytes; and what is known of them already."""

    root: Path
    warnings: Sequence[str] = ()
    """Of the download."""
    notes: Sequence[str] = ()
    intact_here: Sequence[str] = ()
    """Segments that are damaged in the store and intact on this machine."""


def _with_notes(result: Verification, checked: _CheckedPlace, config: list[str]) -> Verification:
    """The result with what is known beside it; each damage is reported once, where it is listed."""
    damage, rest = list(result.damage), []
    for warning in checked.warnings:
        concerned = [place for place, item in enumerate(damage) if warning.startswith(f"{item.where} ")]
        if not concerned:
            rest.append(warning)
        # Several findings may share a place: only the one that the warning explains gets more words.
        for place in [place for place in concerned if damage[place].kind is DamageKind.MISSING][:1]:
            damage[place] = _explained(damage[place], warning)
    # A file that nobody can read has no header either.
    own = [note for note in result.notes if not (config and note.startswith(HEADER_DIFFERS))]
    way_on = _way_on(result, checked.intact_here)
    return msgspec.structs.replace(result, damage=damage, notes=[*own, *rest, *checked.notes, *config, *way_on])


def _explained(item: Damage, warning: str) -> Damage:
    """A missing file with what the download says of its object."""
    why = warning.removeprefix(item.where).strip(" .")
    return msgspec.structs.replace(item, detail=f"{item.detail}; the object in the store {why}")


def _find_checked(run: str) -> _CheckedPlace:
    if not is_url(run):
        return _CheckedPlace(find_run(run))
    from holdfast.run.remote.merged_view import open_store_view  # noqa: PLC0415 - for runs in a store only

    view = open_store_view(run)
    notes = []
    if view.only_here:
        files = quantity(len(view.only_here), "file")
        named = _named_files(view.only_here)
        notes.append(
            f"{files} on this machine only, not in the store: {named}. `holdfast resume` uploads what is missing."
        )
    if view.intact_here:
        named = _named_files(view.intact_here)
        notes.append(
            f"This machine has an intact copy of {named}; `holdfast repair {shell_word(run)}` writes it to the store."
        )
    return _CheckedPlace(view.root, view.warnings, notes, view.intact_here)


def _named_files(keys: list[str]) -> str:
    more = f" and {len(keys) - _NAMED} more" if len(keys) > _NAMED else ""
    return f"{', '.join(keys[:_NAMED])}{more}"


def _way_on(result: Verification, intact_here: Sequence[str]) -> list[str]:
    """What makes a loss a note, where nothing remains to do because of it; what is intact here is no loss."""
    losses = [damage for damage in result.damage if damage.is_loss and damage.where not in intact_here]
    # Only what a segment has lost can be noted; counts and files that differ cannot.
    if not losses or not all(map(damaged_segment, losses)) or not result.counts.is_complete:
        return []
    return [
        f"Nothing remains because of the damage; `holdfast repair {shell_word(result.run)}` notes it in the journal."
    ]


def _config_notes(reader: RunReader) -> list[str]:
    """Why a resume would refuse config.yaml: the file is derived, so nothing is lost by it."""
    layout, sessions = reader.layout, reader.sessions
    if not sessions or not layout.config.exists() or is_as_written(layout.config, sessions):
        return []
    # Needed only where somebody has edited the file.
    from holdfast.engine.opening.resume_plan import edited_places, same_values  # noqa: PLC0415

    try:
        before = reader.sessions_before()
        check_config(layout.config, sessions, same_values, edited_places, before, reader.config_name)
    except ResumeAborted as error:
        why = error.message.removeprefix("Resume aborted: ")
        return [f"A resume would be refused: {why} `holdfast repair {shell_word(reader.place)}` rewrites the file."]
    return []


def _verify_deep(reader: RunReader) -> Verification:
    # Tasks and datasets are needed here only.
    from holdfast.engine.opening.planned_grid import PlannedGrid, grid_of_run  # noqa: PLC0415

    grid: PlannedGrid | None = None
    note = "No session record is left, so the planned grid is not known."
    if reader.sessions:
        try:
            grid = grid_of_run(reader)
        except HoldfastError as error:
            note = f"The planned grid could not be computed, so trials were not compared with it: {error}"
    deep = RecordCrossCheck(reader, grid)
    try:
        result = verify_run(reader, deep)
    finally:
        deep.close()
    return result if grid is not None else msgspec.structs.replace(result, notes=[*result.notes, note])


def _print_verification(result: Verification) -> None:
    click.echo(f"{result.run}: {'OK' if result.ok else 'DAMAGED'}")
    counts = {"segment": result.segments, "frame": result.frames, "record": result.records, "session": result.sessions}
    click.echo(f"  {_counts_text(counts)}")
    click.echo(f"  {result.counts.finished_text()}, {result.counts.remaining_text()}")
    if result.transcripts_lost:
        click.echo(f"  transcript lost: {quantity(result.transcripts_lost, 'trial')}; their scores are kept")
    click.echo(f"  {_counts_text({'blob': result.blobs, 'input': result.inputs, 'artifact': result.artifacts})}")
    if result.grid or result.results:
        click.echo(f"  {result.grid} trials in the planned grid, {result.results} result files")
    if result.torn_bytes:
        click.echo(f"  {result.torn_bytes} bytes of an incomplete final write after a crash; no data lost")
    for note in result.notes:
        click.echo(f"  note: {note}")
    for damage in result.damage:
        if damage.is_loss:
            click.echo(f"  {damage}")
            for consequence in damage.consequences:
                click.echo(f"    therefore: {consequence}")


def _counts_text(counts: dict[str, int]) -> str:
    return ", ".join(quantity(count, thing) for thing, count in counts.items())
