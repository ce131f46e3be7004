"""Telling a key from a name: what has the form of a secret, and what can name a variable."""

from __future__ import annotations

import re
from urllib.parse import parse_qsl, urlsplit

KEY_NAMES = frozenset(
    {
        *(
            "accesskey",
            "accesstoken",
            "apikey",
            "apisecret",
            "apitoken",
            "authkey",
            "authorization",
            "authtoken",
        ),
        *("bearer", "bearertoken", "clientsecret", "privatekey", "proxyauthorization", "secretaccesskey"),
        *("secretkey", "xapikey", "xauthtoken", "xgoogapikey"),
    }
)
_QUERY_NAMES = KEY_NAMES | {"key", "password", "secret", "sig", "signature", "token"}
_SECRET_WORDS = frozenset(
    {
        *("apikey", "auth", "authorization", "bearer", "cookie", "credential", "credentials", "passphrase", "passwd"),
        *("password", "passwords", "privatekey", "pwd", "secret", "secrets"),
    }
)
_KEY_WORDS = frozenset({"key", "keys", "token"})
"""As the last word of a name; before it, `api` and its like leave no doubt."""
_KINDS_OF_KEYS = frozenset({"access", "api", "auth", "bearer", "master", "private", "refresh", "session", "signing"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_OPAQUE = re.compile(r"(?=\S*[0-9])\S{8,}")
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")
_PREFIXES = (
    *("sk", "pk", "rk", "xai", "pplx", "nvapi", "r8", "gsk", "hf"),
    *("ghp", "gho", "ghs", "github_pat", "glpat", "xoxb", "xoxp"),
)
_KEY = re.compile(
    r"Bearer\s+\S{8,}"
    rf"|\b({'|'.join(_PREFIXES)})[-_][A-Za-z0-9_-]{{12,}}"
    r"|\bAIza[A-Za-z0-9_-]{20,}"
    r"|\b(AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\beyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]*"
)

_BASIC = re.compile(r"Basic\s+[A-Za-z0-9+/=]{16,}")
"""A user and a password in a header; as prose it is no key."""


_SHORTEST = 14
"""A shorter text holds no key."""
_MARKS = ("Bearer", "Basic", "AIza", "AKIA", "ASIA", "eyJ")
_PREFIX_MARKS = tuple(f"{prefix}{separator}" for prefix in _PREFIXES for separator in "-_")


def looks_like_key(text: str) -> bool:
    """Whether a text holds something in the form of a provider's key."""
    return _KEY.search(text) is not None


def without_keys(text: str, mark: str) -> str:
    """The text with everything in the form of a key replaced by a mark."""
    return _BASIC.sub(mark, _KEY.sub(mark, text)) if _may_hold_key(text) else text


def _may_hold_key(text: str) -> bool:
    """Whether a text has something that every key has: that is found a hundred times sooner than the key."""
    if len(text) < _SHORTEST:
        return False
    if any(known in text for known in _MARKS):
        return True
    return ("-" in text or "_" in text) and any(known in text for known in _PREFIX_MARKS)


def is_key_name(name: str) -> bool:
    """Whether a field or header of this name holds a key: `api_key`, `X-Api-Key`, `authorization`."""
    return _letters(name) in KEY_NAMES


def names_secret(name: str) -> bool:
    """Whether a name from another tool says that its value is secret: `OPENAI_API_KEY`, `dbPassword`, `client-secret`.

    Wider than `is_key_name`, which decides about refusing a configuration.
    """
    words = [word.lower() for word in _WORD.findall(name)]
    if is_key_name(name) or not _SECRET_WORDS.isdisjoint(words):
        return True
    is_variable = name.isupper() and len(words) > 1
    return may_name_secret(name) and (is_variable or not _KINDS_OF_KEYS.isdisjoint(words))


def may_name_secret(name: str) -> bool:
    """Whether a name may be that of a secret, and may be that of something else: `token`, `answer_key`."""
    words = _WORD.findall(name)
    return bool(words) and words[-1].lower() in _KEY_WORDS


def is_opaque(text: str) -> bool:
    """Whether a text is one word with a digit in it, of some length: nothing that a person would say."""
    return _OPAQUE.fullmatch(text) is not None


def is_variable_name(text: str) -> bool:
    """Whether a text can be the name of an environment variable, and does not look like a key itself."""
    return _VARIABLE.fullmatch(text) is not None and not looks_like_key(text) and not _looks_random(text)


def has_credentials(text: str) -> bool:
    """Whether a text is a URL that carries a user, a password or a key."""
    if not _URL.fullmatch(text):
        return False
    try:
        parts = urlsplit(text)
    except ValueError:  # not a URL after all; whoever opens it will say so
        return False
    return "@" in parts.netloc or any(_letters(name) in _QUERY_NAMES for name, _ in parse_qsl(parts.query))


def _letters(name: str) -> str:
    return re.sub(r"[^a-z]", "", name.lower())


def _looks_random(text: str) -> bool:
    """Long, with digits, and written unlike any variable: in small letters, or without a single `_`."""
    if len(text) < 20 or not re.search(r"[0-9]", text):
        return False
    return "_" not in text or re.search(r"[a-z]", text) is not None
