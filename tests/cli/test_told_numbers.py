"""Numbers that people read at the end of a run and in `status` and `report`: what is unknown is said to be unknown."""

from __future__ import annotations

import contextlib
import json
import shlex

import pytest

from cli_calls import call
from evals import write_eval
from holdfast.analysis.notes import odd_answers
from holdfast.analysis.status import SessionStatus
from holdfast.api.run import Run
from holdfast.cli.ui.session_table import session_lines
from holdfast.run.fold.reader import RunReader

PRICE = {"input": 1.0, "output": 2.0}


@pytest.fixture
def place(tmp_path, monkeypatch, capfdbinary):
    """Calls the command line in a directory of the test's own."""
    monkeypatch.chdir(tmp_path)

    def called(*words, code=None):
        told = call(capfdbinary, *words)
        assert code is None or told.code == code, told
        return told

    return called


def as_json(place, *words, code=0):
    return json.loads(place(*words, "--json", code=code).out)


def scripted(directory, count=2, task=None, **args):
    """An eval whose model follows a script."""
    rows = "".join(json.dumps({"q": f"q{number}", "a": f"q{number}"}) + "\n" for number in range(count))
    (directory / "rows.jsonl").write_text(rows)
    data = {
        "name": "told",
        "models": {"m": {"provider": "scripted", "model": "s", "price": PRICE, "args": args}},
        "datasets": {"d": {"path": "rows.jsonl"}},
        "tasks": {"t": {"dataset": "d", "prompt": "{q}", "target": "{a}", "scorers": ["exact"], **(task or {})}},
    }
    return write_eval(directory, data)


def test_trials_that_all_hit_their_limit_are_named_although_the_run_is_complete(place, tmp_path):
    """And of the calls that the limit ended it is said that nobody knows what they cost."""
    eval_file = scripted(tmp_path, task={"limits": {"time": 0.05}}, default="x", latency=5)
    ended = place("run", eval_file, "--run-dir", "r", code=0)
    assert "Complete: 2 of 2 trials, 2 of them limited (time).\n" in ended.out
    unknown = "2 calls got no reply, ended by a limit or by the task; what they cost is unknown"
    assert f"note: {unknown}" in ended.out
    assert "complete, 2 of 2, 2 of them limited (time); nothing was run." in place("resume", "r", code=0).out
    shown = place("status", "r", code=0).out
    assert "2 of 2 trials finished, 2 of them limited (time), 0 remaining" in " ".join(shown.split())
    assert unknown in " ".join(shown.split()) and "at least $0.00" in shown
    status = as_json(place, "status", "r")
    assert (status["calls"]["given_up"], status["cost_is_lower_bound"]) == (2, True)
    assert status["limited_by_reason"] == {"time": 2}
    reported = place("report", "r", code=0).out
    assert "; cost at least $0.00" in reported and f"note: {unknown}" in reported and ">=$0.00" in reported
    report = as_json(place, "report", "r")
    assert (report["given_up"], report["cost_is_lower_bound"], report["notes"]) == (2, True, [unknown])
    assert report["tasks"]["t"]["m"]["cost_is_lower_bound"] is True


def test_a_run_whose_calls_were_all_answered_has_an_exact_cost(place, tmp_path):
    ended = place("run", scripted(tmp_path, default="x"), "--run-dir", "r", code=0)
    assert "Complete: 2 of 2 trials.\n" in ended.out and "note:" not in ended.out
    report = as_json(place, "report", "r")
    assert (report["given_up"], report["cost_is_lower_bound"], report["usage_is_partial"]) == (0, False, False)


@pytest.mark.parametrize("some", [False, True])
def test_tokens_that_nobody_has_counted_are_unknown_and_not_0(place, tmp_path, some):
    """The table has a column for the cost, because there is a price."""
    replies = {"q0": "x"} if some else {}
    eval_file = scripted(tmp_path, replies=replies, default={"text": "q1", "usage": False})
    ended = place("run", eval_file, "--run-dir", "r", code=0)
    header, row = ended.out.splitlines()[:2]
    assert "cost" in header and row.split()[-2] == "-"
    assert "note: The cost is unknown: not every reply of models.m has a usage that can be read." in ended.out
    tokens = "at least 1 in, 1 out" if some else "unknown (the replies have no usage)"
    assert f"tokens: {tokens}\n" in place("report", "r", code=0).out
    assert f"  tokens   {tokens}\n" in place("status", "r", code=0).out
    assert as_json(place, "status", "r")["usage_is_partial"] is True


