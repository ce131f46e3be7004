"""The frame of the display: it fits every terminal, whatever the names are, and leaves out what matters least."""

from __future__ import annotations

import asyncio
import io
import re
from types import SimpleNamespace

import pytest
from rich.cells import cell_len

from holdfast.api.progress.display import ProgressDisplay
from holdfast.api.progress.frame import MOST_ROWS, ProgressFrame, choose_groups
from holdfast.api.progress.text import count_text, progress_text
from holdfast.engine.group_progress import EarlierWork, GroupProgress
from holdfast.engine.progress import Progress, SessionLabel
from holdfast.engine.scheduling.admission import DRAIN
from holdfast.engine.scheduling.call_tally import GroupTally
from holdfast.models.message import Usage
from holdfast.run.core.prices import Prices
from holdfast.run.core.records import Status, TrialRecord
from holdfast.run.fold.states import StateCounts

HOSTILE = "\x1b[2J\x1b]0;owned\x07ev\x00il\u202e\nsecond line"
WIDE = "日本語の長い名前のタスク"


class Stopped:
    """A clock that stands still, ten seconds after the beginning."""

    def __init__(self):
        self.now = 0.0

    def monotonic(self):
        return self.now


def made_progress(names, scores=("exact",), done=3, planned=10):
    """The progress of a session in which each group has some finished trials."""
    clock, groups = Stopped(), {}
    for task, model in names:
        tally = GroupTally()
        group = groups[task, model] = GroupProgress(task, model, planned, EarlierWork(), tally, 0.0)
        for number in range(done):
            values = {name: float(number % 2) for name in scores}
            end = {"trial": str(number), "attempt": 1, "status": Status.VALID, "task": task, "model": model}
            group.count_end(TrialRecord(**end, scores=values))
            tally.add(model, Usage(1000, 500))
    clock.now = 10.0
    label = SessionLabel("0123456789abcdef", "name", "/somewhere/runs/r", 2)
    prices = Prices({"models": {model: {"price": {"input": 1.0, "output": 2.0}} for _, model in names}})
    counts = StateCounts(planned=planned * len(groups))
    return Progress(clock, counts.planned, counts, groups=groups, label=label, prices=prices)


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self):
        return True


def frame(progress, columns, rows=24):
    return ProgressFrame(progress, Terminal()).lines(columns, rows)


def plain(lines):
    return [re.sub(r"\x1b\[[0-9;]*m", "", line.text) for line in lines]


@pytest.mark.parametrize("columns", [1, 2, 10, 20, 33, 40, 60, 80, 81, 120, 200, 400])
@pytest.mark.parametrize("scores", [(), ("exact",), tuple(f"scorer-{number}" for number in range(9))])
def test_no_line_is_as_wide_as_the_terminal(columns, scores):
    """A line that wraps could not be replaced; the width that is given for a line is what it takes."""
    names = [("capitals", "m"), (WIDE, "gpt-large-preview"), (HOSTILE, "x" * 300), ("", "m")]
    lines = frame(made_progress(names, scores), columns)
    for line, text in zip(lines, plain(lines), strict=True):
        assert cell_len(text) == line.width < max(columns, 2), (columns, text)
        assert text.isprintable() or not text


@pytest.mark.parametrize("rows", [1, 2, 5, 8, 24, 60])
def test_the_frame_is_lower_than_the_terminal(rows):
    """Fifty tasks take ten rows at the most."""
    lines = frame(made_progress([(f"t{number}", "m") for number in range(50)]), 80, rows)
    assert 1 <= len(lines) <= max(rows - 1, 1)
    assert len([text for text in plain(lines) if re.match(r"t\d+ ", text)]) <= MOST_ROWS


def test_what_matters_least_goes_first():
    """Wide: everything; narrow: the name and how many are done."""
    progress = made_progress([("capitals", "small"), ("capitals", "large")], ("exact", "includes"))
    titles = {width: plain(frame(progress, width))[1].split() for width in (200, 80, 40, 22)}
    all_of_them = ["task", "model", "done", "rate", "left", "exact", "includes", "tokens", "cost"]
    assert titles[200] == all_of_them
    assert titles[80][:6] == all_of_them[:6] and "━" in plain(frame(progress, 80))[2]
    assert titles[40] == ["task", "model", "done", "rate", "left", "exact"]
    assert titles[22][0] == "task" and titles[22][-1] == "done"


def test_a_row_has_the_figures_of_its_group():
    """Done, rate, time left, score, tokens and cost."""
    row = plain(frame(made_progress([("capitals", "small")]), 200))[2]
    assert re.match(r"capitals  small +[━╸╺]+  3/10  0\.3/s +23s  0\.333    4\.5k  \$0\.0060$", row)


def test_the_header_names_the_run():
    """Name, id, session and place."""
    (header, *_) = plain(frame(made_progress([("t", "m")]), 200))
    assert header == "name · run 01234567 · session 2 · /somewhere/runs/r"


