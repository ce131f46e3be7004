"""The spool: the directory on this machine that holds a run in an object store while it grows."""

from __future__ import annotations

from pathlib import Path

from holdfast.journal.segment import parse_name
from holdfast.run.core.layout import Layout
from holdfast.storage.object_store import ObjectStore


def newest_session(store: ObjectStore, root: Path) -> int:
    """The highest number of a session that anything is known of, in the store or in the spool, going by names."""
    names = [Path(entry.key).name for entry in store.list("journal")]
    names += [path.name for path in Layout(root).journal.iterdir()] if Layout(root).journal.is_dir() else []
    return max((parsed[0].session for name in names if (parsed := parse_name(name))), default=0)
