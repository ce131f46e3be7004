"""A run in an object store: a local spool holds it, and whatever is sealed goes up as the same bytes.

What a segment cites (blobs, inputs, artifacts) goes up before it, so that what is up can be read. A store that fails
is tried again with growing pauses and never stops the run; the lag is there for all to see. Under `durability:
remote` a trial counts only once its segment is up.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from hashlib import blake2b
from pathlib import Path

import msgspec

from holdfast.errors import StorageFailure
from holdfast.journal.segment import SegmentId, parse_name
from holdfast.journal.writer import JournalWriter
from holdfast.run.layout import Layout
from holdfast.storage.failures import Failures
from holdfast.storage.remote import RemoteStore

UPLOAD_SECONDS = 5.0
UPLOAD_BYTES = 8 << 20
LAG = "upload.json"
UPLOADS = "objects in the store"
"""Under this name the ledger of a session counts what the store did not take."""
_LONGEST_PAUSE = 30.0
_SEALING_SECONDS = 5.0


def spool_root(url: str) -> Path:
    """Where the spool of a run with this URL is on this machine."""
    base = os.environ.get("HOLDFAST_SPOOL")
    if not base:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
        base = str(Path(state) / "holdfast" / "spool")
    name = url.rstrip("/").rpartition("/")[2]
    return Path(base) / f"{name}-{blake2b(url.rstrip('/').encode(), digest_size=6).hexdigest()}"


class Lag(msgspec.Struct):
    """How far the store is behind: for progress and status."""

    segments: int = 0
    bytes: int = 0
    failing_since: float | None = None
    """By the clock of this process; None while the store takes what it is given."""
    reason: str = ""

    def __str__(self) -> str:
        told = f"{self.segments} segments not uploaded yet" if self.segments else ""
        return f"{told or 'uploads fail'} ({self.reason})" if self.reason else told


def read_lag(spool: Path) -> Lag | None:
    """What the process that executes a run last noted of its uploads, or None."""
    try:
        return msgspec.json.decode((spool / LAG).read_bytes(), type=Lag)
    except (OSError, msgspec.MsgspecError):
        return None


class Uploader:
    """Brings a spool's files into the store, in a thread of its own."""

    def __init__(
        self, store: RemoteStore, layout: Layout, *, interval: float = UPLOAD_SECONDS, max_bytes: int = UPLOAD_BYTES
    ) -> None:
        """Looks at what is in the store already.

        Raises:
            StorageFailure: it cannot be reached.
        """
        self.store, self._layout = store, layout
        self._interval, self._max_bytes = interval, max_bytes
        self._known = {entry.key: entry.size for entry in store.list()}
        self.lag = Lag()
        self.failures = Failures()
        self._journal: JournalWriter | None = None
        self._sealed: deque[tuple[SegmentId, int]] = deque()
        self._waiting: deque[tuple[int, Callable[[], None]]] = deque()
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stop = False
        self._thread: threading.Thread | None = None
        self._done = threading.Condition()
        self._rounds = 0
        self._up = 0

    def start(self, journal: JournalWriter) -> None:
        """Begins to upload what the journal writes."""
        self._journal = journal
        self._thread = threading.Thread(target=self._run, name="holdfast-upload", daemon=True)
        self._thread.start()

    def sealed(self, ident: SegmentId) -> None:
        """A segment has been sealed; called by the journal's writer."""
        last_seq = self._journal.last_sealed_seq if self._journal is not None else 0
        with self._lock:
            self._sealed.append((ident, last_seq))

    def when_up(self, seq: int, callback: Callable[[], None]) -> None:
        """Calls back, in the uploader's thread, once the frame `seq` of this session is in the store."""
        with self._lock:
            self._waiting.append((seq, callback))

    # The thread.

    def _run(self) -> None:
        # The first round at once: from then on the store knows of this session.
        pause = 0.0
        while not self._stop:
            self._wake.wait(pause)
            self._wake.clear()
            pause = self._interval if self._round() else min(max(pause, 0.25) * 2, _LONGEST_PAUSE)
            self._note_lag()

    def _note_lag(self) -> None:
        """For whoever asks after the run on this machine; nothing depends on it."""
        temporary = self._layout.root / f".{LAG}.new"
        try:
            temporary.write_bytes(msgspec.json.encode(self.lag))
            temporary.replace(self._layout.root / LAG)
        except OSError as error:
            self.failures.note(LAG, error)

    def _round(self) -> bool:
        """Seals what was written, and uploads what is sealed; whether the store took it."""
        try:
            if self._journal is not None and not self._stop:
                self._journal.roll(_SEALING_SECONDS)
            self.upload()
        except StorageFailure as failure:
            if self.lag.failing_since is None:
                self.lag.failing_since = time.monotonic()
            self.lag.reason = failure.message
            self.failures.note(UPLOADS, failure.message)
            return False
        finally:
            with self._done:
                self._rounds += 1
                self._done.notify_all()
        self.lag.failing_since, self.lag.reason = None, ""
        return True

    def upload(self, *, everything: bool = False) -> None:
        """Uploads every sealed segment that is not up yet, and before each what it cites.

        With `everything`, also unsealed segments of sessions that are over: nobody will write to them again.

        Raises:
            StorageFailure: the store did not take something; what was uploaded stays.
        """
        missing = self._missing(everything=everything)
        self.lag.segments, self.lag.bytes = len(missing), sum(path.stat().st_size for path in missing)
        if missing:
            self._upload_cited()
        for path in missing:
            self._put(f"journal/{path.name}", path)
            self.lag.segments -= 1
            self.lag.bytes -= path.stat().st_size
        if missing or everything:
            self._upload_config()
        self._count()

    def _missing(self, *, everything: bool) -> list[Path]:
        found = []
        for path in sorted(self._layout.journal.iterdir()):
            parsed = parse_name(path.name)
            if parsed and (parsed[1] or everything) and f"journal/{path.name}" not in self._known:
                found.append(path)
        return found

    def _upload_cited(self) -> None:
        for directory in (self._layout.inputs, self._layout.blobs, self._layout.artifacts):
            for path in sorted(directory.rglob("*")) if directory.is_dir() else []:
                key = str(path.relative_to(self._layout.root))
                if path.is_file() and not path.name.startswith(".") and key not in self._known:
                    self._put(key, path)

    def _upload_config(self) -> None:
        for name in ("config.yaml", "serving.yaml"):
            path = self._layout.root / name
            if path.is_file():
                self.store.put_file(name, path)

    def _put(self, key: str, path: Path) -> None:
        if key.startswith("journal/"):
            self.store.put_segment(key, path)
        else:
            self.store.put_file(key, path)
        self._known[key] = path.stat().st_size

    def _count(self) -> None:
        """Tells those who wait for frames that are in the store now."""
        ready: list[Callable[[], None]] = []
        with self._lock:
            up = 0
            while self._sealed and f"journal/{self._sealed[0][0].filename(sealed=True)}" in self._known:
                up = self._sealed.popleft()[1]
            self._up = max(self._up, up)
            left: deque[tuple[int, Callable[[], None]]] = deque()
            for seq, callback in self._waiting:
                if seq <= self._up:
                    ready.append(callback)
                else:
                    left.append((seq, callback))
            self._waiting = left
        for callback in ready:
            callback()

    # Ending.

    def flush(self, seconds: float) -> bool:
        """Seals and uploads now; whether everything is up before so many seconds have passed."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self._wait_for_round(deadline)
            if self.lag.failing_since is None and not self._missing(everything=False) and not self._waiting:
                return True
        return False

    def _wait_for_round(self, deadline: float) -> None:
        with self._done:
            before = self._rounds
            self._wake.set()
            self._done.wait_for(lambda: self._rounds > before, timeout=max(deadline - time.monotonic(), 0.01))

    def finish(self, seconds: float = 60.0) -> None:
        """Uploads what the session's end has added, for so long at the most; what is left goes up next time."""
        self._journal = None
        self.flush(seconds)

    def stop(self) -> None:
        """Ends the thread; what is not up stays in the spool for the next session."""
        self._stop = True
        self._wake.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
