"""The file `.env` beside an eval: variables for this process that the environment does not have.

The environment wins. The variables are put into the environment of the process, because providers, Python tasks and
the commands they start all look there; they are never written into a run. A value that is a secret, by its name or by
its form, is redacted from now on like a key (`redaction.py`). No message shows anything of a line but its number.

A line is `NAME=value` or `export NAME=value`. The value may be in single or double quotes; without quotes it ends at
` #`. There is no interpolation, and no value of several lines.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, MutableMapping
from pathlib import Path

from holdfast.errors import ConfigurationError
from holdfast.models.redaction import known_secrets
from holdfast.spec.loading.key_detection import has_credentials, looks_like_key

NAME = ".env"
MAX_BYTES = 256 * 1024
_SHOWN_LINES = 5
_SECRET_NAME = re.compile(r"(?:^|_)(?:API)?(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?)(?:_|$)", re.IGNORECASE)
_NAME = re.compile(r"(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=")
_QUOTED = re.compile(r"""'([^']*)'|"((?:[^"\\]|\\.)*)\"""")
_COMMENT = re.compile(r"\s#")
_ESCAPES = {r"\n": "\n", r"\r": "\r", r"\t": "\t"}


names_from_file: set[str] = set()
"""The variables of this process that come from such a file."""


def read_env_file(directory: Path, environment: MutableMapping[str, str] = os.environ) -> list[str]:
    """Adds the variables of the directory's `.env` that are not set yet; returns warnings, without any content.

    Raises:
        ConfigurationError: the file is not a regular file, or too large.
    """
    path = directory / NAME
    try:
        content = _read(path)
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        return [f"{path} cannot be read ({error.strerror}), so no variable was taken from it. Check its permissions."]
    skipped: list[int] = []
    for number, found in _variables(content):
        if found is None:
            skipped.append(number)
        else:
            _set(*found, environment)
    return [_skipped_text(path, skipped)] if skipped else []


def _read(path: Path) -> bytes:
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        # Many people keep a virtual environment under this name.
        raise FileNotFoundError
    if not stat.S_ISREG(mode):
        raise ConfigurationError(f"{path} is not a regular file.", hint="Replace it by a file, or remove it.")
    with path.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigurationError(
            f"{path} is larger than {MAX_BYTES // 1024} KiB.", hint="Keep only lines of the form NAME=value in it."
        )
    return content


def _variables(content: bytes) -> Iterator[tuple[int, tuple[str, str] | None]]:
    """Each line that says something, by its number; None for one that cannot be read."""
    for number, line in enumerate(content.removeprefix(b"\xef\xbb\xbf").splitlines(), start=1):
        try:
            text = line.decode().strip()
        except UnicodeDecodeError:
            yield number, None
            continue
        if text and not text.startswith("#"):
            yield number, _variable(text)


def _variable(text: str) -> tuple[str, str] | None:
    found = None if "\0" in text else _NAME.match(text)
    value = _value(text[found.end() :]) if found else None
    return (found[1], value) if found and value is not None else None


def _value(text: str) -> str | None:
    """What follows the `=`, without quotes and comment; None where a quote is not closed, or not the end."""
    if not text.lstrip().startswith(("'", '"')):
        return _COMMENT.split(text, maxsplit=1)[0].strip()
    quoted = _QUOTED.match(text.lstrip())
    rest = text.lstrip()[quoted.end() :].lstrip() if quoted else "unclosed"
    if quoted is None or (rest and not rest.startswith("#")):
        return None
    if quoted[1] is not None:
        return quoted[1]
    return re.sub(r"\\.", lambda escape: _ESCAPES.get(escape[0], escape[0][1]), quoted[2])


def _set(name: str, value: str, environment: MutableMapping[str, str]) -> None:
    if name not in environment:
        environment[name] = value
        names_from_file.add(name)
    if _SECRET_NAME.search(name) or looks_like_key(value) or has_credentials(value):
        # Also where the environment has another value: this one has no place in a run either.
        known_secrets.remember(name, value)


def _skipped_text(path: Path, lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:_SHOWN_LINES]))
    more = f" and {len(lines) - _SHOWN_LINES} more" if len(lines) > _SHOWN_LINES else ""
    where, skipped = ("line", "it was skipped") if len(lines) == 1 else ("lines", "they were skipped")
    return f"{path}, {where} {shown}{more}: not of the form NAME=value; {skipped}."
