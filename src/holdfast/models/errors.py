"""Why a model gave no reply, by what the caller may do about it.

ModelError            the base; `status` of HTTP where there was one, `detail` a short excerpt of the answer, `usage`
│                     where the server reported what it took all the same, `setting` the key of the eval that would
│                     mend it, as `--set` takes it
├── PassingError      waiting may cure it; `retry_after` in seconds where the server named a time
│   ├── RateLimited   wait and try again; never counts as a try of the trial
│   └── Unavailable   try again: server error, no connection, timeout, broken or unreadable answer
├── Rejected          trying again is no use: the request itself was refused
│   └── Exchanged     the model is not the one any more that was opened
└── Blocked           a content policy stepped in
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from holdfast.models.redaction import known_secrets

if TYPE_CHECKING:
    from holdfast.models.message import Usage

THIS_MODEL = "models.NAME"
"""How a hint names the model's entry in the eval file; whoever knows its name puts it there."""
OTHER_ADDRESS = f"{THIS_MODEL}.base_url=URL"
"""The setting that mends an address which is wrong, or at which nothing answers."""
DETAIL_LIMIT = 500
_WINDOW = 65536


class ModelError(HoldfastError):
    """A model gave no reply."""

    exit_code = 1
    kind = "model"
    usage: Usage | None = None

    def __init__(
        self, message: str, *, status: int | None = None, detail: str = "", hint: str = "", setting: str = ""
    ) -> None:
        super().__init__(known_secrets.redact(message), hint=known_secrets.redact(hint))
        self.status, self.setting = status, setting
        self.detail = excerpt(detail)


class PassingError(ModelError):
    """A failure that waiting may cure; `retry_after` in seconds is the server's own wish."""

    def __init__(
        self,
        message: str,
        *,
        status: int | None = None,
        detail: str = "",
        hint: str = "",
        retry_after: float | None = None,
        setting: str = "",
    ) -> None:
        super().__init__(message, status=status, detail=detail, hint=hint, setting=setting)
        self.retry_after = _wait_seconds_in(retry_after)


class RateLimited(PassingError):  # noqa: N818 - reads as a sentence where it is raised
    """The server asked for a slower pace."""

    kind = "rate_limited"


class Unavailable(PassingError):  # noqa: N818 - as above
    """The server did not deliver a usable answer this time."""

    kind = "unavailable"


class Rejected(ModelError):  # noqa: N818 - as above
    """The server refused the request; trying again is no use."""

    kind = "rejected"


class Exchanged(Rejected):
    """The model was replaced while it was in use: no reply of it counts any more."""


class Blocked(ModelError):  # noqa: N818 - as above
    """A content policy blocked the reply."""

    kind = "blocked"


def _wait_seconds_in(value: object) -> float | None:
    """A time to wait as a provider gives it, which may be anybody's code; None for what cannot be one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < math.inf else None


def excerpt(text: str, limit: int = DETAIL_LIMIT) -> str:
    """The beginning of a foreign text: one line, no known secret, nothing that acts on a terminal."""
    line = " ".join(text[:_WINDOW].split())
    if not line.isprintable():
        line = "".join(character for character in line if character.isprintable())
    line = known_secrets.redact(line)
    if len(text) >= _WINDOW:
        # The cut may have gone through a secret, which is then no longer recognised.
        line = line[: -known_secrets.longest or None]
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
