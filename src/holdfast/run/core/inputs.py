"""The files that a run depends on, copied into it: whatever becomes of the originals, the run can be resumed.

A copy is named by the digest of its bytes, and is durable before a record cites it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.journal import BlobStore
from holdfast.run.core.records import Input

LISTED_TRIALS = "imported/trials"
"""The input of an imported run that lists its trials: no grid gives them."""


class SourceFile(NamedTuple):
    """A file to be copied into a run, and the digest of the one that it was made from."""

    path: Path
    raw: str = ""


InputSource = bytes | SourceFile
"""The bytes of a file, or where they are."""


def copy_inputs(store: BlobStore, inputs: Mapping[str, InputSource]) -> dict[str, Input]:
    """Puts files into a run's inputs; what a session record says of them."""
    copied: dict[str, Input] = {}
    for name, content in inputs.items():
        if isinstance(content, SourceFile):
            digest, size = store.put_file(content.path)
            copied[name] = Input(digest=digest, size=size, source=name, raw=content.raw)
        else:
            copied[name] = Input(digest=store.put(content), size=len(content), source=name)
    return copied
