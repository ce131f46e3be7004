"""Whether a directory holds a run that this version can read, and which run it is.

Both follow from the headers of its segments alone: nothing is changed, and no record is read. The id is the one that
most segments carry, so that a damaged or a foreign one among them does not decide.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

from holdfast.errors import NewerFormat, NotARun
from holdfast.journal import FORMAT, Journal
from holdfast.journal.frame import HEADER_SIZE, MAGIC, decode_header
from holdfast.journal.reader import open_segment
from holdfast.journal.segment import parse_name
from holdfast.run.core.layout import Layout
from holdfast.storage.filesystem import FileSystem

_FIRST_BYTES = 1 << 20
_LOST = "Bring its journal back from a copy; `holdfast repair` takes what result files still tell."


def check_openable(root: Path, fs: FileSystem) -> None:
    """Looks whether there is a run in `root` that this version can read; changes nothing, and reads no records.

    Raises:
        NotARun: there is no run, or nothing was recorded in it.
        NewerFormat: a newer version wrote it.
    """
    layout = Layout(root)
    journal = Journal(fs, layout.journal, find_run_id(fs, layout))
    for segment in journal.segments():
        with journal.scan(segment) as scan:
            refuse_newer(layout, scan.find_newer_format())


def refuse_newer(layout: Layout, newer: int) -> None:
    """Ends the opening of a run that holds frames of the format `newer`; 0 if it holds none.

    Raises:
        NewerFormat: it does.
    """
    if newer:
        raise NewerFormat(
            f"Resume aborted: {layout.root} was written in format {newer}; this version reads up to {FORMAT}.",
            hint="Install a newer holdfast; the run is intact.",
        )


def find_run_id(fs: FileSystem, layout: Layout) -> bytes:
    """The id that the run's segments carry.

    Raises:
        NotARun: there is no journal, or not one sound header in it.
    """
    if not layout.root.is_dir():
        state = "is a file" if layout.root.exists() else "does not exist"
        raise NotARun(f"{layout.root} is not a run: it {state}.", hint="Give the directory of a run.")
    if not layout.journal.is_dir():
        raise NotARun(f"{layout.root} is not a run: it has no journal.", hint="Give the directory of a run.")
    votes: Counter[bytes] = Counter()
    names = [name for name in fs.list(layout.journal) if parse_name(name)]
    for name in names:
        votes.update(run_ids_in_file(fs, layout.journal / name))
    if not votes:
        state = "its journal is empty" if not names else "nothing legible is in its journal"
        if layout.config.exists():
            raise NotARun(f"{layout.root} has lost its records: {state}.", hint=_LOST)
        raise NotARun(f"Nothing was recorded in {layout.root}: {state}.", hint="`holdfast run` begins a run.")
    return votes.most_common(1)[0][0]


def run_ids_in_file(fs: FileSystem, path: Path) -> list[bytes]:
    """The run id of the first header in a segment that checks out; the file name must agree with it."""
    file = open_segment(fs, path)
    try:
        return run_ids_in_bytes(lambda size: file.read_at(0, size))
    except OSError:
        return []
    finally:
        file.close()


def run_ids_in_bytes(read: Callable[[int], bytes]) -> list[bytes]:
    """As `run_ids_in_file`, of a segment whose first bytes `read` gives: few of them, and more if those are damaged."""
    if (header := decode_header(read(HEADER_SIZE))) is not None:
        return [header.run]
    data = read(_FIRST_BYTES)
    offset = data.find(MAGIC)
    while offset >= 0:
        if (header := decode_header(data, offset)) is not None:
            return [header.run]
        offset = data.find(MAGIC, offset + 1)
    return []
