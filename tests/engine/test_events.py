"""Events: all of them, in order, after what they speak of is durable; and no observer can harm a run."""

from __future__ import annotations

import asyncio
import contextlib
import threading

import msgspec
import pytest

from engine.rig import Actor, Rig, interrupt, said, simple_task
from holdfast.api.event_text import EventText
from holdfast.engine.events import (
    ADMISSION,
    EVENT_TYPES,
    AttemptEnded,
    CallRetried,
    Event,
    Events,
    Interrupted,
    LimitChanged,
    ModelDisabled,
    Note,
    SessionEnded,
    SessionStarted,
    StepRecorded,
    TrialLeft,
    TrialStarted,
    UploadReported,
)
from holdfast.engine.execution import Execution
from holdfast.engine.scheduling.admission import LEASE
from holdfast.errors import RunHeld
from holdfast.models.errors import RateLimited, Rejected, Unavailable
from holdfast.run.core.codec import decode
from holdfast.run.core.records import Failure, SamplingSummary, Status, StepRecord, TrialRecord
from holdfast.run.fold.reader import RunReader


async def eventful(request, number):
    """q0 is answered at the second try, q1 at the third."""
    if number < {"q0": 2, "q1": 3}.get(request.messages[-1].content, 0):
        raise (RateLimited if request.messages[-1].content == "q1" else Unavailable)("busy", status=429)
    return said(request.messages[-1].content.upper())


async def gone(request, number):
    raise Rejected("no such model", status=404)


async def solve(trial):
    """q2 fails at its first attempt, q3 at every one; all others take a step beside their call."""
    reply = await trial.generate(trial.sample.input)
    await trial.step("look", len, reply.text)
    if trial.sample.input == "q3" or (trial.sample.input == "q2" and trial.attempt == 1):
        raise ValueError("no good")
    return reply


def by_trial(events: list[Event]) -> dict[str, list[Event]]:
    """The events of each trial, in order."""
    found: dict[str, list[Event]] = {}
    for event in events:
        key = event.record.trial if isinstance(event, AttemptEnded) else getattr(event, "trial", None)
        if key is not None:
            found.setdefault(key, []).append(event)
    return found


def test_everything_that_happens_is_an_event_in_its_order(tmp_path):
    """Retries, failed attempts, failed trials and a model that is gone: each record has its event, once."""
    actors = {"good": Actor(eventful, seconds=1.0), "bad": Actor(gone, seconds=1.0)}
    settings = {"max_retries": 1, "concurrency_limit": 4, "fail_fast": False}
    rig = Rig(tmp_path / "r", simple_task(6, solve), actors, settings=settings)
    session = rig.session()
    assert isinstance(session.events[0], SessionStarted) and isinstance(session.events[-1], SessionEnded)
    assert len(session.of(SessionStarted)) == len(session.of(SessionEnded)) == 1
    started, ended = session.events[0], session.events[-1]
    assert (started.session, started.planned, started.finished, started.place) == (1, 12, 0, str(rig.root))
    assert (ended.exit_code, ended.counts) == (session.ended.exit_code, session.ended.counts)
    for events in by_trial(session.events).values():
        assert [isinstance(event, TrialStarted) for event in events] == [True] + [False] * (len(events) - 1)
        assert [isinstance(event, TrialLeft) for event in events] == [False] * (len(events) - 1) + [True]
        assert isinstance(events[-2], AttemptEnded) and not events[-2].will_retry
    assert [event.record for event in session.of(AttemptEnded)] == rig.ends()
    assert sum(event.will_retry for event in session.of(AttemptEnded)) == 2
    recorded = [step.step for step in rig.records(StepRecord) if step.error is None]
    assert sorted(event.step for event in session.of(StepRecorded)) == sorted(recorded)
    assert not any(event.replayed for event in session.of(StepRecorded))
    assert {(event.name, event.model) for event in session.of(StepRecorded)} == {("generate", "good"), ("look", "")}
    retried = {(event.kind, event.tries) for event in session.of(CallRetried)}
    assert retried == {("unavailable", 1), ("rate_limited", 1), ("rate_limited", 2)}
    assert len(session.of(CallRetried)) == session.execution.progress.counts.retries
    assert all(event.pause > 0 for event in session.of(CallRetried))
    (disabled,) = session.of(ModelDisabled)
    assert (disabled.model, disabled.is_other_model) == ("bad", False) and "no such model" in disabled.reason


