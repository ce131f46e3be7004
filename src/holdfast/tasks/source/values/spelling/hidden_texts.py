"""Texts as they count in a comparison: without keys, and without the place where the code lies.

A key is a text in the form of one, or the value of an environment variable of twelve characters or more whose name says
key, token, secret or password, or a part of it of twelve characters or more, or the user and password of an address in
any variable. It counts as present and nothing more: neither it nor a digest of it is kept.
Such a text that is not from the environment, but written in the code or read from a file, may be part of a prompt: what
holds it is said to be incomparable.
"""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from holdfast.models.environment_keys import environment_key_parts, environment_keys
from holdfast.models.redaction import Secrets, known_secrets
from holdfast.models.secret_parts import SHORTEST, SecretParts
from holdfast.spec.loading.key_detection import has_credentials, looks_like_key, without_keys
from holdfast.tasks.source.values.running_source import SourceText

KEY_MARK = "[key]"
_SHORTEST_DIRECTORY = 4
"""Characters: `/a` and the like would be found in texts that are no paths."""


class TextMask:
    """The environment and the directories of one moment."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._secrets = Secrets()
        for _, value in environment_keys(environment):
            self._remember(value)
        self._parts = SecretParts()
        self._environment = {value for value in environment.values() if value}
        self._secret = {value for _, value in environment_keys(environment) if value}
        for name, part in environment_key_parts(environment):
            self._parts.remember(name, part)
            if part:
                # One that is too short to be distinguished from other texts is compared, and not shown.
                self._secret.add(part)
        self._directories: list[str] = []
        self._sources: list[Callable[[], SourceText | None]] = []

    def _remember(self, value: str) -> None:
        # Headers carry keys in this form as well.
        if len(value) >= SHORTEST:
            for form in (value, base64.b64encode(value.encode(errors="surrogateescape")).decode()):
                self._secrets.remember(form, form)

    def add_directory(self, directory: Path) -> None:
        """From now on, a path below this directory counts relative to it."""
        for form in {str(directory), os.path.realpath(directory)}:
            if len(form) >= _SHORTEST_DIRECTORY and form not in self._directories:
                self._directories.append(form)
        self._directories.sort(key=len, reverse=True)

    def add_source(self, source: Callable[[], SourceText | None]) -> None:
        """From now on, a text that is written in this file is shown, also if a variable happens to hold the same."""
        self._sources.append(source)

    def without_keys(self, text: str) -> str:
        """The text with every key replaced by one mark."""
        if len(text) < SHORTEST:
            return text
        if has_credentials(text):
            return KEY_MARK
        return without_keys(self.without_known_keys(text), KEY_MARK)

    def spelled(self, text: str) -> str:
        """The text as it is compared."""
        return self._relative(self.without_keys(text))

    def without_known_keys(self, text: str) -> str:
        """The text without keys of the environment; names of functions and attributes may hold them too."""
        whole = self._secrets.marked(known_secrets.marked(text, KEY_MARK), KEY_MARK)
        return self._parts.marked(whole, KEY_MARK)

    def holds_own_key(self, text: str) -> bool:
        """Whether a text has a key in it that is not from the environment."""
        if len(text) < SHORTEST or not (looks_like_key(text) or has_credentials(text)):
            return False
        return KEY_MARK not in self.without_known_keys(text) and not self.is_from_environment(text)

    def changes_any(self, texts: Sequence[str]) -> bool:
        """Whether any of many texts is compared otherwise than it is."""
        whole = "\n".join(texts)
        # A URL with a password is seen only where it is alone.
        return ("://" in whole and "@" in whole) or self.spelled(whole) != whole

    def is_from_environment(self, text: str) -> bool:
        """Whether a text is the value of a variable, or a secret part of one: it is compared, and never shown."""
        return text in self._secret or (text in self._environment and not self._is_written(text))

    def _is_written(self, text: str) -> bool:
        sources = (source() for source in self._sources)
        quoted = f"'{text}'", f'"{text}"'
        return any(form in source.text for source in sources if source is not None for form in quoted)

    def _relative(self, text: str) -> str:
        for directory in self._directories:
            if directory in text:
                text = re.sub(rf"(?<![\w.-]){re.escape(directory)}(?=[/\\]|$|[^\w.-])", "<directory>", text)
        return text
