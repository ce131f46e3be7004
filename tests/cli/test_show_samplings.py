"""Sampling 31: `show` has lanes and turns side by side, and what is on record of a sampling that was cut short."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import re
import subprocess
import sys

import pytest

from cli_calls import call, program
from durable import commit
from holdfast import Run
from holdfast.cli.ui.sampling_grid import sampling_lines
from holdfast.models.role import ModelRole
from holdfast.run.core.records import Failure
from holdfast.sampling.candidate import CandidateStatus
from holdfast.sampling.host import SamplingChoice
from holdfast.sampling.on_record import RecordedSamplings
from sampled_runs import (
    UNCHECKED,
    begin_sampled_run,
    candidate,
    choice,
    finish,
    reply,
    summary,
    two_by_two,
    verdicts,
)

VALID, INVALID, ERROR = CandidateStatus.VALID, CandidateStatus.INVALID, CandidateStatus.ERROR
HOSTILE = "\x1b[2J\x1b]0;owned\x07<b>bold</b>\x00\x9b31m\u202e " + "w" * 5000 + " tail " * 100_000
CANDIDATE_KEYS = {
    "lane", "turn", "iteration", "status", "chosen", "text", "verdicts", "score", "model", "seed", "usage", "judging",
    "error",
}  # fmt: skip


@pytest.fixture
def told(capfdbinary, monkeypatch):
    """Calls a verb that has to end well, on a terminal of 80 columns; what it printed."""
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words) -> str:
        done = call(capfdbinary, *words)
        assert done.code == 0, done.err
        return done.out

    return run


@pytest.fixture
def sampled(tmp_path):
    """A run with one sampling of three lanes."""
    session = begin_sampled_run(tmp_path / "run")
    two_by_two(session, "k1")
    finish(session, "k1", summary(1, lost=3), tokens=5)
    session.close("completed")
    return tmp_path / "run"


def cut_short(root, *records) -> None:
    """A run that was killed after these records."""
    session = begin_sampled_run(root)
    for record in records:
        commit(session, record)
    session.abandon()


GRID = """\
── sampling 1 (repair, attempt 1): 3 lanes, 2 turns
          lane 0                  lane 1                  lane 2
  turn 0  invalid                 invalid                 error
          failed: spelling,       failed: spelling
          length                  Londn
          Pariss
  turn 1  cancelled               valid ← chosen
                                  Paris is the capital
  chosen: lane 1, turn 1: the first valid candidate to arrive
  success: a candidate is valid
  note: lane 2 failed at turn 0: Unavailable: overloaded
  lane 2, turn 0: Unavailable: overloaded