def test_steps_are_events_of_their_attempt_before_its_end(tmp_path):
    """Where an attempt fails, its steps come before its end, and those of the next after it."""
    rig = Rig(tmp_path / "r", simple_task(4, solve), {"m": Actor()}, settings={"max_retries": 1})
    session = rig.session()
    (failed,) = [end.trial for end in rig.ends() if end.status is Status.FAILED and not end.will_retry]
    kinds = [type(event).__name__ for event in by_trial(session.events)[failed]]
    attempt = ["StepRecorded", "StepRecorded", "AttemptEnded"]
    assert kinds == ["TrialStarted", *attempt, *attempt, "TrialLeft"]


def test_after_a_kill_the_steps_on_record_are_replayed_and_each_is_live_once(tmp_path):
    """What the first session told as recorded is what the second replays: nothing is told that is not durable."""

    async def two(trial):
        first = await trial.generate(trial.sample.input)
        await trial.step("look", len, first.text)
        return await trial.generate(f"{first.text} again")

    rig = Rig(tmp_path / "r", simple_task(8, two), {"m": Actor(seconds=1.0)}, settings={"concurrency_limit": 3})
    killed = rig.killed_session(3.5)
    assert killed.of(SessionEnded) == []
    finished = {event.record.trial for event in killed.of(AttemptEnded)}
    interrupted = [event for event in killed.of(StepRecorded) if event.trial not in finished]
    assert finished and interrupted
    resumed = rig.session()
    replayed = [event for event in resumed.of(StepRecorded) if event.replayed]
    assert {(event.trial, event.step) for event in replayed} == {(event.trial, event.step) for event in interrupted}
    live = [event for event in killed.of(StepRecorded) + resumed.of(StepRecorded) if not event.replayed]
    assert sorted((event.trial, event.step) for event in live) == sorted(
        (step.trial, step.step) for step in rig.records(StepRecord)
    )
    assert resumed.events[0].finished == len(finished)
    assert finished | {event.record.trial for event in resumed.of(AttemptEnded)} == {end.trial for end in rig.ends()}
    assert all(event.usage == said("x").usage for event in replayed if event.model)


def test_an_event_comes_after_its_record_is_on_the_disk_and_counted(tmp_path):
    """Whoever hears of a step or of an end finds it in the journal, and the trial in the progress."""
    rig = Rig(tmp_path / "r", simple_task(3, solve), {"m": Actor()})
    found, counted = [], []

    def observe(event):
        if isinstance(event, StepRecorded | AttemptEnded):
            with contextlib.closing(RunReader(rig.root)) as reader:
                records = [decode(line) for _, line in reader.stream([])]
            if isinstance(event, AttemptEnded):
                found.append(event.record in [one for one in records if isinstance(one, TrialRecord)])
                counted.append(execution[0].progress.ended)
            else:
                found.append(event.step in [one.step for one in records if isinstance(one, StepRecord)])

    execution: list[Execution] = []
    rig.at = {0.0: execution.append}
    rig.observers = [observe]
    rig.session()
    assert len(found) == 4 * 2 + 4 and all(found)
    assert counted == sorted(counted) and counted[-1] == 3


def test_replies_of_another_run_are_replayed_steps_with_their_source(tmp_path):
    """A step whose reply comes from another run says so."""
    Rig(tmp_path / "old", simple_task(2), {"m": Actor()}).session()
    rig = Rig(tmp_path / "new", simple_task(2), {"m": Actor()})
    rig.reuse = [tmp_path / "old"]
    session = rig.session()
    steps = session.of(StepRecorded)
    assert len(steps) == 2 and all(event.replayed and event.source for event in steps)


def test_tasks_that_an_observer_starts_take_no_numbers_of_the_solver(tmp_path):
    """The keys of steps are the same with it and without it."""

    async def branching(trial):
        await trial.generate("first")
        replies = await asyncio.gather(trial.generate("same"), trial.generate("same"))
        return replies[0]

    started = []

    def start_task(event):
        if isinstance(event, StepRecorded):
            started.append(asyncio.get_running_loop().create_task(asyncio.sleep(0)))

    keys = []
    for name, observers in (("with", [start_task]), ("without", [])):
        rig = Rig(tmp_path / name, simple_task(1, branching), {"m": Actor()})
        rig.observers = observers
        rig.session()
        keys.append(sorted(step.step for step in rig.records(StepRecord)))
    assert started and keys[0] == keys[1] and len(keys[0]) == 3


