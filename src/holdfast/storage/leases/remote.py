"""One writer, also across machines: a lease is an object in the store, written with conditional writes only.

The holder renews it well before its lifetime ends. By its own monotonic clock it neither starts nor acknowledges
anything once that lifetime has passed without a renewal, and continues once a renewal has succeeded. The object says
how long its lifetime is: a taker watches it for that long on its own clock, and takes over only if nothing moved. Wall
clocks are never compared. A failing store takes no lease away, and an object that somebody deleted is written again
unless another session was faster. The object also shows people who holds the run and its progress.
"""

import contextlib
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.errors import RunGone, RunHeld, StorageFailure
from holdfast.storage.leases.holder import (
    AcknowledgedFrames,
    LeaseHolder,
    UnrecordedEnd,
    decode_unrecorded_end,
    is_alive,
    this_process,
)
from holdfast.storage.leases.local import LIFETIME_SECONDS, Lease
from holdfast.storage.object_store import ObjectStore
from holdfast.storage.tolerated_failures import ToleratedFailures
from holdfast.terminal.text import duration_text, time_text

LEASE_KEY = "lease.json"
ENDED = "ended"
"""The directory with the ends of sessions that have lost the lease: their journals do not have them."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 15.0
"""Between renewals that fail; never longer than a third of a lifetime."""
_CLOCK_SECONDS = 300.0
"""Clocks that differ by more than this are worth a warning: S3 refuses requests from 15 minutes on."""
_TRIES = 3


def _now_text() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())


def paused_text(since: str) -> str:
    """What is said of a session whose lease could not be renewed in time; empty for one that is not paused."""
    if not since:
        return ""
    return f"paused: the lease could not be renewed since {time_text(since)}; resumes when the store answers"


def seconds_since(at: str) -> float | None:
    """How long ago a moment was, by this machine's clock; None where `at` is no moment. For people only."""
    try:
        then = datetime.fromisoformat(at)
    except ValueError:
        return None
    return max(time.time() - (then if then.tzinfo else then.replace(tzinfo=UTC)).timestamp(), 0.0)


class PublishedLease(msgspec.Struct, frozen=True):
    """What the lease object says."""

    holder: LeaseHolder
    beat: int
    finished: int
    planned: int
    """0 while the holder has not counted yet."""
    at: str
    released: bool = False
    session: int = 0
    """The number of the holder's session. No other holder ever has it, so two never write the same segment."""
    behind: int = 0
    """How many segments were not uploaded yet."""
    lifetime: float = LIFETIME_SECONDS
    """How many seconds it lasts without a renewal; whoever wants to take it waits for that long."""
    run: str = ""
    """The id of the run, in hexadecimal: other objects in its place do not change which run this is."""

    def age_seconds(self) -> float | None:
        """How long ago it was published, going by two clocks that may differ; for people."""
        return seconds_since(self.at)

    def is_current(self) -> bool:
        """Whether the holder seems to be at work; for display only."""
        alive = False if self.released else is_alive(self.holder)
        age = self.age_seconds()
        return (age is not None and age < 2 * self.lifetime) if alive is None else alive


class HolderProgress(NamedTuple):
    """The progress of the holder of a run; published with every renewal."""

    finished: int = 0
    planned: int = 0
    behind: int = 0


class RenewalPauses:
    """How long to wait before the next renewal: after one that failed longer and longer, and once before the deadline.

    A renewal at the last moment decides whether the session has to pause.
    """

    def __init__(self, lifetime: float) -> None:
        # A third of the lifetime: one failed renewal does not stop the work.
        self.usual = lifetime / 3
        self._before_deadline = lifetime / 10
        self._first = self._next = min(_FIRST_PAUSE, self.usual)

    def after_success(self) -> float:
        self._next = self._first
        return self.usual

    def after_failure(self, left: float) -> float:
        """`left` are the seconds until the lease runs out; negative once it has."""
        pause, self._next = self._next, min(self._next * 2, self.usual, _LONGEST_PAUSE)
        last = left - self._before_deadline
        return last if 0 < last < pause else pause


