"""One trial before its transcript: which one it is, its state, what it cost, and what was asked and answered."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from holdfast.analysis.money import money_text
from holdfast.api.run import Run
from holdfast.api.trial_results import TrialResult
from holdfast.cli.ui.message_text import first_characters, message_text
from holdfast.cli.ui.trials.trial_table import state_text, trial_score
from holdfast.run.core.records import ScoreRecord
from holdfast.terminal.width import hanging, one_line

_INDENT = 10
_SHOWN_CHARACTERS = 500


def summary_lines(
    run: Run, label: str, result: TrialResult, scores: Sequence[ScoreRecord], columns: int
) -> Iterator[str]:
    """The lines; the input and the target in full, as they are."""
    yield one_line(label, _SHOWN_CHARACTERS)
    for name, value in [("run", run.place), *_facts(result, scores, run.currency)]:
        yield from hanging(f"  {name:<{_INDENT - 2}}", one_line(value, _SHOWN_CHARACTERS), columns)
    yield from _text_block("input", result.input)
    yield from _text_block("target", result.target)


def _facts(result: TrialResult, scores: Sequence[ScoreRecord], currency: str) -> Iterator[tuple[str, str]]:
    yield "trial", result.trial
    yield "task", result.task
    yield "model", result.model
    yield "sample", result.sample
    yield "epoch", str(result.epoch)
    if result.axes:
        yield "axes", ", ".join(f"{name}={value}" for name, value in result.axes.items())
    yield "state", _state_with_attempt(result)
    yield "answer", result.answer if result.answer is not None else "(none)"
    yield from (("score", line) for line in _score_lines(result, scores))
    yield "tokens", f"{result.usage.input_tokens:,} in, {result.usage.output_tokens:,} out"
    if result.cost is not None:
        yield "cost", money_text(result.cost, currency)
    yield "time", f"{result.seconds:.2f} s"


def _state_with_attempt(result: TrialResult) -> str:
    lost = "; part of its transcript is lost" if result.transcript == "lost" else ""
    made = f", attempt {result.attempt} of {result.attempts}" if result.attempts > 1 else ""
    return f"{state_text(result)}{made}{lost}"


def _score_lines(result: TrialResult, scores: Sequence[ScoreRecord]) -> Iterator[str]:
    explained = {record.scorer: record.explanation for record in scores}
    for name, value in result.scores.items():
        why = explained.get(name, "")
        yield f"{name} = {trial_score(value)}{f': {why}' if why else ''}"


def _text_block(title: str, value: object) -> Iterator[str]:
    if value is None:
        return
    yield f"── {title}"
    if isinstance(value, list) and value and all(isinstance(item, dict) and "role" in item for item in value):
        yield from (message_text(str(item["role"]), item) for item in value)
    else:
        yield first_characters(value if isinstance(value, str) else msgspec.json.encode(value).decode())
