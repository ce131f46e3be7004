"""What is wrong with a text that is not YAML, and in which line the mistake is.

A parser notices a quote or a bracket that was never closed only where it can go no further: a line later, or after the
end of the file. The line that a person has to change is often the one where the construct begins.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable
from typing import NamedTuple

from holdfast.errors import ConfigurationError
from holdfast.spec.loading.yaml_library import yaml

_TABS = "In YAML, indent lines with spaces, not with tabs."
_BRACES = 'In YAML, a value that begins with a brace must be quoted: prompt: "{field} ...".'
_UNQUOTED = re.compile(r":\s+\{[^{}:\"']+\}\s*[^\s,}#]")
_KEY_WITHOUT_SPACE = re.compile(r"\s*(?:- )?[\w./-]+:[^\s/]")


class Misreading(NamedTuple):
    """Where the parser gave up, and where what it was reading begins; lines count from 1."""

    lines: list[str]
    line: int
    column: int
    began: int
    problem: str

    @property
    def before(self) -> str:
        """The line up to where the parser gave up."""
        return self.lines[self.line - 1][: self.column] if self.line <= len(self.lines) else ""

    def above(self) -> int:
        """The last line above this one that is not blank."""
        return max((number for number in range(1, self.line) if self.lines[number - 1].strip()), default=self.line)


class Mistake(NamedTuple):
    """The line to change, and why."""

    line: int
    fault: str
    hint: str = ""


def yaml_refusal(source: str, text: str, error: yaml.MarkedYAMLError) -> ConfigurationError:
    """The refusal of a text that is not YAML."""
    lines, mark, context = text.splitlines() or [""], error.problem_mark, error.context_mark
    line, column = (mark.line + 1, mark.column) if mark is not None else (1, 0)
    found = Misreading(lines, line, column, context.line + 1 if context is not None else line, str(error.problem))
    mistake = _READERS.get(_construct(error), _plain_mistake)(found)
    hint = mistake.hint or _near_hint(found)
    where = min(mistake.line, len(lines))
    return ConfigurationError(f"{source}, line {where}: not valid YAML: {mistake.fault}.", hint=hint)


def _construct(error: yaml.MarkedYAMLError) -> str:
    """What was being read; where the parser does not say, its problem."""
    return str(error.context or error.problem).removeprefix("while ")


def _open_quote(found: Misreading) -> Mistake:
    if "end of stream" not in found.problem:
        return _plain_mistake(found)
    return Mistake(found.began, "the quotation mark that opens here is never closed")


def _open_bracket(found: Misreading) -> Mistake:
    if "expected ',' or" not in found.problem:
        return _plain_mistake(found)
    closing = found.problem.rpartition(" ")[2]
    if found.began == found.line:
        return Mistake(found.line, f"a ',' or {closing} is missing")
    # The opening line is the safe one to name: whoever looks there sees what has to be closed.
    return Mistake(
        found.began, f"what opens here has no {closing} or ',' before line {min(found.line, len(found.lines))}"
    )


def _unexpected_key(found: Misreading) -> Mistake:
    """A quote that was not closed in its line may be closed by the next one that opens, lines below."""
    began = _long_quote(found)
    if began is None:
        return _plain_mistake(found)
    return Mistake(began, f"the quotation mark that opens here is closed only in line {found.line}")


def _long_quote(found: Misreading) -> int | None:
    """The line in which a quoted text opens that ends where the parser gave up, if that is another line."""
    last = None
    with contextlib.suppress(yaml.YAMLError):
        for token in yaml.scan("\n".join(found.lines), Loader=yaml.CSafeLoader):
            if isinstance(token, yaml.ScalarToken) and token.style in {"'", '"'}:
                last = token
            if token.start_mark.line + 1 > found.line:
                break
    if last is None or last.end_mark.line + 1 != found.line or last.start_mark.line == last.end_mark.line:
        return None
    return int(last.start_mark.line) + 1


def _key_without_colon(found: Misreading) -> Mistake:
    if "expected ':'" not in found.problem:
        return _plain_mistake(found)
    return Mistake(found.began, "a ':' is missing after the key")


def _second_colon(found: Misreading) -> Mistake:
    """A colon where no key can be: in the same line, or because of the line above."""
    if ": " in found.before:
        return Mistake(found.line, "a value holds ': '", 'Quote the whole value: prompt: "Note: ...".')
    above = found.above()
    if above < found.line and _KEY_WITHOUT_SPACE.match(found.lines[above - 1]):
        return Mistake(above, "a space is missing after the ':'")
    return Mistake(found.line, f"it is indented further than line {above}, which has a value already")


def _odd_character(found: Misreading) -> Mistake:
    character = found.lines[found.line - 1][found.column : found.column + 1] if found.line <= len(found.lines) else ""
    if character == "\t" or not character:
        return _plain_mistake(found)
    return Mistake(found.line, f"a value cannot begin with {character}", "Quote the value.")


def _plain_mistake(found: Misreading) -> Mistake:
    return Mistake(found.line, found.problem)


def _near_hint(found: Misreading) -> str:
    """What is often wrong where YAML stumbles: a tab, or a value that begins with a field in braces and continues."""
    if found.line <= len(found.lines) and found.lines[found.line - 1][found.column :].startswith("\t"):
        return _TABS
    near = found.lines[max(found.line - 2, 0) : found.line]
    return _BRACES if any(map(_UNQUOTED.search, near)) else ""


_READERS: dict[str, Callable[[Misreading], Mistake]] = {
    "scanning a quoted scalar": _open_quote,
    "parsing a block mapping": _unexpected_key,
    "parsing a flow mapping": _open_bracket,
    "parsing a flow sequence": _open_bracket,
    "scanning a simple key": _key_without_colon,
    "mapping values are not allowed in this context": _second_colon,
    "scanning for the next token": _odd_character,
}
