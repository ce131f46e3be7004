"""The keys in the environment of this process: which variables hold one, and what of them is secret.

A variable is one of a key if its name says key, token, secret, password or credential; any variable may hold an address
with a user and a password. From `know_environment_keys` on, such values are redacted like the keys that providers read:
from replies and results before a solver sees them, and from every record before it is written (`redaction.py`).

A variable that says where a key is, or what it is called, holds none: paths, addresses without a password, names of
other variables, and variables whose own names end in `_NAME`, `_FILE`, `_URL` and the like.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping

from holdfast.models.redaction import environment_parts, environment_secrets, known_secrets
from holdfast.models.secret_parts import SECRET_NAME, logins_in, parts_of_secret, secret_texts, user_in_address

_SECRETS_VARIABLE = re.compile(r"KEYS(?![A-Z])|TOKENS(?![A-Z])", re.IGNORECASE)
"""Several keys or tokens; more often it is those of a tokeniser (`STOP_TOKENS`)."""
_RANDOM_WORD = re.compile(r"(?=[^\s,;]*[0-9])(?=[^\s,;]*[A-Za-z])[A-Za-z0-9_+/=.:-]{12,}")
_ABOUT_A_KEY = re.compile(
    r"_(?:NAME|TYPE|KIND|PATH|FILE|DIR|DIRECTORY|URL|URI|ENV|VAR|VARIABLE|HOST|MODEL|FORMAT|PREFIX|HEADER)$",
    re.IGNORECASE,
)


def environment_keys(environment: Mapping[str, str] = os.environ) -> Iterator[tuple[str, str]]:
    """The keys in the environment, each with the name of its variable."""
    for name, value in environment.items():
        if SECRET_NAME.search(name):
            yield name, value
        elif _SECRETS_VARIABLE.search(name):
            yield from ((name, word) for word in _RANDOM_WORD.findall(value))


def environment_key_parts(environment: Mapping[str, str] = os.environ) -> Iterator[tuple[str, str]]:
    """What code may take out of a variable that is secret, each with the name of the variable."""
    for name, value in environment_keys(environment):
        yield from ((name, part) for part in parts_of_secret(value))
    for name, value in environment.items():
        yield from ((name, part) for part in user_in_address(value))


def hide_environment_keys() -> None:
    """From now on, no error of this process shows a key of the environment, or a part of one.

    Whole keys are known from then on, too: what a text looks like without keys must not depend on what came first.
    """
    know_environment_keys()
    for name, value in environment_keys():
        environment_secrets.remember(name, value)
    for name, part in environment_key_parts():
        environment_parts.remember(name, part)


class _KnownVariables:
    """How many variables there were when they were last looked at: a task may set some while it runs."""

    count = -1


def know_environment_keys(environment: Mapping[str, str] = os.environ) -> None:
    """From now on, whole keys of the environment are redacted wherever a key of a provider is."""
    _KnownVariables.count = len(environment)
    for name, value in _whole_keys(environment):
        known_secrets.remember(name, value)


def know_new_environment_keys() -> None:
    """The same, if a variable was added or removed since; costs next to nothing otherwise."""
    if len(os.environ) != _KnownVariables.count:
        know_environment_keys()


def _whole_keys(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    for name, value in environment_keys(environment):
        if not _ABOUT_A_KEY.search(name):
            yield from ((name, text) for text in secret_texts(value) if text not in environment)
    for name, value in environment.items():
        yield from ((name, login) for login in logins_in(value))
