"""The tally of calls: those that pause before a retry are in flight, and nobody waits for them at an interrupt."""

from __future__ import annotations

from holdfast.engine.scheduling.call_tally import CallTally, Flight


def test_a_call_in_a_retry_pause_is_in_flight_and_not_awaited():
    """Until its next request is sent, or it is given up."""
    tally = CallTally()
    sent, pausing = (Flight("m", tally.of("m")) for _ in range(2))
    for flight in (sent, pausing):
        flight.begin()
    pausing.note_retry()
    assert (tally.in_flight, tally.awaited) == (2, 1)
    pausing.end_pause()
    assert (tally.in_flight, tally.awaited) == (2, 2)
    pausing.note_retry()
    pausing.end(None)
    assert (tally.in_flight, tally.awaited) == (1, 1)
    sent.end(None)
    assert (tally.in_flight, tally.awaited) == (0, 0)
