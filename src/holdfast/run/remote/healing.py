"""Files in a store that are missing or altered there, written again from an intact copy on this machine.

A copy is intact if its content has the digest that the run has recorded of it: inputs and blobs are named by theirs,
and the ends of trials hold those of artifacts. What is neither intact here nor there is named. The caller holds the
run.
"""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import md5
from pathlib import Path

from holdfast.digests import file_digest
from holdfast.errors import NotARun
from holdfast.journal import Journal
from holdfast.run.core.codec import decode
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import TrialRecord
from holdfast.run.core.run_id import find_run_id
from holdfast.run.remote.run_objects import content_digest_of, is_named_by_digest
from holdfast.storage.filesystem import FileSystem, RealFileSystem
from holdfast.storage.object_store import ObjectStore, StoredObject

_MD5_DIGITS = 32
_CHUNK = 1 << 20


def heal_store(store: ObjectStore, layout: Layout) -> list[str]:
    """Writes what is missing or altered in the store again; in words, what was done and what could not be.

    Raises:
        StorageFailure: the store failed.
    """
    there = {entry.key: entry for entry in store.list()}
    differing = [path for path in _files(layout) if not _is_same(store, there.get(_key(layout, path)), path)]
    told: list[str] = []
    digests: dict[str, str] | None = None
    for path in differing:
        key = _key(layout, path)
        if is_named_by_digest(key):
            is_intact = content_digest_of(path) == path.name
        else:
            digests = _artifact_digests(layout) if digests is None else digests
            is_intact = key in digests and file_digest(path) == digests[key]
        if is_intact:
            store.put_file(key, path)
        state = "was altered in" if key in there else "was missing in"
        done = "it was written again from the copy here" if is_intact else "the copy here is not intact either"
        told += [f"{key} {state} {store.url}; {done}."] if key in there or is_intact else []
    return told


def _key(layout: Layout, path: Path) -> str:
    return str(path.relative_to(layout.root))


def _files(layout: Layout) -> Iterator[Path]:
    for directory in (layout.inputs, layout.blobs, layout.artifacts):
        for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
            if path.is_file() and not path.name.startswith("."):
                yield path


def _is_same(store: ObjectStore, entry: StoredObject | None, path: Path) -> bool:
    """Whether an object is the file, by what the store says of it, and by its bytes where that says nothing."""
    if entry is None or entry.size != path.stat().st_size:
        return False
    tag = entry.tag.strip('"').lower()
    is_digest = len(tag) == _MD5_DIGITS and set(tag) <= set("0123456789abcdef")
    return (is_digest and _md5_of(path) == tag) or store.holds(entry.key, path)


def _md5_of(path: Path) -> str:
    found = md5(usedforsecurity=False)
    with path.open("rb") as stream:
        while part := stream.read(_CHUNK):
            found.update(part)
    return found.hexdigest()


def _artifact_digests(layout: Layout, fs: FileSystem | None = None) -> dict[str, str]:
    """The digests of artifacts that the ends of trials hold, by key; read only where something differs."""
    fs = fs or RealFileSystem()
    try:
        journal = Journal(fs, layout.journal, find_run_id(fs, layout))
    except NotARun:
        return {}
    found: dict[str, str] = {}
    for _, line in journal.stream([], (b'{"type":"trial"',)):
        if b'"artifacts":{' in line and isinstance(record := decode(line), TrialRecord):
            found |= {f"artifacts/{record.trial}/{name}": digest for name, digest in record.artifacts.items()}
    return found
