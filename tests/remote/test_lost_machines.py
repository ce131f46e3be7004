"""The machine is lost at random moments: what was uploaded is there, and the grid is completed."""

from __future__ import annotations

import random

import pytest
from losing import Losing


@pytest.mark.parametrize("durability", ["local", "remote"])
def test_lost_three_times_the_grid_is_completed(observed, server, place, durability):
    """Killed and its disk gone: at most what was not uploaded is lost under `local`, nothing under `remote`."""
    carry_out(observed, server, place, durability, losses=3, trials=150)


@pytest.mark.soak
@pytest.mark.parametrize("durability", ["local", "remote"])
def test_lost_twenty_times_the_grid_is_completed(observed, server, place, durability):
    """The same, twenty times."""
    assert carry_out(observed, server, place, durability, losses=20, trials=900).bounded


def carry_out(observed, server, place, durability, *, losses, trials):
    server.behave(latency=0.1)
    seed = random.SystemRandom().randrange(2**32)
    losing = Losing(observed, server, place, trials=trials, durability=durability, seed=seed)
    while losing.losses < losses and losing.lose_once():
        pass
    told = f"{losing.lost_trials} finished trials lost with them, {losing.most_lost} at once at the most"
    print(f"{losing.losses} losses, {losing.bounded} of them after several uploads; {told}")
    assert losing.losses == losses
    server.behave()
    losing.finish()
    return losing
