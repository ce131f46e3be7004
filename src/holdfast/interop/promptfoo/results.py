"""What `promptfoo eval -o FILE` writes, as a run: JSON with everything, or JSON lines with a result each.

A prompt is a task, a provider a model, and the variables of a test are a sample. A test that is repeated gives epochs.
The file is mapped, and its results are decoded one at a time.
"""

from __future__ import annotations

import mmap
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from holdfast.digests import canonical_json, packed_digest
from holdfast.errors import ConfigurationError
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
    kept_value,
    known_seconds,
    list_of,
    map_of,
    open_regular_file,
    others,
    parse_json,
    parse_json_object,
    plain_number,
    plain_text,
    prompt_messages,
    prompt_of,
    token_count,
    unusable_fields,
)
from holdfast.models.message import Usage
from holdfast.run.core.records import Failure

_TOOL = "promptfoo"
_HEAD_BYTES = 1 << 20
_ERROR = 2
"""The `failureReason` of a result without a verdict: the provider, or an assertion, raised an error."""
_PLACED = ("provider", "prompt", "vars", "response", "score", "namedScores", "latencyMs", "cost", "success", "error")
_KNOWN = frozenset(
    {
        *_PLACED,
        *("gradingResult", "id", "promptId", "promptIdx", "testCase", "testIdx", "tokenUsage", "metadata"),
        *("failureReason", "description"),
    }
)
_COMPARED = frozenset({"equals", "contains", "icontains", "starts-with"})
"""Assertions whose value is what the answer is compared with."""
_OWN_SCORES = frozenset({"pass", "score"})


def _latency(milliseconds: Any) -> float | None:
    found = plain_number(milliseconds)
    return None if found is None else known_seconds(found / 1000)


_KINDS: dict[str, Callable[[Any], Any]] = {
    "success": lambda value: value if isinstance(value, bool) else None,
    "score": plain_number,
    "cost": plain_number,
    "latencyMs": _latency,
    "namedScores": lambda value: value if isinstance(value, dict) else None,
}
"""What the fields are that have a type."""


class _Results(msgspec.Struct):
    results: list[msgspec.Raw]
    version: Any = None
    timestamp: Any = None
    stats: Any = None


class _Document(msgspec.Struct):
    results: _Results
    evalId: Any = None  # noqa: N815 - the name in the file
    config: Any = None
    metadata: Any = None


def recognises(path: Path) -> bool:
    """Whether it is such a file, by its first bytes."""
    if not path.is_file():
        return False
    with open_regular_file(path) as stream:
        head = stream.read(_HEAD_BYTES)
    if _is_result_line(head.partition(b"\n")[0]):
        return True
    # Keys are in any order, and a large file is not decoded to find out what it is.
    return head.lstrip()[:1] == b"{" and b'"evalId"' in head and b'"results"' in head


def _is_result_line(line: bytes) -> bool:
    try:
        result = parse_json_object(line)
    except UnreadableFile:
        return False
    return {"promptIdx", "provider", "vars"} <= result.keys()


def read(path: Path) -> ForeignEval:
    """The eval in a file."""
    with open_regular_file(path) as stream:
        is_lines = _is_result_line(stream.readline(_HEAD_BYTES))
    if is_lines:
        return ForeignEval(_TOOL, path.stem, str(path.absolute()), _ResultReading(_lines_of(path)).items)
    return _read_document(path)


def _lines_of(path: Path) -> Callable[[], Iterator[bytes]]:
    def lines() -> Iterator[bytes]:
        with open_regular_file(path) as stream:
            yield from (line for line in stream if line.strip())

    return lines


def _mapped(path: Path) -> mmap.mmap:
    """The bytes of a file, which the system reads as they are needed; the results are slices of them."""
    with open_regular_file(path) as stream:
        return mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)


def _read_document(path: Path) -> ForeignEval:
    notes: list[str] = []
    content = _mapped(path)
    try:
        document = msgspec.json.decode(content, type=_Document)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        document = _decoded_leniently(content, path)
    config = map_of(document.config)
    name = plain_text(config.get("description")) or plain_text(document.evalId) or path.stem
    details = {"evalId": document.evalId, "metadata": document.metadata, "stats": document.results.stats}
    reading = _ResultReading(lambda: (bytes(result) for result in document.results.results))
    return ForeignEval(
        _TOOL,
        name,
        str(path.absolute()),
        reading.items,
        details={**details, "timestamp": document.results.timestamp, "config": config},
        notes=notes,
    )


def _decoded_leniently(content: mmap.mmap, path: Path) -> _Document:
    """A file that is not quite JSON; its results are kept one by one, so that one of them spoils no other."""
    try:
        value = parse_json_object(bytes(content))
    except UnreadableFile as error:
        raise ConfigurationError(f"{path}: {error}.", hint="No run was created.") from None
    results = map_of(value.get("results"))
    if not isinstance(results.get("results"), list):
        raise ConfigurationError(f"{path} has no list of results.", hint="No run was created.")
    encoded = [msgspec.Raw(msgspec.json.encode(kept_value(item))) for item in results["results"]]
    found = _Results(encoded, timestamp=results.get("timestamp"), stats=results.get("stats"))
    return _Document(found, value.get("evalId"), value.get("config"), value.get("metadata"))


