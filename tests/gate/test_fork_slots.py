"""A fork keeps what score slots have asked, and lets no slot be attempted more often than a run of its own would."""

from __future__ import annotations

import signal
from contextlib import closing

import msgspec
import pytest

from durable import commit
from evals import python_eval
from holdfast.engine.trials.scopes import scope_in_key, slot_in_path
from holdfast.run import RunReader, SessionContents, open_session, session_record
from holdfast.run.core.records import Failure, ScoreRecord, Status, TrialRecord
from program import until

JUDGED = """
import asyncio, os
from holdfast import Message, Sample, Task, exact, generate, scorer, task

@scorer
async def judge(answer, sample, scope):
    attempt = os.path.getsize("asked") + 1 if os.path.exists("asked") else 1
    with open("asked", "a") as file:
        file.write("x")
    first = await scope.generate([Message("user", "verdict")], model="m")
    with scope.scope("part"):
        await scope.generate([Message("user", "reason")], model="m")
        await scope.generate("and", model="m")
    if attempt < HANGS_IN:
        raise ValueError("my bug")
    while not os.path.exists("go"):
        open("waiting", "w").close()
        await asyncio.sleep(0.01)
    return first.text == "VERDICT"

@task
def t():
    return Task(samples=[Sample("a", target="A")], solver=generate(), scorers=SCORERS)
"""
ASKED = ("verdict", "reason", "and")


def judged(hangs_in: int = 1, scorers: str = "[exact(), judge]") -> str:
    return JUDGED.replace("HANGS_IN", str(hangs_in)).replace("SCORERS", scorers)


def killed_while_it_waits(holdfast, tmp_path, *words: object) -> None:
    """A session that is killed when the judge has replied to everything."""
    (tmp_path / "waiting").unlink(missing_ok=True)
    started = holdfast.start(*words)
    until((tmp_path / "waiting").exists, "the judge has replied")
    started.send(signal.SIGKILL)
    started.wait()
    (tmp_path / "go").touch()


def check_complete(holdfast, run: str) -> None:
    status, report = holdfast.json("status", run), holdfast.json("report", run)
    assert (status["state"], status["finished"], report["cost"]) == ("complete", 1, None)
    assert status["usage"] == report["usage"]
    assert holdfast.json("verify", run, "--deep", code=0)["ok"]


@pytest.mark.parametrize("attempt", [1, 2])
def test_a_fork_keeps_the_replies_of_a_judge_that_was_killed(holdfast, server, tmp_path, attempt):
    """In whichever attempt of the slot: the fork pays for none of them again, and has them in the transcript."""
    eval_file = python_eval(tmp_path, server.base_url, judged(attempt), max_retries=1)
    killed_while_it_waits(holdfast, tmp_path, "run", eval_file, "--run-dir", "r")
    told = holdfast.json("fork", "r", "--run-dir", "f", code=0)
    assert (told["rescored"], told["remaining_by_reason"]) == (1, {})
    kept = [step for step in holdfast.records("f", "step") if step.get("role") == "judge"]
    scopes = [step["step"].partition(" ")[0] for step in kept]
    assert scopes == ["/score/judge", "/score/judge/part", "/score/judge/part"]
    assert all(step["source"] for step in kept)
    holdfast("resume", "f", code=0)
    assert server.worked_on() == {"a": 1, **dict.fromkeys(ASKED, attempt)}
    assert holdfast.json("status", "f")["calls"]["made"] == 0
    (score,) = [one for one in holdfast.records("f", "score") if one["scorer"] == "judge"]
    assert (score["value"], score["shares"][0]["reused"]) == (1.0, True)
    check_complete(holdfast, "f")


def test_a_fork_keeps_the_replies_of_a_judge_that_was_added_later(holdfast, server, tmp_path):
    """The trial was valid before: what the new judge was told until the kill is kept with its answer."""
    eval_file = python_eval(tmp_path, server.base_url, judged(scorers="[exact()]"))
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    python_eval(tmp_path, server.base_url, judged())
    killed_while_it_waits(holdfast, tmp_path, "resume", "r")
    assert holdfast.json("fork", "r", "--run-dir", "f", code=0)["rescored"] == 1
    holdfast("resume", "f", code=0)
    assert server.worked_on() == {"a": 1, **dict.fromkeys(ASKED, 1)}
    check_complete(holdfast, "f")


def test_a_fork_with_another_judge_pays_for_nothing_that_was_asked_before(holdfast, server, tmp_path):
    """Steps 18: its scorer could ask for something else, so no reply is kept; what it does ask again is replayed."""
    eval_file = python_eval(tmp_path, server.base_url, judged())
    killed_while_it_waits(holdfast, tmp_path, "run", eval_file, "--run-dir", "r")
    python_eval(tmp_path, server.base_url, judged().replace('"VERDICT"', '"verdict"'))
    holdfast("fork", "r", "--run-dir", "f", code=0)
    assert [step["step"][0] for step in holdfast.records("f", "step")] == ["g"]
    holdfast("resume", "f", code=0)
    assert server.worked_on() == {"a": 1, **dict.fromkeys(ASKED, 1)}
    assert holdfast.json("status", "f")["calls"]["saved"]["calls"] == 1 + len(ASKED)


