"""Judges in the text of a report: a few lines for each scorer that has some."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from holdfast.analysis.agreement.panel_report import PanelReport, PositionBias
from holdfast.analysis.text_table import plain_name


def panel_lines(panels: Mapping[str, PanelReport]) -> Iterator[str]:
    """The lines; none about a scorer with one judge who has scored everything."""
    for name, panel in panels.items():
        if len(panel.judges) > 1:
            yield (
                f"{plain_name(name)} ({len(panel.judges)} judges, {panel.combine}): alpha {_figure(panel.alpha)},"
                f" spread {_figure(panel.spread)}, effective judges {_figure(panel.effective_judges, '.2f')}"
            )
        yield from unscored_lines(name, panel)
        if panel.position is not None and panel.position.trials:
            yield from (f"{plain_name(name)}: {line}" for line in _position_lines(panel.position))


def unscored_lines(name: str, panel: PanelReport) -> Iterator[str]:
    """How many answers the judges of a scorer have left without a score, and why."""
    if panel.unscored:
        yield f"{plain_name(name)}: {panel.unscored} unscored ({_reasons(panel.reasons)})"
    for judge, reasons in panel.judges_unscored.items():
        yield f"{plain_name(name)}/{plain_name(judge)}: {sum(reasons.values())} unscored ({_reasons(reasons)})"


def _figure(value: float | None, form: str = ".3f") -> str:
    return "-" if value is None else format(value, form)


def _reasons(reasons: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {plain_name(reason)}" for reason, count in reasons.items())


def _position_lines(position: PositionBias) -> Iterator[str]:
    bias = "" if position.bias is None else f" (bias {position.bias:+.3f})"
    yield f"the first answer won {position.first} times, the second {position.second}, {position.ties} ties{bias}"
    yield f"the position decided in {position.flipped} of {position.trials} trials"
