"""Parts of secrets: what code takes out of a variable that holds more than a key.

A variable may hold a key in JSON or PEM, or an address with a user and a password. Twelve characters in a row of such a
secret are found in any text, so that no list of all the ways to take a variable apart is needed. Names of fields, paths
of files and addresses without a password are no secrets, and neither are words of prose.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from holdfast.spec.loading.key_detection import has_credentials

SHORTEST = 12
_HALF = SHORTEST // 2
SECRET_NAME = re.compile(r"KEY(?![A-Z])|TOKEN(?![A-Z])|SECRET|PASSWORD|PASSWD|CREDENTIAL", re.IGNORECASE)
_USER = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://([^\s/?#@]*:[^\s/?#]*)@")
_ADDRESS = re.compile(r"[\"'(]*[A-Za-z][A-Za-z0-9+.-]*://\S*")
_BETWEEN = re.compile(r"\s+|\\n|\\r")
_MIXED = re.compile(r"(?=.*[0-9])(?=.*[A-Za-z])")


class SecretParts:
    """Every run of twelve characters of the secrets, each with the name of the variable."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._halves: set[str] = set()
        self._known: set[tuple[str, str]] = set()

    def __bool__(self) -> bool:
        return bool(self._names)

    def remember(self, name: str, part: str) -> None:
        """From now on, this part of a secret is found in any text."""
        if len(part) < SHORTEST or (name, part) in self._known:
            return
        self._known.add((name, part))
        for start in range(len(part) - SHORTEST + 1):
            self._names.setdefault(part[start : start + SHORTEST], name)
        self._halves.update(part[start : start + _HALF] for start in range(len(part) - _HALF + 1))

    def marked(self, text: str, mark: str = "") -> str:
        """The text with every such part replaced by a mark, or by the name of its variable."""
        if not self._may_be_in(text):
            return text
        kept, start = [], 0
        while start < len(text):
            name = self._names.get(text[start : start + SHORTEST])
            end = start + 1 if name is None else self._end(text, start)
            kept.append(text[start:end] if name is None else mark or f"[{name}]")
            start = end
        return "".join(kept)

    def _may_be_in(self, text: str) -> bool:
        """Whether half a run stands at any sixth character: twelve in a row hold one of these places whole."""
        if not self._halves or len(text) < SHORTEST:
            return False
        return any(text[start : start + _HALF] in self._halves for start in range(0, len(text), _HALF))

    def _end(self, text: str, start: int) -> int:
        end = start + SHORTEST
        while end < len(text) and text[end - SHORTEST + 1 : end + 1] in self._names:
            end += 1
        return end


def parts_of_secret(value: str) -> Iterator[str]:
    """The words of a variable that is a secret by its name, and the texts in it if it is JSON."""
    if _is_path(value):
        return
    if value.lstrip()[:1] in {"{", "["} and (held := _texts_in_json(value)) is not None:
        yield from held
    else:
        yield from _secret_words(value)


def user_in_address(value: str) -> Iterator[str]:
    """The user and the password of every address in a variable, as they stand there and as they are meant."""
    if "@" not in value or "://" not in value:
        return
    # Few environments have such an address.
    from urllib.parse import unquote  # noqa: PLC0415

    for found in _USER.findall(value):
        user, _, password = found.partition(":")
        yield from {found, password, unquote(password), f"{unquote(user)}:{unquote(password)}"}


def secret_texts(value: str) -> Iterator[str]:
    """The whole secrets in a variable that is one by its name: its value and, if that is JSON, the fields with a
    secret's name. Paths and addresses without a password do not count.
    """
    text = value.strip()
    if _is_secret_text(text):
        yield text
        if text[0] in {"{", "["}:
            yield from filter(_is_secret_text, _named_texts_in_json(text))


def logins_in(value: str) -> Iterator[str]:
    """The password of every address in a variable, and the address as far as that goes."""
    if "@" in value and "://" in value:
        yield from (found[0] for found in _USER.finditer(value))
        yield from user_in_address(value)


def _is_secret_text(text: str) -> bool:
    is_address = _ADDRESS.fullmatch(text) is not None and not has_credentials(text)
    return len(text) >= SHORTEST and not is_address and not _is_path(text)


def _named_texts_in_json(value: str) -> Iterator[str]:
    # Few variables hold JSON.
    import json  # noqa: PLC0415

    with contextlib.suppress(ValueError, RecursionError):
        yield from _named_texts("", json.loads(value))


def _named_texts(name: str, value: object) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _named_texts(key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _named_texts(name, inner)
    elif isinstance(value, str) and SECRET_NAME.search(name):
        yield value.strip()


def _secret_words(value: str) -> Iterator[str]:
    for word in _BETWEEN.split(value):
        if len(word) >= SHORTEST and (not _ADDRESS.fullmatch(word) or has_credentials(word)):
            yield word


def _texts_in_json(value: str) -> list[str] | None:
    # Few variables hold JSON.
    import json  # noqa: PLC0415

    try:
        return list(_texts("", json.loads(value)))
    except (ValueError, RecursionError):
        return None


def _texts(name: str, value: object) -> Iterator[str]:
    """The texts that a field's name says are secret, or that no person would write."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _texts(key, inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _texts(name, inner)
    elif isinstance(value, str):
        yield from (word for word in _secret_words(value) if SECRET_NAME.search(name) or not name or _MIXED.match(word))


def _is_path(value: str) -> bool:
    """Whether a variable says where a key is, and does not hold it: all error texts hold paths."""
    if value[:1] not in {"/", "~", "."} or "\n" in value:
        return False
    try:
        path = Path(value).expanduser()
        return path.exists() or (len(path.parts) > 2 and path.parent.is_dir())
    except (OSError, RuntimeError, ValueError):  # too long for a path, or no home
        return False