@pytest.mark.parametrize(
    "error", [ValueError("of the observer"), SystemExit(3), GeneratorExit(), asyncio.CancelledError()]
)
def test_an_observer_that_raises_is_disabled_and_the_run_goes_on(tmp_path, error):
    """It is told once, by its name, and not called again; the others hear everything, the run is as without it."""
    heard = []

    def fragile(event):
        heard.append(event)
        if isinstance(event, AttemptEnded):
            raise error

    rig = Rig(tmp_path / "r", simple_task(5, solve), {"m": Actor()})
    rig.observers = [fragile]
    session = rig.session()
    assert session.ended.counts.finished == 4 and session.execution.progress.finished == 4
    assert sum(isinstance(event, AttemptEnded) for event in heard) == 1 and isinstance(heard[-1], AttemptEnded)
    (note,) = session.of(Note)
    assert note.kind == "observer" and note.subject.endswith("fragile")
    assert note.error.kind == type(error).__name__
    assert [event.record for event in session.of(AttemptEnded)] == rig.ends()
    (told,) = [text for text in session.messages if "observer" in text]
    assert told.startswith(f"The observer {note.subject} is disabled for this session: {type(error).__name__}")
    assert f"({__file__.rpartition('/')[2]}:" in told
    assert rig.is_sound()


def test_an_observer_that_raises_at_the_first_and_at_the_last_event_harms_nothing(tmp_path):
    """Before the first trial and after the last there is the same boundary."""
    for kind in (SessionStarted, SessionEnded):

        def fragile(event, kind=kind):
            assert not isinstance(event, kind)

        rig = Rig(tmp_path / kind.__name__, simple_task(2), {"m": Actor()})
        rig.observers = [fragile]
        assert rig.session().ended.exit_code == 0


def test_without_observers_no_steps_are_told(tmp_path, monkeypatch):
    """What nobody wants to know is not even made; the progress counts all the same."""
    emitted = []
    emit = Events.emit

    def emit_and_note(self, event):
        emitted.append(type(event))
        emit(self, event)

    monkeypatch.setattr(Events, "emit", emit_and_note)
    rig = Rig(tmp_path / "r", simple_task(3, solve), {"m": Actor()})
    rig.is_observed = False
    assert rig.session().execution.progress.finished == 3
    assert StepRecorded not in emitted and AttemptEnded in emitted


def test_an_interrupt_is_told_with_the_calls_it_waits_for(tmp_path):
    """The first signal waits for what is in flight, and closes admission; the second stops at once."""
    actor = Actor(seconds=100.0)
    settings = {"concurrency_limit": 3, "grace_period": 3600.0}
    rig = Rig(tmp_path / "r", simple_task(9), {"m": actor}, settings=settings)
    rig.at = {10.0: interrupt, 20.0: interrupt}
    session = rig.session()
    assert session.of(Interrupted) == [
        Interrupted("SIGINT", 3, grace_period=3600.0),
        Interrupted("SIGINT", 3, at_once=True),
    ]
    assert session.of(LimitChanged) == [LimitChanged(ADMISSION, 0, "SIGINT")]
    assert session.messages == [
        "Ctrl-C: waiting for 3 in-flight calls; press Ctrl-C again to stop immediately",
    ]
    assert session.events[-1].ended_as == "interrupted"
    assert len(session.of(TrialStarted)) == len(session.of(TrialLeft)) == 3
    assert session.of(AttemptEnded) == []


def test_a_lease_in_doubt_and_its_return_are_told_once_each(tmp_path):
    """However many trials wait for it, one event says that nothing starts, and one that it goes on."""
    held = [True]

    def lose(execution: Execution) -> None:
        execution._session.lease.is_held = lambda: held[0]
        held[0] = False

    def find(execution: Execution) -> None:
        held[0] = True

    rig = Rig(tmp_path / "r", simple_task(9), {"m": Actor(seconds=1.0)}, settings={"concurrency_limit": 3})
    rig.at = {1.5: lose, 30.0: find}
    session = rig.session()
    assert session.ended.exit_code == 0
    assert session.of(LimitChanged) == [
        LimitChanged(ADMISSION, 0, LEASE),
        LimitChanged(ADMISSION, None, LEASE, lifted=True),
    ]
    assert session.messages == [
        "Paused: the lease of the run could not be renewed. Continues as soon as it can be.",
        "The lease of the run has been renewed: continuing.",
    ]


