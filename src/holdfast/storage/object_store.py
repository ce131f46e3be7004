"""An object store: keeps the segments of a run in case its machine is lost.

Keys are relative to the run's URL. A conditional write either wins or loses, and says which; `probe` detects a store
that ignores the condition, and leases refuse it. An object counts as missing only if the store lists its objects
without it: a bucket that answers 404 for everything is a failing store. Whatever else its library raises is a
StorageFailure, which callers may retry.
"""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from shlex import quote
from typing import Any, NamedTuple

from holdfast.errors import ConfigurationError, SegmentConflict, StorageFailure
from holdfast.storage.object_store_errors import (
    INTACT,
    failure_hint,
    failure_reason,
    is_lost_race,
    is_not_found,
)
from holdfast.storage.operating_system import sync_file
from holdfast.storage.store_url import check_url

_CHUNK = 1 << 20
_PROBE = ".holdfast-probe"
_LIBRARY_ERRORS = (OSError, RuntimeError, ValueError, TypeError, LookupError)
"""What the store's library raises beside its own errors, as for an answer that it cannot read.

Only calls of the library are wrapped: the same errors of our own code are not the store's.
"""


class StoredObject(NamedTuple):
    """An object in the store."""

    key: str
    size: int
    tag: str
    at: float = 0.0
    """When it was stored, by the store's clock, in seconds since the epoch."""


class ObjectReadFile:
    """An object as a file to read from: only the bytes that are asked for are downloaded.

    Reading raises StorageFailure where the store fails.
    """

    def __init__(self, store: "ObjectStore", entry: StoredObject) -> None:
        self._store, self._entry = store, entry

    def size(self) -> int:
        return self._entry.size

    def read_at(self, offset: int, size: int) -> bytes:
        size = min(size, self._entry.size - offset)
        return self._store.read_range(self._entry.key, offset, size) if size > 0 else b""

    def sync(self) -> None:
        """A store keeps what it has accepted."""

    def close(self) -> None:
        """Nothing is held open."""


