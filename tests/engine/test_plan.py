"""The plan: every trial by a key of its own, without being listed."""

from __future__ import annotations

import itertools
import tracemalloc

import pytest

from engine.rig import Rig, ask, samples, simple_task
from engine.virtual import seeded
from holdfast import Sample, Task, exact, generate
from holdfast.engine.planning.plan import PlannedTask, TrialSequence, axis_values
from holdfast.engine.planning.trial_keys import KEY_BYTES, KeySet, trial_key
from holdfast.spec import TrialLimits

NOTHING = KeySet([])


def always(answer, sample):
    return True


class Rows:
    """A dataset that only knows its keys."""

    def __init__(self, count: int) -> None:
        self._count = count

    def __len__(self) -> int:
        return self._count

    def keyed_row(self, position: int) -> tuple[str, None]:
        return f"s{position}", None


def planned(count: int, epochs: int = 1, axes=(), name: str = "t", models=("m",)) -> PlannedTask:
    task = simple_task(1)
    return PlannedTask(name, task, Rows(count), models, axes or axis_values({}), epochs, TrialLimits(), 2, 60.0)


def keys_of(rig: Rig) -> dict[tuple, str]:
    """The key of every trial that a rig has run, by what it is."""
    return {(end.task, end.model, end.sample, end.epoch, *end.axes.items()): end.trial for end in rig.ends()}


def test_keys_do_not_depend_on_the_order_of_the_file_nor_on_other_tasks(tmp_path):
    """A trial is the same one in every session, whatever stands around it."""
    rows = samples(6)
    first = Rig(tmp_path / "1", Task(name="t", samples=rows, solver=ask, scorers=exact(), epochs=2))
    second = Rig(
        tmp_path / "2",
        [
            simple_task(3, name="another"),
            Task(name="t", samples=[*samples(2, start=10), *reversed(rows)], solver=ask, scorers=exact(), epochs=2),
        ],
    )
    first.session()
    second.session()
    keys, more = keys_of(first), keys_of(second)
    assert {place: more[place] for place in keys} == keys
    assert len(set(more.values())) == len(more) == 19


def test_keys_of_samples_without_an_id_follow_their_content(tmp_path):
    """A row is known by what it asks; the same row twice is two trials."""
    rows = [Sample("a"), Sample("b"), Sample("a")]
    rigs = [
        Rig(tmp_path / str(number), Task(name="t", samples=order, solver=ask, scorers=always))
        for number, order in enumerate([rows, rows[::-1]])
    ]
    for rig in rigs:
        rig.session()
    assert set(keys_of(rigs[0]).values()) == set(keys_of(rigs[1]).values())
    assert len(set(keys_of(rigs[0]).values())) == 3


def test_every_part_of_a_trial_is_part_of_its_key():
    """Task, model, axes, sample and epoch: none can be confused with another."""
    parts = [["t", "tt"], ["m", "mm"], [{}, {"a": "1"}, {"a": "1", "b": "2"}, {"b": "1"}], ["s", "s1", "1 s"], [1, 11]]
    keys = [trial_key(*place) for place in itertools.product(*parts)]
    assert len(set(keys)) == len(keys) == 96
    assert {len(key) for key in keys} == {2 * KEY_BYTES}


def test_sequences_give_the_keys_that_trials_are_named_by():
    """What is planned and what can be computed for one trial agree."""
    task = planned(2, epochs=2, axes=axis_values({"prompt": ["x", "y"]}))
    trials = list(TrialSequence(task, "m", NOTHING, NOTHING).trials())
    assert [trial.key for trial in trials] == [
        trial_key("t", "m", trial.axes, f"s{trial.position}", trial.epoch) for trial in trials
    ]


def test_every_sample_is_asked_once_before_any_is_asked_twice():
    """Epoch after epoch, and within an epoch sample after sample with all its axis values."""
    trials = TrialSequence(planned(3, epochs=2, axes=axis_values({"p": ["x", "y"]})), "m", NOTHING, NOTHING).trials()
    order = [(trial.epoch, trial.position, trial.axes["p"]) for trial in trials]
    assert order == [(epoch, position, value) for epoch in (1, 2) for position in range(3) for value in "xy"]


