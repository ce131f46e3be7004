"""The sentences about failed trials: each error is listed once and counted, and every one where that is wanted."""

from __future__ import annotations

from msgspec.structs import replace

from holdfast.api.event_text import EventText
from holdfast.engine.events import AttemptEnded, CallRetried, SessionEnded, TaskStopped
from holdfast.run.core.records import Failure, Status, TrialRecord
from holdfast.run.fold.states import StateCounts


def failed(sample, message="ValueError: no", *, will_retry=False, task="t"):
    end = {"trial": f"k{sample}", "attempt": 1, "status": Status.FAILED, "task": task, "model": "m"}
    record = TrialRecord(**end, sample=f"s{sample}", error=Failure("ValueError", message))
    return AttemptEnded(record, will_retry)


def texts(sentences, events):
    return [text for event in events if (text := sentences.text(event))]


def test_steps_19_equal_errors_are_listed_once_and_counted():
    """Other errors and other tasks are listed for themselves; the count comes at the end."""
    end = SessionEnded(1, "finished with failures", 1, StateCounts())
    events = [*(failed(number) for number in range(500)), failed(9, "other"), failed(10, task="u"), end]
    assert texts(EventText(), events) == [
        "t/m/s0#1: failed: ValueError: no",
        "t/m/s9#1: failed: other",
        "u/m/s10#1: failed: ValueError: no",
        "t: 499 more with the same error: ValueError: no",
    ]


def test_errors_are_equal_by_their_type_and_line():
    """Whatever their messages say: those often name the sample. One line further on it is another error."""

    def raised(number, line):
        trace = f'Traceback (most recent call last):\n  File "/here/task.py", line {line}, in solve\n'
        event = failed(number)
        return AttemptEnded(replace(event.record, error=Failure("KeyError", f"row {number}", trace)))

    found = texts(EventText(), [raised(0, 5), raised(1, 5), raised(2, 6), raised(3, 5)])
    assert found == ["t/m/s0#1: failed: KeyError: row 0 (task.py:5)", "t/m/s2#1: failed: KeyError: row 2 (task.py:6)"]


def test_a_long_error_is_repeated_in_short():
    """The whole of it was said when it came first, and is said at the end."""
    end = SessionEnded(1, "finished with failures", 1, StateCounts())
    first, last = texts(EventText(), [failed(0, "x" * 300), failed(1, "x" * 300), end])
    assert "x" * 300 in first and last.startswith("t: 1 more with the same error: xxx") and len(last) < 100


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
    assert len(found) == 12 and found[9] == "t/m/s9#1: attempt 1 failed, retrying: ValueError: no"
    assert found[10:] == [f"m: try {tries} failed, retrying in 0.5s: busy" for tries in (1, 2)]
    assert len(texts(EventText(lambda: 0.0), events)) == 2


def test_a_stop_after_many_trials_says_why_they_are_so_many():
    """The first ten and ten others are looked at; whatever was running by then has failed, too, and was paid for."""
    stopped = [TaskStopped("t", "ValueError: no", failed, 1700) for failed in (20, 266)]
    first, end = "t: stopped, because its first", "; its other 1,700 trials will not run"
    assert texts(EventText(), stopped) == [
        f"{first} 20 trials failed in the same way{end}",
        f"{first} 266 trials failed in the same way, counting those that were already running{end}",
    ]
