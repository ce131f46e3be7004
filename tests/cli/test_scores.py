"""The scores at the end of `run` and `resume`: in every state of a run, as `report` gives them, and for CI."""

from __future__ import annotations

import json
import shlex
import shutil
import signal

import pytest

from evals import http_eval, python_eval, write_dataset, write_eval

TASK = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
BROKEN = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    await trial.generate("x")
    if trial.sample.id in {broken}:
        raise ValueError("my bug")
    return trial.sample.target

@task
def t():
    return Task(samples=[Sample(name, target="x", id=name) for name in "abcde"], solver=solve, scorers=exact())
"""
TIMES = "\N{MULTIPLICATION SIGN}"
HOSTILE = "evil\u202e\x9b31m" + "日本" * 60


def table_of(text: str) -> list[str]:
    """The rows of the table, and its header."""
    lines = text.splitlines()
    begin = next(place for place, line in enumerate(lines) if line.startswith("task "))
    return lines[begin : lines.index("", begin)]


def test_run_resume_and_report_print_the_same_scores(holdfast, server, tmp_path):
    """With their interval, n, the cost in its currency and the failed trials; a complete run prints them again."""
    priced = {"price": {"input": 100.0, "output": 20.0}}
    eval_file = http_eval(tmp_path, server.base_url, 6, model=priced, task={"epochs": 3}, currency="EUR")
    run = holdfast("run", eval_file, "--run-dir", "r", code=0).out
    table = table_of(run)
    assert table == [
        "task  model  scorer          score          95% CI  n     cost  failed",
        f"t     m      exact accuracy  0.667  [0.300, 0.903]  6  {table[1].split()[-2]}       0",
    ]
    assert table[1].split()[-2].startswith("€0.00")
    assert run.endswith("Complete: 18 of 18 trials.\nSee the answers with: holdfast show r\n")
    again = holdfast("resume", "r", code=0).out
    assert table_of(again) == table_of(holdfast("report", "r", code=0).out) == table
    assert again.endswith("r: complete, 18 of 18; nothing was run.\n")


def test_the_json_of_a_session_has_the_tasks_of_the_report(holdfast, server, tmp_path):
    """The very same objects, also of a run that was complete before."""
    eval_file = http_eval(tmp_path, server.base_url, 4, model={"price": {"input": 0.1, "output": 0.7}})
    ended = holdfast.json("run", eval_file, "--run-dir", "r", code=0)
    report = holdfast.json("report", "r", code=0)
    for found in (ended, holdfast.json("resume", "r", code=0)):
        assert {key: found[key] for key in ("tasks", "cost", "currency")} == {
            key: report[key] for key in ("tasks", "cost", "currency")
        }
        assert found["fail_under"] == report["fail_under"] == []
    assert report["currency"] == "USD" and len(repr(report["cost"])) <= 14


def test_an_interrupted_run_says_over_how_many_trials_its_scores_are(holdfast, server, tmp_path):
    """What is finished is shown, marked as incomplete; resumed to its end, the figures are those of a whole run."""
    eval_file = http_eval(tmp_path, server.base_url, 8, concurrency_limit=1)
    server.behave(hold=True, **{"pass": 3})
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(answered=3, in_flight=1)
    started.send(signal.SIGINT)
    server.behave()
    ended = started.wait()
    assert ended.code == 130
    assert ended.out.startswith("INCOMPLETE: scores over 4 of 8 trials\n")
    assert table_of(ended.out)[1].split()[-1] == "4", "four are left"
    assert "Stopped (interrupted): 4 of 8 trials finished, 4 remaining: 4 not started.\n" in ended.out
    assert holdfast("report", "r", "--fail-under", "0.1", code=1).err.endswith("incomplete, so it does not pass.\n")
    resumed = holdfast("resume", "r", code=0).out
    holdfast("run", eval_file, "--run-dir", "whole", code=0)
    assert "INCOMPLETE" not in resumed
    assert holdfast("report", "r").out == holdfast("report", "whole").out
    assert table_of(resumed) == table_of(holdfast("report", "whole").out)


def test_names_that_attack_a_terminal_are_shortened_and_harmless(holdfast, tmp_path):
    """In 80 columns, whatever a task, a model and a scorer are called."""
    write_dataset(tmp_path, 2)
    scorers = [{"exact": {"name": f"{HOSTILE} judge"}}]
    model = {"provider": "scripted", "model": "echo"}
    data = {"models": {HOSTILE: model}, "datasets": {"rows": {"path": "rows.jsonl"}}}
    eval_file = write_eval(tmp_path, {**data, "tasks": {HOSTILE: {**TASK, "scorers": scorers}}})
    for words in (("run", eval_file, "--run-dir", "r"), ("resume", "r"), ("report", "r")):
        lines = table_of(holdfast(*words, code=0).out)
        assert len(lines) == 2 and all(line.isprintable() for line in lines)
        assert lines[1].count("…") == 3 and "[0.000, 0.658]" in lines[1]


# What a session says when it has stopped.


def test_one_bug_in_every_trial_is_said_once_with_the_way_out(holdfast, server, tmp_path):
    """The error with the line of the task's own code, and a command that works once that is mended."""
    eval_file = python_eval(tmp_path, server.base_url, BROKEN.format(broken=set("abcde")), max_retries=0)
    ended = holdfast("run", eval_file, "--run-dir", "r", "--fail-under", "exact=1", code=1)
    start = "Stopped: all 5 trials failed with the same error: ValueError: my bug (task.py:7)."
    stopped, fix, retry = ended.out.splitlines()
    again = "holdfast resume r --redo 'status=failed'"
    assert stopped == start
    assert retry == f"Retry the 5 failed trials: {again}"
    command = shlex.split(fix.removeprefix("After fixing the code: "))
    assert command == ["holdfast", "run", str(eval_file), "--fail-under", "exact=1", "--reuse", "r"]
    (tmp_path / "task.py").write_text(BROKEN.format(broken={"none"}))
    mended = holdfast(*command[1:], "--run-dir", "s", code=0)
    assert "5 replies of other runs were used instead of calls." in mended.err
    # The trials ask the same, so that the server has answered each of them once.
    assert sum(server.worked_on().values()) == 5