"""


def test_sampling_31_lanes_and_turns_stand_side_by_side(sampled, told):
    """A column for each lane, a row for each turn, the winner marked, and the choice with its reason below."""
    out = told("show", sampled, "k1")
    assert GRID in "".join(f"{line.rstrip()}\n" for line in out.splitlines())
    assert "step generate (attempt 1, sampling 1, lane 1, turn 1)" in out
    assert "step candidate" not in out and "step choice" not in out
    assert out.index("── sampling 1") < out.index("── answer")


def test_sampling_31_json_has_the_samplings(sampled, told):
    """Every candidate with every key, and the choice."""
    (sampling,) = json.loads(told("show", sampled, "k1", "--json"))["samplings"]
    assert (sampling["strategy"], sampling["number"], sampling["attempt"]) == ("repair", 1, 1)
    places = [(one["turn"], one["lane"], one["status"]) for one in sampling["candidates"]]
    assert places == [
        (0, 0, "invalid"), (0, 1, "invalid"), (0, 2, "error"), (1, 0, "cancelled"), (1, 1, "valid"),
    ]  # fmt: skip
    assert all(one.keys() == CANDIDATE_KEYS for one in sampling["candidates"])
    assert [one["text"] for one in sampling["candidates"]] == ["Pariss", "Londn", None, None, "Paris is the capital"]
    assert [one["chosen"] for one in sampling["candidates"]] == [False] * 4 + [True]
    first = sampling["candidates"][0]
    assert [verdict["requirement"] for verdict in first["verdicts"]] == ["spelling", "length"]
    assert (first["seed"], first["usage"]["input_tokens"], first["iteration"]) == (7, 10, 0)
    assert sampling["candidates"][2]["error"]["message"] == "overloaded"
    assert (sampling["choice"]["lane"], sampling["choice"]["turn"], sampling["choice"]["success"]) == (1, 1, True)
    assert sampling["choice"]["reason"] == "the first valid candidate to arrive"


def test_a_trial_without_samplings_is_shown_as_before(tmp_path, told):
    """Nothing is said of samplings; in JSON there is no such key, as in status and report."""
    session = begin_sampled_run(tmp_path / "run")
    finish(session, "k1", tokens=1)
    session.close("completed")
    assert "── sampling" not in told("show", tmp_path / "run", "k1")
    assert "samplings" not in json.loads(told("show", tmp_path / "run", "k1", "--json"))
    assert "samplings" not in json.loads(told("status", tmp_path / "run", "--json"))
    assert "sampling" not in json.loads(told("report", tmp_path / "run", "--json"))["tasks"]["t"]["m"]


def test_what_a_kill_has_left_of_a_sampling_is_shown(tmp_path, told):
    """Candidates so far, a reply that was not checked yet, and that no choice is on record."""
    cut_short(
        tmp_path / "run",
        reply("k1", 0, 0, "first"),
        candidate("k1", 0, 0, INVALID, *verdicts("length")),
        reply("k1", 0, 1, "second"),
        reply("k1", 1, 0, "other"),
    )
    out = told("show", tmp_path / "run", "k1")
    assert "sampling 1 (repair, attempt 1): 2 lanes, 2 turns" in out
    assert out.count("not checked") == 2 and "no choice is on record" in out
    (sampling,) = json.loads(told("show", tmp_path / "run", "k1", "--json"))["samplings"]
    assert sampling["choice"] is None
    assert [one["status"] for one in sampling["candidates"]] == ["invalid", None, None]


def test_the_last_record_of_a_place_counts(tmp_path, told):
    """A candidate that failed, and was drawn again after a resume, is shown once, as it ended."""
    cut_short(
        tmp_path / "run",
        candidate("k1", 0, 0, ERROR, error=Failure("Unavailable", "overloaded")),
        reply("k1", 0, 0, "fine"),
        candidate("k1", 0, 0, VALID),
    )
    (sampling,) = json.loads(told("show", tmp_path / "run", "k1", "--json"))["samplings"]
    assert [(one["status"], one["text"]) for one in sampling["candidates"]] == [("valid", "fine")]
    assert "overloaded" not in told("show", tmp_path / "run", "k1")


def test_several_samplings_of_a_trial_stand_apart(tmp_path, told):
    """By their scopes: those of branches and of score slots too, in the order of their numbers."""
    scopes = ["sampling~2", "sampling~10", "~1/draft/sampling~1", "score/judge/sampling~1"]
    records = []
    for scope in scopes:
        role = ModelRole.JUDGE if scope.startswith("score") else ModelRole.UNDER_TEST
        records += [
            reply("k1", 0, 0, f"of {scope}", scope=scope, role=role),
            reply("k1", 0, 0, "a judge's", scope=scope, role=ModelRole.JUDGE, name="generate@judge"),
            candidate("k1", 0, 0, VALID, scope=scope),
            choice("k1", SamplingChoice(True, "a candidate is valid", lane=0, turn=0), scope=scope),
        ]
    cut_short(tmp_path / "run", *records)
    found = json.loads(told("show", tmp_path / "run", "k1", "--json"))["samplings"]
    assert [(one["scope"], one["candidates"][0]["text"]) for one in found] == [
        (scope, f"of {scope}") for scope in (*scopes[:2], scopes[3], scopes[2])
    ]
    out = told("show", tmp_path / "run", "k1")
    assert "sampling 1 in ~1/draft (repair, attempt 1)" in out and out.count("── sampling") == 4


def test_hostile_text_does_nothing_to_a_terminal(tmp_path, told):
    """Escapes, null bytes and very long texts: none acts, none breaks the grid, none is printed whole in it."""
    session = begin_sampled_run(tmp_path / "run")
    two_by_two(session, "k1", won=HOSTILE)
    evil = SamplingChoice(False, HOSTILE, HOSTILE, votes={HOSTILE: 3, "b": 1}, notes=(HOSTILE,), capped="calls")
    unchecked = verdicts("\x1b[31mred", kind=UNCHECKED, error=Failure("\x1b[1mkind", HOSTILE))
    commit(session, candidate("k2", 0, 0, ERROR, *unchecked, error=Failure("x\x00", HOSTILE)))
    commit(session, choice("k2", evil))
    session.abandon()
    for key in ("k1", "k2"):
        grid = told("show", tmp_path / "run", key).partition("── sampling")[2]
        assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", grid)
        assert all(len(line) <= 80 for line in grid.splitlines()) and len(grid) < 6000
    out = told("show", tmp_path / "run", "k2", "--json")
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out)
    (sampling,) = json.loads(out)["samplings"]
    assert sampling["choice"]["reason"] == HOSTILE


@pytest.mark.parametrize("columns", [40, 80, 200])
@pytest.mark.parametrize("lanes", [1, 3, 4, 9, 30])
def test_no_line_is_wider_than_the_terminal(tmp_path, columns, lanes):
    """A grid while every lane has its column, else a list; words stay whole unless they are longer than a line."""
    recorded = RecordedSamplings()
    for lane in range(lanes):
        recorded.add(reply("k", lane, 0, "der Fluß 日本語の長い文 and_a_very_long_identifier_that_fits_nowhere"))
        recorded.add(candidate("k", lane, 0, INVALID, *verdicts("capital-letter", "length", "tone")))
    (sampling,) = recorded.samplings()
    lines = sampling_lines(sampling, columns)
    plain = [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]
    assert all(wide(line) <= columns for line in plain[1:])
    is_grid = "lane 0, turn 0" not in "".join(plain)
    assert is_grid == (lanes * 18 <= columns - 8)
    words = {word.strip(",") for line in plain for word in line.split()}
    assert not {word for word in words if word.startswith("capital") and not word.endswith("…")} - {"capital-letter"}


def wide(line: str) -> int:
    return sum(2 if "　" <= one <= "鿿" else 1 for one in line)


def test_a_lane_number_that_nobody_has_makes_no_grid(tmp_path):
    """However many lanes a record claims, what is printed is a line for each candidate."""
    recorded = RecordedSamplings()
    recorded.add(candidate("k", 999_999_999, 999_999_999, INVALID))
    (sampling,) = recorded.samplings()
    assert len(sampling_lines(sampling, 80)) == 3


def test_results_of_another_version_are_passed_over(tmp_path, told):
    """A candidate or choice that cannot be read takes nothing else with it."""
    odd = candidate("k1", 0, 0, VALID)
    odd = type(odd)(**{**{name: getattr(odd, name) for name in odd.__struct_fields__}, "result": {"lane": "zero"}})
    cut_short(tmp_path / "run", reply("k1", 0, 0, "text"), odd)
    assert "not checked" in told("show", tmp_path / "run", "k1")


def test_what_remains_of_a_sampling_whose_steps_were_deleted(sampled, told):
    """The end of the trial says how it went; the report is the same as before."""
    before = told("report", sampled)
    told("clean", sampled, "--steps")
    out = told("show", sampled, "k1")
    assert "sampling (repair): success, chosen: lane 0, turn 1; its candidates are no longer on record" in out
    assert "── sampling" not in out and told("report", sampled) == before


def test_colours_only_on_a_terminal(sampled, tmp_path):
    """A pipe gets plain text, a terminal the status in colour."""
    plain = program("show", sampled, "k1")
    assert "\x1b[" not in plain.out and "valid ← chosen" in plain.out
    shown = on_terminal("show", str(sampled), "k1")
    assert "\x1b[32m\x1b[1mvalid ← chosen\x1b[0m" in shown


def on_terminal(*words: str) -> str:
    """What the program sends to a terminal."""
    terminal, end = pty.openpty()
    command = [sys.executable, "-m", "holdfast", *words]
    process = subprocess.Popen(command, stdout=end, stderr=end, env={**os.environ, "COLUMNS": "80"})
    os.close(end)
    found = b""
    with contextlib.suppress(OSError):  # the end of the terminal was closed
        while part := os.read(terminal, 65536):
            found += part
    os.close(terminal)
    assert process.wait(60) == 0, found
    return found.decode()


def test_sampling_31_status_says_how_samplings_went(sampled, told):
    """In a line of the text, and in an object of the JSON."""
    assert "sampling 1 of 1 succeeded" in told("status", sampled)
    assert json.loads(told("status", sampled, "--json"))["samplings"] == {"count": 1, "successes": 1, "capped": 0}


def test_sampling_31_report_json_has_a_section(sampled, told):
    """The same figures as in Python."""
    found = json.loads(told("report", sampled, "--json"))["tasks"]["t"]["m"]["sampling"]
    assert (found["samplings"], found["success_by_turn"], found["mean_turns"]) == (1, [0.0, 1.0], 2.0)
    assert found["losers"]["usage"]["input_tokens"] == 30 and found["losers"]["share"] == 0.6


def test_rows_have_samplings_where_the_run_has_some(tmp_path, told):
    """Every row of such a run has the column, and no row of another run has it."""
    session = begin_sampled_run(tmp_path / "run", 3)
    finish(session, "a", summary(1, lost=2))
    finish(session, "b")
    commit(session, reply("c", 0, 0, "cut short"))
    session.abandon()
    with Run.open(tmp_path / "run") as run:
        rows = {row["trial"]: row["samplings"] for row in run.to_dicts()}
        assert (rows["b"], rows["c"]) == ([], [])
        (found,) = rows["a"]
        assert (found["strategy"], found["turn"], found["capped"]) == ("repair", 1, "")
        assert found["wasted"] == [
            {
                "model": "m",
                "reused": False,
                "usage": {
                    "input_tokens": 20,
                    "output_tokens": 10,
                    "cached_input_tokens": 0,
                    "reasoning_tokens": 0,
                },
            }
        ]
        assert next(run.trials("trial=a")).samplings == (summary(1, lost=2),)
    listed = json.loads(told("show", tmp_path / "run", "--json"))["trials"]
    assert {row["trial"]: row["samplings"] for row in listed} == rows