@pytest.mark.parametrize("bound", ["exact=80", "-1"])
def test_a_bound_that_no_accuracy_can_decide_is_refused_before_the_first_call(place, tmp_path, bound):
    """Also for a run that exists, and for `report`."""
    eval_file = scripted(tmp_path, default="x")
    assert "t.exact is an accuracy" in place("run", eval_file, "--run-dir", "r", "--fail-under", bound, code=2).err
    assert not (tmp_path / "r").exists()
    place("run", eval_file, "--run-dir", "r", code=0)
    for words in (["resume", "r"], ["resume", "r", "--set", "epochs=2"], ["report", "r"]):
        assert "t.exact is an accuracy" in place(*words, "--fail-under", bound, code=2).err


def test_the_progress_file_has_the_exit_code_of_the_process(place, tmp_path):
    """A dashboard that reads it must not show a job as green that --fail-under has failed."""
    eval_file = scripted(tmp_path, default="x")
    place("run", eval_file, "--run-dir", "r", "--set", "progress_file=p.json", "--fail-under", "0.9", code=1)
    written = json.loads((tmp_path / "p.json").read_text())
    assert (written["state"], written["ended_as"], written["exit_code"]) == ("complete", "completed", 1)
    place(
        "run",
        eval_file,
        "--run-dir",
        "s",
        "--set",
        "progress_file=p.json",
        "--fail-under",
        "0.9",
        "--limit",
        "1",
        code=1,
    )
    assert json.loads((tmp_path / "p.json").read_text())["exit_code"] == 1


def test_what_is_in_flight_in_a_running_session_is_left_open():
    """The journal says what was in flight at the end of a session, and a running one has none."""
    sessions = [
        SessionStatus(number, "2026-11-18T01:02:03Z", ended_as=how)
        for number, how in ((1, "completed"), (2, "running"))
    ]
    _, ended, running = session_lines(sessions, 120)
    assert (ended.split()[-1], running.split()[-1]) == ("0", "0") and len(running.rstrip()) < len(ended.rstrip())


def test_a_refused_request_is_not_called_a_missing_reply(place, tmp_path):
    """The server has answered at once, and would refuse it again."""
    eval_file = scripted(tmp_path, errors=[{"contains": "q", "rejected": {}}], default="x")
    ended = place("run", eval_file, "--run-dir", "r", code=1)
    assert "2 were refused" in ended.out
    assert as_json(place, "status", "r")["remaining_by_reason"] == {"refused": 2}
    reported = place("report", "r", code=0).out
    assert "2 remaining: 2 refused" in reported and "no reply" not in reported


def test_tokens_of_a_call_without_a_reply_are_unknown(place, tmp_path):
    """What a server has computed before it failed is on no record: 0 would be a claim."""
    eval_file = scripted(tmp_path, errors=[{"contains": "q1", "unavailable": {}}], default="x")
    place("run", eval_file, "--run-dir", "r", "--set", "retry_deadline=0.1", code=1)
    keys = {row["input"]: row["trial"] for row in as_json(place, "show", "r")["trials"]}
    assert "tokens  unknown" in place("show", "r", keys["q1"], code=0).out
    assert "tokens  1 in, 1 out" in place("show", "r", keys["q0"], code=0).out
    frame = Run.open(tmp_path / "r").to_pandas(rows="steps").set_index("trial")
    assert frame["input_tokens"].isna().to_dict() == {keys["q0"]: False, keys["q1"]: True}


def test_empty_answers_are_counted(place, tmp_path):
    """With a small max_tokens they are the most usual mishap, and look like a model that knows nothing."""
    ended = place("run", scripted(tmp_path, 3, replies={"q0": "q0"}, default=""), "--run-dir", "r", code=0)
    assert "note: 2 of 3 answers are empty\n" in ended.out and "m: A reply is empty (finish: stop)." in ended.err
    assert as_json(place, "report", "r")["notes"] == ["2 of 3 answers are empty"]
    assert "note: 2 of 3 answers are empty\n" in place("report", "r", code=0).out


def test_answers_that_are_only_reasoning_are_counted(place, tmp_path):
    """A small max_tokens ends a reasoning model before it answers: its text is not empty, and holds no answer."""
    thoughts = {"q0": "<think>q0? Yes.</think>q0", "q1": "<think>q1"}
    ended = place(
        "run", scripted(tmp_path, 3, replies=thoughts, default="<think>?</think>\n"), "--run-dir", "r", code=0
    )
    assert "m: A reply holds only reasoning (finish: stop)." in ended.err
    report = as_json(place, "report", "r")
    assert report["notes"] == ["2 of 3 answers hold only reasoning"]
    listed = place("show", "r", code=0).out.splitlines()
    assert [line.split()[-1] for line in listed[1:4]] == ["q0", "<think>q1", "<think>?</think>"]
    assert "0.333" in ended.out