def test_equal_errors_are_printed_once_and_counted(holdfast, server, tmp_path):
    """Beside trials that are fine; `report` has the same lines."""
    eval_file = python_eval(tmp_path, server.base_url, BROKEN.format(broken=set("abc")), max_retries=0)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1).out
    assert "INCOMPLETE: scores over 2 of 5 trials\n" in ended
    assert (
        f"2 of 5 trials finished, 3 remaining: 3 failed (task error).\n  3 {TIMES} ValueError: my bug (task.py:7)\n"
        in ended
    )
    assert "Resume with" not in ended
    last = ended.splitlines()[-2:]
    assert last[0].startswith("After fixing the code: holdfast run ") and last[0].endswith(" --reuse r")
    # `status` names the same commands.
    status = [line.strip() for line in holdfast("status", "r").out.splitlines()]
    assert status[-2:] == last
    assert holdfast("report", "r", code=0).out.endswith(f"  3 {TIMES} ValueError: my bug (task.py:7)\n")


def test_trials_without_a_reply_will_be_retried(holdfast, server, tmp_path):
    server.behave(refuse_status=503, refuse_times=9, said="overloaded")
    eval_file = http_eval(tmp_path, server.base_url, 3, retry_deadline=0.001)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1).out
    why = "openai/counting answered 503 Service Unavailable: overloaded"
    assert ended == (
        f"Stopped: 0 of 3 valid; 3 got no reply: {why}. They are retried on resume.\nResume with: holdfast resume r\n"
    )
    server.behave()
    assert "Complete: 3 of 3" in holdfast("resume", "r", code=0).out


WRONG_NAME = "The model name cannot be changed in this run: correct it in the eval. r holds no results. Start a new run"
ANEW = "r holds no results. Start a new run with another --run-dir (in Python: run=), or delete r first."


