"""The sentences about failed trials: each error is listed a few times, and every one where that is wanted."""

from __future__ import annotations

from holdfast.api.event_text import EventText
from holdfast.engine.events import AttemptEnded, CallRetried
from holdfast.run.core.records import Failure, Status, TrialRecord


def failed(sample, message="ValueError: no", *, will_retry=False, task="t"):
    end = {"trial": f"k{sample}", "attempt": 1, "status": Status.FAILED, "task": task, "model": "m"}
    record = TrialRecord(**end, sample=f"s{sample}", error=Failure("ValueError", message))
    return AttemptEnded(record, will_retry)


def texts(sentences, events):
    return [text for event in events if (text := sentences.text(event))]


def test_three_trials_with_one_error_are_listed():
    """The next says that there are more; other errors and other tasks are listed for themselves."""
    events = [*(failed(number) for number in range(9)), failed(9, "other"), failed(10, task="u")]
    found = texts(EventText(), events)
    assert found[:3] == [f"t/s{number}: failed: ValueError: no" for number in range(3)]
    assert found[3].startswith("t: more trials failed with this error") and found[3].endswith(": ValueError: no")
    assert found[4:] == ["t/s9: failed: other", "u/s10: failed: ValueError: no"]


def test_errors_that_all_differ_are_listed_up_to_a_hundred():
    """A message that names its sample must not fill memory or the screen."""
    found = texts(EventText(), [failed(number, f"error {number}") for number in range(5000)])
    assert len(found) == 101 and found[-1].startswith("More trials failed, with other errors")


def test_verbose_lists_everything():
    """Every failed trial, every attempt that is followed by another, and every retry of a request."""
    sentences = EventText(lambda: 0.0, verbose=True)
    events = [*(failed(number) for number in range(9)), failed(9, will_retry=True)]
    events += [CallRetried("m", "unavailable", "busy", 0.5, tries) for tries in (1, 2)]
    found = texts(sentences, events)
    assert len(found) == 12 and found[9] == "t/s9: attempt 1 failed, retrying: ValueError: no"
    assert found[10:] == [f"m: try {tries} failed, retrying in 0.5s: busy" for tries in (1, 2)]
    assert len(texts(EventText(lambda: 0.0), events)) == 5
