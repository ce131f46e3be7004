"""The other runs whose replies a run may use: those of `--reuse`, and the one that it was forked from.

They are noted in the journal, so that every session uses them, whoever resumes the run. A run that has gone since, or
whose place another one has, is named and left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import HoldfastError
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import NoteRecord
from holdfast.run.core.run_id import identify_run
from holdfast.run.fold.reader import RunReader
from holdfast.storage.filesystem import RealFileSystem

FORK, _REUSE = "fork", "reuse"


def reuse_note(roots: Sequence[Path]) -> NoteRecord:
    """The note that replies of these runs are used."""
    runs = [noted_run(_run_at(root), root) for root in roots]
    text = f"replies to identical requests are taken from {', '.join(map(str, roots))}"
    return NoteRecord(kind=_REUSE, text=text, data={"runs": runs})


def noted_run(run: str, root: Path) -> dict[str, str]:
    """A run as it is noted: its identity, and where it was."""
    return {"run": run, "place": str(root.absolute())}


def noted_runs(reader: RunReader) -> tuple[list[Path], list[str]]:
    """The runs that are noted and still there, and a sentence about each of the others."""
    found = {one["place"]: one["run"] for _, note in reader.notes() for one in _runs_in(note)}
    there = [Path(place) for place, run in found.items() if _run_at(Path(place)) == run]
    return there, [unusable_text(place) for place in found if Path(place) not in there]


def unusable_text(place: object, why: object = "it is no longer that run") -> str:
    """A sentence about a noted run whose replies cannot be used."""
    return f"The replies of the run {place} were to be used, and are not: {why}."


def _runs_in(note: NoteRecord) -> list[dict[str, str]]:
    """Earlier versions did not note where a run was."""
    runs: Any = note.data.get("runs") if note.kind in {FORK, _REUSE} and isinstance(note.data, dict) else None
    listed = runs if isinstance(runs, list) else []
    return [one for one in listed if isinstance(one, dict) and {"run", "place"} <= one.keys()]


def _run_at(root: Path) -> str:
    """The identity of the run in a directory; empty if absent."""
    try:
        return identify_run(RealFileSystem(), Layout(root))[0].hex()
    except (HoldfastError, OSError):
        return ""