def test_a_fork_keeps_the_transcripts_of_slots_that_are_filled(holdfast, server, tmp_path):
    """A trial that is kept whole has what its judges were asked, and what they took is counted once."""
    (tmp_path / "go").touch()
    eval_file = python_eval(tmp_path, server.base_url, judged(2), max_retries=1)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    assert holdfast.json("fork", "r", "--run-dir", "f", code=0)["taken"] == 1
    kept = [step for step in holdfast.records("f", "step") if step.get("role") == "judge"]
    assert [slot_in_path(scope_in_key(step["step"])) for step in kept] == ["score~2/judge"] * 3
    # Without the attempt of the slot that has failed, which is no part of what was kept.
    of_judge = sum(one["usage"]["input_tokens"] for one in kept)
    assert holdfast.json("report", "f")["usage"]["input_tokens"] == of_judge + 1
    check_complete(holdfast, "f")


# Attempts that took over an answer.

BROKEN = """
from pathlib import Path
from holdfast import Sample, Task, exact, generate, task

def strict(answer, sample):
    with open("asked", "a") as file:
        file.write("x")
    if Path("broken").exists():
        raise ValueError("my bug")
    return 1.0

@task
def t():
    return Task(samples=[Sample("a", target="A")], solver=generate(), scorers=[exact(), strict])
"""


def add_later_attempt(root, scores=(), **fields) -> None:
    """Adds the end of a second attempt, which took over the answer of the first one, as format 1 has them."""

    def make(reader, number, pins):
        last = reader.fold.session
        return session_record(reader.run.hex(), number, pins, SessionContents.carried_over(last))

    with closing(RunReader(root)) as reader:
        (end,) = [msgspec.json.decode(line, type=TrialRecord) for _, line in reader.stream([], "trial")]
    session = open_session(root, make)
    given = {"attempt": 2, "calls": 0, "replayed": 0, "usage": None, "error": None, "stage": "", **fields}
    for scorer in scores:
        commit(session, ScoreRecord(trial=end.trial, attempt=2, scorer=scorer, value=1.0))
    commit(session, msgspec.structs.replace(end, **given))
    session.close("complete")


@pytest.fixture
def failed(holdfast, server, tmp_path):
    """A run whose only trial has its answer, and whose scorer has failed."""
    (tmp_path / "broken").touch()
    holdfast("run", python_eval(tmp_path, server.base_url, BROKEN, max_retries=0), "--run-dir", "r", code=1)
    return tmp_path


def attempts_in(holdfast, run: str) -> set[int]:
    found = [record for kind in ("step", "answer", "score", "trial") for record in holdfast.records(run, kind)]
    return {record["attempt"] for record in found}


@pytest.mark.parametrize("status", [Status.FAILED, Status.UNFINISHED])
def test_a_fork_of_an_attempt_that_took_over_an_answer_is_one_attempt(holdfast, server, failed, status):
    """The slot that fails in the fork is failed there, a resume does not ask it again, and a redo asks it alone."""
    add_later_attempt(failed / "r", ["exact"], status=status, stage="score", error=Failure("ValueError", "my bug"))
    assert holdfast.json("fork", "r", "--run-dir", "f", code=0)["rescored"] == 1
    for _ in range(2):
        assert "1 failed (score: strict)" in holdfast("resume", "f", code=1).out
        assert (failed / "asked").stat().st_size == 2
    assert holdfast.json("status", "f")["remaining_by_reason"] == {"score: strict": 1}
    assert holdfast.json("report", "f")["tasks"]["t"]["m"]["metrics"]["exact"]["accuracy"]["n_trials"] == 1
    (failed / "broken").unlink()
    holdfast("resume", "f", "--redo", "status=failed", code=0)
    assert (attempts_in(holdfast, "f"), server.worked_on()) == ({1}, {"a": 1})
    check_complete(holdfast, "f")


def test_a_fork_keeps_a_valid_trial_that_took_over_its_answer(holdfast, server, failed):
    """With its transcript, as one attempt; a scorer that is added has an answer to judge."""
    add_later_attempt(failed / "r", ["strict"], status=Status.VALID)
    (failed / "broken").unlink()
    assert holdfast.json("fork", "r", "--run-dir", "f", code=0)["taken"] == 1
    assert attempts_in(holdfast, "f") == {1}
    check_complete(holdfast, "f")
    source = BROKEN.replace("strict]", "strict, includes()]").replace("exact,", "exact, includes,")
    python_eval(failed, server.base_url, source)
    holdfast("resume", "f", code=0)
    assert ((failed / "asked").stat().st_size, server.worked_on()) == (1, {"a": 1})
    check_complete(holdfast, "f")
