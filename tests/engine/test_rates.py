"""Rate limits: so many requests and so many tokens a minute, over any minute, in virtual time."""

from __future__ import annotations

import asyncio
from bisect import bisect_left

import pytest

from engine.rig import Actor, Rig, interrupt, said, simple_task
from engine.virtual import VirtualClock, VirtualLoop, run_virtually, seeded
from holdfast.engine.model_calls.rate_limit import MinuteQuota, RateLimiter
from holdfast.engine.model_calls.token_estimate import TokenEstimate
from holdfast.models.errors import RateLimited
from holdfast.models.message import Message, Request, Usage
from holdfast.spec import RateLimit


def most_in_a_minute(events: list[tuple[float, float]]) -> float:
    """The largest sum of amounts in any half-open minute."""
    events = sorted(events)
    times = [moment for moment, _ in events]
    sums = [
        sum(amount for _, amount in events[place : bisect_left(times, moment + 60.0 - 1e-6)])
        for place, moment in enumerate(times)
    ]
    return max(sums)


def limited(tmp_path, actor: Actor, count: int, **limits) -> Rig:
    return Rig(tmp_path / "r", simple_task(count), {"m": actor}, {"m": {"rate_limit": limits}})


@pytest.mark.parametrize("per_minute", [1, 7, 60, 600])
def test_requests_keep_to_the_limit_over_any_minute_and_use_it_up(tmp_path, per_minute):
    """No minute sees more requests than allowed, and all that is allowed is used."""
    actor = Actor(seconds=2.0)
    count = min(per_minute * 3, 700)
    session = limited(tmp_path, actor, count, requests_per_minute=per_minute).session()
    assert most_in_a_minute([(moment, 1) for moment, _ in actor.tries]) <= per_minute
    assert session.seconds <= 2.0 + 60.0 * count / per_minute


def test_requests_are_spread_evenly(tmp_path):
    """Sixty a minute are about one a second, not sixty at once."""
    actor = Actor()
    limited(tmp_path, actor, 100, requests_per_minute=60).session()
    seconds = [int(moment) for moment, _ in actor.tries]
    assert max(seconds.count(second) for second in set(seconds)) <= 2


def test_tries_count_as_requests(tmp_path):
    """What a server answers with 429 was a request too."""

    async def behave(request, number):
        if number < 3:
            raise RateLimited("slow down", retry_after=1.0)
        return said("Q")

    actor = Actor(behave)
    limited(tmp_path, actor, 40, requests_per_minute=30).session()
    assert actor.calls == 120
    assert most_in_a_minute([(moment, 1) for moment, _ in actor.tries]) <= 30


def test_tokens_keep_to_the_limit_over_any_minute(tmp_path):
    """The first hundred requests do not all go out because nobody knows yet what they will take."""
    spent: list[tuple[float, float]] = []

    async def behave(request, number):
        spent.append((asyncio.get_running_loop().time(), 120))
        await asyncio.sleep(3.0)
        return said("Q", (20, 100))

    actor = Actor(behave)
    session = limited(tmp_path, actor, 100, tokens_per_minute=1200).session()
    # The first estimate is a guess; from the first reply on it is known what a reply takes.
    assert most_in_a_minute(spent) <= 1200
    assert session.seconds <= 60.0 * 100 * 120 / 1200 * 1.5


def test_a_request_larger_than_the_quota_goes_alone(tmp_path):
    """It goes out rather than never, and nothing else goes with it."""
    spent: list[tuple[float, float]] = []

    async def behave(request, number):
        spent.append((asyncio.get_running_loop().time(), 1))
        return said("Q", (100, 1900))

    limited(tmp_path, Actor(behave), 4, tokens_per_minute=500).session()
    assert most_in_a_minute(spent) == 1


@pytest.mark.parametrize("seed", range(20))
def test_what_is_reserved_never_exceeds_a_quota(seed):
    """Random sizes, gaps and corrections: over any minute what was reserved, as it turned out, is within the limit."""
    rng = seeded(seed)
    limit = rng.choice([3, 60, 1_000, 50_000])
    clock = VirtualClock(VirtualLoop())
    clock._loop.close()
    quota, reserved = MinuteQuota(limit, clock), []
    for _ in range(400):
        clock._loop.now += rng.choice([0.0, 0.0, rng.expovariate(1.0)])
        amount = rng.uniform(0.0, limit / rng.choice([1, 3, 30]))
        while wait := quota.wait_seconds(amount, clock.monotonic()):
            clock._loop.now += wait
        reserved.append(quota.reserve(amount, clock.monotonic()))
        if rng.random() < 0.5:
            late = rng.choice(reserved)
            quota.correct(late, late.amount * rng.random())
    assert most_in_a_minute([(reservation.at, reservation.amount) for reservation in reserved]) <= limit + 1e-6


@pytest.mark.parametrize("seed", range(8))
def test_a_rate_limiter_survives_cancellation(seed):
    """Those who give up waiting hold up nobody, and take nothing from the limit."""
    rng = seeded(seed)
    loop = VirtualLoop()
    rate_limiter = RateLimiter(RateLimit(30, None), VirtualClock(loop), TokenEstimate())
    sent: list[tuple[float, float]] = []

    async def call():
        await asyncio.sleep(rng.uniform(0.0, 30.0))
        await rate_limiter.reserve(Request((Message("user", "x"),)))
        sent.append((loop.time(), 1))

    async def work():
        calls = [asyncio.ensure_future(call()) for _ in range(150)]
        for doomed in rng.sample(calls, 60):
            await asyncio.sleep(rng.uniform(0.0, 1.0))
            doomed.cancel()
        await asyncio.gather(*calls, return_exceptions=True)

    run_virtually(work(), loop)
    assert 90 <= len(sent) <= 150
    assert most_in_a_minute(sent) <= 30
    assert sent[-1][0] - sent[0][0] <= len(sent) * 2.0


def test_a_short_text_does_not_make_long_ones_look_enormous():
    """What a provider puts around a text is not taken for the price of a character."""
    estimate = TokenEstimate()
    estimate.learn(Request((Message("user", "x"),)), Usage(30, 5))
    assert estimate.tokens_of(Request((Message("user", "x" * 40_000),))) < 15_000


def test_those_who_wait_for_their_turn_are_let_go_when_the_session_ends(tmp_path):
    """An interrupt does not wait for a rate limit, and nothing is sent after it."""
    actor = Actor(seconds=1.0)
    rig = limited(tmp_path, actor, 100, requests_per_minute=1)
    rig.at = {30.0: interrupt}
    session = rig.session()
    assert session.seconds == pytest.approx(30.0)
    assert (actor.calls, session.ended.exit_code, session.ended.counts.finished) == (1, 130, 1)


def test_requests_go_out_in_the_order_they_came(tmp_path):
    """Whoever waits longest goes first."""
    actor = Actor()
    limited(tmp_path, actor, 30, requests_per_minute=10).session()
    assert [prompt for _, prompt in actor.tries] == [f"q{number}" for number in range(30)]
