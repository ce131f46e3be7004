"""Row 43: of two sessions that begin at once exactly one works; the other is told who does, and nothing runs twice."""

from __future__ import annotations

import re
import socket

import pytest
from no_locks import LocklessZygote

from evals import http_eval
from program import until

SAMPLES = 2


@pytest.fixture(scope="module")
def lockless():
    made = LocklessZygote()
    yield made
    made.end()


def race(starter, server, directory, rounds):
    """Two resumes at once, round after round, each for one epoch more; the runs of this program hold back replies."""
    eval_file = http_eval(directory, server.base_url, SAMPLES, concurrency_limit=SAMPLES)
    first = starter.start(("run", eval_file, "--run-dir", "r"), directory, {})
    assert first.wait().code == 0
    for number in range(2, rounds + 2):
        server.behave(hold=True)
        command = ("resume", "r", "--set", f"epochs={number}")
        both = [starter.start(command, directory, {}) for _ in range(2)]
        loser = until(lambda pair=both: next((one for one in pair if not one.is_running), None), "one of two has ended")
        winner = next(one for one in both if one is not loser)
        check_loser(loser.wait(), winner.pid)
        # Its first call goes alone; the others wait for its reply.
        server.wait_for(in_flight=1)
        assert winner.is_running
        server.behave()
        ended = winner.wait()
        assert ended.code == 0 and f"Complete: {SAMPLES * number} of {SAMPLES * number}" in ended.out, ended
        assert server.worked_on() == {f"q{sample}": number for sample in range(1, SAMPLES + 1)}


def check_loser(ended, holder):
    assert ended.code == 4, ended
    told = (
        rf"is in use by process {holder} on {re.escape(socket.gethostname())} since \d{{4}}-\d\d-\d\d [\d:]{{8}} UTC\."
    )
    assert re.search(told, ended.err), ended.err
    assert "Wait until it ends, or stop it, then resume." in ended.err and ended.out == ""


def check_run(starter, directory, rounds):
    """Every session is one that worked, and every trial ended once."""
    status = starter.start(("status", "r", "--json"), directory, {}).wait().json
    assert [session["ended_as"] for session in status["sessions"]] == ["completed"] * (rounds + 1)
    assert [session["calls"] for session in status["sessions"]] == [SAMPLES] * (rounds + 1)
    assert status["finished"] == status["calls"]["made"] == SAMPLES * (rounds + 1)
    lines = starter.start(("cat", "r"), directory, {}).wait().out.splitlines()
    ends = [re.search(r'"trial":"(\w+)"', line)[1] for line in lines if '"type":"trial"' in line]
    assert len(ends) == len(set(ends)) == SAMPLES * (rounds + 1)
    assert starter.start(("verify", "r"), directory, {}).wait().code == 0


def test_resume_43_two_resumes_at_once(zygote, server, tmp_path):
    """Twelve times two real processes: one runs, the other exits 4 and names host, process and since when."""
    race(zygote, server, tmp_path, 12)
    check_run(zygote, tmp_path, 12)


def test_resume_43_two_resumes_at_once_without_locks(lockless, server, tmp_path):
    """The same where the filesystem has no locks and a heartbeat file stands in."""
    race(lockless, server, tmp_path, 8)
    check_run(lockless, tmp_path, 8)


@pytest.mark.soak
@pytest.mark.parametrize("locks", [True, False])
def test_resume_43_two_resumes_fifty_times(zygote, lockless, server, tmp_path, locks):
    """The same, fifty times each."""
    starter = zygote if locks else lockless
    race(starter, server, tmp_path, 50)
    check_run(starter, tmp_path, 50)


def test_resume_43_a_run_that_is_begun_twice_at_once(zygote, server, tmp_path):
    """Of two that create the same run one does; the other is told, or goes on only when the first has ended."""
    server.behave(latency=0.05)
    eval_file = http_eval(tmp_path, server.base_url, SAMPLES)
    for number in range(4):
        command = ("run", eval_file, "--run-dir", f"r{number}", "--or-resume")
        both = [zygote.start(command, tmp_path, {}) for _ in range(2)]
        ended = sorted(one.wait() for one in both)
        assert ended[0].code == 0 and ended[1].code in {0, 2, 4}, ended
        assert server.worked_on() == {f"q{sample}": number + 1 for sample in range(1, SAMPLES + 1)}
        assert not list(tmp_path.glob(".r*.creating-*"))
