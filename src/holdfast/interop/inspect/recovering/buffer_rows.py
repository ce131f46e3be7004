"""What Inspect's buffers hold of a sample that no flush has written to the log: its summary and the rows of its
transcript, and what of it is lost.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from holdfast.interop.inspect.attachments import PREFIX, is_attachment
from holdfast.interop.inspect.eval_archive import SampleKey
from holdfast.interop.inspect.json_text import InvalidJson, decode_json


class SampleRows(NamedTuple):
    """The transcript of a sample, as the rows of a buffer."""

    events: list[dict[str, Any]]
    """Each once, in its last version, at the place of its first."""
    attachments: dict[str, str]
    """Long texts and images, by the hash that stands for them in events and messages."""
    messages: list[Any]
    """The pool that model events refer to by position."""
    calls: list[Any]
    metadata: dict[str, Any] | None
    """The sample's own, where the one in the summary is shortened."""
    losses: list[str]
    """What cannot be read, and why."""
    other: Any = None
    """Other parts of the sample that refer to attachments."""


class BufferedSample(NamedTuple):
    """A sample in a buffer."""

    key: SampleKey
    summary: dict[str, Any]
    source: str
    read: Callable[[], SampleRows]
    """Reads its rows."""

    @property
    def is_complete(self) -> bool:
        """Whether it had been scored, or had failed, before the process ended."""
        return self.summary.get("completed_at") is not None


def newest_versions(rows: Iterable[tuple[Any, Any]], losses: list[str]) -> list[dict[str, Any]]:
    """Of events that were written several times under one id, the last version; unreadable ones are in `losses`."""
    found: dict[Any, dict[str, Any]] = {}
    unreadable = 0
    for number, (ident, event) in enumerate(rows):
        if isinstance(event, dict):
            found[ident if isinstance(ident, str | int) and ident else ("row", number)] = event
        else:
            unreadable += 1
    if unreadable:
        losses.append("an event cannot be read" if unreadable == 1 else f"{unreadable} events cannot be read")
    return list(found.values())


def pooled(text: Any, losses: list[str]) -> Any:
    """The entry of a pool in a row; None, and a loss, where it is not JSON."""
    try:
        return decode_json(text or "")
    except (InvalidJson, TypeError):
        losses.append("an entry of its pool is not JSON")
        return None


def dangling_references(rows: SampleRows) -> list[str]:
    """References of its events to missing messages, calls and attachments."""
    found: dict[str, None] = {}
    for event in rows.events:
        call = event.get("call")
        pools = [("input_refs", event, rows.messages)]
        pools += [("call_refs", call, rows.calls)] if isinstance(call, dict) else []
        for name, holder, pool in pools:
            if any(end > len(pool) for _, end in ranges(holder.get(name))):
                found[f"{name} of an event lead beyond its {len(pool)} entries"] = None
    wanted = {
        hash_ for value in (rows.events, rows.messages, rows.calls, rows.other) for hash_ in _attachment_hashes(value)
    }
    missing = sorted(wanted - rows.attachments.keys())
    return [*found, *([f"{len(missing)} attachments are missing ({missing[0]}, …)"] if missing else [])]


def ranges(value: Any) -> Iterator[tuple[int, int]]:
    """The ranges of positions in a pool; anything else is left out."""
    for item in value if isinstance(value, list) else []:
        if isinstance(item, list) and len(item) == 2 and all(isinstance(number, int) for number in item):
            yield max(0, item[0]), item[1]


def values_in(value: Any) -> Iterator[Any]:
    """Everything in a JSON value that is neither a map nor a list."""
    pending = [value]
    while pending:
        item = pending.pop()
        if isinstance(item, dict):
            pending.extend(item.values())
        elif isinstance(item, list):
            pending.extend(item)
        else:
            yield item


def _attachment_hashes(value: Any) -> Iterator[str]:
    for item in values_in(value):
        if isinstance(item, str) and is_attachment(item):
            yield item.removeprefix(PREFIX)
