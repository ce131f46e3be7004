"""The words of a refusal: dotted paths (`models.small.generation.temperature`) and values."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.spec.loading.key_detection import looks_like_key

URL_DATASET = "only files are read: download the dataset, for example as JSON lines, and give the path of that file"
SHOWN = 60
SHOWN_PROBLEMS = 20
_TOP_LEVEL = ("models.", "datasets.", "tasks.")


def refuse(source: str, problems: list[str], hint: str = "") -> None:
    """Raises when there are problems: a single one as a sentence, several as a list."""
    if not problems:
        return
    if len(problems) == 1:
        raise ConfigurationError(f"{source}: {_sentence(problems[0])}", hint=hint)
    lines = [f"\n  - {_sentence(problem)}" for problem in problems[:SHOWN_PROBLEMS]]
    if len(problems) > SHOWN_PROBLEMS:
        lines.append(f"\n  - and {len(problems) - SHOWN_PROBLEMS} more.")
    if hint:
        lines.append(f"\n{hint}")
    raise ConfigurationError(f"{source} has {len(problems)} problems:{''.join(lines)}")


@contextlib.contextmanager
def naming_key(path: str) -> Iterator[None]:
    """Puts the path of a key of the eval before a message about it that does not begin with such a path."""
    try:
        yield
    except ConfigurationError as error:
        if error.message.startswith(_TOP_LEVEL):
            raise
        raise ConfigurationError(f"{path}: {error.message}", hint=error.hint) from error.__cause__


@contextlib.contextmanager
def leaving_out_keys(paths: Iterable[str]) -> Iterator[None]:
    """Takes the path of a key from the beginning of a message: nobody has written it where there is no eval file."""
    try:
        yield
    except ConfigurationError as error:
        path = next((path for path in paths if error.message.startswith(f"{path}: ")), None)
        if path is None:
            raise
        raise ConfigurationError(error.message.removeprefix(f"{path}: "), hint=error.hint) from error.__cause__


@contextlib.contextmanager
def naming_source(source: str) -> Iterator[None]:
    """Puts the name of the eval file before a message that begins with a path in it.

    Code that builds tasks knows where in the eval it is, but not which file that was.
    """
    try:
        yield
    except ConfigurationError as error:
        if not error.message.startswith(_TOP_LEVEL):
            raise
        raise ConfigurationError(f"{source}: {error.message}", hint=error.hint) from error


def key_path(path: str, name: Any) -> str:
    """The path of a key in a map; a name that holds a dot is put in quotes."""
    text = str(name)
    quoted = text if _needs_no_quotes(text) else describe_value(text)
    return f"{path}.{quoted}" if path else quoted


def item_path(path: str, index: int) -> str:
    """The path of an item in a list."""
    return f"{path}[{index}]"


def describe_value(value: Any) -> str:
    """A value in a message: as it would be written in a file, shortened; what is in a map or list is left out."""
    if isinstance(value, dict):
        return "a map"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, str) and looks_like_key(value):
        return "(hidden: it looks like a key)"
    import json  # noqa: PLC0415 - for an error only

    text = json.dumps(value, ensure_ascii=False, default=lambda other: type(other).__name__)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 1]}…"


def _sentence(problem: str) -> str:
    return problem if problem.endswith("?") else f"{problem}."


def _needs_no_quotes(name: str) -> bool:
    return "." not in name and name.isprintable() and len(name) <= SHOWN and not looks_like_key(name)