class RemoteLease:
    """The right to execute a run in an object store, while it can be renewed."""

    def __init__(
        self, store: ObjectStore, *, above: int = 0, lifetime: float = LIFETIME_SECONDS, recorded: float = 0.0
    ) -> None:
        """Takes the lease, for a session whose number is above all that are known.

        `recorded` is the lifetime that the run's configuration sets: a holder may have it of which no object tells.

        Raises:
            RunHeld: another session holds it, or was faster.
            StorageFailure: the store cannot be reached.
        """
        self._store, self._lifetime = store, lifetime
        self.session = above + 1
        self.run = ""
        """As in what is published."""
        self._holder = this_process()
        self._beat = 0
        self._last = HolderProgress()
        self._progress: Callable[[], HolderProgress] = lambda: self._last
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.lost = False
        self.defect: StorageFailure | None = None
        """An error in the program itself that has ended the renewals."""
        self._failing_since = ""
        self.failures = ToleratedFailures()
        self._deadline = 0.0
        self._tag = self._acquire(max(lifetime, recorded) if above else 0.0)
        self._thread = threading.Thread(target=self._keep_renewing, name="holdfast-lease", daemon=True)
        self._thread.start()

    def _acquire(self, unknown: float) -> str:
        """`unknown` is how long to watch for a holder of whom no object tells; 0 where there cannot be one."""
        found = self._store.get(LEASE_KEY)
        published = decode_published_lease(found[0]) if found is not None else None
        if published is None and unknown:
            # Somebody has deleted or replaced it: its holder, if there is one, writes it again or has lost it.
            self._watch(found[1] if found is not None else None, unknown, None)
        if found is None:
            self._start_lifetime()
            tag = self._store.put_new(LEASE_KEY, self._encoded())
        else:
            if published is not None:
                self.session = max(self.session, published.session + 1)
                # What the last holder counted, until this one has counted.
                self._last = HolderProgress(published.finished, published.planned, published.behind)
                self.run = published.run
            if published is not None and not published.released:
                self._wait_for_silence(published, found[1])
            self._start_lifetime()
            tag = self._store.put_over(LEASE_KEY, self._encoded(), found[1])
        return tag if tag is not None else self._own_tag()

    def _start_lifetime(self) -> None:
        """From before the request: a taker that has seen the object waits a lifetime, and must not be first."""
        self._deadline = time.monotonic() + self._lifetime

    def _own_tag(self) -> str:
        """The tag of the object if it is this process's own: the answer to its write may have been lost."""
        found = self._store.get(LEASE_KEY)
        published = decode_published_lease(found[0]) if found else None
        if found is None or published is None or not self._is_own_write(published):
            raise _remote_run_held(self._store, published)
        return found[1]

    def _is_own_write(self, published: PublishedLease) -> bool:
        """Whether the object is what this process wrote last."""
        return (published.holder, published.beat) == (self._holder, self._beat)

    def _wait_for_silence(self, published: PublishedLease, tag: str) -> None:
        """Returns once the holder is known to be dead, or has not moved for its own lifetime."""
        if is_alive(published.holder) is not False:
            self._watch(tag, published.lifetime, published)

    def _watch(self, tag: str | None, lifetime: float, published: PublishedLease | None) -> None:
        """Returns once the object was seen unchanged for a lifetime; with no tag, once it did not appear.

        Raises:
            RunHeld: somebody has written it meanwhile.
            StorageFailure: the store did not answer for another lifetime.
        """
        deadline = time.monotonic() + lifetime
        is_seen = False
        while not is_seen or time.monotonic() < deadline:
            time.sleep(min(lifetime / 10, 1.0))
            try:
                now = self._store.get(LEASE_KEY)
            except StorageFailure:
                is_seen = False
                if time.monotonic() > deadline + lifetime:
                    raise
                continue
            if (now[1] if now else None) != tag:
                raise _remote_run_held(self._store, (decode_published_lease(now[0]) if now else None) or published)
            is_seen = True

    def _encoded(self, *, released: bool = False) -> bytes:
        # Another content each time: a store's tag may be a digest, and the tag must change with every renewal.
        self._beat += 1
        finished, planned, behind = self._progress()
        published = PublishedLease(
            self._holder,
            self._beat,
            finished,
            planned,
            _now_text(),
            released,
            session=self.session,
            behind=behind,
            lifetime=self._lifetime,
            run=self.run,
        )
        return msgspec.json.encode(published)

    def publish(self, progress: Callable[[], HolderProgress], session: int, run: str) -> None:
        """From now on every renewal publishes this progress, and which session of which run it is: first at once."""
        self._progress = progress
        self.session, self.run = max(self.session, session), run
        self.renew()

    def clock_warning(self) -> str:
        """That the clock of this machine differs from the store's, where it does; for people, nothing depends on it."""
        try:
            apart = time.time() - self._store.stored_at(LEASE_KEY)
        except StorageFailure:
            return ""
        if abs(apart) < _CLOCK_SECONDS:
            return ""
        how = f"{duration_text(abs(apart))} {'ahead of' if apart > 0 else 'behind'}"
        wrong = "the ages of runs are shown wrong, and a store may refuse requests"
        return f"The clock of this machine is {how} the store's: {wrong}."

    def is_held(self) -> bool:
        """Whether this process may begin and acknowledge work now."""
        return not self.lost and time.monotonic() < self._deadline

    def is_lost(self) -> bool:
        return self.lost

    def paused_since(self) -> str:
        """Since when renewals have failed, once the lifetime has passed without one; empty while the lease is held."""
        return "" if self.lost or self.is_held() else self._failing_since or _now_text()

    def _keep_renewing(self) -> None:
        is_in_order = False
        try:
            self._renew_until_stopped()
            is_in_order = True
        finally:
            if not is_in_order:
                self._note_defect(sys.exc_info()[1])

    def _renew_until_stopped(self) -> None:
        pauses = RenewalPauses(self._lifetime)
        pause = pauses.usual
        while not self._stop.wait(pause):
            self.renew()
            left = self._deadline - time.monotonic()
            pause = pauses.after_failure(left) if self._failing_since else pauses.after_success()

    def _note_defect(self, error: BaseException | None) -> None:
        """Ends the session: nobody renews the lease any more, so that a pause would never end."""
        self.defect = StorageFailure(
            f"The lease of {self._store.url} is not renewed any more, because of an error in holdfast:"
            f" {type(error).__name__}: {error}.",
            hint="All records are intact on this machine. Please report the error with its traceback; resume the run"
            " once the lease has run out.",
        )
        self.failures.note(LEASE_KEY, self.defect.message)

    def renew(self) -> None:
        """Tries to renew once; a failing store leaves the lease to run out, another holder ends it."""
        with self._lock:
            if self.lost or self._stop.is_set():
                return
            began = time.monotonic()
            try:
                tag = self._renewed_tag()
            except StorageFailure as failure:
                self._failing_since = self._failing_since or _now_text()
                self.failures.note(LEASE_KEY, failure.message)
                return
            self._failing_since = ""
            if tag is None:
                self.lost = True
            else:
                self._tag, self._deadline = tag, began + self._lifetime

    def _renewed_tag(self) -> str | None:
        """The tag of the renewed object; None if another process has written it.

        Raises:
            StorageFailure: the store failed, so that it is not known.
        """
        for _ in range(_TRIES):
            tag = self._store.put_over(LEASE_KEY, self._encoded(), self._tag)
            if tag is not None:
                return tag
            found = self._store.get(LEASE_KEY)
            if found is None:
                # Deleted by somebody. Another session can have taken it only by writing it, so this one may.
                self.failures.note(LEASE_KEY, "the object was deleted; it has been written again.")
                tag = self._store.put_new(LEASE_KEY, self._encoded())
                if tag is not None:
                    return tag
                continue
            published = decode_published_lease(found[0])
            if published is None or published.holder != self._holder:
                return None
            # An answer was lost on its way: the object is this process's own.
            self._tag = found[1]
        raise StorageFailure(f"{LEASE_KEY} changes all the time, and is this session's own.")

    def note_end(self, end: UnrecordedEnd) -> None:
        """Leaves the end of a session that has lost the lease in the store: others would take it for killed.

        The object is the session's own, as its segments are; nothing depends on it.
        """
        with contextlib.suppress(StorageFailure):
            self._store.put_new(f"{ENDED}/{end.session:06}.json", msgspec.json.encode(end))

    def release(self) -> None:
        """Gives the lease back, so that the next session need not wait."""
        if self._stop.is_set():
            return
        self._stop.set()
        with self._lock:
            if not self.lost:
                try:
                    self._store.put_over(LEASE_KEY, self._encoded(released=True), self._tag)
                except StorageFailure:
                    # Then it runs out by itself.
                    return


