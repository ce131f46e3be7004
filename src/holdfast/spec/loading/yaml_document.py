"""YAML text in, plain data out, and back; a hostile file is refused quickly and in little memory.

Before anything is built, the events of the file are watched: a duplicate key, a tag, a second document,
nesting without end and aliases that multiply are refused there, with the line. Plain words are read as
YAML 1.2 reads them: `No` and `2024-01-01` are text, `1e-3` is a number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.spec.loading.error_messages import describe_value
from holdfast.spec.loading.yaml_library import yaml

MAX_BYTES = 2 * 2**20
MAX_VALUES = 200_000
MAX_DEPTH = 64

_TAG = "tag:yaml.org,2002:"
_PLAIN_WORDS = (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?(0|[1-9][0-9]{0,39})", list("-+0123456789")),
    (
        "float",
        r"[-+]?(\.[0-9]+|[0-9]+\.[0-9]*|[0-9]+(?=[eE]))([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
)


class _Loader(yaml.CSafeLoader):
    """Builds plain data."""


class _Dumper(yaml.CSafeDumper):
    """Writes every value out, however often it occurs."""

    def ignore_aliases(self, data: Any) -> bool:
        del data
        return True


_Loader.yaml_implicit_resolvers = {}
_Dumper.yaml_implicit_resolvers = {}
for _name, _pattern, _first in _PLAIN_WORDS:
    _whole = re.compile(rf"(?:{_pattern})\Z")
    _Loader.add_implicit_resolver(_TAG + _name, _whole, _first)
    _Dumper.add_implicit_resolver(_TAG + _name, _whole, _first)


def read_document(text: str, source: str) -> Any:
    """The one document in a text; a ConfigurationError names the line and the reason otherwise."""
    if len(text) > MAX_BYTES:
        raise file_too_large(source)
    try:
        _EventGuard(source).watch(yaml.parse(text, Loader=_Loader))
        return yaml.load(text, Loader=_Loader)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigurationError(f"{source}, line {line}: {error.reason}.") from None
    except yaml.MarkedYAMLError as error:
        from holdfast.spec.loading.yaml_errors import yaml_refusal  # noqa: PLC0415 - for files that are not YAML

        raise yaml_refusal(source, text, error) from None


def write_document(data: Any) -> str:
    """Text that `read_document` reads back as the same data; keys in the order they have."""
    text: str = yaml.dump(data, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
    return text


def file_too_large(source: str) -> ConfigurationError:
    return ConfigurationError(
        f"{source} is larger than {MAX_BYTES // 2**20} MiB, too large for an eval file.",
        hint="Keep samples in a dataset file and name its path.",
    )


class _Nesting:
    """An open map or list: what it weighs so far, its keys, and whether a key comes next."""

    def __init__(self, anchor: str | None, *, is_map: bool) -> None:
        self.anchor = anchor
        self.keys: set[str] | None = set() if is_map else None
        self.expects_key = is_map
        self.weight = 0


class _EventGuard:
    """Watches the events of a file go by and raises at the first that an eval file may not have."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.nestings = [_Nesting(None, is_map=False)]
        self.anchors: dict[str, int | None] = {}
        self.values = 0
        self.documents = 0

    def watch(self, events: Iterator[Any]) -> None:
        for event in events:
            if isinstance(event, yaml.NodeEvent):
                self._node(event)
            elif isinstance(event, yaml.CollectionEndEvent):
                self._close(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                self._document(event)

    def _document(self, event: Any) -> None:
        self.documents += 1
        if self.documents > 1:
            raise self._refusal(event, "a second document starts here; an eval file holds one")

    def _node(self, event: Any) -> None:
        self.values += 1
        if self.values > MAX_VALUES:
            raise self._refusal(event, f"more than {MAX_VALUES} values, too many for an eval file")
        if getattr(event, "tag", None):
            raise self._refusal(event, f"the tag {describe_value(event.tag)} is not supported; write a plain value")
        if isinstance(event, yaml.AliasEvent):
            self._alias(event)
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event)
        else:
            self._open(event)

    def _alias(self, event: Any) -> None:
        if self.nestings[-1].expects_key:
            raise self._refusal(event, "a key must be plain text, not an alias")
        weight = self.anchors.get(event.anchor, 0)
        if weight is None:
            raise self._refusal(event, f"the alias {describe_value(event.anchor)} is inside what it refers to")
        self._add(event, weight)

    def _scalar(self, event: Any) -> None:
        innermost = self.nestings[-1]
        if innermost.expects_key and innermost.keys is not None:
            if event.value in innermost.keys:
                raise self._refusal(event, f"the key {describe_value(event.value)} is given twice in one map; keep one")
            innermost.keys.add(event.value)
        weight = len(event.value) + 1
        if event.anchor:
            self.anchors[event.anchor] = weight
        self._add(event, weight)

    def _open(self, event: Any) -> None:
        if self.nestings[-1].expects_key:
            raise self._refusal(event, "a key must be plain text, not a map or a list")
        if len(self.nestings) > MAX_DEPTH:
            raise self._refusal(event, f"nested deeper than {MAX_DEPTH} levels")
        if event.anchor:
            self.anchors[event.anchor] = None
        self.nestings.append(_Nesting(event.anchor, is_map=isinstance(event, yaml.MappingStartEvent)))

    def _close(self, event: Any) -> None:
        closed = self.nestings.pop()
        if closed.anchor:
            self.anchors[closed.anchor] = closed.weight + 1
        self._add(event, closed.weight + 1)

    def _add(self, event: Any, weight: int) -> None:
        innermost = self.nestings[-1]
        innermost.weight += weight
        if innermost.weight > MAX_BYTES:
            raise self._refusal(event, "aliases multiply its content beyond what an eval file may hold")
        if innermost.keys is not None:
            innermost.expects_key = not innermost.expects_key

    def _refusal(self, event: Any, reason: str) -> ConfigurationError:
        return ConfigurationError(f"{self.source}, line {event.start_mark.line + 1}: {reason}.")
