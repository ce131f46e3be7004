"""Writing an `.eval` file, a sample at a time: it is at its place when it is whole, and not before."""

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

from holdfast.interop.inspect.archive.zip_writer import ZipWriter
from holdfast.interop.inspect.eval_archive import HEADER, START, SUMMARIES, EvalArchive, SampleKey
from holdfast.interop.inspect.json_text import encode_json
from holdfast.storage.filesystem import FileSystem

VERSION = 2
"""Of Inspect's format."""
_IN_MEMORY = 8 << 20
_PIECE = 1 << 20
_MOST_USED = 1e15
"""Of tokens, or of money: a larger figure is not one that was measured, and sums of it would overflow."""


class LogWriter:
    """A log that is being written. Leaving the block without an error puts it at its place."""

    def __init__(self, fs: FileSystem, path: Path, spec: dict[str, Any], plan: Any) -> None:
        self._zip = ZipWriter(fs, path)
        # Summaries are a member of their own, after all samples: they wait here.
        self._summaries = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed on exit
        self._spec, self._plan = spec, plan
        self._usage: dict[str, dict[str, dict[str, float]]] = {"model_usage": {}, "role_usage": {}}
        self.started_at = str(spec.get("created") or "")
        self.completed_at = self.started_at
        self.samples = self.errors = 0

    def __enter__(self) -> Self:
        try:
            self._zip.add(START, [encode_json({"version": VERSION, "eval": self._spec, "plan": self._plan})])
        except BaseException as error:
            self.__exit__(type(error))
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._summaries.close()
        self._zip.__exit__(kind, *rest)

    def add(self, key: SampleKey, sample: dict[str, Any], summary: dict[str, Any]) -> None:
        """Writes a sample."""
        self._zip.add(key.member, _object_pieces(sample))
        self._count(summary)

    def copy(self, log: EvalArchive, name: str, summary: dict[str, Any]) -> None:
        """Copies a sample of another log as it is, whatever its size."""
        entry = log.zip.entries[name]
        self._zip.add_packed(entry, log.zip.packed_pieces(entry))
        self._count(summary)

    def _count(self, summary: dict[str, Any]) -> None:
        self._summaries.write((b"," if self.samples else b"[") + encode_json(summary))
        self.samples += 1
        self.errors += summary.get("error") is not None
        for kind, totals in self._usage.items():
            _add_usage(totals, summary.get(kind))
        ended = summary.get("completed_at")
        self.completed_at = max(self.completed_at, ended) if isinstance(ended, str) else self.completed_at

    def finish(self, **fields: Any) -> None:
        """Writes the summaries and the header, which are the last members; `fields` are of the header."""
        self._zip.add(SUMMARIES, self._summary_pieces())
        header = {
            "version": VERSION,
            "eval": self._spec,
            "plan": self._plan,
            "stats": {"started_at": self.started_at, "completed_at": self.completed_at, **self._usage},
            **{name: value for name, value in fields.items() if value is not None},
        }
        self._zip.add(HEADER, [encode_json(header)])

    def _summary_pieces(self) -> Iterator[bytes]:
        self._summaries.seek(0)
        yield from iter(lambda: self._summaries.read(_PIECE), b"")
        yield b"]" if self.samples else b"[]"


def _object_pieces(value: dict[str, Any]) -> Iterator[bytes]:
    """A JSON object, with lists an item at a time: the text of a long transcript is never there as a whole."""
    separator = b"{"
    for name, item in value.items():
        yield separator + encode_json(name) + b":"
        separator = b","
        if isinstance(item, list) and item:
            for place, part in enumerate(item):
                yield (b"," if place else b"[") + encode_json(part)
            yield b"]"
        else:
            yield encode_json(item)
    yield b"}"


def _add_usage(totals: dict[str, dict[str, float]], usage: Any) -> None:
    for model, figures in usage.items() if isinstance(usage, dict) else ():
        for name, number in figures.items() if isinstance(figures, dict) else ():
            if isinstance(number, int | float) and not isinstance(number, bool) and 0 <= number <= _MOST_USED:
                own = totals.setdefault(model, {})
                own[name] = own.get(name, 0) + number