def test_every_hold_is_told_when_it_begins_and_when_it_ends(tmp_path):
    """With its reason and its model; admission is open again when the last one that concerns it has ended."""

    def act(verb: str, *words: str):
        return lambda execution: getattr(execution.admission, verb)(*words)

    rig = Rig(tmp_path / "r", simple_task(9), {"m": Actor(seconds=1.0)}, settings={"concurrency_limit": 3})
    rig.at = {
        0.1: act("hold", "pause"),
        0.2: act("hold", "pause"),
        0.3: act("hold", "breaker", "m"),
        0.4: act("release", "budget"),
        0.5: act("release", "pause"),
        0.6: act("hold", "budget"),
        0.7: act("release", "breaker", "m"),
        0.8: act("release", "budget"),
    }
    assert rig.session().of(LimitChanged) == [
        LimitChanged(ADMISSION, 0, "pause"),
        LimitChanged(ADMISSION, 0, "breaker", "m"),
        LimitChanged(ADMISSION, None, "pause", lifted=True),
        LimitChanged(ADMISSION, 0, "budget"),
        LimitChanged(ADMISSION, 0, "breaker", "m", lifted=True),
        LimitChanged(ADMISSION, None, "budget", lifted=True),
    ]


def test_a_hold_that_ends_after_an_interrupt_opens_nothing(tmp_path):
    """What an interrupt closed stays closed: the value is still 0, and nobody is told that it continues."""
    rig = Rig(tmp_path / "r", simple_task(4), {"m": Actor(seconds=10.0)}, settings={"concurrency_limit": 2})
    rig.at = {
        1.0: lambda execution: execution.admission.hold("pause"),
        2.0: interrupt,
        3.0: lambda execution: execution.admission.release("pause"),
        4.0: lambda execution: execution.admission.release("drain"),
    }
    assert rig.session().of(LimitChanged) == [
        LimitChanged(ADMISSION, 0, "pause"),
        LimitChanged(ADMISSION, 0, "SIGINT"),
        LimitChanged(ADMISSION, 0, "pause", lifted=True),
    ]


def test_a_lease_that_is_lost_is_not_told_as_renewed(tmp_path):
    """The hold ends because nobody can hold the run again in this session."""
    is_lost = [False]

    def doubt(execution: Execution) -> None:
        execution._session.lease.is_held = lambda: False
        execution._session.lease.is_lost = lambda: is_lost[0]

    def lose(_execution: Execution) -> None:
        is_lost[0] = True

    rig = Rig(tmp_path / "r", simple_task(9), {"m": Actor(seconds=1.0)}, settings={"concurrency_limit": 3})
    rig.at = {1.5: doubt, 30.0: lose}
    session = rig.session()
    assert session.ended.exit_code == RunHeld.exit_code
    assert session.of(LimitChanged) == [LimitChanged(ADMISSION, 0, LEASE)]
    assert session.messages == ["Paused: the lease of the run could not be renewed. Continues as soon as it can be."]


def test_what_could_not_be_written_beside_the_journal_is_a_note(tmp_path):
    """Also what failed before the session began to work, after its first event; from another thread too."""

    def fail(execution: Execution) -> None:
        thread = threading.Thread(target=execution._session.derived.note, args=("index", "disk full"))
        thread.start()
        thread.join()

    rig = Rig(tmp_path / "r", simple_task(3), {"m": Actor(seconds=1.0)}, settings={"concurrency_limit": 1})
    rig.at = {0.5: fail, 1.5: fail}
    begin = rig.begin

    def begin_with_failure():
        started = begin()
        started.session.derived.note("config", "no room")
        return started

    rig.begin = begin_with_failure
    session = rig.session()
    assert session.of(Note) == [Note("failure", "config", "no room"), Note("failure", "index", "disk full")]
    assert isinstance(session.events[0], SessionStarted) and isinstance(session.events[-1], SessionEnded)
    # These are told when the session ends, with how often they happened.
    assert session.messages == []


