"""Whether objects of a store are the files of a directory.

The tag of an object is, in most stores, the digest of its bytes; where it is not, bytes are compared. What was found to
be the same is remembered beside the files: while neither the tag nor the file has changed, nothing is read again, so
that opening a large run costs one listing. The memory is derived: without it everything is compared once more.
"""

from __future__ import annotations

import contextlib
from hashlib import md5
from pathlib import Path

import msgspec

from holdfast.storage.object_store import ObjectStore, StoredObject

COMPARED_FILE = ".compared.json"
UNFINISHED_COMPARED_FILE = f"{COMPARED_FILE}.new"
"""Left by a process that was killed while it wrote; the next one replaces it. Whoever compares holds the run."""
_MD5_DIGITS = 32
_CHUNK = 1 << 20
_Compared = tuple[str, int, int, int]
"""The tag of an object; inode, size and time of change of the file that was the same."""


def is_tag_of(tag: str, path: Path) -> bool | None:
    """Whether the tag is the digest of the file; None if the tag is not a digest, and says nothing."""
    digest = _digest_in(tag)
    return _md5_of(path) == digest if digest else None


def _digest_in(tag: str) -> str:
    """The digest in a tag; empty if the tag is not a digest."""
    text = tag.strip('"').lower()
    return text if len(text) == _MD5_DIGITS and set(text) <= set("0123456789abcdef") else ""


def _md5_of(path: Path) -> str:
    found = md5(usedforsecurity=False)
    with path.open("rb") as stream:
        while part := stream.read(_CHUNK):
            found.update(part)
    return found.hexdigest()


def is_same_object(store: ObjectStore, entry: StoredObject, path: Path, tail: int = 0) -> bool:
    """Whether an object is the file, by what the store says of it, and by its bytes where that is not enough.

    With `tail`, the last bytes are enough where the tag says nothing: those of a sealed segment vouch for the others.
    """
    if entry.size != path.stat().st_size:
        return False
    by_tag = is_tag_of(entry.tag, path)
    if by_tag is None and tail:
        start = max(entry.size - tail, 0)
        return store.read_range(entry.key, start, entry.size - start) == _read_from(path, start)
    # Not every store's tag is the digest that it looks like.
    return bool(by_tag) or store.holds(entry.key, path)


def _read_from(path: Path, start: int) -> bytes:
    with path.open("rb") as stream:
        stream.seek(start)
        return stream.read()


class ObjectComparison:
    """Compares the files of a directory with their objects, and remembers which are the same."""

    def __init__(self, store: ObjectStore, root: Path) -> None:
        self._store, self._file = store, root / COMPARED_FILE
        self._before: dict[str, _Compared] = {}
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            self._before = msgspec.json.decode(self._file.read_bytes(), type=dict[str, _Compared])
        self._now: dict[str, _Compared] = {}

    def is_same(self, entry: StoredObject, path: Path, tail: int = 0) -> bool:
        """As `is_same_object`; what was the same before, and has not changed, is not read again."""
        found = path.stat()
        compared = (entry.tag, found.st_ino, found.st_size, found.st_mtime_ns)
        is_known = bool(entry.tag) and found.st_size == entry.size and self._before.get(entry.key) == compared
        if not is_known and not is_same_object(self._store, entry, path, tail):
            return False
        if is_known or not tail or _digest_in(entry.tag):
            # A tail vouches for a segment, but is not all of it: others may want to know more.
            self._now[entry.key] = compared
        return True

    def save(self) -> None:
        """Remembers what this comparison has found, and forgets files that were deleted; nothing depends on it."""
        root, known = self._file.parent, self._before | self._now
        kept = {key: compared for key, compared in known.items() if (root / key).exists()}
        if kept == self._before:
            return
        temporary = self._file.with_name(UNFINISHED_COMPARED_FILE)
        with contextlib.suppress(OSError):
            temporary.write_bytes(msgspec.json.encode(kept))
            temporary.replace(self._file)
            self._before = kept