def test_groups_that_are_worked_on_are_shown_before_others():
    """In the order of the plan; those that have ended come last."""
    progresses = [made_progress([(name, "m")], done=done) for name, done in GROUPS]
    ended, running, waiting = (
        progress.groups[name, "m"] for progress, (name, _) in zip(progresses, GROUPS, strict=True)
    )
    assert choose_groups([ended, waiting, running], 1) == [running]
    assert choose_groups([ended, waiting, running], 2) == [waiting, running]
    assert choose_groups([ended, waiting, running], 3) == [ended, waiting, running]


GROUPS = (("ended", 10), ("running", 3), ("waiting", 0))


def test_the_plain_line_has_the_running_scores():
    """All scorers of one group; the first scorer of each of several; never a name that acts on a terminal."""
    one = progress_text(made_progress([("t", "m")], ("exact", "f1")))
    assert one.endswith(" · exact 0.333, f1 0.333")
    several = progress_text(made_progress([(HOSTILE, "m"), *((f"t{n}", "m") for n in range(5))], ("exact", "f1")))
    assert several.endswith("t0/m exact 0.333 · t1/m exact 0.333 · 3 more scores")
    assert several.isprintable() and "\n" not in several


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0"), (999, "999"), (1000, "1k"), (12_345, "12.3k"), (4_560_000, "4.56M"), (10**10, "10G")]
)
def test_large_counts_are_short(count, text):
    """Three figures are enough to see how it goes."""
    assert count_text(count) == text


def test_trials_without_a_reply_are_not_called_failed():
    """Those of a disabled model are unfinished, as the line below the table and the table at the end have it."""
    progress = made_progress([("t", "m")])
    end = {"trial": "x", "attempt": 1, "status": Status.UNFINISHED, "task": "t", "model": "m"}
    progress.groups["t", "m"].count_end(TrialRecord(**end))
    header, row = [line.split() for line in plain(frame(progress, 200))][1:3]
    assert "failed" not in header and row[header.index("unfinished") - len(header)] == "1"


def test_a_session_that_stops_gives_no_time_left(monkeypatch):
    """What it has not started is left; large counts have separators."""
    progress = made_progress([("t", "m")], planned=2000)
    monkeypatch.setattr(Progress, "eta_seconds", lambda _: 14.0)
    assert progress_text(progress).startswith("0/2,000 trials (0%) · ") and " · 14s left" in progress_text(progress)
    progress.holds = lambda: [SimpleNamespace(reason=DRAIN, model="")]
    assert "stopping" in progress_text(progress) and "left" not in progress_text(progress)


def test_the_time_left_is_not_less_than_that_of_the_slowest_row(monkeypatch):
    """A quick model beside a slow one would otherwise promise an end that its own table contradicts."""
    progress = made_progress([("t", "quick"), ("t", "slow")])
    monkeypatch.setattr(Progress, "rate", lambda _: 10.0)
    etas = {"quick": 1.0, "slow": 31.0}
    monkeypatch.setattr(GroupProgress, "eta_seconds", lambda group, _: etas[group.model])
    assert progress.eta_seconds() == 31.0 and "31s left" in progress_text(progress)
    progress.expected = 20
    assert progress.eta_seconds() == 2.0


def test_the_last_line_breaks_between_words(monkeypatch):
    """At the width of the terminal, and not inside of a number."""
    parts = " · ".join(f"{number} retries" for number in range(1000, 1012))
    monkeypatch.setattr("holdfast.api.progress.display.end_text", lambda _: parts)
    stream = Terminal()

    async def show():
        async with ProgressDisplay(made_progress([("t", "m")]), interval=60.0, stream=stream).showing():
            pass

    asyncio.run(show())
    last = stream.getvalue().rpartition("\x1b[2K")[2].strip().splitlines()
    assert len(last) > 1 and max(map(len, last)) <= 80 and " ".join(" ".join(last).split()) == parts


def test_recovery_31_a_pause_is_no_slow_work():
    """While the store does not answer there is neither a rate nor a time left; afterwards both are as before."""
    progress = made_progress([("t", "m")])
    progress.finished, progress.clock.now = 3, 20.0
    before = progress.rate(), progress.eta_seconds()
    assert before[0] == pytest.approx(0.3) and before[1]
    progress.lease_text = lambda: "paused: the lease could not be renewed since 11:00"
    for progress.clock.now in (20.0, 40.0, 400.0):
        assert progress.rate() == 0.0 and progress.eta_seconds() is None
        assert "/s" not in progress_text(progress) and "left" not in progress_text(progress)
        columns = {
            column.title: column.cells
            for column in ProgressFrame(progress, Terminal())._columns([*progress.groups.values()])
        }
        assert columns["rate"] == columns["left"] == [""]
    progress.lease_text = str
    assert (progress.rate(), progress.eta_seconds()) == before