def test_a_cancelled_session_ends_with_its_last_event(tmp_path):
    """As Ctrl-C does it to `evaluate`: admission is closed, every trial that was started is left."""
    rig = Rig(tmp_path / "r", simple_task(4), {"m": Actor(seconds=100.0)}, settings={"concurrency_limit": 2})
    events: list[Event] = []
    rig.observers = [events.append]
    rig.at = {5.0: cancel_session}
    with pytest.raises(asyncio.CancelledError):
        rig.session()
    assert [event for event in events if isinstance(event, LimitChanged)] == [LimitChanged(ADMISSION, 0, "cancelled")]
    assert isinstance(events[-1], SessionEnded) and events[-1].exit_code == 130
    assert sum(isinstance(event, TrialLeft) for event in events) == 2


def cancel_session(_execution: Execution) -> None:
    (main,) = [task for task in asyncio.all_tasks() if "_session" in repr(task.get_coro())]
    main.cancel()


# The bus by itself.


def in_loop(work):
    """What `work` returns, given the events of a loop."""

    async def run():
        return await work(Events())

    return asyncio.run(run())


def test_an_event_that_an_observer_emits_comes_after_the_one_it_is_about(tmp_path):
    """Everybody gets events in one order, also where one leads to another."""

    async def work(events):
        heard = []

        def first(event):
            heard.append(("first", event))
            if isinstance(event, TrialLeft):
                events.emit(Note("n", "", ""))

        events.subscribe(first)
        events.subscribe(lambda event: heard.append(("second", event)))
        events.emit(TrialLeft("t"))
        return heard

    left, note = TrialLeft("t"), Note("n", "", "")
    assert in_loop(work) == [("first", left), ("second", left), ("first", note), ("second", note)]


def test_only_those_who_want_a_kind_get_it():
    """A kind that nobody wants is not observed; after the last event nothing comes."""

    async def work(events):
        heard = []
        events.subscribe(heard.append, TrialLeft, SessionEnded)
        assert events.is_observed(TrialLeft) and not events.is_observed(StepRecorded)
        events.emit(Note("n", "", ""))
        events.emit(TrialLeft("t"))
        last = SessionEnded(1, "completed", 0, None)
        events.close(last)
        events.emit(TrialLeft("u"))
        assert heard == [TrialLeft("t"), last]
        events.unsubscribe(heard.append)

    in_loop(work)


def test_events_of_other_threads_come_in_their_order_in_the_loops_thread():
    """A thread hands over and goes on; nothing is lost, and nothing comes after the end."""

    async def work(events):
        heard = []
        events.subscribe(lambda event: heard.append((threading.get_ident(), event)))
        notes = [Note("n", "", str(number)) for number in range(500)]

        def emit():
            for note in notes:
                events.emit_from_thread(note)

        thread = threading.Thread(target=emit)
        thread.start()
        while thread.is_alive():
            events.emit(TrialLeft("t"))
            await asyncio.sleep(0)
        last = SessionEnded(1, "completed", 0, None)
        events.close(last)
        assert {ident for ident, _ in heard} == {threading.get_ident()}
        assert [event for _, event in heard if isinstance(event, Note)] == notes
        assert heard[-1][1] is last
        return events

    events = in_loop(work)
    # The loop has ended: a thread that is late harms nothing.
    events.emit_from_thread(Note("n", "", "late"))


def test_every_event_is_plain_json_with_its_kind(tmp_path):
    """An observer may write down whatever it gets."""
    actors = {"good": Actor(eventful), "bad": Actor(gone)}
    session = Rig(tmp_path / "r", simple_task(4, solve), actors).session()
    lines = [msgspec.json.decode(msgspec.json.encode(event)) for event in session.events]
    assert [line["type"] for line in lines] == [type(event).__name__ for event in session.events]
    assert lines[-1]["counts"]["planned"] == 8


def test_every_kind_of_event_is_among_those_that_an_observer_gets():
    """A class that is added is added to the list."""
    assert set(EVENT_TYPES) == set(Event.__subclasses__())


# Sentences.


