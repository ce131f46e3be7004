"""Whether a directory holds a run that this version can read, which run it is, and in which format.

All three follow from the headers of its segments alone: nothing is changed, and no record is read. The id is the one
that most segments have, so that a damaged or a foreign one does not decide. A run has one format, that of its frames;
where they differ, the oldest counts.
"""

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import NewerFormat, NotARun, OlderFormat
from holdfast.journal import FORMAT, Journal
from holdfast.journal.frame import HEADER_SIZE, MAGIC, Header, decode_header
from holdfast.journal.reader import open_segment
from holdfast.journal.segment import parse_name
from holdfast.run.core.display_text import shell_word
from holdfast.run.core.layout import Layout
from holdfast.storage.filesystem import FileSystem

_FIRST_BYTES = 1 << 20
_LOST = "Restore its journal from a copy, or let `holdfast repair` recover results from artifacts."


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
            refuse_newer(str(root), scan.find_newer_format())


def refuse_newer(place: str, found: int) -> None:
    """Ends the opening of the run at `place`, which holds frames of the format `found`, if that is a newer one.

    Raises:
        NewerFormat: it is.
    """
    if found > FORMAT:
        raise NewerFormat(
            f"{place} was written in format {found}; this version reads up to {FORMAT}.",
            hint="Install a newer holdfast; the run is intact.",
        )


def refuse_older(format_: int, place: str) -> None:
    """Ends the resuming of the run at `place` if it has an older format: nothing is added to such a run.

    Raises:
        OlderFormat: it has.
    """
    if format_ < FORMAT:
        raise OlderFormat(
            f"Resume aborted: {place} was written in format {format_}, which this version can read but cannot resume;"
            " nothing was written.",
            hint=f"Continue in a new run that keeps its trials: {continuing_command(format_, place)}",
        )


def continuing_command(format_: int, place: str) -> str:
    """The command that continues the run at `place`."""
    return f"holdfast {'fork' if format_ < FORMAT else 'resume'} {shell_word(place)}"


class RunIdentity(NamedTuple):
    """What the headers of a run say of it."""

    run: bytes
    """Its id."""
    format: int


def find_run_id(fs: FileSystem, layout: Layout) -> bytes:
    """The id that the run's segments carry.

    Raises:
        NotARun: there is no journal, or not one intact header in it.
    """
    return identify_run(fs, layout).run


def first_run_id(fs: FileSystem, layout: Layout) -> str:
    """The id in the first header that is intact; empty if there is none. One segment is opened, not all of them."""
    names = sorted(name for name in fs.list(layout.journal) if parse_name(name)) if layout.journal.is_dir() else []
    found = (first_header_in_file(fs, layout.journal / name) for name in names)
    return next((header.run.hex() for header in found if header is not None), "")


def identify_run(fs: FileSystem, layout: Layout) -> RunIdentity:
    """The id that the run's segments carry, and their format.

    Raises:
        NotARun: there is no journal, or not one intact header in it.
    """
    if not layout.root.is_dir():
        state = "is a file" if layout.root.exists() else "does not exist"
        raise NotARun(f"{layout.root} is not a run: it {state}.", hint="Give the directory of a run.")
    if not layout.journal.is_dir():
        raise _no_journal(layout)
    names = [name for name in fs.list(layout.journal) if parse_name(name)]
    headers = [header for name in names if (header := first_header_in_file(fs, layout.journal / name)) is not None]
    if not headers:
        raise _nothing_legible(layout, "its journal is empty" if not names else "nothing in its journal can be read")
    run = Counter(header.run for header in headers).most_common(1)[0][0]
    formats = [header.format for header in headers if header.run == run and header.format]
    return RunIdentity(run, min(formats, default=FORMAT))


def _no_journal(layout: Layout) -> NotARun:
    if layout.config.exists():
        return NotARun(f"{layout.root} has lost its records: it has no journal.", hint=_LOST)
    return NotARun(f"{layout.root} is not a run: it has no journal.", hint="Give the directory of a run.")


def _nothing_legible(layout: Layout, state: str) -> NotARun:
    if layout.config.exists():
        return NotARun(f"{layout.root} has lost its records: {state}.", hint=_LOST)
    return NotARun(f"Nothing was recorded in {layout.root}: {state}.", hint="`holdfast run` starts a run.")


def first_header_in_file(fs: FileSystem, path: Path) -> Header | None:
    """The first header in a segment that checks out."""
    file = open_segment(fs, path)
    try:
        return first_header_in_bytes(lambda size: file.read_at(0, size))
    except OSError:
        return None
    finally:
        file.close()


def first_header_in_bytes(read: Callable[[int], bytes]) -> Header | None:
    """The same of a segment whose first bytes `read` gives: few of them, and more if those are damaged."""
    if (header := decode_header(read(HEADER_SIZE))) is not None:
        return header
    data = read(_FIRST_BYTES)
    offset = data.find(MAGIC)
    while offset >= 0:
        if (header := decode_header(data, offset)) is not None:
            return header
        offset = data.find(MAGIC, offset + 1)
    return None
