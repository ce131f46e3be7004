"""`holdfast show`: the trials of a run as a table, or one of them in full."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from itertools import chain, islice
from typing import Any

import click

from holdfast.api.run import Run
from holdfast.cli.ui.json_output import print_json_list
from holdfast.cli.ui.output_text import output_columns
from holdfast.cli.ui.standard_streams import say
from holdfast.cli.ui.trials.trial_table import ListedTrial, trial_table
from holdfast.errors import NotARun, UsageError
from holdfast.run.core.display_text import shell_word
from holdfast.run.fold.run_fold import FoldedTrial
from holdfast.run.locate import LATEST, known_runs
from holdfast.run.where.expression import parse_where
from holdfast.run.where.shorthands import FAILED, joined_expression, wrong_expression
from holdfast.terminal.text import printable, quantity

_LIMIT = 50
"""How many trials people are shown. A program gets all of them: it would take a part for the whole."""
_LABEL_CHARACTERS = 60
"""A longer reference is not repeated: the key is easier to type."""


@click.command("show")
@click.argument("run", default=LATEST)
@click.argument("trial", required=False)
@click.option("--wrong", is_flag=True, help="Only valid trials with a score below 1.")
@click.option("--failed", is_flag=True, help="Only failed trials.")
@click.option("--where", metavar="EXPR", help="Only matching trials, as in: status=failed and task=math")
@click.option(
    "--limit", type=click.IntRange(min=1), help=f"Show at most N trials (default: {_LIMIT}, with --json all)."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def command(
    run: str, trial: str | None, *, wrong: bool, failed: bool, where: str | None, limit: int | None, as_json: bool
) -> int:
    """List the trials of RUN, or show TRIAL in full. Without RUN, the newest run.

    TRIAL is a sample's id, with the epoch if there are several (fr#1) and the task if there are several
    (capitals/fr#1). It can also be the key of a trial, or the beginning of a key.
    """
    if trial is not None and (wrong or failed or where is not None):
        raise UsageError("--wrong, --failed and --where select among trials; they cannot be used with one TRIAL.")
    with _open_run(run, trial) as opened:
        if trial is not None:
            _print_trial(opened, trial, as_json=as_json)
        else:
            _TrialList(opened, run, where, wrong=wrong, failed=failed).print(limit, as_json=as_json)
    return 0


def _open_run(run: str, trial: str | None) -> Run:
    try:
        return Run.open(run)
    except NotARun as error:
        is_run = trial is not None or run in {LATEST, ""} or os.path.exists(run)  # noqa: PTH110 - never raises
        if is_run or not known_runs():
            raise
        newest = f"For a trial of the newest run: holdfast show {shlex.join([LATEST, run])}"
        raise NotARun(error.message, hint=f"{error.hint} {newest}".strip()) from None


class _TrialList:
    """The trials that were asked for."""

    def __init__(self, run: Run, name: str, where: str | None, *, wrong: bool, failed: bool) -> None:
        """`name` is what the run was called by whoever asked."""
        self._run, self._name = run, name
        if where is not None:
            # By itself first: an error points at a column of what was typed.
            run.select(where)
        asked = {"--wrong": wrong_expression(run.names)} if wrong else {}
        asked |= {"--failed": FAILED} if failed else {}
        asked |= {repr(where): where} if where is not None else {}
        self._asked, self._where = list(asked), joined_expression(asked.values())
        # An expression may have been mistyped; that nothing is wrong is good to know.
        self._may_match_none = where is None
        self._typed = where

    def print(self, limit: int | None, *, as_json: bool) -> None:
        run, found = self._run, self._run.select(self._where)
        if as_json:
            self._print_json(found, limit)
            return
        shown = list(islice(found, _LIMIT if limit is None else limit))
        total = self._total(len(shown), found)
        if not total and not self._may_match_none:
            raise UsageError(self._no_match())
        listed = [ListedTrial(run.references.label(trial), run.result(trial)) for trial in shown]
        table = trial_table(listed, output_columns(), wrong_first="--wrong" in self._asked) if listed else []
        for line in [*table, *self._footer(listed, total)]:
            click.echo(line)
        _print_notes(run)

    def _print_json(self, found: Iterator[FoldedTrial], limit: int | None) -> None:
        run, first = self._run, next(found, None)
        if first is None and not self._may_match_none:
            raise UsageError(self._no_match())
        found = chain([] if first is None else [first], found)
        shown = 0

        def rows() -> Iterator[dict[str, Any]]:
            nonlocal shown
            for trial in islice(found, limit):
                shown += 1
                yield run.result(trial).as_dict()

        def tail() -> dict[str, Any]:
            return {"matching": self._total(shown, found), "notes": run.notes}

        print_json_list({"run": run.place, "counts": run.counts}, "trials", rows(), tail)

    def _total(self, shown: int, others: Iterator[FoldedTrial]) -> int:
        """How many match. Without an expression nobody has to look at the others to know how many there are."""
        return self._run.on_record if self._where is None else shown + sum(1 for _ in others)

    def _footer(self, listed: list[ListedTrial], total: int) -> Iterator[str]:
        run = self._run
        if total > len(listed):
            yield f"… and {total - len(listed)} more; --limit shows more"
        if listed:
            yield ""
        if self._asked:
            trials = quantity(run.on_record, "trial")
            verb = "matches" if total == 1 else "match"
            yield printable(f"{total} of {trials} on record {verb} {' and '.join(self._asked)}.")
        yield printable(f"{run.place}: {run.counts.finished_text()}, {run.counts.remaining_text()}.")
        if listed:
            label, first = listed[0]
            name = label if len(label) <= _LABEL_CHARACTERS else first.trial
            yield printable(f"Show one in full: holdfast show {shell_word(self._name)} {shlex.quote(name)}")

    def _no_match(self) -> str:
        hidden = self._run.counts.not_started
        has = "has" if hidden == 1 else "have"
        beside = f" {quantity(hidden, 'trial')} not started yet {has} no record." if hidden else ""
        unknown = parse_where(self._typed, self._run.names).unknown_values if self._typed is not None else ()
        none = f"No trial on record in {self._run.place} matches {' and '.join(self._asked)}.{beside}"
        return " ".join([none, *unknown])


def _print_trial(run: Run, reference: str, *, as_json: bool) -> None:
    # A list of trials does not need them.
    from holdfast.cli.ui.trials.transcript import print_json_transcript, print_transcript  # noqa: PLC0415
    from holdfast.cli.ui.trials.trial_summary import summary_lines  # noqa: PLC0415
    from holdfast.models.role import ModelRole  # noqa: PLC0415
    from holdfast.run.core.records import StepRecord  # noqa: PLC0415

    trial = run.references.find(reference)
    result, records = run.result(trial), run.transcript(trial.key)
    if as_json:
        print_json_transcript(trial.key, result.as_dict(), records)
        return
    label, scores = run.references.label(trial), run.scores_of(trial.key)
    is_partial = any(
        isinstance(one, StepRecord) and one.is_unmetered and one.role is ModelRole.UNDER_TEST
        for one in run.transcript(trial.key)
    )
    for line in summary_lines(run, label, result, scores, output_columns(), is_partial=is_partial):
        click.echo(printable(line))
    print_transcript(records)
    _print_notes(run)


def _print_notes(run: Run) -> None:
    """Why inputs and targets are missing, if they are, and what leads on where the plan is."""
    for note in run.notes:
        say(printable(f"note: {note}"))
