"""Where things are in a run's directory."""

from __future__ import annotations

import os
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path


@dataclass(frozen=True)
class Layout:
    """The places of one run."""

    root: Path

    @property
    def journal(self) -> Path:
        return self.root / "journal"

    @property
    def blobs(self) -> Path:
        return self.root / "blobs"

    @property
    def inputs(self) -> Path:
        return self.root / "inputs"

    @property
    def artifacts(self) -> Path:
        return self.root / "artifacts"

    @property
    def index(self) -> Path:
        return self.root / "index.sqlite"

    @property
    def shelf(self) -> Path:
        """What was worked out about large datasets; derived, and may be deleted at any time."""
        return self.root / ".shelf"

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def remote(self) -> Path:
        """Holds the URL of a run that is in an object store, in its spool and in what readers put together of it."""
        return self.root / "remote.url"

    @property
    def recovered(self) -> Path:
        """There from the moment a run was brought home to a place that had nothing of it, to its next session."""
        return self.root / "recovered.url"


def reader_cache(root: Path, run: bytes) -> Path:
    """Where a process that does not hold the run keeps its own index of it: one for each copy of each run."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or _home_cache())
    place = blake2b(os.fsencode(root.resolve()), key=run, digest_size=10).hexdigest()
    return base / "holdfast" / f"{place}.sqlite"


def _home_cache() -> Path:
    """The user's cache; a user without a home, as in many containers, gets a place that is none, and no cache."""
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return Path(os.devnull) / "cache"
