"""A key never enters a configuration: a literal one is refused by its place, and its value is never shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.spec.loading.error_messages import item_path, key_path
from holdfast.spec.loading.key_detection import has_credentials, is_key_name, is_variable_name, looks_like_key

_WAY_OUT = "put the key into an environment variable and name that variable in api_key_env"


def literal_keys(data: Any, path: str = "") -> Iterator[str]:
    """A sentence for every place that holds a key: by the field's name, or by what the value looks like."""
    if isinstance(data, dict):
        for name, value in data.items():
            yield from _entry_problems(str(name), value, key_path(path, name))
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            yield from literal_keys(value, item_path(path, index))
    elif isinstance(data, str):
        yield from _text_problems(data, path)


def _entry_problems(name: str, value: Any, place: str) -> Iterator[str]:
    if is_key_name(name) and isinstance(value, str | int) and value != "":
        yield f"{place} holds a literal key; {_WAY_OUT}"
    elif name == "api_key_env" and isinstance(value, str) and not is_variable_name(value):
        yield f"{place} is not the name of an environment variable; {_WAY_OUT}"
    else:
        yield from literal_keys(value, place)


def _text_problems(text: str, place: str) -> Iterator[str]:
    if has_credentials(text):
        yield f"{place} is a URL with credentials in it; leave them out of the URL. For a key, {_WAY_OUT}"
    elif place.startswith("models.") and looks_like_key(text):
        yield f"{place} looks like a literal key; {_WAY_OUT}"
