"""`holdfast repair`: rebuild what lies outside the journal, and what the journal lost from per-trial result files."""

from __future__ import annotations

import shlex

import click

from holdfast.cli.main import print_json
from holdfast.cli.ui.printable import printable
from holdfast.engine.opening.rebuilt_session import EvalPlanner
from holdfast.run.locate import find_local_run
from holdfast.run.repair.repair import RepairReport, repair_run
from holdfast.run.repair.result_comparison import TrialGroup

_SHOWN = 20


@click.command("repair")
@click.argument("run")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(run: str, *, as_json: bool) -> int:
    """Write config.yaml and the index of RUN again where they are damaged, and record what result files tell of trials
    that the journal has lost. What is replaced is kept in backup-<n>. Exits 1 if something needs a look.
    """
    told = repair_run(find_local_run(run, "repaired"), EvalPlanner())
    if as_json:
        print_json(told)
    else:
        click.echo(printable("\n".join(_lines(told))))
    return 0 if told.ok else 1


def _lines(told: RepairReport) -> list[str]:
    lines = [f"{told.run}: {'repaired' if told.changes else 'nothing to repair'}"]
    lines += [f"  {change}" for change in told.changes]
    if told.backup:
        lines.append(f"  What was replaced is in {told.backup}.")
    lines.append(f"  {told.sound} of {told.files} result files are sound.")
    lines.append(f"  Finished trials: {told.before} before, {told.after} after, {told.difference} more.")
    lines += [f"    {_group_text(group)}" for group in _telling(told.groups)]
    lines += _some([f"not counted: {fault.where}: {fault.reason}" for fault in told.faults])
    lines += _some([f"conflict: {item.where}: {item.detail}; the journal stands" for item in told.conflicts])
    lines += [f"  missing: {text}" for text in told.missing]
    lines += [f"  note: {note}" for note in told.notes]
    if told.changes and told.ok:
        lines.append(f"  Check it with: holdfast verify {shlex.quote(told.run)}")
    return lines


def _telling(groups: list[TrialGroup]) -> list[TrialGroup]:
    """The groups that tell more than the totals: those that have others beside them; of a single one of each, all."""
    several = {group.by for group in groups if sum(other.by == group.by for other in groups) > 1}
    return [group for group in groups if group.by in several or not several]


def _group_text(group: TrialGroup) -> str:
    name = f"{group.by.removeprefix('axis ')} {group.value or '-'}"
    return f"{name}: {group.files} files, {group.before} before, {group.after} after, {group.difference} more"


def _some(texts: list[str]) -> list[str]:
    more = [f"  … and {len(texts) - _SHOWN} more; --json lists them all"] if len(texts) > _SHOWN else []
    return [f"  {text}" for text in texts[:_SHOWN]] + more
