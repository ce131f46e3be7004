"""Signals while agents work: experiments 5, 6, 18 and 21."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from pathlib import Path

import msgspec
import pytest

from agents.agent_evals import agent_eval, git, left_in, make_repository, make_template, processes_below
from holdfast.tasks.workspaces.capture import write_base
from holdfast.tasks.workspaces.trial_directory import TrialDirectory
from program import stop_process, until

COUNTS = """
log = Path({log!r})
with log.open("a") as file: file.write(json.dumps([sys.argv[1:], sorted(os.listdir("."))]) + "\\n")
Path("half").touch()
import subprocess
subprocess.Popen(["sleep", "300"], start_new_session=True)
while not Path({go!r}).exists(): time.sleep(0.02)
print("done")
"""


def counting(tmp_path, **options):
    make_template(tmp_path)
    script = COUNTS.format(log=str(tmp_path / "log"), go=str(tmp_path / "go"))
    return agent_eval(tmp_path, script, **options)


def starts(tmp_path):
    path = tmp_path / "log"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def start_and_wait(holdfast, tmp_path, *arguments, many=1):
    started = holdfast.start(*arguments)
    until(lambda: len(starts(tmp_path)) >= many or not started.is_running, "the agents work")
    assert started.is_running, started.wait()
    return started


def test_a_killed_runner_leaves_no_agent_and_the_stage_runs_again(holdfast, tmp_path):
    """Experiments 5, 6: the workspace is made anew, because nothing continues what was half done."""
    started = start_and_wait(holdfast, tmp_path, "run", counting(tmp_path), "--run-dir", "r")
    started.kill()
    until(lambda: not processes_below(tmp_path), "the agent and its daemon have ended")
    (tmp_path / "go").touch()
    holdfast("resume", "r", code=0)
    assert len(starts(tmp_path)) == 2
    assert "half" not in starts(tmp_path)[1][1]
    assert [step["name"] for step in holdfast.records("r", "step")].count("prepare") == 1
    status = holdfast.json("status", "r")
    assert (status["valid"], status["calls"]["repeated"]["interrupted"]) == (1, 1)
    assert left_in(tmp_path / "r") == []


def test_an_agent_whose_stage_is_on_record_is_not_started_again(holdfast, tmp_path):
    """Experiments 5: killed while the checks run, after the agent."""
    (tmp_path / "go").touch()
    first = f"echo x >> {tmp_path / 'first'}"
    wait = f"while [ ! -e {tmp_path / 'end'} ]; do sleep 0.02; done"
    check = f"touch made-by-the-check; touch {tmp_path / 'checking'}; {wait}"
    eval_ = counting(tmp_path, workspace={"checks": [first, check]}, scorers=["checks"])
    started = holdfast.start("run", eval_, "--run-dir", "r")
    until((tmp_path / "checking").exists, "the check runs")
    started.kill()
    until(lambda: not processes_below(tmp_path), "the check has ended")
    (tmp_path / "end").touch()
    holdfast("resume", "r", code=0)
    assert len(starts(tmp_path)) == 1
    assert [file["path"] for file in holdfast.records("r", "answer")[0]["value"]["changed_files"]] == ["half"]
    assert (tmp_path / "first").read_text() == "x\n"


def test_a_workspace_of_another_attempt_is_not_captured(holdfast, tmp_path):
    """A message and a patch are of the same work."""
    (tmp_path / "go").touch()
    eval_ = counting(tmp_path, workspace={"keep": "always"})
    holdfast("run", eval_, "--run-dir", "r", "--until", "solve")
    (ready,) = (tmp_path / "r" / "workspaces").glob("*/state/ready.json")
    ready.write_text(json.dumps({**json.loads(ready.read_text()), "attempt": 7}))
    holdfast("resume", "r")
    assert "is that of attempt 7" in holdfast.records("r", "trial")[-1]["error"]["message"]


@pytest.mark.parametrize("is_changed", [False, True])
def test_experiments_5_an_agent_that_ended_while_nobody_could_record_it_is_paid_once(holdfast, tmp_path, is_changed):
    """Its end is noted by its supervisor; only in a workspace that was changed since does it work again."""
    started = start_and_wait(holdfast, tmp_path, "run", counting(tmp_path), "--run-dir", "r")
    stop_process(started.pid)
    (tmp_path / "go").touch()
    (end,) = until(lambda: list((tmp_path / "r").glob("workspaces/*/state/ended.json")), "its end is noted")
    started.kill()
    until(lambda: not processes_below(tmp_path), "nothing is left")
    if is_changed:
        (end.parent.parent / "work" / "by hand").touch()
    holdfast("resume", "r", code=0)
    assert len(starts(tmp_path)) == 1 + is_changed
    answer = holdfast.records("r", "answer")[0]
    assert answer["text"] == "done"
    assert [file["path"] for file in answer["value"]["changed_files"]] == ["half"]
    assert left_in(tmp_path / "r") == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_group_ends_the_agents_and_scores_none(holdfast, tmp_path, number):
    """Experiments 18: what was finished stays; the others are unfinished, and continue."""
    eval_ = counting(tmp_path, samples=3, grace_period=0.5, agent={"grace": 0.3})
    started = start_and_wait(holdfast, tmp_path, "run", eval_, "--run-dir", "r", many=3)
    started.send_group(number)
    assert started.wait().code == 128 + number
    assert processes_below(tmp_path) == []
    status = holdfast.json("status", "r")
    assert (status["valid"], status["failed"]) == (0, 0)
    assert holdfast.records("r", "score") == []
    (tmp_path / "go").touch()
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["valid"] == 3
    assert left_in(tmp_path / "r") == []


def test_the_first_interrupt_lets_agents_finish(holdfast, tmp_path):
    """Experiments 18."""
    started = start_and_wait(holdfast, tmp_path, "run", counting(tmp_path), "--run-dir", "r")
    started.send_group(signal.SIGINT)
    until(lambda: "Ctrl-C" in started.told(), "it says that it waits")
    (tmp_path / "go").touch()
    started.wait()
    holdfast("resume", "r")
    assert len(starts(tmp_path)) == 1
    assert holdfast.json("status", "r")["valid"] == 1


SESSION = """
log = Path({log!r})
with log.open("a") as file: file.write(json.dumps([sys.argv[1:], sorted(os.listdir("."))]) + "\\n")
print(json.dumps({{"type": "system", "subtype": "init", "session_id": "abc-1", "model": "tiny-2"}}), flush=True)
Path("half").touch()
while not Path({go!r}).exists(): time.sleep(0.02)
print(json.dumps({{"type": "result", "is_error": False, "result": "done " + sys.argv[1], "session_id": "abc-1",
    "usage": {{"input_tokens": 10, "cache_read_input_tokens": 5, "output_tokens": 7}}, "total_cost_usd": 0.25}}))
