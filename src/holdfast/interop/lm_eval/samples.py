"""Samples that lm-evaluation-harness has logged, as a run: `samples_TASK_TIME.jsonl`, with `results_TIME.json` beside.

A line is one sample under one filter; the lines of all filters of a sample are one trial, and a metric of a filter is a
scorer, under the name that the harness itself gives it (`exact_match,strict-match`). Of a file only the places of its
lines are in memory.
"""

from __future__ import annotations

import math
import os
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from holdfast.errors import UsageError
from holdfast.interop.importing.foreign_eval import (
    ForeignCall,
    ForeignEval,
    ForeignSample,
    ForeignScore,
    ForeignState,
    ForeignTrial,
    SkippedItem,
)
from holdfast.interop.importing.foreign_values import (
    UnreadableFile,
    list_of,
    map_of,
    number_of,
    open_regular_file,
    others,
    parse_json_object,
    plain_text,
    prompt_messages,
    prompt_of,
    read_regular_file,
)
from holdfast.interop.lm_eval.reported_results import ReportedMeans, missing_trials, reported_count, reported_tasks

_TOOL = "lm-evaluation-harness"
_SAMPLES = re.compile(r"samples_(?P<task>.+?)(?:_(?P<time>\d{4}-\d\d-\d\dT[\d-]+(?:\.\d+)?))?\.jsonl")
_RESULTS = re.compile(r"results_(?P<time>.+)\.json")
_RESULT_BYTES = 512 << 20
_FIELDS = frozenset(
    {
        *("doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics"),
        *("doc_hash", "prompt_hash", "target_hash"),
    }
)
_OF_SAMPLE = ("doc_id", "doc", "target", "filter", "metrics")
_NO_FILTER = "none"
_MODEL_NAMES = ("pretrained", "model", "engine", "path")


def recognises(path: Path) -> bool:
    """Whether it is a file of samples, results with such a file beside them, or a directory with both."""
    if path.is_dir():
        return any(_is_sample_file(item) for item in _named_files(path))
    return _is_sample_file(path) or any(_is_sample_file(item) for item in _named_beside(path))


def _is_sample_file(path: Path) -> bool:
    return not _why_no_samples(path)


def _why_no_samples(path: Path) -> str:
    """Why a file is not one of samples, by its first line; empty if it is."""
    if not path.is_file():
        # A pipe, for one, would be waited for.
        return "it is not a file"
    try:
        with open_regular_file(path) as stream:
            first = parse_json_object(stream.readline(64 << 20))
    except UnreadableFile as error:
        return f"of its first line, {error}"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    return "" if {"doc_id", "doc", "resps"} <= first.keys() else "its first line is not a sample"


def read(path: Path) -> ForeignEval:
    """The samples of one evaluation.

    Raises:
        UsageError: a directory has those of several.
    """
    named = _sample_files(path)
    files = [file for file in named if _is_sample_file(file)]
    notes: list[str] = []
    faults: list[str] = []
    results = _read_results(files[0], notes)
    model = _model_name(results) or files[0].parent.name
    when = number_of(results.get("date"))
    is_whole = path not in files

    def items() -> Iterator[ForeignTrial | SkippedItem]:
        for file in named:
            if why := _why_no_samples(file):
                yield SkippedItem(file.name, why)
            else:
                yield from _SampleFile(file, model, when or 0.0, results, faults).items()
        if is_whole:
            yield from _without_file(named, model, results, faults)

    name = f"lm-eval {model}"
    details = {"results": others(results, ["samples"])}
    return ForeignEval(_TOOL, name, str(path.absolute()), items, details=details, notes=notes, faults=faults)


def _without_file(
    named: list[Path], model: str, results: dict[str, Any], faults: list[str]
) -> Iterator[ForeignTrial | SkippedItem]:
    """The samples of tasks of which no file can be read."""
    read_tasks = {_task_of(file) for file in named if _is_sample_file(file)}
    for task in reported_tasks(results):
        if task not in read_tasks and (missing := missing_trials(results, task, model, set())):
            faults.append(f"{task}: the results count {len(missing)} samples, and no file has them")
            yield from missing