def ended(**fields) -> TrialRecord:
    return TrialRecord(trial="k", attempt=1, status=Status.FAILED, task="t", model="m", sample="s1", **fields)


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (CallRetried("m", "unavailable", "503", 1.0, 1), "m: retrying: 503"),
        (CallRetried("m", "unavailable", "503", 1.0, 1, 3600), "m: retrying for up to 1h (retry_deadline): 503"),
        (CallRetried("m", "unavailable", "503", 1.0, 1, 90), "m: retrying for up to 1m30s (retry_deadline): 503"),
        (ModelDisabled("m", "no key"), "m: disabled for this session. no key"),
        (AttemptEnded(ended(error=Failure("rejected", "too long"))), "t/m/s1#1: failed: too long"),
        (AttemptEnded(ended(error=Failure("rejected", "too long")), will_retry=True), ""),
        (AttemptEnded(ended(error=Failure("closed", "m is disabled"))), ""),
        (AttemptEnded(ended()), ""),
        (Interrupted("SIGINT", 12), "Ctrl-C: waiting for 12 in-flight calls; press Ctrl-C again to stop immediately"),
        (Interrupted("SIGINT", 1), "Ctrl-C: waiting for 1 in-flight call; press Ctrl-C again to stop immediately"),
        (Interrupted("SIGTERM", 2), "SIGTERM: waiting for 2 in-flight calls; send it again to stop immediately"),
        (Interrupted("SIGINT", 0), "Ctrl-C: stopping; press Ctrl-C again to stop immediately"),
        (Interrupted("SIGINT", 5, at_once=True), ""),
        (Interrupted("SIGINT", 8, grace_period=0.0), "Ctrl-C: stopping without 8 in-flight calls (grace_period is 0)"),
        (Interrupted("SIGTERM", 0, grace_period=0.0), "SIGTERM: stopping"),
        (
            CallRetried("m", "unavailable", "An HTML page.", 1.0, 1, 3600, "Check base_url."),
            "m: retrying for up to 1h (retry_deadline): An HTML page. Check base_url.",
        ),
        (CallRetried("m", "unavailable", "An HTML page.", 1.0, 1, 0, "Check base_url."), "m: retrying: An HTML page."),
        (LimitChanged(ADMISSION, 0, "SIGINT"), ""),
        (Note("unawaited", "", "ValueError: x"), "an error in a task's code was not awaited: ValueError: x"),
        (Note("failure", "index", "disk full"), ""),
        (UploadReported(1, 0), ""),
        (TrialLeft("k"), ""),
    ],
)
def test_what_is_said_about_an_event(event, text):
    """Plain sentences, and none about what is said elsewhere."""
    assert EventText(lambda: 0.0).text(event) == text


def test_that_calls_are_retried_is_said_once_a_minute_for_each_model():
    """Whoever watches knows what the run waits for, and is not flooded."""
    now = [0.0]
    sentences = EventText(lambda: now[0])
    said_at = []
    for second in range(0, 200, 5):
        now[0] = float(second)
        retried = [CallRetried(model, "unavailable", "503", 1.0, 1) for model in ("a", "b")]
        said_at += [(event.model, second) for event in retried if sentences.text(event)]
    assert said_at == [(model, second) for second in (0, 60, 120, 180) for model in ("a", "b")]


def sampled_end(task: str, *, success: bool = True, errors: int = 1) -> AttemptEnded:
    """The end of a trial whose sampling had candidates that ended with an error."""
    candidates = {"valid": 1, **({"error": errors} if errors else {})}
    sampling = SamplingSummary(strategy="repair", success=success, candidates=candidates)
    end = TrialRecord(trial="k", attempt=1, status=Status.VALID, task=task, sample="s1", samplings=(sampling,))
    return AttemptEnded(end)


def test_sampling_6_that_lanes_fail_beside_a_success_is_said_once_for_each_task():
    """One warning, however many trials it happens in; none where no lane failed, or where the failure is no success."""
    sentences = EventText(lambda: 0.0)
    assert sentences.text(sampled_end("t", errors=0)) == sentences.text(sampled_end("t", success=False)) == ""
    said = [sentences.text(sampled_end(task, errors=2)) for task in ("t", "t", "other", "t", "other")]
    assert [bool(text) for text in said] == [True, False, True, False, False]
    assert said[0].startswith("warning: t/s1#1: a sampling succeeded although 2 lanes of it failed with an error")
    assert "holdfast show RUN k" in said[0]
