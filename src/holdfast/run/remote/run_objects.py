"""The objects of a run in a store: which ones belong to it, and which run it is.

Only keys that can be files of a run are used: none leads out of the run's directory, and if a segment exists under
both of its names the sealed one counts.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from holdfast.errors import NotARun
from holdfast.journal.segment import parse_name
from holdfast.run.core.run_id import first_header_in_bytes, refuse_newer
from holdfast.storage.object_store import ObjectReadFile, ObjectStore, StoredObject

RUN_DIRECTORIES = ("journal/", "inputs/", "blobs/", "artifacts/")
RUN_FILES = ("config.yaml", "serving.yaml")


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
    """The id of the run in the store, by the first segment that has an intact header near its start.

    Raises:
        NotARun: none has.
        NewerFormat: a newer version wrote it.
        StorageFailure: the store does not answer.
    """
    for entry in entries:
        if entry.key.startswith("journal/") and (
            found := first_header_in_bytes(partial(ObjectReadFile(store, entry).read_at, 0))
        ):
            refuse_newer(store.url, found.format)
            return found.run
    raise NotARun(
        f"Nothing in the journal at {store.url} can be read.", hint="Its segments are damaged at their start."
    )


def is_downloaded(root: Path, entry: StoredObject) -> bool:
    """Whether an object of the store is in the directory, as it is or under the name it has since been sealed with."""
    return (root / entry.key).exists() or (root / _sealed_key(entry.key)).exists()


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
