"""The spool: the directory on this machine that holds a run in an object store while it grows."""

from __future__ import annotations

import os
from hashlib import blake2b
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.journal.segment import parse_name
from holdfast.run.core.layout import Layout
from holdfast.storage.object_store import ObjectStore


def spool_root(url: str) -> Path:
    """Where the spool of a run with this URL is on this machine.

    Raises:
        UsageError: there is no place for it.
    """
    base = os.environ.get("HOLDFAST_SPOOL") or _home_spool(url)
    name = url.rstrip("/").rpartition("/")[2]
    return Path(base) / f"{name}-{blake2b(url.rstrip('/').encode(), digest_size=6).hexdigest()}"


def _home_spool(url: str) -> Path:
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise UsageError(
            f"There is no place for the spool of {url}: this user has no home directory.",
            hint="Set HOLDFAST_SPOOL to a directory that can be written.",
        ) from None
    return Path(state) / "holdfast" / "spool"


def newest_session(store: ObjectStore, root: Path) -> int:
    """The highest number of a session that anything is known of, in the store or in the spool, going by names."""
    names = [Path(entry.key).name for entry in store.list("journal")]
    names += [path.name for path in Layout(root).journal.iterdir()] if Layout(root).journal.is_dir() else []
    return max((parsed[0].session for name in names if (parsed := parse_name(name))), default=0)
