"""What was read, waiting on disk: the plan of a run is written before its trials, and is known only after them.

The trials and the samples are in a temporary directory, so that memory does not grow with them; it is removed at the
end, and nothing in it is needed if the process is killed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import BinaryIO, Self

import msgspec

from holdfast.digests import canonical_json
from holdfast.interop.importing.foreign_eval import ForeignTrial

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ForeignTrial).decode


class Spool:
    """Trials and samples that were read."""

    def __init__(self) -> None:
        self._directory = TemporaryDirectory(prefix="holdfast-import-")
        self._trials = (Path(self._directory.name) / "trials").open("w+b")
        self._samples: dict[str, Path] = {}
        self._open: tuple[str, BinaryIO] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close_samples()
        self._trials.close()
        self._directory.cleanup()

    def add_trial(self, trial: ForeignTrial) -> None:
        self._trials.write(_encode(trial) + b"\n")

    def trials(self) -> Iterator[ForeignTrial]:
        """The trials in the order in which they were added."""
        self._trials.seek(0)
        return map(_decode, self._trials)

    def add_sample(self, task: str, row: dict[str, object]) -> None:
        """Adds a row to the dataset of a task."""
        if self._open is None or self._open[0] != task:
            self._close_samples()
            path = self._samples.setdefault(task, Path(self._directory.name) / f"{len(self._samples)}.jsonl")
            self._open = task, path.open("ab")
        self._open[1].write(canonical_json(row) + b"\n")

    def sample_files(self) -> dict[str, Path]:
        """By task, the file of its samples."""
        self._close_samples()
        return self._samples

    def _close_samples(self) -> None:
        if self._open is not None:
            self._open[1].close()
            self._open = None