class _ResultReading:
    """Makes trials of results."""

    def __init__(self, results: Callable[[], Iterable[bytes]]) -> None:
        self._results = results
        self._samples: dict[bytes, str] = {}
        self._names: set[tuple[str, str]] = set()
        self._repeats: Counter[tuple[str, str, bytes]] = Counter()

    def items(self) -> Iterator[ForeignTrial | SkippedItem]:
        for number, data in enumerate(self._results(), 1):
            where = f"result {number}"
            try:
                value = parse_json(data)
            except UnreadableFile as error:
                yield SkippedItem(where, str(error))
                continue
            if not isinstance(value, dict) or not isinstance(value.get("prompt"), dict):
                yield SkippedItem(where, "it is not a result: it has no prompt")
            else:
                yield self._trial(where, value)

    def _trial(self, where: str, result: dict[str, Any]) -> ForeignTrial:
        prompt, response = result["prompt"], map_of(result.get("response"))
        task, model = (
            plain_text(prompt.get("label")) or plain_text(prompt.get("raw")),
            _provider_name(result.get("provider")),
        )
        sample, epoch = self._sample(task, model, result)
        output = response.get("output")
        state = _state_of(result, response)
        tokens = map_of(result.get("tokenUsage") or response.get("tokenUsage"))
        usage = _token_usage(tokens)
        answer = None if output is None else plain_text(output)
        calls = (ForeignCall(prompt_messages(prompt.get("raw")), answer, usage=usage),) if answer is not None else ()
        unusable = (*unusable_fields(result, _KINDS), *(f"tokenUsage.{name}" for name in _unusable_tokens(tokens)))
        error = plain_text(result.get("error") or response.get("error"))
        return ForeignTrial(
            place=where,
            task=task,
            model=model,
            sample=sample,
            state=state,
            epoch=epoch,
            answer=answer,
            calls=calls,
            scores=tuple(_assertion_scores(result)),
            usage=usage,
            cost=result.get("cost", response.get("cost")),
            seconds=_latency(result.get("latencyMs")),
            error=Failure("error", error or "it failed") if state is ForeignState.FAILED else None,
            fields={
                **others(result, [name for name in _PLACED if name not in unusable]),
                "response": others(response, ["output"]),
            },
            unknown=tuple(name for name in result if name not in _KNOWN),
            unusable=unusable,
        )

    def _sample(self, task: str, model: str, result: dict[str, Any]) -> tuple[ForeignSample, int]:
        """The sample, and which repetition of it this is: a test has no id, but the variables and assertions."""
        variables, test = map_of(result.get("vars")), map_of(result.get("testCase"))
        asked = kept_value([variables, test.get("assert"), result["prompt"].get("raw")])
        digest = packed_digest(canonical_json([task, asked]))
        name = self._samples.get(digest) or self._new_name(task, digest, plain_text(result.get("testIdx")))
        self._repeats[task, model, digest] += 1
        metadata = {**variables, **({"description": test["description"]} if test.get("description") else {})}
        sample = ForeignSample(name, prompt_of(result["prompt"].get("raw")), _target(test), metadata=metadata)
        return sample, self._repeats[task, model, digest]

    def _new_name(self, task: str, digest: bytes, wanted: str) -> str:
        """The number of the test, unless another sample of the task has it."""
        name = wanted if (task, wanted) not in self._names else f"{wanted}-{len(self._names)}"
        self._names.add((task, name))
        self._samples[digest] = name
        return name


def _state_of(result: dict[str, Any], response: dict[str, Any]) -> ForeignState:
    """As promptfoo counts it: a provider's error is an error, whatever else the result says."""
    has_nothing = response.get("output") is None and not result.get("gradingResult")
    if result.get("failureReason") == _ERROR or response.get("error") or has_nothing:
        return ForeignState.FAILED
    return ForeignState.VALID if isinstance(result.get("success"), bool) else ForeignState.NO_VERDICT


def _unusable_tokens(given: dict[str, Any]) -> tuple[str, ...]:
    return unusable_fields(given, dict.fromkeys(("prompt", "completion", "cached"), token_count))


def _provider_name(provider: Any) -> str:
    given = map_of(provider)
    return plain_text(given.get("label")) or plain_text(given.get("id")) or plain_text(provider) or "provider"


def _target(test: dict[str, Any]) -> Any:
    compared = [one for one in list_of(test.get("assert")) if map_of(one).get("type") in _COMPARED]
    return next((one.get("value") for one in compared if isinstance(one.get("value"), str)), None)


def _assertion_scores(result: dict[str, Any]) -> Iterator[ForeignScore]:
    graded = map_of(result.get("gradingResult"))
    reason = plain_text(graded.get("reason"))
    if isinstance(result.get("success"), bool):
        yield ForeignScore("pass", result["success"], explanation=reason)
    if result.get("score") is not None:
        metadata = {"componentResults": list_of(graded.get("componentResults"))}
        yield ForeignScore("score", result["score"], is_number=True, explanation=reason, metadata=metadata)
    for name, value in map_of(result.get("namedScores")).items():
        yield ForeignScore(f"metric.{name}" if name in _OWN_SCORES else name, value, is_number=True)


def _token_usage(given: dict[str, Any]) -> Usage | None:
    prompt, completion = token_count(given.get("prompt")), token_count(given.get("completion"))
    if prompt is None or completion is None:
        # A 0 for one of them would be invented.
        return None
    reasoning = token_count(map_of(given.get("completionDetails")).get("reasoning")) or 0
    # `cached` counts whole replies that were not asked for again, and no part of the prompt.
    return Usage(prompt, completion, 0, reasoning)
