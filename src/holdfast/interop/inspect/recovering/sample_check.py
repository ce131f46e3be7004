"""Whether a sample is whole and can be read: only such a one is not run again.

A sample as Inspect writes it has its messages and its output, a map of scores (an empty one if nothing was scored),
no call that waits for its reply, and everything that it refers to. One with an error of its own is run again anyway.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple, Self

from holdfast.interop.importing.foreign_values import LongInteger, list_of, map_of
from holdfast.interop.inspect.recovering.buffer_rows import SampleRows, dangling_references, values_in
from holdfast.interop.inspect.recovering.recovered_sample import error_of
from holdfast.interop.inspect.sample_shape import KNOWN_VERSION, faults_in, readable_parts

_SAMPLE, _SUMMARY = "sample", "summary"


class SampleCheck(NamedTuple):
    """What the eval of a log says that its samples have to be like."""

    has_scorers: bool
    is_newer: bool
    """Whether a later version of Inspect than the known one wrote it."""

    @classmethod
    def of(cls, spec: dict[str, Any]) -> Self:
        version = str(map_of(spec.get("packages")).get("inspect_ai", ""))
        numbers = tuple(int(part) for part in version.split(".")[:3] if part.isascii() and part.isdigit())
        return cls(bool(list_of(spec.get("scorers"))), numbers > KNOWN_VERSION)

    def missing(self, sample: dict[str, Any]) -> list[str]:
        """The parts that a complete sample would have."""
        if sample.get("error") is not None:
            return []
        fields = [f"it has no {name}" for name in ("messages", "output") if sample.get(name) is None]
        unscored = [] if map_of(sample.get("limit")) else list(self._unscored(sample))
        return [*fields, *unscored, *dangling_references(_rows_of(sample))]

    def _unscored(self, sample: dict[str, Any]) -> Iterator[str]:
        scores = sample.get("scores")
        if self.has_scorers and scores is None:
            yield "it has no scores"
        yield from (f"the score {name!r} is missing" for name, score in map_of(scores).items() if score is None)
        events = [event for event in list_of(sample.get("events")) if isinstance(event, dict)]
        if any(event.get("event") == "model" and event.get("pending") is True for event in events):
            yield "a call of a model has no reply"

    def unreadable(self, sample: dict[str, Any]) -> list[str]:
        """The fields that Inspect would refuse, and the whole log with them."""
        found = faults_in(sample, _SAMPLE, is_newer=self.is_newer)
        return [f"Inspect cannot read {', '.join(found)}"] if found else []

    def with_error(self, sample: dict[str, Any], problem: str) -> dict[str, Any]:
        """What Inspect can read of a sample, with an error and without scores, so that a retry runs it again."""
        kept = readable_parts(sample, _SAMPLE, is_newer=self.is_newer)
        left = {name: value for name, value in kept.items() if name not in ("scores", "limit")}
        return {"input": "", "target": "", "messages": [], **left, "error": error_of(problem)}

    def summary(self, summary: dict[str, Any], sample: dict[str, Any]) -> dict[str, Any]:
        """A summary that Inspect can read; what it cannot read is taken from the sample."""
        if not faults_in(summary, _SUMMARY, is_newer=self.is_newer):
            return summary
        required = {name: sample[name] for name in ("id", "epoch", "input", "target")}
        return {**required, **readable_parts(summary, _SUMMARY, is_newer=self.is_newer)}


def can_be_copied(sample: dict[str, Any]) -> bool:
    """Whether other readers can read its JSON: numbers of thousands of digits are written as texts."""
    return not any(isinstance(value, LongInteger) for value in values_in(sample))


def _rows_of(sample: dict[str, Any]) -> SampleRows:
    pools = map_of(sample.get("events_data"))
    return SampleRows(
        [event for event in list_of(sample.get("events")) if isinstance(event, dict)],
        map_of(sample.get("attachments")),
        [*list_of(pools.get("messages"))],
        [*list_of(pools.get("calls"))],
        None,
        [],
        [sample.get(name) for name in ("input", "messages", "output", "scores")],
    )