def _sample_files(path: Path) -> list[Path]:
    """The files of one evaluation that are called files of samples, whatever they are."""
    if path.is_file():
        return [path] if _is_sample_file(path) else _named_beside(path)
    files = _named_files(path)
    times = sorted({_time_of(file) for file in files if _is_sample_file(file)})
    if len(times) > 1:
        raise UsageError(
            f"{path} has the samples of {len(times)} evaluations.",
            hint=f"Name one of them: {', '.join(f'results_{time}.json' for time in times[-3:])}.",
        )
    return [file for file in files if _time_of(file) in times]


def _named_files(directory: Path) -> list[Path]:
    # Not `glob`, which takes a directory that cannot be read for an empty one.
    return [directory / name for name in sorted(os.listdir(directory)) if _SAMPLES.fullmatch(name)]  # noqa: PTH208


def _named_beside(results: Path) -> list[Path]:
    """The files of samples that belong to a file of results."""
    match = _RESULTS.fullmatch(results.name)
    found = _named_files(results.parent) if match else []
    return [file for file in found if match and _time_of(file) == match["time"]]


def _task_of(file: Path) -> str:
    match = _SAMPLES.fullmatch(file.name)
    return match["task"] if match else file.stem.removeprefix("samples_")


def _time_of(file: Path) -> str:
    match = _SAMPLES.fullmatch(file.name)
    return (match["time"] or "") if match else ""


def _read_results(file: Path, notes: list[str]) -> dict[str, Any]:
    path = file.with_name(f"results_{_time_of(file)}.json")
    try:
        return _with_arguments(parse_json_object(read_regular_file(path, _RESULT_BYTES)))
    except UnreadableFile as error:
        notes.append(f"{path.name}: {error}; the model is named after the directory")
        return {}


def _with_arguments(results: dict[str, Any]) -> dict[str, Any]:
    """The results with the model's arguments by name, so that a key among them is found by its name."""
    config = map_of(results.get("config"))
    given = config.get("model_args")
    if not isinstance(given, str):
        return results
    arguments = dict(part.partition("=")[::2] for part in given.split(","))
    return {**results, "config": {**config, "model_args": arguments}}


def _model_name(results: dict[str, Any]) -> str:
    """The model that was asked, or else the kind of interface that it was asked through."""
    config = map_of(results.get("config"))
    given = map_of(config.get("model_args"))
    names = (given.get(name) for name in _MODEL_NAMES)
    return plain_text(next((name for name in names if name), None) or config.get("model"))


