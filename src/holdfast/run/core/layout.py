"""Where runs are, and where things are in the directory of each."""

import os
from hashlib import blake2b
from pathlib import Path

import msgspec

from holdfast.errors import UsageError
from holdfast.storage.store_url import check_url

RUNS = Path("runs")
"""Where runs are put by default."""


class Layout(msgspec.Struct, frozen=True):
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
        """The index as the last session left it; never changed, only replaced."""
        return self.root / "index.sqlite"

    @property
    def index_in_use(self) -> Path:
        """The index that the session which holds the run is filling."""
        return self.root / ".index.sqlite"

    @property
    def shelf(self) -> Path:
        """What was computed about large datasets; derived, and may be deleted at any time."""
        return self.root / ".shelf"

    @property
    def config(self) -> Path:
        return self.root / "config.yaml"

    @property
    def remote(self) -> Path:
        """Holds the URL of a run that is in an object store, in its spool and in what readers assembled of it."""
        return self.root / "remote.url"

    def read_url(self) -> str:
        """The URL of the run, if this is its spool or what readers assembled of it; empty for any other directory.

        Raises:
            OSError: it cannot be read.
        """
        return self.remote.read_text(encoding="utf-8").strip() if self.remote.is_file() else ""

    @property
    def recovered(self) -> Path:
        """There from the moment a run was downloaded to a place that had nothing of it, to its next session."""
        return self.root / "recovered.url"


def all_runs(runs: Path = RUNS) -> list[Path]:
    """Every run below `runs`, in the order of their names."""
    if not runs.is_dir():
        return []
    return sorted(item for item in runs.iterdir() if Layout(item).journal.is_dir() and not item.name.startswith("."))


def reader_index_path(root: Path, run: bytes) -> Path:
    """Where a process that does not hold the run keeps its own index of it: one for each copy of each run."""
    base = Path(os.environ.get("XDG_CACHE_HOME") or _home_cache())
    place = blake2b(os.fsencode(root.resolve()), key=run, digest_size=10).hexdigest()
    return base / "holdfast" / f"{place}.sqlite"


def _home_cache() -> Path:
    """The user's cache; a user without a home, as in many containers, has no cache."""
    try:
        return Path.home() / ".cache"
    except RuntimeError:
        return Path(os.devnull) / "cache"


def spool_root(url: str) -> Path:
    """Where the spool of a run with this URL is on this machine.

    Raises:
        ConfigurationError: the URL is not the only name of its place.
        UsageError: there is no place for it.
    """
    check_url(url)
    base = os.environ.get("HOLDFAST_SPOOL") or _home_spool(url)
    name = url.rstrip("/").rpartition("/")[2]
    return Path(base) / f"{name}-{blake2b(url.rstrip('/').encode(), digest_size=6).hexdigest()}"


def _home_spool(url: str) -> Path:
    try:
        state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    except RuntimeError:
        raise UsageError(
            f"The spool of {url} has no directory: this user has no home directory.",
            hint="Set HOLDFAST_SPOOL to a writable directory.",
        ) from None
    return Path(state) / "holdfast" / "spool"