def test_axes_are_a_grid(tmp_path):
    """Every combination of values is a trial; the solver and the record know which."""

    async def solve(trial):
        return f"{trial.axes['size']} {trial.axes['tone']}"

    task = Task(
        name="t",
        samples=samples(2),
        solver=solve,
        scorers=always,
        axes={"tone": ["kind", "rude"], "size": ["s", "m", "l"]},
    )
    rig = Rig(tmp_path / "r", task)
    assert rig.session().ended.counts.planned == 12
    assert len({(end.sample, *sorted(end.axes.items())) for end in rig.ends()}) == 12


def test_prompt_variants_are_an_axis(tmp_path):
    """Several prompts are as many trials for each sample."""
    task = Task(
        name="t", samples=samples(2), solver=generate({"short": "{input}", "long": "Please: {input}"}), scorers=exact()
    )
    rig = Rig(tmp_path / "r", task)
    rig.session()
    assert sorted(end.axes["prompt"] for end in rig.ends()) == ["long", "long", "short", "short"]


def test_a_million_trials_start_at_once_and_take_no_memory():
    """Only the trial that is asked for is made."""
    task = planned(1_000, epochs=1_000)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        trials = TrialSequence(task, "m", NOTHING, NOTHING).trials()
        first = next(trials)
        for _ in range(20_000):
            next(trials)
        grown = tracemalloc.get_traced_memory()[0] - before
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert task.planned == 1_000_000
    assert (first.position, first.epoch) == (0, 1)
    assert grown < 20_000
    assert peak < 100_000


def test_only_as_many_trials_are_made_as_can_run_at_once(tmp_path):
    """The rest of a large plan waits as a number, not as objects."""
    rig = Rig(tmp_path / "r", simple_task(20, epochs=50), settings={"concurrency_limit": 8})
    made, most = [0], [0]

    def look(execution):
        made[0] = len(execution._scheduler.tasks)
        most[0] = max(most[0], made[0])

    rig.actors["m"]._seconds = 1.0
    rig.looks = [look]
    assert rig.session().ended.counts.finished == 1000
    assert most[0] == 8


@pytest.mark.parametrize("seed", range(5))
def test_a_key_set_is_a_set(seed):
    """Whatever order keys come in, exactly those are in it; what is no key is passed over."""
    rng = seeded(seed)
    digests = [rng.randbytes(10) for _ in range(2_000)]
    # Keys that share their first eight bytes are told apart too.
    digests += [digest[:8] + rng.randbytes(2) for digest in digests[:200]]
    texts = [digest.hex() for digest in digests]
    others = [rng.randbytes(10) for _ in range(2_000)] + [digest[:9] + bytes([digest[9] ^ 1]) for digest in digests]
    for order in (texts, sorted(texts), [*texts, "not a key", "", "zz" * 10, "ab"]):
        found = KeySet(order)
        assert len(found) == len(texts)
        assert sorted(found) == sorted(texts)
        assert all(digest in found for digest in digests)
        assert not any(digest in found for digest in set(others) - set(digests))


def test_a_key_set_takes_ten_bytes_a_key():
    """A hundred thousand finished trials are a megabyte; at most 64 bytes each are promised."""
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        found = KeySet(f"{number:020x}" for number in range(100_000))
        grown = tracemalloc.get_traced_memory()[0] - before
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    assert len(found) == 100_000
    assert grown < 15 * 100_000
    assert peak < 30 * 100_000


def test_finished_trials_are_not_started_again(tmp_path):
    """A resumed session skips what is there and does the rest."""
    rig = Rig(tmp_path / "r", simple_task(50), settings={"concurrency_limit": 5})
    rig.actors["m"]._seconds = 1.0
    rig.killed_session(5.5)
    done = rig.actors["m"].calls
    session = rig.session()
    assert session.ended.exit_code == 0
    assert rig.actors["m"].calls <= 50 + 5
    assert 0 < done < 50
    assert len({end.trial for end in rig.ends()}) == len(rig.ends()) == 50
