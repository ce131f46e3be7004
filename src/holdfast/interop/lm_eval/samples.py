"""Samples that lm-evaluation-harness has logged, as a run: `samples_TASK_TIME.jsonl`, with `results_TIME.json` beside.

A line is one sample under one filter; the lines of all filters of a sample are one trial, and a metric of a filter is a
scorer, under the name that the harness itself gives it (`exact_match,strict-match`). Of a file only the places of its
lines are in memory.
"""

from __future__ import annotations

import re
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
    others,
    parse_json_object,
    plain_text,
    prompt_messages,
    prompt_of,
    read_regular_file,
)

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
        return any(_is_sample_file(item) for item in sorted(path.glob("samples_*.jsonl")))
    return _is_sample_file(path) or (_RESULTS.fullmatch(path.name) is not None and bool(_files_beside(path)))


def _is_sample_file(path: Path) -> bool:
    if not path.is_file():
        # A pipe, for one, would be waited for.
        return False
    try:
        with path.open("rb") as stream:
            first = parse_json_object(stream.readline(64 << 20))
    except (OSError, UnreadableFile):
        return False
    return {"doc_id", "doc", "resps"} <= first.keys()


def read(path: Path) -> ForeignEval:
    """The samples of one evaluation.

    Raises:
        UsageError: a directory has those of several.
    """
    files = _sample_files(path)
    notes: list[str] = []
    results = _read_results(files[0], notes)
    model = _model_name(results) or files[0].parent.name
    when = number_of(results.get("date"))

    def items() -> Iterator[ForeignTrial | SkippedItem]:
        for file in files:
            yield from _SampleFile(file, model, when or 0.0).items()

    name = f"lm-eval {model}"
    return ForeignEval(
        _TOOL, name, str(path.absolute()), items, details={"results": others(results, ["samples"])}, notes=notes
    )


def _sample_files(path: Path) -> list[Path]:
    if path.is_file():
        return [path] if _is_sample_file(path) else _files_beside(path)
    files = [item for item in sorted(path.glob("samples_*.jsonl")) if _is_sample_file(item)]
    times = sorted({_time_of(file) for file in files})
    if len(times) > 1:
        raise UsageError(
            f"{path} has the samples of {len(times)} evaluations.",
            hint=f"Name one of them: {', '.join(f'results_{time}.json' for time in times[-3:])}.",
        )
    return files


def _files_beside(results: Path) -> list[Path]:
    """The files of samples that belong to a file of results."""
    match = _RESULTS.fullmatch(results.name)
    found = sorted(results.parent.glob("samples_*.jsonl")) if match else []
    return [file for file in found if match and _time_of(file) == match["time"] and _is_sample_file(file)]


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

    def __init__(self, path: Path, model: str, at: float) -> None:
        match = _SAMPLES.fullmatch(path.name)
        self._path, self._model, self._at = path, model, at
        self._task = match["task"] if match else path.stem.removeprefix("samples_")
        self._places: dict[str, dict[str, tuple[int, int]]] = {}
        """By sample and filter, the number of the line and where it begins."""

    def items(self) -> Iterator[ForeignTrial | SkippedItem]:
        with self._path.open("rb") as stream:
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
        return None

    def _trial(self, lines: list[dict[str, Any]], number: int) -> ForeignTrial:
        first = lines[0]
        prompt = _prompt(first.get("arguments"))
        answer = _generated_text(first)
        scores = tuple(score for line in lines for score in _metric_scores(line))
        target = first.get("target")
        return ForeignTrial(
            place=self._where(number),
            task=self._task,
            model=self._model,
            sample=ForeignSample(
                plain_text(first["doc_id"]), prompt_of(prompt), target, metadata=map_of(first.get("doc"))
            ),
            state=ForeignState.VALID if scores else ForeignState.NO_VERDICT,
            answer=answer,
            calls=(ForeignCall(prompt_messages(prompt), answer),) if answer is not None else (),
            scores=scores,
            at=self._at,
            fields={"lines": [others(line, [*_OF_SAMPLE, *_metrics(line)]) for line in lines]},
            unknown=tuple(dict.fromkeys(name for line in lines for name in others(line, [*_FIELDS, *_metrics(line)]))),
        )


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
