"""One trial before its transcript: which one it is, its state, what it cost, and what was asked and answered."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

import msgspec

from holdfast.analysis.money import money_text
from holdfast.api.run import Run
from holdfast.api.trial_results import TrialResult
from holdfast.cli.ui.message_text import first_characters, message_text
from holdfast.cli.ui.trials.trial_table import state_text, trial_score
from holdfast.run.core.records import ScoreRecord
from holdfast.run.core.slots.slot_names import judge_of, scorer_of
from holdfast.run.fold.panels import panel_result
from holdfast.terminal.width import hanging, one_line

_INDENT = 10
_SHOWN_CHARACTERS = 500


def summary_lines(
    run: Run, label: str, result: TrialResult, scores: Sequence[ScoreRecord], columns: int, *, is_partial: bool
) -> Iterator[str]:
    """The lines; the input and the target in full, as they are. `is_partial`: the tokens of a call are unknown."""
    yield one_line(label, _SHOWN_CHARACTERS)
    tokens = _tokens_text(result, is_partial=is_partial)
    for name, value in [("run", run.place), *_facts(result, _score_lines(run, result, scores), tokens, run.currency)]:
        yield from hanging(f"  {name:<{_INDENT - 2}}", one_line(value, _SHOWN_CHARACTERS), columns)
    yield from _text_block("input", result.input)
    yield from _text_block("target", result.choice or result.target)


def _facts(result: TrialResult, scores: Iterable[str], tokens: str, currency: str) -> Iterator[tuple[str, str]]:
    yield "trial", result.trial
    yield "task", result.task
    yield "model", result.model
    yield "sample", result.sample
    yield "epoch", str(result.epoch)
    if result.axes:
        yield "axes", ", ".join(f"{name}={value}" for name, value in result.axes.items())
    yield "state", _state_with_attempt(result)
    yield "answer", result.answer if result.answer is not None else "(none)"
    yield from (("score", line) for line in scores)
    yield "tokens", tokens
    if result.cost is not None:
        yield "cost", money_text(result.cost, currency)
    yield "time", f"{result.seconds:.2f} s"


def _tokens_text(result: TrialResult, *, is_partial: bool) -> str:
    """Tokens in and out; what a call without a reply, or without usage, has used is unknown."""
    usage = result.usage
    if is_partial and not usage.input_tokens + usage.output_tokens:
        return "unknown"
    least = "at least " if is_partial else ""
    return f"{least}{usage.input_tokens:,} in, {usage.output_tokens:,} out"


def _state_with_attempt(result: TrialResult) -> str:
    lost = "; part of its transcript is lost" if result.transcript == "lost" else ""
    made = f", attempt {result.attempt} of {result.attempts}" if result.attempts > 1 else ""
    return f"{state_text(result)}{made}{lost}"


def _score_lines(run: Run, result: TrialResult, scores: Sequence[ScoreRecord]) -> Iterator[str]:
    explained = {record.scorer: _explained(record, result.answer or "") for record in scores}
    given = {record.scorer: record.value for record in scores}
    for name, panel in run.panels.get(result.task, {}).items():
        found = panel_result(panel, given) if len(panel.slots) > 1 else None
        explained |= {name: f": {found.reason}"} if found is not None and found.reason else {}
    for name, value in result.scores.items():
        yield f"{name} = {trial_score(value)}{explained.get(name) or explained.get(_only_slot(name, explained), '')}"


def _only_slot(name: str, slots: Collection[str]) -> str:
    """The slot of the only judge of a scorer; empty where there are several, or none."""
    judges = [slot for slot in slots if slot != name and scorer_of(slot) == name]
    return judges[0] if len(judges) == 1 else ""


def _explained(record: ScoreRecord, answer: str) -> str:
    """The grade of a judge, or what a scorer has read in the answer where that is something else; the explanation."""
    is_told = bool(record.answer) and (bool(judge_of(record.scorer)) or record.answer != answer.strip())
    grade = f" ({record.answer})" if is_told else ""
    return f"{grade}: {record.explanation}" if record.explanation else grade


def _text_block(title: str, value: object) -> Iterator[str]:
    if value is None:
        return
    yield f"── {title}"
    if isinstance(value, list) and value and all(isinstance(item, dict) and "role" in item for item in value):
        yield from (message_text(str(item["role"]), item) for item in value)
    else:
        yield first_characters(value if isinstance(value, str) else msgspec.json.encode(value).decode())