def test_answers_of_white_space_count_as_empty(place, tmp_path, monkeypatch):
    """They are no more of an answer; of a large run, whose answers are not read, the model is named."""
    place("run", scripted(tmp_path, 3, replies={"q0": "q0"}, default=" \n"), "--run-dir", "r", code=0)
    assert as_json(place, "report", "r")["notes"] == ["2 of 3 answers are empty"]
    monkeypatch.setattr(odd_answers, "_MOST_READ", 2)
    with contextlib.closing(RunReader(tmp_path / "r")) as reader:
        assert list(odd_answers.odd_answer_notes(reader)) == ["some replies of m are empty, or hold only reasoning"]


def test_replies_that_were_cut_off_are_named(place, tmp_path):
    ended = place("run", scripted(tmp_path, default={"text": "Par", "finish": "length"}), "--run-dir", "r", code=0)
    note = "some replies of m were cut off at max_tokens (finish reason: length)"
    assert f"note: {note}\n" in ended.out and ended.err.count("A reply was cut off") == 1
    assert as_json(place, "report", "r")["notes"] == [note]


def test_a_judge_without_verdicts_is_named_below_the_table(place, tmp_path):
    """The table has a dash; why is said beside it, as `report` says it."""
    eval_file = scripted(tmp_path, task={"scorers": [{"model_graded": {"model": "j"}}], "models": ["m"]}, default="x")
    data = json.loads(eval_file.read_text())
    data["models"]["j"] = {"provider": "scripted", "model": "j", "args": {"default": "no verdict here"}}
    ended = place("run", write_eval(tmp_path, data), "--run-dir", "r", code=0)
    unscored = "2 unscored (2 no valid verdict)"
    assert f"t \N{MIDDLE DOT} m: model_graded: {unscored}\n" in ended.out
    assert unscored in place("report", "r", code=0).out


def test_the_right_choice_and_the_letter_that_was_read_are_shown(place, tmp_path):
    """`Answer: C` and `Paris` cannot be compared by eye."""
    task = {"choices": ["Lyon", "Paris", "Nice"], "target": "Paris", "prompt": "{q}?", "scorers": ["choice"]}
    place("run", scripted(tmp_path, 1, task=task, default="Answer: C"), "--run-dir", "r", code=0)
    (row,) = as_json(place, "show", "r")["trials"]
    assert row["target"] == "Paris" and "choice" not in row
    assert "B) Paris" in place("show", "r", code=0).out
    shown = place("show", "r", row["trial"], code=0).out
    assert "choice = 0 (C)\n" in shown and "── target\nB) Paris\n" in shown


def test_a_model_that_calls_tools_in_a_task_without_code_has_a_way_out_without_code(place, tmp_path):
    """Nobody has written a solver here, so nobody is told to mend one."""
    calling = {"tool_calls": [{"name": "search", "arguments": {}}]}
    ended = place("run", scripted(tmp_path, default=calling), "--run-dir", "r", code=1)
    assert (
        "runs no tools: offer the model none, or let them run with tools" in ended.out and "trial.step" not in ended.out
    )
    assert "After changing the eval: holdfast run" in ended.out and "fixing the code" not in ended.out


def test_of_a_dataset_that_is_gone_the_copy_of_the_run_is_used(place, tmp_path):
    """And said to be used: further trials are run with it."""
    place("run", scripted(tmp_path, default="x"), "--run-dir", "r", code=0)
    (tmp_path / "rows.jsonl").unlink()
    told = place("resume", "r", "--set", "tasks.t.epochs=2", code=0)
    assert "no longer exists; the run's own copy is used\n" in told.err


def test_the_command_that_show_prints_works_whatever_an_id_holds(place, tmp_path):
    """An id with a control character, a line break or two spaces cannot be typed: its trial is named by its key."""
    eval_file = scripted(tmp_path, default="x")
    rows = [{"id": name, "q": "q", "a": "a"} for name in ("\x1b[31mid", "b\nc", "d  e", "plain")]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    place("run", eval_file, "--run-dir", "r", code=0)
    for where in ("sample~id", "sample~b", "sample~d", "sample=plain"):
        *_, command = place("show", "r", "--where", where, code=0).out.splitlines()
        words = shlex.split(command.removeprefix("Show one in full: holdfast "))
        assert place(*words, code=0).code == 0, command
    assert words[-1] == "plain#1"
