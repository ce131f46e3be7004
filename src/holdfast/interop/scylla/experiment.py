"""An experiment as a run: tiers and subtests are axes, repetitions are epochs, each judge has a slot of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from holdfast.interop.importing.foreign_eval import (
    ForeignEval,
    ForeignSample,
    ForeignScore,
    ForeignState,
    ForeignTrial,
    SkippedItem,
)
from holdfast.interop.importing.foreign_values import (
    UnreadableFile,
    known_seconds,
    list_of,
    map_of,
    others,
    parse_json_object,
    plain_number,
    plain_text,
    read_regular_file,
    token_count,
    unusable_fields,
)
from holdfast.interop.scylla.result_tree import (
    CHECKPOINT,
    CONFIG,
    ScyllaResult,
    UnreadDirectory,
    is_result_tree,
    run_results,
    text_of_name,
    unread_text,
)
from holdfast.models.message import Usage

_TOOL = "ProjectScylla"
_CONFIG_BYTES = 64 << 20
_PLACED = ("run_number", "cost_usd", "duration_seconds", "judge_score", "judge_passed", "judge_reasoning", "judges")
"""Fields of a result that the records of a trial have a place for."""
_KNOWN = frozenset(
    {
        *_PLACED,
        *("exit_code", "token_stats", "tokens_input", "tokens_output", "agent_duration_seconds"),
        *("judge_duration_seconds", "judge_grade", "workspace_path", "logs_path", "command_log_path"),
        "criteria_scores",
    }
)
_KINDS: dict[str, Callable[[Any], Any]] = {
    "judge_score": plain_number,
    "cost_usd": plain_number,
    "duration_seconds": known_seconds,
    "judge_passed": lambda value: value if isinstance(value, bool) else None,
    "judges": lambda value: value if isinstance(value, list) else None,
    "criteria_scores": lambda value: value if isinstance(value, dict) else None,
}
"""What the fields are that have a type."""
_JUDGE_FIELDS = ("model", "score", "reasoning")


def recognises(path: Path) -> bool:
    """Whether it is the directory of an experiment, or its checkpoint beside results."""
    root = _root_of(path)
    return root is not None and is_result_tree(root)


def _root_of(path: Path) -> Path | None:
    if path.is_dir():
        return path
    return path.parent if path.name == CHECKPOINT else None


def read(path: Path) -> ForeignEval:
    """The experiment in a directory."""
    root = _root_of(path) or path
    notes: list[str] = []
    config, checkpoint = (_read_config(root, name, notes) for name in (CONFIG, Path(CHECKPOINT)))
    experiment = _Experiment(root, config, notes)
    name = plain_text(config.get("experiment_id") or checkpoint.get("experiment_id")) or root.resolve().name
    details = {"config": config, "checkpoint": {**others(checkpoint, ["completed_runs"])}}
    return ForeignEval(_TOOL, name, str(root.absolute()), experiment.items, details=details, notes=notes)


def _read_config(root: Path, name: Path, notes: list[str]) -> dict[str, Any]:
    """A file that describes the experiment; the results count without it."""
    try:
        return parse_json_object(read_regular_file(root / name, _CONFIG_BYTES))
    except UnreadableFile as error:
        notes.append(f"{name}: {error}; the results were imported without it")
        return {}


class _Experiment:
    """The trials of one experiment."""

    def __init__(self, root: Path, config: dict[str, Any], notes: list[str]) -> None:
        self._root, self._notes = root, notes
        self._task = plain_text(config.get("experiment_id")) or root.resolve().name
        self._model = "+".join(_model_names(config)) or "agent"
        repository, commit = plain_text(config.get("task_repo")), plain_text(config.get("task_commit"))
        asked = f"{repository}@{commit}".strip("@") or self._task
        self._sample = ForeignSample(id="task", input=asked, metadata={"task_repo": repository, "task_commit": commit})

    def items(self) -> Iterable[ForeignTrial | SkippedItem]:
        unread = 0
        for found in run_results(self._root):
            unread += isinstance(found, UnreadDirectory)
            yield found if isinstance(found, SkippedItem) else self._trial(found)
        if unread:
            self._notes.append(f"{unread_text(unread)}; how many results are missing is not known")

    def _trial(self, found: ScyllaResult) -> ForeignTrial:
        place, content = found.place, found.content
        unusable = (*unusable_fields(content, _KINDS), *_unusable_tokens(content))
        return ForeignTrial(
            place=place.where,
            task=self._task,
            model=self._model,
            sample=self._sample,
            state=ForeignState.NO_VERDICT if found.verdict is None else ForeignState.VALID,
            epoch=place.run,
            # Names of directories are bytes; those that are no text stay different.
            axes={"tier": text_of_name(place.tier), "subtest": text_of_name(place.subtest)},
            scores=tuple(_verdict_scores(found)),
            usage=_run_usage(content),
            unusable=unusable,
            cost=content.get("cost_usd"),
            seconds=content.get("duration_seconds"),
            fields=others(content, [name for name in _PLACED if name not in unusable]),
            unknown=tuple(name for name in content if name not in _KNOWN),
        )


def _model_names(config: dict[str, Any]) -> list[str]:
    given = config.get("models")
    names = given if isinstance(given, list) else [given]
    return [name for name in names if isinstance(name, str) and name]


def _verdict_scores(found: ScyllaResult) -> Iterator[ForeignScore]:
    content, verdict = found.content, found.verdict
    reasoning, grade = plain_text(content.get("judge_reasoning")), content.get("judge_grade")
    if verdict is not None:
        yield ForeignScore("judge_passed", verdict, explanation=reasoning)
    if content.get("judge_score") is not None:
        yield ForeignScore("judge_score", content["judge_score"], is_number=True, answer=plain_text(grade) or None)
    yield from _judge_scores(list_of(content.get("judges")))
    for name, given in map_of(content.get("criteria_scores")).items():
        score = given if isinstance(given, dict) else {"score": given}
        yield ForeignScore(
            f"criteria.{name}",
            score.get("score"),
            is_number=True,
            explanation=plain_text(score.get("explanation")),
            metadata=others(score, ["score", "explanation"]),
        )


def _judge_scores(judges: list[Any]) -> Iterator[ForeignScore]:
    """A slot for each judge; of a model that judged more than once, the number tells them apart."""
    seen: set[str] = set()
    for number, given in enumerate(judges, 1):
        judge = map_of(given)
        name = plain_text(judge.get("model")) or f"judge {number}"
        name = name if name not in seen else f"{name} ({number})"
        seen.add(name)
        is_valid = judge.get("is_valid") is not False
        yield ForeignScore(
            "judges",
            judge.get("score") if is_valid else None,
            is_number=True,
            judge=name,
            answer=plain_text(judge.get("grade")) or None,
            explanation=plain_text(judge.get("reasoning")) or ("" if is_valid else "the judge gave no valid verdict"),
            metadata=others(judge, _JUDGE_FIELDS) if judge else {"judge": given},
        )


_CACHE_COUNTS = ("cache_read_tokens", "cache_creation_tokens")


def _run_usage(content: dict[str, Any]) -> Usage | None:
    """The tokens; `token_stats` says more than the two fields beside it."""
    stats = _stats_usage(map_of(content.get("token_stats")))
    if stats is not None:
        return stats
    given, answered = token_count(content.get("tokens_input")), token_count(content.get("tokens_output"))
    # With one of the two unknown, so is the usage: a 0 for it would be invented.
    return None if given is None or answered is None else Usage(given, answered)


def _stats_usage(stats: dict[str, Any]) -> Usage | None:
    """Tokens read from a cache or written to one are counted apart there; here they are part of the input."""
    given, answered = (token_count(stats.get(name)) for name in ("input_tokens", "output_tokens"))
    read, created = (0 if stats.get(name) is None else token_count(stats[name]) for name in _CACHE_COUNTS)
    if given is None or answered is None or read is None or created is None:
        return None
    return Usage(given + read + created, answered, read)


def _unusable_tokens(content: dict[str, Any]) -> Iterator[str]:
    stats = map_of(content.get("token_stats"))
    yield from unusable_fields(content, dict.fromkeys(("tokens_input", "tokens_output"), token_count))
    for name in unusable_fields(stats, dict.fromkeys(("input_tokens", "output_tokens", *_CACHE_COUNTS), token_count)):
        yield f"token_stats.{name}"