"""


def with_session(tmp_path):
    make_template(tmp_path)
    script = SESSION.format(log=str(tmp_path / "log"), go=str(tmp_path / "go"))
    resume = [sys.executable, str(tmp_path / "agent.py"), "resumed", "{session}"]
    return agent_eval(tmp_path, script, agent={"output": "stream-json", "resume_command": resume})


def test_a_session_of_the_agent_is_resumed_after_a_kill(holdfast, tmp_path):
    """Experiments 21: the workspace is as the agent left it."""
    started = start_and_wait(holdfast, tmp_path, "run", with_session(tmp_path), "--run-dir", "r")
    until(lambda: list((tmp_path / "r").glob("workspaces/*/work/half")), "it has done something")
    until(
        lambda: any(b"abc-1" in path.read_bytes() for path in (tmp_path / "r").glob("workspaces/*/state/stdout")),
        "its session is known",
    )
    started.kill()
    until(lambda: list((tmp_path / "r").glob("workspaces/*/state/ended.json")), "its end is noted")
    (tmp_path / "go").touch()
    holdfast("resume", "r", code=0)
    arguments, there = starts(tmp_path)[1]
    assert arguments == ["resumed", "abc-1"]
    assert "half" in there
    assert holdfast.records("r", "answer")[0]["text"] == "done resumed"
    assert holdfast.json("status", "r")["usage"]["input_tokens"] == 15


def test_a_session_is_not_resumed_in_a_workspace_that_has_changed(holdfast, tmp_path):
    """Experiments 21: otherwise the stage runs again."""
    started = start_and_wait(holdfast, tmp_path, "run", with_session(tmp_path), "--run-dir", "r")
    until(lambda: list((tmp_path / "r").glob("workspaces/*/work/half")), "it has done something")
    started.kill()
    (end,) = until(lambda: list((tmp_path / "r").glob("workspaces/*/state/ended.json")), "its end is noted")
    (end.parent.parent / "work" / "by hand").touch()
    (tmp_path / "go").touch()
    holdfast("resume", "r", code=0)
    arguments, there = starts(tmp_path)[1]
    assert arguments != ["resumed", "abc-1"]
    assert "half" not in there


def test_what_a_killed_preparation_leaves_is_removed(holdfast, tmp_path):
    """Experiments 23."""
    (tmp_path / "go").touch()
    setup = f"touch half-made; touch {tmp_path / 'setup'}; while [ ! -e {tmp_path / 'end'} ]; do sleep 0.02; done"
    eval_ = counting(tmp_path, workspace={"setup": setup, "keep": "never"})
    started = holdfast.start("run", eval_, "--run-dir", "r")
    until((tmp_path / "setup").exists, "the setup runs")
    started.kill()
    until(lambda: not processes_below(tmp_path), "the setup has ended")
    assert len(left_in(tmp_path / "r")) == 1
    (tmp_path / "end").touch()
    holdfast("resume", "r", code=0)
    assert left_in(tmp_path / "r") == []
    assert "half-made" in starts(tmp_path)[0][1]


def test_ledger_no_more_calls_may_be_billed_twice_than_agents_could_work(holdfast, tmp_path):
    """Two at once by the limit; in the second session, only one trial is left."""
    eval_ = counting(tmp_path, samples=3, concurrency_limits={"solve": 2})
    started = start_and_wait(holdfast, tmp_path, "run", eval_, "--run-dir", "r", many=2)
    started.kill()
    until(lambda: not processes_below(tmp_path), "the agents have ended")
    assert holdfast.json("status", "r")["sessions"][-1]["in_flight_at_kill"] == 2
    (tmp_path / "go").touch()
    holdfast("resume", "r", "--where", "sample!=s0")
    (tmp_path / "go").unlink()
    seen = len(starts(tmp_path))
    started = start_and_wait(holdfast, tmp_path, "resume", "r", many=seen + 1)
    started.kill()
    until(lambda: not processes_below(tmp_path), "the agent has ended")
    assert holdfast.json("status", "r")["sessions"][-1]["in_flight_at_kill"] == 1


def paused_after_solving(holdfast, tmp_path) -> Path:
    """The workspace of a trial whose agent has worked, and that is not captured yet; `log` counts the agents."""
    make_repository(tmp_path)
    script = f"open({str(tmp_path / 'log')!r}, 'a').write('x'); Path('made').write_text('by the agent'); print('done')"
    eval_ = agent_eval(tmp_path, script, workspace={"repo": "template"}, task={"runner": {"max_retries": 0}})
    holdfast("run", eval_, "--run-dir", "r", "--until", "solve")
    (work,) = (tmp_path / "r" / "workspaces").glob("*/work")
    return work


def test_experiments_5_looking_at_a_paused_workspace_with_git_costs_nothing(holdfast, tmp_path):
    """Git writes its index where it only reports."""
    work = paused_after_solving(holdfast, tmp_path)
    os.utime(work / ".git" / "index", (1, 1))
    (work / ".git" / "index.seen").touch()
    git(work, "status")
    holdfast("resume", "r", code=0)
    assert (tmp_path / "log").read_text() == "x"
    assert "+by the agent" in holdfast.records("r", "answer")[-1]["value"]["diff"]


WORKSPACE_CHANGES = {
    "edited": ("main.py (changed)", lambda work: (work / "main.py").write_text("print('two')\n")),
    "truncated": ("made (shorter)", lambda work: (work / "made").write_text("")),
    "deleted": ("made (missing)", lambda work: (work / "made").unlink()),
    "swap file": (".made.swp (new)", lambda work: (work / ".made.swp").touch()),
    "repository removed": (".git (missing)", lambda work: shutil.rmtree(work / ".git")),
    "base damaged": ("damaged", lambda work: (work.parent / "state" / "base.json").write_bytes(b"{")),
}


@pytest.mark.parametrize("change", WORKSPACE_CHANGES)
def test_experiments_5_a_changed_workspace_is_neither_captured_nor_paid_for_again(holdfast, tmp_path, change):
    """The changed files are named with the ways out; the trial stays unfinished, however often it is resumed."""
    named, make = WORKSPACE_CHANGES[change]
    work = paused_after_solving(holdfast, tmp_path)
    make(work)
    for _ in range(2):
        holdfast("resume", "r")
        end = holdfast.records("r", "trial")[-1]
        assert (end["status"], end["error"]["kind"]) == ("unfinished", "workspace")
        assert named in end["error"]["message"] and "--from prepare" in end["error"]["message"]
    assert (tmp_path / "log").read_text() == "x"
    assert not holdfast.records("r", "answer")


def test_experiments_5_a_changed_workspace_can_be_put_right_captured_as_it_is_or_made_again(holdfast, tmp_path):
    work = paused_after_solving(holdfast, tmp_path)
    (work / "extra").write_text("by hand")
    holdfast("resume", "r")
    shutil.copytree(tmp_path / "r", tmp_path / "kept", symlinks=True)
    (work / "extra").unlink()
    holdfast("resume", "r", code=0)
    assert [file["path"] for file in holdfast.records("r", "answer")[-1]["value"]["changed_files"]] == ["made"]
    for stage, files, agents in (("capture", ["extra", "made"], "x"), ("prepare", ["made"], "xx")):
        shutil.rmtree(tmp_path / "r")
        shutil.copytree(tmp_path / "kept", tmp_path / "r", symlinks=True)
        holdfast("resume", "r", "--from", stage, "--where", "sample=s0", code=0)
        found = holdfast.records("r", "answer")[-1]["value"]["changed_files"]
        assert [file["path"] for file in found] == files
        assert (tmp_path / "log").read_text() == agents


@pytest.mark.parametrize("what", ["work", "."])
def test_experiments_5_a_workspace_that_is_gone_is_made_again(holdfast, tmp_path, what):
    """The agent works again, in a new workspace, also where nothing is to be retried."""
    work = paused_after_solving(holdfast, tmp_path)
    shutil.rmtree(work.parent / what)
    holdfast("resume", "r", code=0)
    assert (tmp_path / "log").read_text() == "xx"
    answer = holdfast.records("r", "answer")[-1]
    assert "+by the agent" in answer["value"]["diff"] and answer["value"]["changed"] == 1
    lost, end = holdfast.records("r", "trial")[-2:]
    assert (lost["status"], lost["error"]["kind"], lost["will_retry"]) == ("failed", "WorkLost", True)
    assert (end["status"], end["attempt"]) == ("valid", 2)
    holdfast("verify", "r", "--deep", code=0)


def test_an_agent_that_deletes_its_workspace_is_named_as_the_cause(holdfast, tmp_path):
    """Nothing is said of another machine, on which the agent has never been."""
    script = "import shutil; shutil.rmtree(Path.cwd().parent, ignore_errors=True); print('done')"
    eval_ = agent_eval(tmp_path, script, agent={"tries": 1}, task={"runner": {"max_retries": 0}})
    told = holdfast("run", eval_, "--run-dir", "r")
    text = told.err + told.out + str([end.get("error") for end in holdfast.records("r", "trial")])
    assert "is gone: the agent or somebody else has deleted it" in text
    assert "machine" not in text.replace("on the machine that has it", "")


CRASH_DAMAGE = {
    "missing": (lambda work: (work / "made").unlink(), True),
    "shorter": (lambda work: (work / "made").write_text(""), True),
    "new": (lambda work: (work / "other").touch(), False),
    "longer": (lambda work: (work / "made").write_text("more than before"), False),
}


@pytest.mark.parametrize("damage", CRASH_DAMAGE)
def test_experiments_5_only_what_a_crash_does_counts_as_lost_after_a_restart_of_the_machine(tmp_path, damage):
    make, is_lost = CRASH_DAMAGE[damage]
    directory = TrialDirectory(tmp_path, "ab")
    directory.make()
    (directory.workspace / "made").write_text("by the agent")
    write_base(directory)
    directory.set_ready("i", 1)
    used = directory.used()
    assert used is not None and directory.change_since(used) is None
    make(directory.workspace)
    change, later = directory.change_since(used), directory.change_since(msgspec.structs.replace(used, boot="other"))
    assert change is not None and not change.is_lost
    assert later is not None and later.is_lost is is_lost
