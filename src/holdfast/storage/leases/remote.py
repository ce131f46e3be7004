"""One writer, also across machines: a lease is an object in the store, written with conditional writes only.

The holder renews it well before its lifetime ends. By its own monotonic clock it neither starts nor acknowledges
anything once that lifetime has passed without a renewal. A taker watches the object for a whole lifetime on its own
clock, and takes over only if nothing moved. Wall clocks are never compared. The object also shows people who holds the
run and its progress.
"""

import math
import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import msgspec

from holdfast.errors import ConfigurationError, RunGone, RunHeld, StorageFailure
from holdfast.storage.leases.holder import AcknowledgedFrames, LeaseHolder, UnrecordedEnd, is_alive, this_process
from holdfast.storage.leases.local import LIFETIME_SECONDS, Lease
from holdfast.storage.object_store import ObjectStore
from holdfast.storage.tolerated_failures import ToleratedFailures

LEASE_KEY = "lease.json"


def lifetime_seconds() -> float:
    """How long a lease lasts without being renewed; everybody who shares a run must use the same.

    Raises:
        ConfigurationError: HOLDFAST_LEASE_SECONDS is not a valid time.
    """
    text = os.environ.get("HOLDFAST_LEASE_SECONDS") or str(LIFETIME_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0.0 < seconds < math.inf:
        raise ConfigurationError(f"HOLDFAST_LEASE_SECONDS is {text!r}, which is not a number of seconds.")
    return seconds


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
    at: str
    released: bool = False
    session: int = 0
    """The number of the holder's session. No other holder ever has it, so two never write the same segment."""
    behind: int = 0
    """How many segments were not uploaded yet."""
    run: str = ""
    """The id of the run, in hexadecimal: other objects in its place do not change which run this is."""

    def age_seconds(self) -> float | None:
        """How long ago it was published, going by two clocks that may differ; for people."""
        return seconds_since(self.at)

    def is_current(self) -> bool:
        """Whether the holder seems to be at work; for display only."""
        alive = False if self.released else is_alive(self.holder)
        age = self.age_seconds()
        return (age is not None and age < 2 * LIFETIME_SECONDS) if alive is None else alive


class HolderProgress(NamedTuple):
    """The progress of the holder of a run; published with every renewal."""

    finished: int = 0
    planned: int = 0
    behind: int = 0


class RemoteLease:
    """The right to execute a run in an object store, while it can be renewed."""

    def __init__(self, store: ObjectStore, *, above: int = 0, lifetime: float | None = None) -> None:
        """Takes the lease, for a session whose number is above all that are known.

        Raises:
            ConfigurationError: HOLDFAST_LEASE_SECONDS is not a valid time.
            RunHeld: another session holds it, or was faster.
            StorageFailure: the store cannot be reached.
        """
        self._store, self._lifetime = store, lifetime or lifetime_seconds()
        self.session = above + 1
        self.run = ""
        """As in what is published."""
        self._holder = this_process()
        self._beat = 0
        self._progress: Callable[[], HolderProgress] = HolderProgress
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self.lost = False
        self.failures = ToleratedFailures()
        # Counted from before the request: a taker that has seen the object waits a lifetime, and must not be first.
        begun = time.monotonic()
        self._tag = self._acquire()
        self._deadline = begun + self._lifetime
        self._thread = threading.Thread(target=self._keep_renewing, name="holdfast-lease", daemon=True)
        self._thread.start()

    def _acquire(self) -> str:
        found = self._store.get(LEASE_KEY)
        if found is None:
            tag = self._store.put_new(LEASE_KEY, self._encoded())
        else:
            published = decode_published_lease(found[0])
            if published is not None:
                self.session = max(self.session, published.session + 1)
                self.run = published.run
            if published is not None and not published.released:
                self._wait_for_silence(published, found[1])
            tag = self._store.put_over(LEASE_KEY, self._encoded(), found[1])
        if tag is None:
            now = self._store.get(LEASE_KEY)
            raise _remote_run_held(self._store, decode_published_lease(now[0]) if now else None)
        return tag

    def _wait_for_silence(self, published: PublishedLease, tag: str) -> None:
        """Returns once the holder is known to be dead, or has not moved for a lifetime."""
        if is_alive(published.holder) is False:
            return
        deadline = time.monotonic() + self._lifetime
        while time.monotonic() < deadline:
            time.sleep(min(self._lifetime / 10, 1.0))
            now = self._store.get(LEASE_KEY)
            if now is None or now[1] != tag:
                raise _remote_run_held(self._store, published)

    def _encoded(self, *, released: bool = False) -> bytes:
        # Another content each time: a store's tag may be a digest, and the tag must change with every renewal.
        self._beat += 1
        at = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime())
        finished, planned, behind = self._progress()
        published = PublishedLease(
            self._holder, self._beat, finished, planned, at, released, session=self.session, behind=behind, run=self.run
        )
        return msgspec.json.encode(published)

    def publish(self, progress: Callable[[], HolderProgress], session: int, run: str) -> None:
        """From now on every renewal publishes this progress; which session of which run it is, at once."""
        self._progress = progress
        if self.session < session or self.run != run:
            self.session, self.run = max(self.session, session), run
            self.renew()

    def is_held(self) -> bool:
        """Whether this process may begin and acknowledge work now."""
        return not self.lost and time.monotonic() < self._deadline

    def is_lost(self) -> bool:
        return self.lost

    def _keep_renewing(self) -> None:
        # A third of the lifetime: one failed renewal does not stop the work.
        while not self._stop.wait(self._lifetime / 3):
            self.renew()

    def renew(self) -> None:
        """Tries to renew once; a store that cannot be reached leaves the lease to run out, another holder ends it."""
        with self._lock:
            if self.lost or self._stop.is_set():
                return
            begun = time.monotonic()
            try:
                tag = self._store.put_over(LEASE_KEY, self._encoded(), self._tag)
            except StorageFailure as failure:
                self.failures.note(LEASE_KEY, failure.message)
                return
            if tag is None:
                # An answer may have been lost on its way: then the object is ours anyway.
                self.lost = not self._is_own()
                return
            self._tag, self._deadline = tag, begun + self._lifetime

    def _is_own(self) -> bool:
        try:
            found = self._store.get(LEASE_KEY)
        except StorageFailure:
            # Unknown, so not lost yet: without a renewal the lease runs out by itself.
            return True
        published = decode_published_lease(found[0]) if found else None
        if found is None or published is None or published.holder != self._holder:
            return False
        self._tag = found[1]
        return True

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
