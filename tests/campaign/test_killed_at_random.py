"""Promises 1 and 2 over HTTP: killed again and again, against a server that counts what it was asked."""

from __future__ import annotations

import random

import pytest

from killing import Campaign


def new_seed():
    return random.SystemRandom().randrange(2**32)


def test_killed_50_times_every_acknowledged_trial_is_kept_once(observed, server, tmp_path):
    """Fifty kills at random moments: nothing acknowledged is lost, and only calls in flight are repeated."""
    campaign = Campaign(observed, server, tmp_path, trials=900, limit=8, seed=new_seed())
    campaign.run(kills=50, most_seconds=45, latency=0.05)
    assert campaign.kills == 50 or (campaign.ran_out_of_time and campaign.kills >= 15)


@pytest.mark.soak
@pytest.mark.parametrize("limit", [1, 16, 128])
def test_killed_200_times_by_a_server_that_also_fails(observed, server, tmp_path, limit):
    """The same for longer, with rate limits and failures of the server among the kills."""
    campaign = Campaign(observed, server, tmp_path, trials=200 + 60 * limit, limit=limit, seed=new_seed())
    trouble = {"refuse_status": 429, "refuse_times": 1, "retry_after": 0.01}
    campaign.run(kills=200, most_seconds=1800, latency=0.05, **trouble)
