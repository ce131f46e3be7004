"""The checks of this directory catch what they are there for: each deliberately broken part fails them."""

from __future__ import annotations

import mutants
import pytest
import scenarios
from account import Broken
from power import PowerLoss
from test_power_loss import (
    SEED,
    fail_everywhere,
    fail_then_lose_power,
    kill_then_lose_power,
    operations_of_a_session,
    small_blobs,  # noqa: F401 - a fixture
)

WORKLOADS = (scenarios.abandoned, scenarios.orderly, scenarios.joined)
SOONEST = {"own_pins_only": scenarios.joined}
"""The workload that betrays a mutant, where it is not the first: the others would be examined in vain."""


def lose_power(directory, workloads=WORKLOADS, *, patience=0.0):
    """The first session of each workload and its successor, watched at every moment."""
    for workload in workloads:
        loss = PowerLoss(directory / workload.__name__, seed=SEED, per_moment=8, patience=patience)
        workload(loss.fs, loss.root, loss.account)
        loss.check()


def kill_and_lose_power(directory, name):
    """Sessions killed before each sync of this directory, the power lost at every moment of their successors."""
    operations = operations_of_a_session(directory / "whole")
    kills = [place for place, operation in enumerate(operations) if operation == ("sync_directory", name)]
    assert kills
    for kill in kills:
        kill_then_lose_power(directory / str(kill), kill, rate=1.0, per_moment=2)


@pytest.mark.parametrize(
    "name",
    [
        "no_sync",
        "own_pins_only",
        "old_segment",
        "unsynced_name",
        "no_rejournaling",
        "late_session_record",
        "vouching_early",
        "unsynced_footer",
        "unsynced_run",
        "unsynced_blob",
        "repeating_reader",
    ],
)
def test_a_power_loss_betrays(memory_path, monkeypatch, name):
    """Some state that a power loss may leave shows what the broken writer lost."""
    mutants.ALL[name](monkeypatch)
    with pytest.raises(Broken) as told:
        lose_power(memory_path, [SOONEST[name]] if name in SOONEST else WORKLOADS)
    print(told.value)


def test_a_power_loss_betrays_an_early_acknowledgement(memory_path, monkeypatch):
    """A record that is acknowledged before it is synced is missed after a power loss between the two."""
    mutants.early_acknowledgement(monkeypatch)
    with pytest.raises(Broken, match="acknowledged and lost"):
        lose_power(memory_path, patience=0.01)


@pytest.mark.parametrize(
    ("name", "directory"), [("unsettled_name", "runs"), ("trusted_blob", "blobs"), ("unsynced_parents", "disk")]
)
def test_a_kill_and_then_a_power_loss_betray(memory_path, monkeypatch, name, directory):
    """What a killed process left unsynced and its successor relied on is missed after a power loss."""
    mutants.ALL[name](monkeypatch)
    with pytest.raises(Broken) as told:
        kill_and_lose_power(memory_path, directory)
    print(told.value)


def fail_another_writer(directory):
    """Each sync of the other writer of a session fails, and then the power at any moment."""
    operations = operations_of_a_session(directory / "whole", scenarios.joined_session_of)
    syncs = [name for operation, name in operations if operation == "sync"]
    # The end counts what the last of them left.
    for nth in [place for place, name in enumerate(syncs, 1) if name.startswith("000001-0001-")][::-1]:
        fail_then_lose_power(directory / str(nth), nth, rate=0.3, per_moment=3, work=scenarios.joined_session_of)


def test_a_failed_sync_of_another_writer_betrays_an_end_that_counts_what_it_left(memory_path, monkeypatch):
    """A frame that only memory held, and that the end of the session counted, is missed after a power loss."""
    mutants.uncopied_writers(monkeypatch)
    with pytest.raises(Broken, match="the end counts") as told:
        fail_another_writer(memory_path)
    print(told.value)


def test_a_failed_sync_betrays_whoever_takes_it_for_one_that_worked(memory_path, monkeypatch):
    """Frames acknowledged after a failed sync are missed after a power loss."""
    mutants.forgiven_sync(monkeypatch)
    with pytest.raises(Broken) as told:
        fail_everywhere(memory_path, rate=1.0, per_moment=3)
    print(told.value)
