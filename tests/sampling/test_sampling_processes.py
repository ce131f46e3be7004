"""Samplings in real processes, against a real server: disconnects, rate limits, kills, forks and replies taken over."""

from __future__ import annotations

import json
import signal
from collections import Counter

import pytest

from counting_server import drawn_by
from evals import python_eval
from program import until

TASK = """
import asyncio
from holdfast import Sample, Task, TrialLimits, exact, task
from holdfast.sampling.requirements.requirement import Requirement
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.sampling.strategies.repair import Rejection

class Low(Requirement, frozen=True):
    is_quick = True
    below: int = 100

    def check(self, draft):
        is_met = draft.text.startswith("draw ") and int(draft.text.split()[1]) < self.below
        return Verdict(self.id, VerdictKind.PASSED if is_met else VerdictKind.FAILED, "" if is_met else "too high")

    def identity(self):
        return {"below": self.below}

async def solve(trial):
    strategy = Rejection(loop_budget=LOOPS, concurrency_budget=LANES, selection="SELECTION")
    return await trial.generate(trial.sample.input, strategy=strategy, requirements=[Low(id="low", below=BELOW)])

@task
def t():
    samples = [Sample(f"q{number}", target="draw 1") for number in range(SAMPLES)]
    return Task(samples=samples, solver=solve, scorers=exact(), limits=TrialLimits(time=TIME))
"""
LOOPS, LANES = 4, 3

LATER = """
import asyncio, pathlib

async def let_time_pass():
    loop = asyncio.get_running_loop()
    while not pathlib.Path("later").exists():
        await asyncio.sleep(0.01)
    clock = loop.time
    loop.time = lambda: clock() + 60

async def solve_later(trial):
    passing = asyncio.create_task(let_time_pass())
    return await solve(trial)
"""
"""A solver whose clock jumps ahead by a minute once there is a file `later`."""


def sampling_eval(directory, server, *, selection="deterministic", below=0, time=None, samples=1, lanes=LANES, **keys):
    """A trial of 3 x 4 candidates, of which those are valid that draw less than `below`."""
    values = {"LOOPS": LOOPS, "LANES": lanes, "SELECTION": selection, "BELOW": below, "TIME": time, "SAMPLES": samples}
    source = TASK
    for name, value in values.items():
        source = source.replace(name, str(value))
    return python_eval(directory, server.base_url, source, **keys)


def candidates(records) -> list[tuple[int, int, str]]:
    found = [record["result"] for record in records if record["type"] == "step" and record.get("name") == "candidate"]
    return [(one["lane"], one["turn"], one["status"]) for one in found]


def choices(records) -> list[dict]:
    return [record["result"] for record in records if record["type"] == "step" and record.get("name") == "choice"]


def ends(records) -> list[dict]:
    """The ends of trials, without what tells of sessions and of time."""
    told = {"id", "at", "seconds", "calls", "replayed", "tries"}
    found = [record for record in records if record["type"] == "trial"]
    return [{name: value for name, value in record.items() if name not in told} for record in found]


# Calls that are given up.


def test_sampling_3_after_a_success_the_server_sees_the_others_hang_up(holdfast, server, tmp_path):
    """Nothing is in flight when the run has ended; every loser is on record as cancelled."""
    server.behave(seeded=True, hold=True, together=4, **{"pass": 1})
    eval_file = sampling_eval(tmp_path, server, selection="first", below=100, lanes=4)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    state = server.wait_until_idle()
    assert (state["received"], state["answered"], state["aborted"], state["in_flight"]) == (4, 1, 3, 0)
    records = holdfast.records("r")
    assert Counter(status for _, _, status in candidates(records)) == {"valid": 1, "cancelled": 3}
    failed = [record["error"]["kind"] for record in records if record["type"] == "step" and "error" in record]
    assert Counter(failed) == {"cancelled": 6}, "three calls and three candidates"
    assert holdfast.json("status", "r")["calls"]["in_flight_at_kill"] == 0
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_sampling_3_a_time_limit_ends_every_lane(holdfast, server, tmp_path):
    """The server sees all of them hang up."""
    server.behave(seeded=True, hold=True)
    eval_file = sampling_eval(tmp_path, server, selection="first", time=60)
    task = tmp_path / "task.py"
    task.write_text(LATER + task.read_text().replace("solver=solve,", "solver=solve_later,"))
    process = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=LANES)
    (tmp_path / "later").touch()
    assert process.wait().code == 0
    state = server.wait_until_idle()
    assert (state["received"], state["aborted"], state["in_flight"]) == (LANES, LANES, 0)
    records = holdfast.records("r")
    assert [(end["status"], end["limit"]) for end in ends(records)] == [("limited", "time")]
    assert candidates(records) == [(lane, 0, "cancelled") for lane in range(LANES)]


def test_sampling_3_a_second_signal_gives_the_lanes_up_and_a_resume_asks_again(holdfast, server, tmp_path):
    """What the end of a session has stopped is not on record as cancelled."""
    server.behave(seeded=True, hold=True)
    eval_file = sampling_eval(tmp_path, server)
    process = holdfast.start("run", eval_file, "--run-dir", "r")
    server.wait_for(in_flight=LANES)
    process.send(signal.SIGINT)
    until(lambda: "to stop immediately" in process.told(), "the first signal was taken")
    process.send(signal.SIGINT)
    assert process.wait().code == 130
    assert server.wait_until_idle()["aborted"] == LANES
    assert candidates(holdfast.records("r")) == []
    server.behave(seeded=True)
    holdfast("resume", "r", code=0)
    assert sorted(candidates(holdfast.records("r"))) == [
        (lane, turn, "invalid") for lane in range(LANES) for turn in range(LOOPS)
    ]
    assert set(server.by_seed().values()) == {1, 2}