def test_a_wrong_model_name_is_not_resumed(holdfast, server, tmp_path):
    """A server that does not know the model by its name says so."""
    said = "The model `counting` does not exist"
    server.behave(refuse_status=404, refuse_times=9, said=said)
    ended = holdfast("run", http_eval(tmp_path, server.base_url, 3, concurrency_limit=1), "--run-dir", "r", code=1)
    assert f"1 {TIMES} model disabled: openai/counting answered 404 Not Found: {said}.\n" in ended.out
    for text in (ended.out, holdfast("status", "r").out):
        flat = " ".join(text.split())
        assert WRONG_NAME in flat and ANEW in flat and "Resume with" not in text


def test_a_run_that_holds_no_results_names_the_way_out_that_works(holdfast, server, tmp_path):
    """After a wrong name, the corrected eval is refused at the same place, with or without --or-resume."""
    server.behave(refuse_status=404, refuse_times=9, said="The model `counting` does not exist")
    eval_file = http_eval(tmp_path, server.base_url, 2, concurrency_limit=1)
    holdfast("run", eval_file, "--run-dir", "r", code=1)
    server.behave()
    corrected = ("run", eval_file, "--set", "models.m.model=other", "--run-dir", "r")
    assert ANEW in " ".join(holdfast(*corrected, code=2).err.split())
    refused = " ".join(holdfast(*corrected, "--or-resume", code=3).err.split())
    assert ANEW in refused and refused.index(ANEW) < refused.index("Ways out")
    shutil.rmtree(tmp_path / "r")
    assert "Complete: 2 of 2" in holdfast(*corrected, code=0).out
    # Now it holds some.
    assert "no results" not in holdfast(*corrected, code=2).err
    again = ("run", eval_file, "--set", "models.m.model=third", "--run-dir", "r", "--or-resume")
    assert "no results" not in holdfast(*again, code=3).err


def test_a_wrong_name_beside_a_right_one_names_the_fork(holdfast, server, tmp_path):
    """What is finished is kept by a fork with the corrected name."""
    write_dataset(tmp_path, 2)
    wrong = {"provider": "openai", "model": "nope", "base_url": server.base_url}
    server.behave(refuse_status=404, refuse_times=9, said="The model `nope` does not exist")
    models = {"good": {"provider": "scripted", "model": "echo"}, "bad": wrong}
    data = {"models": models, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": TASK}}
    ended = holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", code=1)
    assert "The model name of bad cannot be changed in this run. Correct it in the eval, then:\n" in ended.out
    assert "holdfast fork r --config EVAL" in ended.out
    models["bad"]["model"] = "counting"
    server.behave()
    assert "2 kept" in holdfast("fork", "r", "--config", write_eval(tmp_path, data), "--run-dir", "f", code=0).out
    assert "Complete: 4 of 4" in holdfast("resume", "f", code=0).out


def test_scores_are_in_the_order_of_the_eval(holdfast, tmp_path):
    """Tasks and scorers, as in the dry run and the live table; also after a resume that adds trials."""
    write_dataset(tmp_path, 2)
    scored = {**TASK, "scorers": ["includes", "exact"]}
    models = {"m": {"provider": "scripted", "model": "echo"}}
    data = {"models": models, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"zeta": scored, "alpha": scored}}
    ended = holdfast("run", write_eval(tmp_path, data), "--run-dir", "r", code=0)
    resumed = holdfast("resume", "r", "--set", "tasks.alpha.epochs=2", code=0)
    wanted = [["zeta", "includes"], ["zeta", "exact"], ["alpha", "includes"], ["alpha", "exact"]]
    for text in (ended.out, resumed.out, holdfast("report", "r", code=0).out.partition("\n\n")[2]):
        assert [line.split()[:3:2] for line in text.partition("\n\n")[0].splitlines()[1:]] == wanted, text


# --fail-under