def decode_published_lease(data: bytes) -> PublishedLease | None:
    """What a lease object says, or None if it is not readable."""
    try:
        return msgspec.json.decode(data, type=PublishedLease)
    except msgspec.MsgspecError:
        return None


def read_lost_ends(run: Path) -> list[UnrecordedEnd]:
    """The ends of sessions that have lost the lease, as far as they are in the directory of the run."""
    found = (_read_end(path) for path in sorted((run / ENDED).glob("*.json")))
    return [end for end in found if end is not None]


def _read_end(path: Path) -> UnrecordedEnd | None:
    try:
        return decode_unrecorded_end(path.read_bytes())
    except OSError:
        return None


def find_published_lease(store: ObjectStore) -> PublishedLease | None:
    """The lease as its last holder published it, released or not; for display only."""
    found = store.get(LEASE_KEY)
    return decode_published_lease(found[0]) if found else None


def _remote_run_held(store: ObjectStore, published: PublishedLease | None) -> RunHeld:
    who = str(published.holder) if published else "another process"
    return RunHeld(f"The run {store.url} is in use by {who}.", hint="Wait until it ends, or stop it, then resume.")


class LocalAndRemoteLease:
    """The lease of a run in a store: held only while both its directory and its object are."""

    def __init__(self, here: Lease, there: RemoteLease) -> None:
        self._here, self._there = here, there
        self.failures, self.notes = here.failures, here.notes

    @property
    def loss(self) -> RunGone | None:
        return self._here.loss

    @property
    def root(self) -> Path:
        return self._here.root

    def check(self) -> None:
        self._here.check()

    @property
    def unrecorded(self) -> UnrecordedEnd | None:
        return self._here.unrecorded

    def note_end(self, end: UnrecordedEnd | None) -> None:
        self._here.note_end(end)
        if end is not None and self._there.is_lost():
            self._there.note_end(end)

    def publish(self, frames: AcknowledgedFrames) -> None:
        self._here.publish(frames)

    def is_held(self) -> bool:
        return self._here.is_held() and self._there.is_held()

    def is_lost(self) -> bool:
        return self._here.is_lost() or self._there.is_lost()

    def moved_to(self, run: Path) -> None:
        self._here.moved_to(run)

    def release(self) -> None:
        self._there.release()
        self._here.release()