class _SampleFile:
    """One file: the samples of one task."""

    def __init__(self, path: Path, model: str, at: float, results: dict[str, Any], faults: list[str]) -> None:
        self._path, self._model, self._at = path, model, at
        self._task = _task_of(path)
        self._results, self._faults = results, faults
        self._means = ReportedMeans(results, self._task)
        self._places: dict[str, dict[str, tuple[int, int]]] = {}
        """By sample and filter, the number of the line and where it begins."""
        self._filters: Counter[str] = Counter()
        """How many samples have a line under each."""

    def items(self) -> Iterator[ForeignTrial | SkippedItem]:
        with open_regular_file(self._path) as stream:
            offset = 0
            for number, line in enumerate(stream, 1):
                if fault := self._add_line(line, number, offset):
                    yield fault
                offset += len(line)
            for places in self._places.values():
                lines = []
                for _, at in places.values():
                    stream.seek(at)
                    lines.append(parse_json_object(stream.readline()))
                yield self._trial(lines, next(iter(places.values()))[0])
        yield from self._missing()
        self._faults.extend([*self._missing_lines(), *self._means.faults()])

    def _missing(self) -> Iterator[ForeignTrial]:
        """What the results count and the file does not have."""
        seen, reported = set(self._places), reported_count(self._results, self._task)
        if reported is None or reported == len(seen):
            return
        text = f"{self._task}: the results count {reported} samples, and {self._path.name} has {len(seen)}"
        more = "the others are planned and not started" if reported > len(seen) else "all of them are imported"
        self._faults.append(f"{text}; {more}")
        yield from missing_trials(self._results, self._task, self._model, seen)

    def _missing_lines(self) -> Iterator[str]:
        """The filters under which samples have no line: a filter is applied to all of them."""
        for under, count in self._filters.items():
            if lost := len(self._places) - count:
                yield f"{self._task}: {lost} of {len(self._places)} samples have no line under the filter {under}"

    def _add_means(self, line: dict[str, Any]) -> None:
        for metric in _metrics(line):
            self._means.add(metric, _filter_of(line), line[metric])

    def _where(self, number: int) -> str:
        return f"{self._path.name} line {number}"

    def _add_line(self, line: bytes, number: int, offset: int) -> SkippedItem | None:
        if not line.strip():
            return None
        try:
            content = parse_json_object(line)
        except UnreadableFile as error:
            return SkippedItem(self._where(number), str(error))
        if "doc_id" not in content:
            return SkippedItem(self._where(number), "it is not a sample: it has no doc_id")
        sample, under = plain_text(content["doc_id"]), _filter_of(content)
        places = self._places.setdefault(sample, {})
        if under in places:
            earlier = f"line {places[under][0]}"
            return SkippedItem(self._where(number), f"it is the same sample under the same filter as {earlier}")
        places[under] = number, offset
        self._filters[under] += 1
        return None

    def _trial(self, lines: list[dict[str, Any]], number: int) -> ForeignTrial:
        first = lines[0]
        for line in lines:
            self._add_means(line)
        prompt = _prompt(first.get("arguments"))
        answer = _generated_text(first)
        scores = tuple(score for line in lines for score in _metric_scores(line))
        target = first.get("target")
        is_judged = len(lines) == len(self._filters) and any(map(_has_value, scores))
        return ForeignTrial(
            place=self._where(number),
            task=self._task,
            model=self._model,
            sample=ForeignSample(
                plain_text(first["doc_id"]), prompt_of(prompt), target, metadata=map_of(first.get("doc"))
            ),
            state=ForeignState.VALID if is_judged else ForeignState.NO_VERDICT,
            answer=answer,
            calls=(ForeignCall(prompt_messages(prompt), answer),) if answer is not None else (),
            scores=scores,
            at=self._at,
            fields={"lines": [others(line, [*_OF_SAMPLE, *_metrics(line)]) for line in lines]},
            unknown=tuple(dict.fromkeys(name for line in lines for name in others(line, [*_FIELDS, *_metrics(line)]))),
        )


def _has_value(score: ForeignScore) -> bool:
    """Whether a metric was computed; of some metrics a sample has only what is needed for them, such as a pair."""
    return score.value is not None and not (isinstance(score.value, float) and math.isnan(score.value))


def _filter_of(line: dict[str, Any]) -> str:
    return plain_text(line.get("filter")) or _NO_FILTER


def _metrics(line: dict[str, Any]) -> list[str]:
    return [name for name in list_of(line.get("metrics")) if isinstance(name, str) and name in line]


def _metric_scores(line: dict[str, Any]) -> Iterator[ForeignScore]:
    under = _filter_of(line)
    for metric in _metrics(line):
        name = metric if under == _NO_FILTER else f"{metric},{under}"
        filtered = list_of(line.get("filtered_resps"))
        text = filtered[0] if filtered and isinstance(filtered[0], str) else None
        yield ForeignScore(name, line[metric], answer=text)


def _prompt(arguments: Any) -> Any:
    """What was asked: newer versions name the arguments, older ones list them."""
    if isinstance(arguments, dict):
        return map_of(arguments.get("gen_args_0")).get("arg_0")
    given = list_of(arguments)
    return given[0][0] if given and isinstance(given[0], list) and given[0] else None


def _generated_text(line: dict[str, Any]) -> str | None:
    """The text that the model generated; None where it only gave the likelihood of texts."""
    drawn = list_of(line.get("resps"))
    first = drawn[0] if drawn else None
    text = first[0] if isinstance(first, list) and first else first
    return plain_text(text) if isinstance(text, str) else None
