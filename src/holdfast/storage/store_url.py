"""The URLs of object stores, as a user writes them: `s3://bucket/run`.

One place has one name. What the library of a store would cut off, decode or resolve in a URL is refused, because the
spool of a run is found by the text of its URL.
"""

import re

from holdfast.errors import ConfigurationError

SCHEMES = ("s3", "gs", "az", "abfs", "azure")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def is_url(text: str) -> bool:
    """Whether a text names a place in an object store."""
    scheme, separator, _ = text.partition("://")
    return bool(separator) and scheme in SCHEMES


def check_url(url: str) -> None:
    """Refuses a URL that is not the only name of its place.

    Raises:
        ConfigurationError: it is not the URL of an object store, or contains what would be read as something else.
    """
    if not is_url(url):
        raise ConfigurationError(
            f"{url!r} is not the URL of an object store.", hint=f"Use one of {', '.join(SCHEMES)}."
        )
    if escape := _ESCAPE.search(url):
        raise ConfigurationError(f"{url!r} contains the escape {escape[0]!r}.", hint="Write the character itself.")
    for mark in ("#", "?"):
        if mark in url:
            raise ConfigurationError(
                f"{url!r} contains {mark!r}: a URL ends there, and the rest would be ignored.",
                hint="Choose a name without it.",
            )
    if _CONTROL.search(url) or url != url.strip():
        raise ConfigurationError(
            f"{url!r} contains a control character, or a space at its end.", hint="Choose a name without it."
        )
    parts = url.partition("://")[2].rstrip("/").split("/")
    if wrong := [part for part in parts if part in {"", ".", ".."}]:
        raise ConfigurationError(
            f"{url!r} contains {'//' if not wrong[0] else wrong[0]!r} in its path.",
            hint="Write the path that it leads to.",
        )