def test_sampling_19_rate_limits_of_a_server_use_up_no_turn(holdfast, server, tmp_path):
    """Every request is refused once with 429 and Retry-After; all candidates are drawn, and no lane has failed."""
    server.behave(seeded=True, refuse_status=429, refuse_times=1, retry_after=0.05)
    holdfast("run", sampling_eval(tmp_path, server), "--run-dir", "r", code=0)
    assert server.state()["refused"] == LANES * LOOPS
    assert set(server.by_seed().values()) == {1}
    assert Counter(status for _, _, status in candidates(holdfast.records("r"))) == {"invalid": LANES * LOOPS}


# Kills.


def undisturbed(holdfast, server, eval_file):
    """The records of the run that nobody kills, and which seeds it asked for."""
    holdfast("run", eval_file, "--run-dir", "clean", code=0)
    return holdfast.records("clean"), server.by_seed()


def test_sampling_22_killed_after_every_third_frame_of_a_grid(holdfast, server, tmp_path):
    """SIGKILL of a real process: the end is the same, and only calls in flight are repeated."""
    server.behave(seeded=True, jitter=0.02)
    eval_file = sampling_eval(tmp_path, server)
    clean, asked = undisturbed(holdfast, server, eval_file)
    assert len(asked) == LANES * LOOPS
    report = holdfast.json("report", "clean")
    kills = 0
    for frame in range(2, 60, 3):
        before, run = server.by_seed(), f"r{frame}"
        ended = holdfast("run", eval_file, "--run-dir", run, HOLDFAST_CRASH_AT=f"frame.acknowledged:{frame}")
        if ended.code == 0:
            break
        assert ended.code == -signal.SIGKILL
        kills += 1
        server.wait_until_idle()
        holdfast("resume", run, code=0)
        records = holdfast.records(run)
        assert ends(records) == ends(clean)
        assert choices(records) == choices(clean)
        again = {seed: count - before[seed] for seed, count in server.by_seed().items()}
        assert set(again) == set(asked)
        repeated = sum(count - 1 for count in again.values())
        assert 0 <= repeated <= LANES
        assert repeated <= holdfast.json("status", run)["calls"]["in_flight_at_kill"]
        found = holdfast.json("report", run)
        assert (found["tasks"], found["usage"]) == (report["tasks"], report["usage"])
        assert {record["kind"] for record in records if record["type"] == "note"} <= {"served"}
    print(f"{kills} kills")
    assert kills >= 4


def test_sampling_22_killed_again_and_again_the_choice_is_that_of_an_undisturbed_run(holdfast, server, tmp_path):
    """With deterministic selection and a server that draws by seed, no kill changes what is chosen."""
    server.behave(seeded=True, jitter=0.02)
    # So that some trials succeed at once, some late, and some not at all.
    eval_file = sampling_eval(tmp_path, server, below=12, samples=6)
    clean, _ = undisturbed(holdfast, server, eval_file)
    run = ("run", eval_file, "--run-dir", "torn", "--or-resume")
    codes = [holdfast(*run, HOLDFAST_CRASH_AT=f"frame.synced:{frame}").code for frame in (4, 3, 5, 4, 6)]
    assert -signal.SIGKILL in codes
    holdfast(*run, code=0)
    torn = holdfast.records("torn")
    texts = lambda records: {one["trial"]: one["text"] for one in records if one["type"] == "answer"}  # noqa: E731
    assert texts(torn) == texts(clean)
    places = lambda records: Counter((one["lane"], one["turn"], one["success"]) for one in choices(records))  # noqa: E731
    assert places(torn) == places(clean)
    assert len(choices(torn)) == 6
    assert holdfast.json("verify", "torn", code=0)["ok"]


def drawn(records) -> dict[str, int]:
    """By lane and turn, what was drawn; each is what its own seed gives."""
    found = {}
    for record in records:
        if record["type"] == "step" and record.get("name") == "generate" and "error" not in record:
            value = int(record["result"]["text"].split()[1])
            assert value == drawn_by(record["request"]["generation"]["seed"])
            found[record["step"].partition(" ")[0]] = value
    return found


@pytest.mark.parametrize("how", ["reuse", "fork"])
def test_sampling_28_another_run_takes_the_replies_of_a_killed_one_lane_by_lane(holdfast, server, tmp_path, how):
    """Every lane gets its own, in whatever order they are asked for now."""
    server.behave(seeded=True, jitter=0.03)
    eval_file = sampling_eval(tmp_path, server)
    ended = holdfast("run", eval_file, "--run-dir", "r", HOLDFAST_CRASH_AT="frame.acknowledged:9")
    assert ended.code == -signal.SIGKILL
    server.wait_until_idle()
    first, before = drawn(holdfast.records("r")), server.by_seed()
    assert first
    server.behave(seeded=True, latency=0.01)
    if how == "reuse":
        holdfast("run", eval_file, "--run-dir", "other", "--reuse", "r", code=0)
    else:
        holdfast("fork", "r", "--run-dir", "other", code=0)
        holdfast("resume", "other", code=0)
    other = drawn(holdfast.records("other"))
    assert len(other) == LANES * LOOPS
    assert first.items() <= other.items()
    asked = sum(server.by_seed().values()) - sum(before.values())
    assert asked == LANES * LOOPS - len(first)
    assert json.dumps(holdfast.json("verify", "other", code=0)["ok"]) == "true"
