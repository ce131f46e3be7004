"""No known secret passes: its value is replaced wherever a reply, a record or an error would carry it on.

Known are the values that a provider read from the environment, with `read_key`, the keys in `.env` and, from the start
of a session, all keys of the environment (`environment_keys.py`). Each is found as it is, JSON-escaped, URL-escaped and
as `repr` writes it; in errors, parts of keys of the environment are found as well. A value of fewer than twelve
characters is left alone, for it would also hit innocent text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.models.secret_parts import SHORTEST, SecretParts


class Secrets:
    """The secrets of this process, each under the name of the variable that holds it."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._needles: tuple[tuple[str, str], ...] = ()
        self._line_needles: tuple[bytes, ...] = ()

    def remember(self, name: str, value: str) -> None:
        """From now on, replace `value` by its name, so that a reader knows what was there."""
        if len(value) < SHORTEST or self._names.get(value) == name:
            return
        self._names[value] = name
        pairs = {form: f"[{held}]" for secret, held in self._names.items() for form in _forms(secret)}
        # A secret that contains another one must go first, or half of it would stay.
        self._needles = tuple(sorted(pairs.items(), key=lambda pair: -len(pair[0])))
        self._line_needles = tuple({_in_json(form) for form in pairs})

    @property
    def longest(self) -> int:
        """Characters of the longest form that is looked for; 0 where nothing is known."""
        return len(self._needles[0][0]) if self._needles else 0

    def is_in_line(self, line: bytes) -> bool:
        """Whether any known value is in a line of JSON."""
        for needle in self._line_needles:  # noqa: SIM110 - for every record: a generator costs more than the search
            if needle in line:
                return True
        return False

    def names_in(self, text: str) -> list[str]:
        """The variables whose values are in a text."""
        return sorted({mark[1:-1] for needle, mark in self._needles if needle in text})

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Every form that is looked for, the longest first, and what replaces it."""
        return list(self._needles)

    def redact(self, text: str) -> str:
        """The text without any known value; the same object if it holds none."""
        for needle, mark in self._needles:
            if needle in text:
                text = text.replace(needle, mark)
        return text

    def marked(self, text: str, mark: str) -> str:
        """The text with every known value replaced by the same mark, whichever it is."""
        for needle, _ in self._needles:
            if needle in text:
                text = text.replace(needle, mark)
        return text


def _forms(value: str) -> set[str]:
    # Most processes know no secret.
    import json  # noqa: PLC0415
    from urllib.parse import quote, quote_plus  # noqa: PLC0415

    escaped = {json.dumps(value, ensure_ascii=False)[1:-1], json.dumps(value)[1:-1]}
    # Some encoders also escape what JSON leaves to them, for the sake of HTML.
    escaped |= {form.replace("/", "\\/") for form in escaped}
    escaped |= {_hide_from_html(form) for form in escaped}
    urls = {quote(value), quote(value, safe=""), quote_plus(value)}
    return {value, repr(value)[1:-1], *escaped, *urls, *map(_lower_escapes, urls)}


def _in_json(text: str) -> bytes:
    import json  # noqa: PLC0415 - as above

    return json.dumps(text, ensure_ascii=False)[1:-1].encode(errors="backslashreplace")


def _hide_from_html(text: str) -> str:
    return text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")


def _lower_escapes(url: str) -> str:
    head, *rest = url.split("%")
    return head + "".join(f"%{part[:2].lower()}{part[2:]}" for part in rest)


known_secrets = Secrets()
"""One for the process, as the environment is: a key of one model is also redacted from another's replies."""


environment_secrets = Secrets()
"""All that the environment calls a key, for errors of a person's own code."""

environment_parts = SecretParts()
"""What such keys are made of, and the passwords in addresses."""


def read_key(name: str, variable: str, environment: Mapping[str, str] = os.environ) -> str:
    """The key in an environment variable, redacted from now on; `name` is the model's, for a refusal.

    Raises:
        ConfigurationError: the variable is not set, or no HTTP header can carry its value.
    """
    key = environment.get(variable, "").strip()
    if not key:
        raise ConfigurationError(
            f"{name} needs a key, and the environment variable {variable} is not set.",
            hint=f"Set it (export {variable}=...), or write it into a file .env beside the eval file ({variable}=...)."
            " To use another variable, set api_key_env.",
        )
    known_secrets.remember(variable, key)
    if not (key.isascii() and key.isprintable()):
        raise ConfigurationError(
            f"{name}: the key in {variable} contains characters that an HTTP header cannot carry.",
            hint="Copy the key again, without line breaks and quotation marks.",
        )
    return key


def redact(text: str) -> str:
    """The text with every known secret replaced by the name of its variable."""
    return known_secrets.redact(text)


def redact_error(text: str) -> str:
    """The text of an error without any known secret, and without keys of the environment."""
    return environment_parts.marked(environment_secrets.redact(redact(text)))


def redact_json(value: Any) -> Any:
    """The same JSON value with every known secret replaced, in its texts and its keys."""
    return _redacted_json(value, redact) if known_secrets.longest else value


def key_free_json(line: bytes) -> bytes:
    """JSON without any known secret; the same bytes if it holds none. Which bytes depends on what it holds alone."""
    if not known_secrets.is_in_line(line):
        return line
    import msgspec  # noqa: PLC0415 - hardly anything that is asked holds a key

    return msgspec.json.encode(redact_json(msgspec.json.decode(line)), order="deterministic")


def redact_error_json(value: Any) -> Any:
    """The same for what an error holds."""
    knows_any = known_secrets.longest or environment_secrets.longest or environment_parts
    return _redacted_json(value, redact_error) if knows_any else value


def _redacted_json(value: Any, replaced: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return replaced(value)
    if isinstance(value, dict):
        return {replaced(key): _redacted_json(item, replaced) for key, item in value.items()}
    return [_redacted_json(item, replaced) for item in value] if isinstance(value, list | tuple) else value
