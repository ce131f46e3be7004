"""A checkpoint as text: one value in it is replaced, and every other character stays as it is.

A file that is read and written again is another one: numbers lose digits, and the first of two equal keys is gone.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any, NamedTuple

from holdfast.interop.importing.foreign_values import UnreadableFile

_SPACE = " \t\r\n"
_DECODER = json.JSONDecoder(parse_int=str, parse_float=str, parse_constant=str)
"""It finds where a value ends; numbers of any length are no obstacle."""
_DEFAULT_INDENT = "  "


class CheckpointMember(NamedTuple):
    """A member of an object, and where its value is."""

    key: str
    start: int
    end: int


class CheckpointText:
    """The text of a JSON object, with the places of its members."""

    def __init__(self, data: bytes) -> None:
        """Raises UnreadableFile if it is not a JSON object, or its bytes cannot be written again as they are."""
        if not data.strip():
            raise UnreadableFile("it is empty")
        self._encoding = json.detect_encoding(data)
        try:
            self._text = data.decode(self._encoding, "surrogatepass")
            is_same = self._text.encode(self._encoding, "surrogatepass") == data
            self.members = self._members_at(self._skip(0))
        except UnicodeDecodeError as error:
            raise UnreadableFile(f"it is not UTF-8 text (at byte {error.start})") from None
        except RecursionError:
            raise UnreadableFile("it is nested too deeply") from None
        except ValueError as error:
            raise UnreadableFile(f"it is not valid JSON, or it is incomplete: {error}") from None
        if not is_same:
            raise UnreadableFile(f"its encoding ({self._encoding}) cannot be written as it is")

    def is_object(self, member: CheckpointMember) -> bool:
        """Whether the value of a member is an object."""
        return self._text[member.start] == "{"

    def inside(self, member: CheckpointMember) -> list[CheckpointMember]:
        """The members of the object that is the value of a member."""
        return self._members_at(member.start)

    def raw(self, member: CheckpointMember) -> str:
        """The value of a member as it is written."""
        return self._text[member.start : member.end]

    def value(self, key: str) -> Any:
        """The value of the last member with a key, numbers as text; None without one."""
        found = [member for member in self.members if member.key == key]
        return _DECODER.decode(self.raw(found[-1])) if found else None

    def replaced(self, member: CheckpointMember, value: Mapping[str, Any]) -> bytes:
        """The file with another object as the value of a member; leaves are JSON already."""
        line = self._text[: member.start].rpartition("\n")
        is_one_line = not line[1]
        indent = line[2][: len(line[2]) - len(line[2].lstrip())] or _DEFAULT_INDENT
        end = "\r\n" if "\r\n" in self._text else "\n"
        written = _object_text(value, "" if is_one_line else indent, end, 1)
        text = self._text[: member.start] + written + self._text[member.end :]
        return text.encode(self._encoding, "surrogatepass")

    def _skip(self, at: int) -> int:
        while at < len(self._text) and self._text[at] in _SPACE:
            at += 1
        return at

    def _members_at(self, start: int) -> list[CheckpointMember]:
        if self._text[start : start + 1] != "{":
            raise UnreadableFile("it is not a JSON object")
        found = list(self._scan(start + 1))
        after = self._skip(found[-1].end if found else start + 1)
        self._expect(after, "}")
        if start == self._skip(0) and self._skip(after + 1) != len(self._text):
            raise json.JSONDecodeError("Extra data", self._text, after + 1)
        return found

    def _scan(self, at: int) -> Iterator[CheckpointMember]:
        at = self._skip(at)
        while self._text[at : at + 1] != "}":
            self._expect(at, '"')
            key, at = scanstring(self._text, at + 1, True)
            self._expect(at := self._skip(at), ":")
            start = self._skip(at + 1)
            _, end = _DECODER.raw_decode(self._text, start)
            yield CheckpointMember(key, start, end)
            if self._text[(at := self._skip(end)) : at + 1] != ",":
                return
            self._expect(at := self._skip(at + 1), '"')

    def _expect(self, at: int, character: str) -> None:
        if self._text[at : at + 1] != character:
            raise json.JSONDecodeError(f"Expecting {character!r}", self._text, at)


def _object_text(value: Mapping[str, Any] | str, indent: str, end: str, depth: int) -> str:
    if isinstance(value, str):
        return value
    parts = [f"{json.dumps(key)}: {_object_text(item, indent, end, depth + 1)}" for key, item in value.items()]
    if not indent or not parts:
        return f"{{{', '.join(parts)}}}"
    inner = f"{end}{indent * (depth + 1)}"
    return f"{{{inner}{f',{inner}'.join(parts)}{end}{indent * depth}}}"
