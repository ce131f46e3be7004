"""One run's place in an object store, as a test sees it from outside."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import obstore


class Place:
    """The URL of a run, its objects, and its spool on this machine."""

    def __init__(self, url: str, bucket: Any, spool: Path) -> None:
        self.url, self.bucket, self.spool = url, bucket, spool

    def keys(self, below: str = "") -> list[str]:
        """The objects that are there."""
        found = [entry["path"] for page in obstore.list(self.bucket, below or None) for entry in page]
        return sorted(found)

    def segments(self) -> list[str]:
        return self.keys("journal")

    def read(self, key: str) -> bytes:
        return bytes(obstore.get(self.bucket, key).bytes())

    def write(self, key: str, data: bytes) -> None:
        obstore.put(self.bucket, key, data)

    def delete(self, key: str) -> None:
        obstore.delete(self.bucket, key)

    def published(self) -> int:
        """How many finished trials the holder last told of; -1 while nobody has."""
        try:
            return int(json.loads(self.read("lease.json"))["finished"])
        except FileNotFoundError:
            return -1

    def is_up_to_date(self) -> bool:
        """Whether everything that the spool's journal holds is in the store."""
        there = {key.rpartition("/")[2] for key in self.segments()}
        try:
            local = [path for path in self.spool.glob("*/journal/*.zst") if path.stat().st_size]
        except FileNotFoundError:
            # A segment has just been sealed, and has another name now.
            return False
        return bool(local) and {path.name for path in local} <= there

    def lose_machine(self) -> None:
        """The local disk is gone: the spool, and whatever readers had put together of it."""
        shutil.rmtree(self.spool, ignore_errors=True)
        shutil.rmtree(Path(os.environ["XDG_CACHE_HOME"]) / "holdfast", ignore_errors=True)
