"""The frame of the progress display: a header, a row for each task and model, and the totals, in any width.

Columns that do not fit are left out, the least important first, and the bar takes what is left. Names come from eval
files and datasets: they are made harmless before anything is done with them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, TextIO

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.progress_bar import ProgressBar
from rich.text import Text

from holdfast.analysis.money import money_text
from holdfast.api.progress.text import count_text, progress_parts, running_score
from holdfast.engine.group_progress import GroupProgress
from holdfast.engine.progress import Progress
from holdfast.run.core.display_text import nearby
from holdfast.terminal.live_area import AreaLine
from holdfast.terminal.text import duration_text
from holdfast.terminal.width import one_line

MOST_ROWS = 10
_GAP = "  "
_NAME_COLUMNS = 28
_LEAST_NAME, _GOOD_NAME = 6, 14
_LEAST_BAR, _GOOD_BAR, _MOST_BAR = 8, 12, 32
_BAR_RANK = 6
"""What a bar is worth, among the columns."""
_MOST_SCORERS = 4
_MOST_CHARACTERS = 400


def _plain(text: str) -> str:
    return one_line(text, _MOST_CHARACTERS)


class FrameColumn(NamedTuple):
    """One column of the table: its title, and a cell for each row."""

    title: str
    cells: list[str]
    rank: int
    """Of those that do not fit, the highest goes first."""
    is_name: bool = False
    """A name is on the left and may be cut; a figure is on the right and is whole."""

    @property
    def width(self) -> int:
        longest = max(map(cell_len, (self.title, *self.cells)))
        return min(longest, _NAME_COLUMNS) if self.is_name else longest


class ProgressFrame:
    """Renders the progress of one session for one terminal."""

    def __init__(self, progress: Progress, stream: TextIO) -> None:
        self._progress = progress
        # Finds out by itself how many colours there are; NO_COLOR leaves none.
        self._console = Console(file=stream, highlight=False, markup=False, emoji=False, legacy_windows=False)

    def lines(self, columns: int, rows: int) -> list[AreaLine]:
        """The frame for a terminal of this size; no line is as wide as the terminal, or it would wrap."""
        width, most = max(columns - 1, 1), max(min(MOST_ROWS, rows - 5), 1)
        groups = list(self._progress.groups.values())
        chosen = choose_groups(groups, most)
        texts = [self._header(), *self._table(chosen, width)]
        if len(chosen) < len(groups):
            texts.append(Text(_others_text(groups, chosen), "dim"))
        texts += [Text(line) for line in _folded(list(progress_parts(self._progress)), width)]
        return [self._line(text, width) for text in texts[: max(rows - 1, 1)]]

    def _line(self, text: Text, width: int) -> AreaLine:
        text.truncate(width, overflow="ellipsis")
        text.no_wrap = True
        if self._console.options.ascii_only:
            text = Text(text.plain.encode("ascii", "replace").decode())
        with self._console.capture() as captured:
            self._console.print(text, end="", width=width, soft_wrap=True)
        return AreaLine(captured.get(), text.cell_len)

    def _header(self) -> Text:
        label, limit = self._progress.label, self._progress.concurrency()
        parts = [f"run {label.short_id}", f"session {label.session}", nearby(label.place)]
        if limit is not None:
            parts.insert(2, f"up to {limit} at once")
        return Text.assemble(
            (_plain(label.name) or "holdfast", "bold"),
            (f" · {_plain(' · '.join(parts))}", "dim"),
        )

    # The table.

    def _table(self, groups: list[GroupProgress], width: int) -> Iterator[Text]:
        columns = _fitting_columns(self._columns(groups), width)
        has_bar = _total_width(columns, _LEAST_NAME) + _LEAST_BAR <= width
        widths = _fitted_widths(columns, width - (_LEAST_BAR if has_bar else 0))
        room = width - sum(widths) - len(_GAP) * len(columns)
        bar = min(room, _MOST_BAR) if has_bar else 0
        at = sum(column.is_name for column in columns)
        yield _row(columns, widths, [column.title for column in columns], at, Text(" " * bar), "dim")
        for number, group in enumerate(groups):
            cells = [column.cells[number] for column in columns]
            yield _row(columns, widths, cells, at, self._bar(group, bar), _row_style(group))

    def _bar(self, group: GroupProgress, width: int) -> Text:
        if not width:
            return Text()
        bar = ProgressBar(total=max(group.planned, 1), completed=group.done, width=width)
        segments = self._console.render(bar, self._console.options.update(width=width))
        return Text.assemble(*((segment.text, segment.style or "") for segment in segments))

    def _columns(self, groups: list[GroupProgress]) -> list[FrameColumn]:
        now, prices, is_paused = self._progress.working_now(), self._progress.prices, self._progress.is_paused
        costs = [group.cost(prices) for group in groups]
        rates = [0.0 if is_paused else group.rate(now) for group in groups]
        columns = [
            FrameColumn("task", [_plain(group.task) for group in groups], 1, is_name=True),
            FrameColumn("model", [_plain(group.model) for group in groups], 2, is_name=True),
            FrameColumn("done", [f"{group.done}/{group.planned}" for group in groups], 0),
            FrameColumn("rate", [f"{rate:.1f}/s" if rate else "" for rate in rates], 5),
            FrameColumn("left", ["" if is_paused else _eta_text(group, now) for group in groups], 4),
            *_score_columns(groups),
            FrameColumn("tokens", [count_text(group.tokens) for group in groups], 8),
            FrameColumn("cost", ["" if cost is None else money_text(cost, prices.currency) for cost in costs], 9),
            FrameColumn("retries", [str(group.retries) for group in groups], 10),
            FrameColumn("failed", [str(group.failed) for group in groups], 7),
            FrameColumn("unfinished", [str(group.unfinished) for group in groups], 7),
        ]
        return [column for column in columns if column.rank <= _BAR_RANK or set(column.cells) - {"", "0"}]


def choose_groups(groups: list[GroupProgress], most: int) -> list[GroupProgress]:
    """The groups that are shown, in the order of the plan: where not all fit, those that are being worked on."""
    if len(groups) <= most:
        return groups
    ranked = sorted(groups, key=lambda group: (not group.left, not group.ended))[:most]
    chosen = set(map(id, ranked))
    return [group for group in groups if id(group) in chosen]


def _others_text(groups: list[GroupProgress], chosen: list[GroupProgress]) -> str:
    shown = set(map(id, chosen))
    others = [group for group in groups if id(group) not in shown]
    ended = sum(not group.left for group in others)
    waiting = sum(bool(group.left) and not group.ended for group in others)
    counts = {"running": len(others) - ended - waiting, "waiting": waiting, "ended": ended}
    return f"{len(others)} more: {', '.join(f'{count} {name}' for name, count in counts.items() if count)}"


def _score_columns(groups: list[GroupProgress]) -> Iterator[FrameColumn]:
    """A column for each scorer; where there are too many, one for the first scorer of each row, with its name."""
    scorers = list(dict.fromkeys(scorer for group in groups for scorer in group.scores()))
    if len(scorers) > _MOST_SCORERS:
        firsts = [next(iter(group.scores()), "") for group in groups]
        named = [
            f"{_plain(name)[:20]} {running_score(group, name)}" for name, group in zip(firsts, groups, strict=True)
        ]
        yield FrameColumn("score", named, 3)
        return
    for place, scorer in enumerate(scorers):
        title = _plain(scorer)
        yield FrameColumn(title[:20], [running_score(group, scorer) for group in groups], 10 + place if place else 3)


def _row(columns: list[FrameColumn], widths: list[int], cells: list[str], at: int, bar: Text, style: str) -> Text:
    """A row of the table; the bar is before the column `at`, behind the names."""
    parts: list[tuple[str, str] | Text] = []
    for place, (column, width, cell) in enumerate(zip(columns, widths, cells, strict=True)):
        if place == at and bar.plain:
            parts += [bar, (_GAP, "")]
        padded = _cut(cell, width) if column.is_name else " " * (width - cell_len(cell)) + cell
        parts += [(padded, style), (_GAP, "")]
    row = Text.assemble(*parts)
    row.rstrip()
    return row


def _row_style(group: GroupProgress) -> str:
    if not group.left:
        return "green" if group.done == group.planned else "yellow"
    return ""


def _fitting_columns(columns: list[FrameColumn], width: int) -> list[FrameColumn]:
    """The columns that fit; the least important of them only beside a good bar and names that can be read."""
    kept = list(columns)
    while len(kept) > 1:
        last = max(kept, key=lambda column: column.rank)
        is_extra = last.rank > _BAR_RANK
        if _total_width(kept, _GOOD_NAME if is_extra else _LEAST_NAME) + (_GOOD_BAR if is_extra else 0) <= width:
            break
        kept.remove(last)
    return kept


def _total_width(columns: list[FrameColumn], name: int) -> int:
    """The width of these columns, if longer names are cut to so many characters."""
    least = [min(column.width, name) if column.is_name else column.width for column in columns]
    return sum(least) + len(_GAP) * (len(columns) - 1)


def _fitted_widths(columns: list[FrameColumn], width: int) -> list[int]:
    """The width of each column; names are cut until all fit, the longest first."""
    widths = [column.width for column in columns]
    names = [place for place, column in enumerate(columns) if column.is_name]
    while names and sum(widths) + len(_GAP) * (len(columns) - 1) > width:
        widest = max(names, key=lambda place: widths[place])
        if widths[widest] <= 1:
            break
        widths[widest] -= 1
    return widths


def _cut(text: str, width: int) -> str:
    """A name in exactly this width."""
    return set_cell_size(text, width) if cell_len(text) <= width else set_cell_size(text, width - 1) + "…"


def _eta_text(group: GroupProgress, now: float) -> str:
    eta = group.eta_seconds(now)
    return duration_text(eta) if eta is not None and group.left else ""


def _folded(parts: list[str], width: int) -> Iterator[str]:
    """The parts, in as many lines as they need."""
    line = ""
    for part in parts:
        joined = f"{line} · {part}" if line else part
        if line and cell_len(joined) > width:
            yield line
            joined = part
        line = joined
    if line:
        yield line
