"""The trials of a run as a file: JSON lines, or Parquet; a row each, written as it is read.

The file gets its name when it is whole and synced, so one that was interrupted leaves nothing under that name. Rows of
JSON lines are those of `Run.to_dicts`; the columns of Parquet are flat, as those of a data frame, with the metadata of
a sample as one JSON text.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec

from holdfast.api.reading.frames import TextColumns
from holdfast.api.run import Run
from holdfast.errors import StorageFailure, UsageError
from holdfast.models.message import encodable
from holdfast.storage import RealFileSystem
from holdfast.storage.filesystem import AppendFile, FileSystem

_ROWS_AT_A_TIME = 500
_NO_PYARROW = "Install it with: pip install pyarrow"


class RowFile(msgspec.Struct, frozen=True):
    """A file that was written."""

    format: str
    output: str
    rows: int


def json_lines(run: Run) -> Iterator[bytes]:
    """Every trial on record as a line of JSON."""
    for trial in run.select(None):
        yield _encoded(run.result(trial).as_dict()) + b"\n"


def _encoded(row: dict[str, Any]) -> bytes:
    try:
        return msgspec.json.encode(row)
    except UnicodeEncodeError:
        return msgspec.json.encode(encodable(msgspec.to_builtins(row)))


def write_jsonl(run: Run, output: Path, *, overwrite: bool = False, fs: FileSystem | None = None) -> RowFile:
    """Writes the trials of a run as JSON lines.

    Raises:
        UsageError: the file exists, and is not to be overwritten.
        StorageFailure: it could not be written; nothing is left of it.
    """
    rows = 0
    with _new_file(output, fs or RealFileSystem(), overwrite=overwrite) as file:
        for line in json_lines(run):
            file.write(line)
            rows += 1
    return RowFile("jsonl", str(output), rows)


def write_parquet(run: Run, output: Path, *, overwrite: bool = False, fs: FileSystem | None = None) -> RowFile:
    """Writes the trials of a run as a Parquet file.

    Raises:
        UsageError: pyarrow is not installed, or the file exists, and is not to be overwritten.
        StorageFailure: it could not be written; nothing is left of it.
    """
    arrow, parquet = _pyarrow()
    columns = TextColumns(run.names)
    types = {"int": arrow.int64(), "float": arrow.float64(), "text": arrow.string()}
    schema = arrow.schema([(name, types[kind]) for name, kind in columns.kinds.items()])
    rows = 0
    with (
        _new_file(output, fs or RealFileSystem(), overwrite=overwrite) as file,
        parquet.ParquetWriter(arrow.PythonFile(_Sink(file), mode="w"), schema) as writer,
    ):
        cells = (columns.row(run.result(trial)) for trial in run.select(None))
        while batch := list(islice(cells, _ROWS_AT_A_TIME)):
            writer.write_table(arrow.Table.from_pylist(batch, schema=schema))
            rows += len(batch)
    return RowFile("parquet", str(output), rows)


def _pyarrow() -> tuple[Any, Any]:
    try:
        return importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    except ImportError:
        raise UsageError("A Parquet file needs pyarrow, which is not installed.", hint=_NO_PYARROW) from None


class _Sink:
    """A file as pyarrow writes to it."""

    def __init__(self, file: AppendFile) -> None:
        self._file, self._size, self.closed = file, 0, False

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._file.write(content)
        self._size += len(content)
        return len(content)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Everything is handed on at once."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False


@contextlib.contextmanager
def _new_file(output: Path, fs: FileSystem, *, overwrite: bool) -> Iterator[AppendFile]:
    """A file that has its name once it is whole."""
    if output.exists() and not overwrite:
        raise UsageError(f"{output} exists.", hint="Choose another name, or add --overwrite.")
    if not output.absolute().parent.is_dir():
        raise UsageError(f"{output.parent} is not a directory.", hint="Choose another name for the file.")
    temporary = output.with_name(f".{output.name}.{os.getpid()}.tmp")
    try:
        with contextlib.ExitStack() as undo:
            undo.callback(temporary.unlink, missing_ok=True)
            file = fs.create(temporary)
            undo.callback(file.close)
            yield file
            file.sync()
            fs.rename(temporary, output)
            fs.sync_directory(output.absolute().parent)
    except OSError as error:
        raise StorageFailure(
            f"{output} could not be written: {error.strerror or error}.", hint="The run is unchanged."
        ) from error
