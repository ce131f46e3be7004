"""`holdfast repair`: rebuild derived files, and what the journal lost from per-trial result files.

A checkpoint of ProjectScylla is mended in the same way, from the results beside it.
"""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.ui.json_output import print_json
from holdfast.engine.opening.repair_planner import RepairPlanner
from holdfast.interop.scylla.checkpoint import CheckpointRepair, checkpoint_in, repair_checkpoint
from holdfast.interop.scylla.result_tree import unread_text
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import Layout
from holdfast.run.locate import find_run
from holdfast.run.repair.repair import RepairReport, repair_run
from holdfast.run.repair.result_file_comparison import TrialGroup
from holdfast.storage.store_url import is_url
from holdfast.terminal.text import printable

_SHOWN_LINES = 20


@click.command("repair")
@click.argument("run", metavar="RUN|CHECKPOINT")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, as_json: bool) -> int:
    """Rebuild config.yaml and the index of RUN if they are damaged, and recover results of lost trials from artifacts.

    Replaced files are copied to backup-<n>. Exits with 1 if a result file is damaged or contradicts the journal, or
    something is still missing.

    Of a checkpoint.json of ProjectScylla, rebuild completed_runs from the run_result.json files beside it. The file as
    it was is copied to checkpoint.json.backup-<n> first.
    """
    if run.strip() and (checkpoint := checkpoint_in(Path(run))) is not None:
        return _repair_checkpoint(checkpoint, as_json=as_json)
    repair = _repair(run)
    if as_json:
        print_json(repair)
    else:
        click.echo(printable("\n".join(_repair_lines(repair))))
    return 0 if repair.ok else 1


def _repair(run: str) -> RepairReport:
    url = run if is_url(run) else Layout(find_run(run)).read_url()
    if not url:
        return repair_run(find_run(run), RepairPlanner())
    from holdfast.run.repair.repair_store import repair_stored_run  # noqa: PLC0415 - for runs in a store only

    return repair_stored_run(url, RepairPlanner())


def _repair_checkpoint(path: Path, *, as_json: bool) -> int:
    repair = repair_checkpoint(path)
    if as_json:
        print_json(repair)
    else:
        click.echo(printable("\n".join(_checkpoint_lines(repair))))
    return 0 if repair.ok else 1


def _checkpoint_lines(repair: CheckpointRepair) -> list[str]:
    lines = [f"{repair.checkpoint}: {'repaired' if repair.changed else 'nothing to repair'}"]
    if repair.backup:
        lines.append(f"  The file as it was is in {repair.backup}.")
    lines.append(f"  {_counted_text(repair)}")
    lines.append(f"  Completed runs: {repair.before} before, {repair.after} after, {repair.difference} more.")
    lines += [
        f"    {count.tier}: {count.files} files, {count.before} before, {count.after} after, {count.difference} more"
        for count in repair.tiers
    ]
    lines += _first_lines([f"not counted: {fault.where}: {fault.reason}" for fault in repair.faults])
    lines += _first_lines([f"corrected: {text}" for text in repair.corrected])
    lines += _first_lines([f"kept, without a result that counts: {text}" for text in repair.kept])
    lines += _first_lines([f"not an entry, and in the backup only: {text}" for text in repair.discarded])
    return [*lines, *(f"  note: {note}" for note in repair.notes)]


def _counted_text(repair: CheckpointRepair) -> str:
    text = f"{repair.counted} of {repair.files} result files are intact and have a verdict"
    if not repair.unread_directories:
        return f"{text}."
    return f"{unread_text(repair.unread_directories)}; of the rest, {text}."


def _repair_lines(repair: RepairReport) -> list[str]:
    lines = [f"{repair.run}: {_outcome_text(repair)}"]
    lines += [f"  {change}" for change in repair.changes]
    lines += _first_lines([f"cannot be repaired: {text}" for text in repair.unrepaired])
    if repair.unrepaired:
        lines.append(f"  Lost trials remain. Run them again with: holdfast resume {shell_word(repair.run)}")
    if repair.backup:
        lines.append(f"  Replaced files are in {repair.backup}.")
    lines.append(f"  {repair.sound} of {repair.files} result files are intact.")
    lines.append(f"  Finished trials: {repair.before} before, {repair.after} after, {repair.difference} more.")
    lines += [f"    {_group_text(group)}" for group in _informative_groups(repair.groups)]
    lines += _first_lines([f"not counted: {fault.where}: {fault.reason}" for fault in repair.faults])
    lines += _first_lines([f"conflict: {item.where}: {item.detail}; the journal wins" for item in repair.conflicts])
    lines += [f"  missing: {text}" for text in repair.missing]
    lines += [f"  note: {note}" for note in repair.notes]
    if repair.changes and repair.ok:
        lines.append(f"  Check it with: holdfast verify {shell_word(repair.run)}")
    return lines


def _outcome_text(repair: RepairReport) -> str:
    if repair.changes:
        return "repaired in part" if repair.unrepaired or repair.missing else "repaired"
    return "not repaired" if repair.unrepaired or repair.missing else "nothing to repair"


def _informative_groups(groups: list[TrialGroup]) -> list[TrialGroup]:
    """The groups that add to the totals: those of a kind with several values; all, if no kind has several."""
    several = {group.by for group in groups if sum(other.by == group.by for other in groups) > 1}
    return [group for group in groups if group.by in several or not several]


def _group_text(group: TrialGroup) -> str:
    name = f"{group.by.removeprefix('axis ')} {group.value or '-'}"
    return f"{name}: {group.files} files, {group.before} before, {group.after} after, {group.difference} more"


def _first_lines(texts: list[str]) -> list[str]:
    more = [f"  … and {len(texts) - _SHOWN_LINES} more; --json lists them all"] if len(texts) > _SHOWN_LINES else []
    return [f"  {text}" for text in texts[:_SHOWN_LINES]] + more
