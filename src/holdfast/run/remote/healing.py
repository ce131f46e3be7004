"""Files in a store that are missing or altered there, written again from an intact copy on this machine.

A copy is intact if its content has the digest that the run has recorded of it: inputs and blobs are named by theirs,
and the ends of trials hold those of artifacts. A segment is intact if its frames and its footer are, and are those of
the run; an object that is not is replaced only after its bytes are stored as `backup-<n>/…` beside it, and only if it
has not changed since it was read. What is neither intact here nor there is named. The caller holds the run.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import NamedTuple

from holdfast.digests import file_digest
from holdfast.errors import NotARun, StorageFailure
from holdfast.journal.segment import parse_name
from holdfast.journal.segment_scan import SegmentScan
from holdfast.run.core.layout import Layout
from holdfast.run.core.result_file import RESULT, ResultFileFault, read_result
from holdfast.run.core.run_id import find_run_id
from holdfast.run.fold.run_scan import RunScan
from holdfast.run.remote.run_objects import content_digest_of, is_named_by_digest
from holdfast.storage.filesystem import ReadFile, RealFileSystem
from holdfast.storage.object_comparison import ObjectComparison, is_same_object
from holdfast.storage.object_store import ObjectReadFile, ObjectStore, StoredObject

_BACKUP = "backup-"


class HealedSegments(NamedTuple):
    """What was done with the segments that failed their own checks in the store, in words."""

    changes: list[str]
    unrepaired: list[str]
    """Those that are not intact on this machine either."""


def heal_segments(store: ObjectStore, layout: Layout) -> HealedSegments:
    """Writes segments again that are damaged or foreign in the store and intact here.

    Raises:
        StorageFailure: the store failed, or an object was changed by somebody else meanwhile.
    """
    healed = HealedSegments([], [])
    compared = ObjectComparison(store, layout.root)
    for entry, path, run in _failing_segments(store, layout, compared.is_same):
        if is_intact_file(path, run):
            backup = _replace_segment(store, entry.key, path)
            healed.changes.append(
                f"{entry.key} was damaged in {store.url}; it was written again from the copy here. As it was: {backup}."
            )
        else:
            healed.unrepaired.append(f"{entry.key} is damaged in {store.url}, and the copy here is not intact either.")
    compared.save()
    return healed


def intact_here(store: ObjectStore, layout: Layout) -> list[str]:
    """The segments that fail their own checks in the store and are intact on this machine, by key."""
    # Nothing is remembered: who checks a run wants to know about its bytes as they are now.
    failing = _failing_segments(store, layout, partial(is_same_object, store))
    return [entry.key for entry, path, run in failing if is_intact_file(path, run)]


def _failing_segments(
    store: ObjectStore, layout: Layout, is_same_as: Callable[[StoredObject, Path], bool]
) -> Iterator[tuple[StoredObject, Path, bytes]]:
    """The objects that differ from what is here under their name and are no intact segment of the run."""
    try:
        run = find_run_id(RealFileSystem(), layout)
    except NotARun:
        return
    for entry in store.list("journal"):
        path = layout.root / entry.key
        is_other = parse_name(path.name) and path.is_file() and not is_same_as(entry, path)
        if is_other and not is_intact_object(store, entry, run):
            yield entry, path, run


def is_intact_object(store: ObjectStore, entry: StoredObject, run: bytes) -> bool:
    """Whether an object is a segment of the run without loss, going by its own frames and footer."""
    return _is_intact(ObjectReadFile(store, entry), entry.key, run)


def is_intact_file(path: Path, run: bytes) -> bool:
    """Whether a file is a segment of the run without loss, going by its own frames and footer."""
    file = RealFileSystem().open(path)
    try:
        return _is_intact(file, path.name, run)
    finally:
        file.close()


def _is_intact(file: ReadFile, key: str, run: bytes) -> bool:
    parsed = parse_name(key.rpartition("/")[2])
    if parsed is None:
        return False
    scan = SegmentScan(file, run, parsed[0], key)
    for frame in scan.frames():
        scan.lines(frame)
    return not any(damage.is_loss for damage in scan.damage) and (scan.sealed or not parsed[1])


def _replace_segment(store: ObjectStore, key: str, path: Path) -> str:
    """Writes a segment over its object; where the bytes of that are now."""
    found = store.get(key)
    backup = back_up_object(store, key, found[0]) if found is not None else "missing"
    data = path.read_bytes()
    tag = store.put_over(key, data, found[1]) if found is not None else store.put_new(key, data)
    if tag is None:
        raise StorageFailure(f"{store.url}/{key} was changed by another process meanwhile.", hint="Repair it again.")
    return backup


def back_up_object(store: ObjectStore, key: str, data: bytes) -> str:
    """Stores the bytes of an object that is about to be replaced under a name that nothing has."""
    numbers = (
        entry.key.partition("/")[0].removeprefix(_BACKUP) for entry in store.list() if entry.key.startswith(_BACKUP)
    )
    number = max((int(text) for text in numbers if text.isdecimal()), default=0) + 1
    backup = f"{_BACKUP}{number}/{key.rpartition('/')[2]}"
    if store.put_new(backup, data) is None:
        raise StorageFailure(f"{store.url}/{backup} exists already.", hint="Repair it again.")
    return backup


def heal_store(store: ObjectStore, layout: Layout) -> list[str]:
    """Writes what is missing or altered in the store again; in words, what was done and what could not be.

    Files whose objects were the same before are not read again, unless the listing or the file says that one changed.

    Raises:
        StorageFailure: the store failed.
    """
    there = {entry.key: entry for entry in store.list()}
    compared = ObjectComparison(store, layout.root)
    differing = [
        path
        for path in _files(layout)
        if (entry := there.get(_key(layout, path))) is None or not compared.is_same(entry, path)
    ]
    compared.save()
    told: list[str] = []
    digests: dict[str, set[str]] | None = None
    for path in differing:
        key = _key(layout, path)
        if is_named_by_digest(key):
            is_intact: bool | None = content_digest_of(path) == path.name
        else:
            digests = _cited_digests(layout, {_key(layout, one) for one in differing}) if digests is None else digests
            is_intact = _is_intact_artifact(path, digests.get(key, set()))
        if is_intact:
            store.put_file(key, path)
        told += _healing_text(key, store.url, is_intact=is_intact, is_there=key in there)
    return told


def _healing_text(key: str, url: str, *, is_intact: bool | None, is_there: bool) -> list[str]:
    """What was done about a file that is missing or altered in the store; `is_intact` as the copy here is known."""
    if is_intact:
        state = "was altered in" if is_there else "was missing in"
        return [f"{key} {state} {url}; it was written again from the copy here."]
    if not is_there:
        return []
    if is_intact is None:
        # Neither of the two can be accused.
        return [f"{key} differs from the copy in {url}; no record says which of them is right."]
    return [f"{key} was altered in {url}; the copy here is not intact either."]


def _key(layout: Layout, path: Path) -> str:
    return str(path.relative_to(layout.root))


def _files(layout: Layout) -> Iterator[Path]:
    for directory in (layout.inputs, layout.blobs, layout.artifacts):
        for path in sorted(directory.rglob("*")) if directory.is_dir() else ():
            if path.is_file() and not path.name.startswith("."):
                yield path


def _cited_digests(layout: Layout, wanted: Collection[str]) -> dict[str, set[str]]:
    """The digests of these files that ends hold, by key; read only where something differs.

    Those of the end that counts, if it cites the file; the files of other attempts are intact as well.
    """
    fs = RealFileSystem()
    try:
        run = find_run_id(fs, layout)
    except NotARun:
        return {}
    found: dict[str, set[str]] = {}
    with closing(RunScan(layout, run, fs)) as scan:
        scan.scan_rest()
        for name, digest in scan.files_of_attempts():
            if name in wanted:
                found.setdefault(name, set()).add(digest)
        return found | {name: {digest} for name, digest in scan.cited_files() if name in wanted}


def _is_intact_artifact(path: Path, digests: Collection[str]) -> bool | None:
    """Whether a file has a content that is on record; that of a result is vouched for by its own checksum.

    None where nothing says what it was.
    """
    if digests:
        return file_digest(path) in digests
    return not isinstance(read_result(path), ResultFileFault) if path.name == RESULT else None
