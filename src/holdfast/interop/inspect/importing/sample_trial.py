"""A sample of a log as a trial."""

import datetime as dt
from collections.abc import Iterator
from typing import Any, NamedTuple

from holdfast.interop.importing.foreign_eval import ForeignCall, ForeignSample, ForeignScore, ForeignState, ForeignTrial
from holdfast.interop.importing.foreign_values import list_of, map_of, plain_number, plain_text, seconds_of
from holdfast.interop.inspect.attachments import resolved
from holdfast.interop.inspect.eval_archive import SampleKey
from holdfast.interop.inspect.importing.inspect_messages import message_of, reply_of, usage_of
from holdfast.interop.inspect.importing.score_values import named_values, score_number
from holdfast.interop.inspect.recovering.buffer_rows import ranges
from holdfast.models.message import Usage
from holdfast.run.core.records import Failure

_MOST_MESSAGES = 20_000
"""Of all calls of a sample together; of one with more, only the last call of each model is kept."""
_KNOWN = {
    "id", "epoch", "input", "choices", "target", "metadata", "messages", "output", "scores", "events", "attachments",
    "events_data", "model_usage", "started_at", "completed_at", "total_time", "error", "limit",
}  # fmt: skip
_FIELDS = {
    "sandbox", "files", "setup", "store", "role_usage", "working_time", "uuid", "error_retries", "timelines",
    "invalidation", "turn_count", "token_limit", "token_limit_type", "token_limit_usage", "message_limit", "time_limit",
    "model_fallbacks", "description",
}  # fmt: skip
"""Fields that are kept as they are."""
_OF_CALLS = {"events", "events_data", "attachments", "messages"}


class LogFacts(NamedTuple):
    """What the header of a log says that its samples need."""

    task: str
    model: str
    config: dict[str, Any]
    has_scorers: bool
    planned: list[SampleKey]

    @classmethod
    def of(cls, header: dict[str, Any]) -> "LogFacts":
        spec = map_of(header.get("eval"))
        config, dataset = map_of(spec.get("config")), map_of(spec.get("dataset"))
        epochs = config.get("epochs")
        times = epochs if isinstance(epochs, int) and 0 < epochs <= 1_000_000 else 1
        ids = [str(ident) for ident in list_of(dataset.get("sample_ids")) if isinstance(ident, str | int)]
        planned = [SampleKey(ident, epoch) for epoch in range(1, times + 1) for ident in ids]
        has_scorers = bool(list_of(spec.get("scorers"))) or spec.get("scorers") is None
        return cls(plain_text(spec.get("task")), plain_text(spec.get("model")), config, has_scorers, planned)

    def not_started(self, there: set[str]) -> Iterator[ForeignTrial]:
        """The samples of the plan that the log has nothing of."""
        for key in self.planned:
            if key.member not in there:
                sample = ForeignSample(key.id)
                yield ForeignTrial(str(key), self.task, self.model, sample, ForeignState.NOT_STARTED, max(1, key.epoch))


def sample_trial(sample: dict[str, Any], place: str, facts: LogFacts) -> ForeignTrial:
    """The trial that a sample is."""
    attachments = map_of(sample.get("attachments"))
    usage = {
        str(model): found for model, value in map_of(sample.get("model_usage")).items() if (found := usage_of(value))
    }
    limit, whole = map_of(sample.get("limit")), _without_references(sample, attachments)
    return ForeignTrial(
        place=place,
        task=facts.task,
        model=facts.model,
        sample=_sample(whole),
        state=_state(sample, facts),
        epoch=sample["epoch"],
        answer=_answer(map_of(whole.get("output"))),
        calls=tuple(_calls(sample, facts, attachments)),
        scores=tuple(_scores(whole)),
        usage=sum(usage.values(), Usage()) if usage else None,
        usage_by_model={model: found for model, found in usage.items() if model != facts.model},
        cost=_cost(sample),
        at=_seconds_since_1970(sample.get("completed_at")),
        seconds=sample.get("total_time"),
        limit=plain_text(limit.get("type")),
        error=_error(sample.get("error")),
        fields={name: value for name, value in whole.items() if name not in _KNOWN and value not in (None, [], {})},
        unknown=tuple(name for name in sample if name not in _KNOWN and name not in _FIELDS),
    )


def _without_references(sample: dict[str, Any], attachments: dict[str, Any]) -> dict[str, Any]:
    """The sample with its attachments in their places; its calls are put together one at a time."""
    return {name: resolved(value, attachments) for name, value in sample.items() if name not in _OF_CALLS}


