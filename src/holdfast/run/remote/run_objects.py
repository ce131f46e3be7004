"""The objects of a run in a store: which ones belong to it, and which run it is.

Only keys that can be files of a run are used: none leads out of the run's directory, and if a segment exists under
both of its names the sealed one counts.
"""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from holdfast.digests import file_digest
from holdfast.errors import NotARun
from holdfast.journal.frame import Header
from holdfast.journal.segment import parse_name
from holdfast.run.core.run_id import first_header_in_bytes, refuse_newer
from holdfast.storage.leases.remote import ENDED, find_published_lease
from holdfast.storage.object_store import ObjectReadFile, ObjectStore, StoredObject

RUN_DIRECTORIES = ("journal/", "inputs/", "blobs/", "artifacts/", f"{ENDED}/")
DIGEST_NAMED = ("inputs", "blobs")
"""The directories whose files are named by the digest of their content."""
RUN_FILES = ("config.yaml", "serving.yaml")
_LOOKED_AT, _READ_AT_A_TIME = 4, 8


def list_run_objects(store: ObjectStore) -> list[StoredObject]:
    """The objects of the run at the URL.

    Raises:
        NotARun: there is no segment at the URL.
        StorageFailure: the store cannot be listed.
    """
    entries = [entry for entry in store.list() if _is_run_file(entry.key)]
    if not any(entry.key.startswith("journal/") for entry in entries):
        raise NotARun(f"There is no run at {store.url}: no segment was found.", hint="Give the URL of a run.")
    keys = {entry.key for entry in entries}
    return [entry for entry in entries if _sealed_key(entry.key) == entry.key or _sealed_key(entry.key) not in keys]


def run_id_in_store(store: ObjectStore, entries: list[StoredObject]) -> bytes:
    """The id of the run in the store: a foreign object among its segments does not decide.

    The lease object names the run, if a session has held it; that is believed if a segment bears the same id. Without
    it the id counts that most segments bear. A few of them are looked at, and all if these do not agree.

    Raises:
        NotARun: no segment can be read, or two runs have as many segments here.
        NewerFormat: a newer version wrote it.
        StorageFailure: the store does not answer.
    """
    segments = [entry for entry in entries if entry.key.startswith("journal/")]
    published = find_published_lease(store)
    named = published.run if published is not None else ""
    headers = _first_headers(store, _spread(segments))
    ids = Counter(header.run for header in headers)
    if len(ids) != 1 or (named and named != headers[0].run.hex()):
        headers = _first_headers(store, segments)
        ids = Counter(header.run for header in headers)
    if not ids:
        raise NotARun(
            f"Nothing in the journal at {store.url} can be read.", hint="Its segments are damaged at their start."
        )
    run = next((one for one in ids if one.hex() == named), None) or _majority(store, ids)
    refuse_newer(store.url, max(header.format for header in headers if header.run == run))
    return run


def _majority(store: ObjectStore, ids: Counter[bytes]) -> bytes:
    (run, count), *others = ids.most_common(2)
    if others and others[0][1] == count:
        other = others[0][0]
        raise NotARun(
            f"{store.url} holds segments of two runs, {count} of each: {run.hex()} and {other.hex()}.",
            hint="Move the segments of one of them away; their headers say which run they belong to.",
        )
    return run


def _spread(segments: list[StoredObject]) -> list[StoredObject]:
    """A few segments from the first to the last."""
    step = max((len(segments) - 1) // (_LOOKED_AT - 1), 1)
    return list(dict.fromkeys([*segments[::step][: _LOOKED_AT - 1], *segments[-1:]]))


def _first_headers(store: ObjectStore, segments: list[StoredObject]) -> list[Header]:
    """The first intact header of each; of a segment that has none, or that is gone by now, nothing."""
    with ThreadPoolExecutor(_READ_AT_A_TIME) as pool:
        found = pool.map(
            lambda entry: first_header_in_bytes(partial(ObjectReadFile(store, entry).read_at, 0)), segments
        )
        return [header for header in found if header is not None]


def is_downloaded(root: Path, entry: StoredObject) -> bool:
    """Whether an object of the store is in the directory, as it is or under the name it has since been sealed with.

    A file that is named by its digest and has another size than its object is here only if its content is intact.
    """
    path = root / entry.key
    if is_named_by_digest(entry.key) and path.is_file() and path.stat().st_size != entry.size:
        return content_digest_of(path) == path.name
    return path.exists() or (root / _sealed_key(entry.key)).exists()


def is_named_by_digest(key: str) -> bool:
    """Whether a file of a run is named by the digest of its content."""
    directory, _, name = key.rpartition("/")
    return directory in DIGEST_NAMED and not name.startswith(".")


def content_digest_of(path: Path) -> str:
    """The digest of a file, read a piece at a time; empty if it cannot be read."""
    try:
        return file_digest(path)
    except OSError:
        return ""


def _is_run_file(key: str) -> bool:
    parts = Path(key).parts
    if ".." in parts or key.startswith("/") or any(part.startswith(".") for part in parts):
        return False
    if key.startswith("journal/"):
        return len(parts) == 2 and parse_name(parts[1]) is not None
    return key in RUN_FILES or key.startswith(RUN_DIRECTORIES)


def _sealed_key(key: str) -> str:
    """The key that an unsealed segment has once it is sealed; any other key as it is."""
    directory, _, name = key.rpartition("/")
    parsed = parse_name(name) if directory == "journal" else None
    return f"journal/{parsed[0].filename(sealed=True)}" if parsed else key
