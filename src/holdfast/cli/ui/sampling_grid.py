"""A sampling as a person reads it: a column for each lane and a row for each turn, or a list where that is too wide.

Everything that a model or a requirement said is made harmless before it is laid out: the only sequences that reach a
terminal are the colours of this page.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from holdfast.cli.ui.output_text import styled
from holdfast.run.core.records import Failure
from holdfast.sampling.candidate import CandidateStatus
from holdfast.sampling.host import SamplingChoice
from holdfast.sampling.on_record import ShownCandidate, ShownSampling
from holdfast.sampling.requirements.verdict import VerdictKind
from holdfast.terminal.text import quantity
from holdfast.terminal.width import columns_of, one_line, wrapped

_INDENT, _GAP = "  ", "  "
_NARROWEST, _WIDEST = 16, 40
_TEXT_LINES, _ID_LINES, _REASON_LINES = 2, 2, 8
_SHOWN_REASON = 300
_SHOWN_VOTES = 8
_COLOURS = {
    CandidateStatus.VALID: "green",
    CandidateStatus.INVALID: "yellow",
    CandidateStatus.ERROR: "red",
    CandidateStatus.BLOCKED: "red",
}


def sampling_lines(sampling: ShownSampling, columns: int) -> list[str]:
    """The whole sampling: its candidates, then the choice with its reason, notes and errors."""
    lanes = max((one.lane for one in sampling.candidates), default=-1) + 1
    label = max((len(f"turn {one.turn}") for one in sampling.candidates), default=0)
    room = columns - len(_INDENT) - label
    width = min(room // lanes - len(_GAP), _WIDEST) if lanes else 0
    body = _grid(sampling, lanes, label, width) if width >= _NARROWEST else _list(sampling, columns)
    below = [*_choice_lines(sampling.choice), *_error_lines(sampling.candidates)]
    return [_heading(sampling, lanes), *body, *(line for text in below for line in _paragraph(text, columns))]


def _paragraph(text: str, columns: int) -> list[str]:
    """A line, continued further in if it is too long."""
    first, *others = wrapped(text, max(columns - 2 * len(_INDENT), _NARROWEST), _REASON_LINES)
    return [_INDENT + first, *(2 * _INDENT + line for line in others)]


def _heading(sampling: ShownSampling, lanes: int) -> str:
    turns = max((one.turn for one in sampling.candidates), default=-1) + 1
    strategy = f"{_one_line(sampling.strategy)}, " if sampling.strategy else ""
    where = _one_line(sampling.scope.rpartition("/")[0])
    scope = f" in {where}" if where else ""
    size = f"{quantity(lanes, 'lane')}, {quantity(turns, 'turn')}"
    return f"── sampling {sampling.number}{scope} ({strategy}attempt {sampling.attempt}): {size}"


# The grid.


def _grid(sampling: ShownSampling, lanes: int, label: int, width: int) -> Iterator[str]:
    cells = {(one.turn, one.lane): one for one in sampling.candidates}
    titles = [f"lane {lane}".ljust(width) for lane in range(lanes)]
    yield f"{_INDENT}{' ' * label}{_GAP}{_GAP.join(titles)}".rstrip()
    for turn in sorted({turn for turn, _ in cells}):
        row = [_cell(cells.get((turn, lane)), width) for lane in range(lanes)]
        for place in range(max(map(len, row))):
            name = f"turn {turn}" if place == 0 else ""
            parts = [_styled_part(cell, place, width, cells.get((turn, lane))) for lane, cell in enumerate(row)]
            yield f"{_INDENT}{name:<{label}}{_GAP}{_GAP.join(parts)}".rstrip()


def _cell(candidate: ShownCandidate | None, width: int) -> list[str]:
    """The lines of a candidate, none wider than its column."""
    if candidate is None:
        return [""]
    lines = wrapped(_status_text(candidate), width, 2)
    if unmet := _unmet_text(candidate):
        lines += wrapped(unmet, width, _ID_LINES)
    return lines + (wrapped(_one_line(candidate.text), width, _TEXT_LINES) if candidate.text else [])


def _styled_part(cell: list[str], place: int, width: int, candidate: ShownCandidate | None) -> str:
    text = cell[place] if place < len(cell) else ""
    styled = _coloured(text, candidate) if place == 0 and candidate is not None else text
    return styled + " " * (width - columns_of(text))


def _coloured(text: str, candidate: ShownCandidate) -> str:
    """`click.echo` leaves the colours out where there is no terminal."""
    colour = _COLOURS.get(candidate.status) if candidate.status is not None else None
    return styled(text, fg=colour, bold=True if candidate.chosen else None)


# The list.


def _list(sampling: ShownSampling, columns: int) -> Iterator[str]:
    for one in sampling.candidates:
        parts = [f"lane {one.lane}, turn {one.turn}: {_status_text(one)}", _unmet_text(one), _one_line(one.text or "")]
        text = "; ".join(part for part in parts if part)
        yield _INDENT + _coloured(wrapped(text, max(columns - len(_INDENT), _NARROWEST), 1)[0], one)


def _status_text(candidate: ShownCandidate) -> str:
    """Its status, and whether it was chosen."""
    status = candidate.status.value if candidate.status is not None else "not checked"
    return f"{status} ← chosen" if candidate.chosen else status


def _unmet_text(candidate: ShownCandidate) -> str:
    ids = ", ".join(_one_line(verdict.requirement) for verdict in candidate.unmet)
    return f"failed: {ids}" if ids else ""


# What is below.


def _choice_lines(choice: SamplingChoice | None) -> list[str]:
    if choice is None:
        return ["no choice is on record"]
    chosen = f"lane {choice.lane}, turn {choice.turn}" if choice.lane >= 0 else "none"
    why = f": {_one_line(choice.reason)}" if choice.reason else ""
    outcome = "success" if choice.success else "failure"
    lines = [f"chosen: {chosen}{why}", f"{outcome}: {_one_line(choice.stop_reason)}"]
    if choice.capped:
        lines.append(f"capped: {_one_line(choice.capped)}")
    if choice.votes:
        lines.append(f"votes: {_votes_text(choice.votes)}")
    return lines + [f"note: {_one_line(note)}" for note in choice.notes]


def _votes_text(votes: dict[str, int]) -> str:
    ranked = sorted(votes.items(), key=lambda vote: (-vote[1], vote[0]))
    shown = ", ".join(f"{_one_line(answer)}: {count}" for answer, count in ranked[:_SHOWN_VOTES])
    return shown + (f", … ({len(ranked)} answers)" if len(ranked) > _SHOWN_VOTES else "")


def _error_lines(candidates: Iterable[ShownCandidate]) -> Iterator[str]:
    for one in candidates:
        where = f"lane {one.lane}, turn {one.turn}"
        if one.error is not None and one.status is not CandidateStatus.CANCELLED:
            yield f"{where}: {_error_text(one.error)}"
        for verdict in one.unmet:
            if verdict.kind is VerdictKind.ERROR:
                why = _error_text(verdict.error) if verdict.error else _one_line(verdict.reason)
                yield f"{where}: {_one_line(verdict.requirement)} could not be checked: {why}"


def _error_text(error: Failure) -> str:
    return _one_line(f"{error.kind}: {error.message}")


def _one_line(text: str) -> str:
    return one_line(text, _SHOWN_REASON)