def _state(sample: dict[str, Any], facts: LogFacts) -> ForeignState:
    if sample.get("error") is not None:
        return ForeignState.FAILED
    if not map_of(sample.get("scores")) and facts.has_scorers:
        return ForeignState.NO_VERDICT
    return ForeignState.LIMITED if map_of(sample.get("limit")) else ForeignState.VALID


def _sample(sample: dict[str, Any]) -> ForeignSample:
    asked = sample.get("input")
    return ForeignSample(
        id=str(sample["id"]),
        input=[message_of(part) for part in asked] if isinstance(asked, list) else asked,
        target=sample.get("target"),
        choices=list_of(sample.get("choices")) or None,
        metadata=map_of(sample.get("metadata")),
    )


def _answer(output: dict[str, Any]) -> str | None:
    completion = output.get("completion")
    if isinstance(completion, str) and completion:
        return completion
    return reply_of(output)[0] if list_of(output.get("choices")) else None


def _scores(sample: dict[str, Any]) -> Iterator[ForeignScore]:
    for name, value in map_of(sample.get("scores")).items():
        score = map_of(value)
        for part, given in named_values(str(name), score.get("value")):
            number = score_number(given)
            answer = score.get("answer")
            yield ForeignScore(
                part,
                given if number is None else number,
                answer=None if answer is None else plain_text(answer),
                explanation=plain_text(score.get("explanation")),
                # The letter or the word that the number stands for is what Inspect shows.
                metadata={**map_of(score.get("metadata")), **({"value": given} if isinstance(given, str) else {})},
            )


def _calls(sample: dict[str, Any], facts: LogFacts, attachments: dict[str, Any]) -> list[ForeignCall]:
    pool = list_of(map_of(sample.get("events_data")).get("messages"))
    events = [event for event in map(map_of, list_of(sample.get("events"))) if event.get("event") == "model"]
    asked = [_input_of(event, pool) for event in events]
    if sum(map(len, asked)) > _MOST_MESSAGES:
        last = {(event.get("model"), event.get("role")): number for number, event in enumerate(events)}
        events, asked = [events[number] for number in last.values()], [asked[number] for number in last.values()]
    if not events:
        return _from_messages(sample, attachments)
    return [_call(event, said, facts, attachments) for event, said in zip(events, asked, strict=True)]


def _input_of(event: dict[str, Any], pool: list[Any]) -> list[Any]:
    references = event.get("input_refs")
    if isinstance(references, list):
        return [message for start, end in ranges(references) for message in pool[start:end]]
    return list_of(event.get("input"))


def _call(event: dict[str, Any], said: list[Any], facts: LogFacts, attachments: dict[str, Any]) -> ForeignCall:
    output = map_of(resolved(event.get("output"), attachments))
    text, reply = reply_of(output)
    model = plain_text(event.get("model"))
    return ForeignCall(
        messages=[message_of(message) for message in resolved(said, attachments)],
        text=text,
        reply=reply,
        model="" if model == facts.model else model,
        usage=usage_of(output.get("usage")),
        at=_seconds_since_1970(event.get("timestamp")),
        seconds=seconds_of(output.get("time")),
    )


def _from_messages(sample: dict[str, Any], attachments: dict[str, Any]) -> list[ForeignCall]:
    """Of a sample without events, its conversation as one call."""
    said = [message_of(message) for message in list_of(resolved(sample.get("messages"), attachments))]
    last = max((number for number, message in enumerate(said) if message["role"] == "assistant"), default=-1)
    if last < 0:
        return []
    text, reply = reply_of(resolved(sample.get("output"), attachments))
    content = said[last]["content"]
    return [ForeignCall(messages=said[:last], text=text or (content if isinstance(content, str) else ""), reply=reply)]


def _error(value: Any) -> Failure | None:
    error = map_of(value)
    if value is None:
        return None
    return Failure("error", plain_text(error.get("message")) or "unknown", plain_text(error.get("traceback")))


def _cost(sample: dict[str, Any]) -> float | None:
    """What Inspect says that the sample cost, if it says so of every model."""
    costs = [map_of(usage).get("total_cost") for usage in map_of(sample.get("model_usage")).values()]
    numbers = [number for cost in costs if (number := plain_number(cost)) is not None]
    return sum(numbers) if numbers and len(numbers) == len(costs) else None


def _seconds_since_1970(text: Any) -> float:
    try:
        found = dt.datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return 0.0
    if found is None:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=dt.UTC)).timestamp()
