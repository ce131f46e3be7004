"""Texts with `{field}` in them, filled from a sample's fields.

A template names fields and nothing else: `{field}`, `{field.key}`, `{field.0}`, with `{{` and `}}` for braces. There
are no format specifications, no attributes and no calls, so a dataset or a prompt from elsewhere can do no
harm. Whatever is wrong is a ConfigurationError that names the field, those there are, and the nearest.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.json_values import MISSING, json_text, lookup

_TOKENS = re.compile(r"\{\{|\}\}|\{(?P<path>[^{}]*)\}|[{}]")
_NONE = ("input", "")


class MissingField(ConfigurationError):  # noqa: N818 - reads as a sentence where it is raised
    """A template names a field that does not exist; the message ends with those that do."""

    def __init__(self, fault: str, path: str, known: Sequence[str]) -> None:
        hint = did_you_mean(path, known) or "For literal braces, write {{ and }}."
        super().__init__(f"{fault}; it has {listing(known)}.", hint=hint)
        self._fault, self._path, self._known = fault, path, known

    def of_row(self, row: Mapping[str, Any]) -> "MissingField":
        """The same about the row that the fields come from, without the parts that a task makes of others."""
        nested = row.get("metadata")
        columns = {*row, *(nested if isinstance(nested, Mapping) else ())}
        return MissingField(self._fault, self._path, [name for name in self._known if name in columns])


class Placeholder(msgspec.Struct, frozen=True):
    """The place of one field's value."""

    path: str

    @property
    def root(self) -> str:
        return self.path.partition(".")[0]


class Template(msgspec.Struct, frozen=True):
    """A parsed text; `where` says in errors what it is the template of."""

    text: str
    where: str
    parts: tuple[str | Placeholder, ...]

    @classmethod
    def parse(cls, text: str, where: str = "template") -> "Template":
        return cls(text, where, tuple(_parse_parts(text, where)))

    @property
    def paths(self) -> tuple[str, ...]:
        """The fields that the text names, in order."""
        return tuple(part.path for part in self.parts if isinstance(part, Placeholder))

    @property
    def is_one_field(self) -> bool:
        """Whether it is one field, and nothing else."""
        return len(self.parts) == 1 and isinstance(self.parts[0], Placeholder)

    def names(self, field: str) -> bool:
        """Whether the field, or something inside it, is named."""
        return any(isinstance(part, Placeholder) and field in {part.path, part.root} for part in self.parts)

    def without(self, root: str) -> "Template":
        """The template with the fields of this root left as they are written."""
        parts = [
            f"{{{part.path}}}" if isinstance(part, Placeholder) and part.root == root else part for part in self.parts
        ]
        return Template(self.text, self.where, tuple(parts)) if self.names(root) else self

    def render(self, fields: Mapping[str, Any], place: str = "the sample") -> str:
        """The text with every field's value in its place; `place` says in errors whose fields they are."""
        return "".join(
            [part if isinstance(part, str) else self._field_text(part.path, fields, place) for part in self.parts]
        )

    def value(self, fields: Mapping[str, Any], place: str = "the sample") -> Any:
        """As render, but a template that is one field alone keeps its value: a list stays a list."""
        if len(self.parts) == 1 and isinstance(self.parts[0], Placeholder):
            return self._field_value(self.parts[0].path, fields, place)
        return self.render(fields, place)

    def _field_text(self, path: str, fields: Mapping[str, Any], place: str) -> str:
        value = fields.get(path)
        if isinstance(value, str):
            # Nearly always: nothing has to be looked for, or spelled.
            return value
        value = self._field_value(path, fields, place)
        try:
            return json_text(value)
        except (TypeError, ValueError, RecursionError):
            raise ConfigurationError(
                f"The {self.where} names the field {path!r}, which is not text in {place}.",
                hint="A prompt can contain only text and plain JSON values.",
            ) from None

    def _field_value(self, path: str, fields: Mapping[str, Any], place: str) -> Any:
        value = lookup(fields, path)
        if value is MISSING:
            known = _present(fields)
            raise MissingField(f"The {self.where} names the field {path!r}, which {place} does not have", path, known)
        if value is None:
            raise ConfigurationError(
                f"The {self.where} names the field {path!r}, which is null in {place}.",
                hint="Give it a value, or leave the row out with a filter.",
            )
        return value


def _present(fields: Mapping[str, Any]) -> list[str]:
    """The fields to name to people: not the map that repeats all others, and no input that nobody has given."""
    return [name for name, value in fields.items() if not _is_repeated(name, value, fields) and (name, value) != _NONE]


def _is_repeated(name: str, value: Any, fields: Mapping[str, Any]) -> bool:
    return name == "metadata" and isinstance(value, Mapping) and all(part in fields for part in value)


def _parse_parts(text: str, where: str) -> list[str | Placeholder]:
    parts: list[str | Placeholder] = []
    literal = ""
    position = 0
    for token in _TOKENS.finditer(text):
        literal += text[position : token.start()]
        position = token.end()
        if token["path"] is None:
            literal += _literal_brace(token, text, where)
            continue
        parts += [literal] if literal else []
        literal = ""
        parts.append(_placeholder(token["path"], where))
    literal += text[position:]
    return [*parts, literal] if literal else parts


def _literal_brace(token: re.Match[str], text: str, where: str) -> str:
    if len(token[0]) == 1:
        line = text.count("\n", 0, token.start()) + 1
        raise ConfigurationError(
            f"The {where} has a single {token[0]!r} in its line {line}.",
            hint="Write {field} for a field, and {{ or }} for a literal brace.",
        )
    return token[0][0]


def _placeholder(path: str, where: str) -> Placeholder:
    name = path.strip()
    if not name or "\n" in name:
        raise ConfigurationError(
            f"The {where} has braces around {path[:40]!r}, which is not the name of a field.",
            hint="For literal braces, write {{ and }}.",
        )
    return Placeholder(name)