class ObjectStore:
    """One prefix of a bucket."""

    def __init__(self, url: str) -> None:
        """Opens the store; the keys to it come from the environment, as its own tools read them.

        Raises:
            ConfigurationError: the URL is invalid, or the package for it is not installed.
        """
        check_url(url)
        self.url = url.rstrip("/")
        self._obstore = _import_obstore()
        self._store = self._open_store()

    def _open_store(self) -> Any:
        retry = {"max_retries": 2, "retry_timeout": _timedelta(10)}
        client = {"timeout": "30s", "connect_timeout": "5s", "allow_http": True}
        try:
            return self._obstore.store.from_url(self.url, client_options=client, retry_config=retry)
        except (self._obstore.exceptions.BaseError, ValueError) as error:
            raise ConfigurationError(f"{self.url} cannot be opened: {failure_reason(error)}.") from error

    @contextlib.contextmanager
    def _as_storage_failure(self, what: str) -> Iterator[None]:
        """Turns what the store's library raises into a StorageFailure with one sentence."""
        try:
            yield
        except (self._obstore.exceptions.BaseError, *_LIBRARY_ERRORS) as error:
            raise StorageFailure(
                f"{self.url} failed to {what}: {failure_reason(error)}.", hint=failure_hint(error)
            ) from error

    def _lists(self, key: str) -> bool:
        """Whether an object is among those that the store lists.

        Raises:
            StorageFailure: it does not list them, so that a 404 says nothing about the object.
        """
        try:
            with self._as_storage_failure(f"list {key}"):
                # Keys are listed in order, from just before this one.
                pages = self._obstore.list(self._store, key.rpartition("/")[0] or None, offset=key[:-1])
                return next((one["path"] for page in pages for one in page if one["path"] >= key), "") == key
        except StorageFailure as failure:
            raise StorageFailure(
                f"The store answers 404 for {key}, and does not say what exists: {failure.message}", hint=failure.hint
            ) from failure

    def _open(self, key: str) -> Any | None:
        """An object to be read, or None if it does not exist.

        Raises:
            StorageFailure: the store failed, or answers 404 for an object that it lists.
        """
        # Twice: another process may store it between the two requests.
        for _ in range(2):
            with self._as_storage_failure(f"read {key}"), contextlib.suppress(FileNotFoundError):
                return self._obstore.get(self._store, key)
            if not self._lists(key):
                return None
        raise StorageFailure(f"The store answers 404 for {self.url}/{key}, which it lists.", hint=INTACT)

    def put_file(self, key: str, path: Path) -> None:
        """Stores a file as it is, in parts where it is large."""
        with self._as_storage_failure(f"store {key}"):
            self._obstore.put(self._store, key, path)

    def put_segment(self, key: str, path: Path) -> None:
        """Stores a file under a name that is never given twice; an existing one with the same bytes is left unchanged.

        Raises:
            SegmentConflict: the store holds something else under this name.
            StorageFailure: the store failed.
        """
        data = path.read_bytes()
        if self.put_new(key, data) is not None:
            return
        found = self.get(key)
        if found is None:
            raise StorageFailure(f"Cannot store {key} in {self.url}: it refused a new object and has none.")
        if found[0] != data:
            spool = path.parent.parent
            raise SegmentConflict(
                f"{self.url}/{key} holds other bytes than {path}; neither was changed.",
                hint=f"To keep what is here, move the object away; to keep what is in the store, move {spool} away."
                f" Then `holdfast resume {quote(self.url)}`; `holdfast verify {quote(str(spool))}` tells whether"
                " what is here is sound.",
            )

    def put_new(self, key: str, data: bytes) -> str | None:
        """Stores an object that did not exist; its tag, or None if another was first."""
        return self._put_if(key, data, "create")

    def put_over(self, key: str, data: bytes, tag: str) -> str | None:
        """Stores an object over the one with this tag; its tag, or None if that one no longer exists."""
        return self._put_if(key, data, {"e_tag": tag})

    def _put_if(self, key: str, data: bytes, mode: Any) -> str | None:
        exceptions = self._obstore.exceptions
        with self._as_storage_failure(f"store {key}"):
            try:
                return str(self._obstore.put(self._store, key, data, mode=mode, use_multipart=False)["e_tag"] or "")
            except (exceptions.AlreadyExistsError, exceptions.PreconditionError, exceptions.NotModifiedError) as error:
                if not is_not_found(error):
                    return None
            except exceptions.GenericError as error:
                if is_lost_race(error):
                    return None
                raise
        # The condition was that the object is the one with a tag: the store says that there is none.
        if self._lists(key):
            raise StorageFailure(f"The store answers 404 for {self.url}/{key}, which it lists.", hint=INTACT)
        return None

    def get(self, key: str) -> tuple[bytes, str] | None:
        """A small object and its tag, or None if it does not exist."""
        found = self._open(key)
        if found is None:
            return None
        with self._as_storage_failure(f"read {key}"):
            return bytes(found.bytes()), str(found.meta["e_tag"] or "")

    def head(self, key: str, size: int) -> bytes:
        """The first bytes of an object; none if it does not exist."""
        return self.read_range(key, 0, size)

    def read_range(self, key: str, start: int, size: int) -> bytes:
        """A number of bytes of an object; none if it does not exist."""
        if not size:
            return b""
        with self._as_storage_failure(f"read {key}"), contextlib.suppress(FileNotFoundError):
            return bytes(self._obstore.get_range(self._store, key, start=start, length=size))
        if self._lists(key):
            raise StorageFailure(f"The store answers 404 for {self.url}/{key}, which it lists.", hint=INTACT)
        return b""

    def fetch(self, key: str, path: Path) -> int:
        """Copies an object into a new file, a piece at a time, and syncs it; its size.

        Raises:
            FileNotFoundError: the object is gone.
            StorageFailure: the store failed.
            OSError: the file cannot be written.
        """
        size = 0
        with path.open("xb") as target:
            for part in self._parts(key):
                size += target.write(part)
            target.flush()
            sync_file(target.fileno())
        return size

    def _parts(self, key: str) -> Iterator[Any]:
        found = self._open(key)
        if found is None:
            raise FileNotFoundError(f"{self.url}/{key} does not exist")
        yield from self._stream(key, found)

    def _stream(self, key: str, found: Any) -> Iterator[Any]:
        with self._as_storage_failure(f"read {key}"):
            yield from found.stream(min_chunk_size=_CHUNK)

    def holds(self, key: str, path: Path) -> bool:
        """Whether an object is, byte for byte, the file."""
        found = self._open(key)
        if found is None:
            return False
        with path.open("rb") as file:
            return all(file.read(len(part)) == bytes(part) for part in self._stream(key, found)) and not file.read(1)

    def stored_at(self, key: str) -> float:
        """When an object was stored, by the store's clock, in seconds since the epoch."""
        with self._as_storage_failure(f"read {key}"):
            return float(self._obstore.head(self._store, key)["last_modified"].timestamp())

    def list(self, prefix: str = "") -> list[StoredObject]:
        """Every object below a prefix, sorted by key."""
        with self._as_storage_failure("list its objects"):
            found = [entry for page in self._obstore.list(self._store, prefix or None) for entry in page]
        return sorted(map(_stored_object, found))

    def delete(self, key: str) -> None:
        with self._as_storage_failure(f"delete {key}"), contextlib.suppress(FileNotFoundError):
            self._obstore.delete(self._store, key)

    def probe(self) -> None:
        """Makes sure that the store honours conditions, on which a lease rests.

        Raises:
            ConfigurationError: it ignores them.
            StorageFailure: it cannot be reached or written.
        """
        key = f"{_PROBE}-{os.urandom(6).hex()}"
        try:
            first = self.put_new(key, b"1")
            if first is None:
                # Nobody else has this name: the store refuses writes for now, and says nothing about conditions.
                raise StorageFailure(f"{self.url} refuses to store new objects.", hint=f"Try again later. {INTACT}")
            again = self.put_new(key, b"2")
            over = self.put_over(key, b"3", first)
            stale = self.put_over(key, b"4", first)
        finally:
            with contextlib.suppress(StorageFailure):
                self.delete(key)
        if again is not None or over is None or stale is not None:
            raise ConfigurationError(
                f"{self.url} does not support conditional writes, so two sessions could write to one run.",
                hint="Use a store with conditional writes, or a local run directory.",
            )


def _stored_object(found: Any) -> StoredObject:
    return StoredObject(found["path"], found["size"], str(found["e_tag"] or ""), found["last_modified"].timestamp())


def _import_obstore() -> Any:
    try:
        import obstore  # noqa: PLC0415 - an extra
        import obstore.exceptions  # noqa: PLC0415
        import obstore.store  # noqa: PLC0415
    except ModuleNotFoundError:
        raise ConfigurationError(
            "Runs in an object store need the package obstore.", hint="Install it: pip install obstore"
        ) from None
    return obstore


def _timedelta(count: int) -> Any:
    from datetime import timedelta  # noqa: PLC0415 - only here

    return timedelta(seconds=count)
