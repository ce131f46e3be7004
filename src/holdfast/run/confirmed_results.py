"""A run opened for its results: under `durability: remote` only what its store has confirmed is finished.

The store itself is asked where it answered. Otherwise the watermark beside the spool is used, which is never ahead of
the store, and a note says of which moment it is. A resume reads everything: what is only here is uploaded, not run
again.
"""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.journal.segment import parse_name
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.fold.cut import Cut
from holdfast.run.fold.reader import RunReader
from holdfast.run.fold.states import NOT_UPLOADED
from holdfast.terminal.text import time_text

if TYPE_CHECKING:
    # Most runs are in no store.
    from holdfast.run.remote.upload_watermark import ConfirmedSegments, UploadWatermark


def open_results(root: Path) -> RunReader:
    """The run in a directory, or in the view of a store, with the results that count.

    Raises:
        NotARun: there is no run, or nothing was recorded in it.
        NewerFormat: a newer version wrote it.
    """
    reader = RunReader(root)
    with contextlib.ExitStack() as undo:
        undo.callback(reader.close)
        cut, note = _upload_cut(reader)
        if cut is None:
            undo.pop_all()
            return reader
        counted = reader.folded_again(cut)
        counted.count_notes.append(note)
        return counted


def _upload_cut(reader: RunReader) -> tuple[Cut | None, str]:
    """What does not count, if anything, and what a person should know of that."""
    if not reader.url or not _counts_when_uploaded(reader):
        return None, ""
    from holdfast.run.remote.merged_view import tags_in_store, view_root  # noqa: PLC0415 - few runs need it
    from holdfast.run.remote.upload_watermark import last_confirmed_frames, read_watermark  # noqa: PLC0415

    spool = spool_root(reader.url)
    watermark = read_watermark(spool)
    there = tags_in_store(reader.layout.root) if reader.layout.root == view_root(reader.url) else {}
    confirmed = _confirmed_by_store(spool, watermark, there) if there else watermark.confirmed()
    frames = last_confirmed_frames(Layout(spool).journal, confirmed)
    if not frames:
        return None, ""
    return Cut(uploaded=frames), _note(watermark, is_current=bool(there))


def _note(watermark: UploadWatermark, *, is_current: bool) -> str:
    if is_current:
        only = f"Results that are only on this machine count as {NOT_UPLOADED}"
        return f"{only}; a resume uploads them, and runs none of them."
    at = time_text(watermark.at) if watermark.at else "before the first upload"
    return f"What the store has is as of {at}; a resume uploads what is only on this machine, and runs none of it."


def _counts_when_uploaded(reader: RunReader) -> bool:
    runner = reader.sessions[-1].config.get("runner") if reader.sessions else None
    return isinstance(runner, dict) and runner.get("durability") == "remote"


def _confirmed_by_store(spool: Path, watermark: UploadWatermark, there: dict[str, str]) -> ConfirmedSegments:
    """What the store lists now, and is the same as here."""
    from holdfast.run.remote.upload_watermark import confirmed_segments  # noqa: PLC0415

    known = watermark.confirmed()

    def is_uploaded(path: Path) -> bool:
        tag, parsed = there.get(f"journal/{path.name}"), parse_name(path.name)
        if tag is None or parsed is None:
            return False
        ident = parsed[0]
        return ident.number <= known.get((ident.session, ident.writer), 0) or _may_be_tag_of(path, tag)

    return confirmed_segments(Layout(spool).journal, is_uploaded)


def _may_be_tag_of(path: Path, tag: str) -> bool:
    """Whether an object with this tag can be the file: a tag that is no digest says nothing."""
    from holdfast.storage.object_comparison import is_tag_of  # noqa: PLC0415

    try:
        return is_tag_of(tag, path) is not False
    except FileNotFoundError:
        return False