def test_a_score_below_its_bound_exits_1_and_names_both(holdfast, server, tmp_path):
    """Of `run`, `resume` and `report`; the run is complete all the same."""
    eval_file = http_eval(tmp_path, server.base_url, 6)
    told = "holdfast: --fail-under: t.m.exact is 0.666667, below 0.8.\n"
    ended = holdfast("run", eval_file, "--run-dir", "r", "--fail-under", "t.exact=0.8", "--fail-under", "0.5", code=1)
    assert ended.err.endswith(told) and "Complete: 6 of 6" in ended.out
    for verb in ("resume", "report"):
        assert holdfast(verb, "r", "--fail-under", "t.m.exact=0.8", code=1).err.endswith(told)
        assert "--fail-under" not in holdfast(verb, "r", "--fail-under", "exact=0.6666", code=0).err
        found = holdfast.json(verb, "r", "--fail-under", "exact=0.8", code=1)
        (result,) = found["fail_under"]
        assert result == {"score": "t.m.exact", "value": pytest.approx(2 / 3), "least": 0.8, "passed": False}
        assert found.get("exit_code", 1) == 1
    assert holdfast.json("status", "r")["state"] == "complete"


def test_a_name_that_the_eval_does_not_have_is_refused_before_anything(holdfast, server, tmp_path):
    """Exit code 2, nothing written and nothing called: of a declared task and of one in Python."""
    eval_file = http_eval(tmp_path, server.base_url, 2)
    for words in ((), ("--dry-run",)):
        ended = holdfast("run", eval_file, "--run-dir", "r", "--fail-under", "t.exakt=0.5", *words, code=2)
        assert "the eval has no score 't.exakt'. Did you mean 't.exact'?" in ended.err
    python = python_eval(tmp_path, server.base_url, BROKEN.format(broken={"none"}))
    assert "no score 'judge'" in holdfast("run", python, "--run-dir", "r", "--fail-under", "judge=1", code=2).err
    assert "does not end with a number" in holdfast("run", eval_file, "--fail-under", "t.exact", code=2).err
    assert not (tmp_path / "r").exists() and server.state()["received"] == 0
    holdfast("run", python, "--run-dir", "r", code=0)
    before = json.dumps(holdfast.json("status", "r"))
    for verb in ("resume", "report"):
        assert "no score 'judge'" in holdfast(verb, "r", "--fail-under", "judge=1", code=2).err
    assert json.dumps(holdfast.json("status", "r")) == before


def test_a_run_that_measured_nothing_does_not_pass(holdfast, server, tmp_path):
    """Its own exit code stands where it has one; a report of it is below every bound."""
    server.behave(refuse_status=503, refuse_times=9)
    eval_file = http_eval(tmp_path, server.base_url, 2, retry_deadline=0.001)
    ended = holdfast("run", eval_file, "--run-dir", "r", "--fail-under", "0.5", code=1)
    assert "--fail-under" not in ended.err
    told = holdfast("report", "r", "--fail-under", "0.5", code=1).err
    assert "--fail-under: t.m.exact has no value, below 0.5.\n" in told


def test_of_very_many_errors_only_some_are_read_and_that_is_said(holdfast, server, tmp_path):
    """The count of a line is never larger, nor smaller, than what the line says it is of."""
    server.behave(refuse_status=503, refuse_times=9, said="overloaded")
    eval_file = http_eval(tmp_path, server.base_url, 502, retry_deadline=0.001)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1).out
    assert ended.startswith("Stopped: 0 of 502 valid; 502 got no reply. They are retried on resume.\n")
    assert f"  Errors of the first 500 of 502 trials:\n  500 {TIMES} no reply: openai/counting answered 503" in ended


FAILING = """
from holdfast import Sample, Task, task

async def solve(trial):
    await trial.generate("draft")
    raise ValueError("my bug")

@task
def t():
    return Task(samples=[Sample("q1", target="a")], solver=solve, scorers="exact")
"""


def test_a_wrong_name_is_no_reason_to_delete_replies(holdfast, server, tmp_path):
    """No trial is finished, and yet replies are on record, which were paid for."""
    holdfast("run", python_eval(tmp_path, server.base_url, FAILING), "--run-dir", "r", code=1)
    server.behave(refuse_status=404, refuse_times=9, said="The model `counting` does not exist")
    ended = holdfast("resume", "r", "--redo", "status=failed", code=1)
    for text in (ended.out, holdfast("status", "r").out):
        assert "The model name of m cannot be changed in this run. Correct it in the eval, then:\n" in text
        assert "no results" not in text and "delete" not in text
