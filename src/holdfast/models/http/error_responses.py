"""An answer that is no reply becomes the one ModelError that says what to do about it, in one sentence.

The status decides; where a server hides an error behind status 200, the code inside the body does.
"""

from __future__ import annotations

import email.utils
import http
import math
import re
import time
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from holdfast.models.errors import (
    OTHER_ADDRESS,
    THIS_MODEL,
    Blocked,
    ModelError,
    RateLimited,
    Rejected,
    Unavailable,
    excerpt,
)
from holdfast.models.http.body_text import as_utf_8
from holdfast.models.http.endpoint import Endpoint
from holdfast.models.http.no_credit import is_credit_code, is_out_of_credit

_POLICY_CODES = frozenset({"content_filter", "content_policy_violation", "content_policy", "safety"})
_WORDS = ("message", "detail", "msg", "status_msg")
"""Under which of these names an error has its words."""
_KEY_REFUSED = frozenset({401, 403})
_NO_SUCH_PLACE = frozenset({404, 405})
_NOT_AN_API = "Check base_url: this looks like a website, or a page of a proxy, and not like an API."
_TRY_AGAIN = frozenset({408, 409, 425})
_TITLE = re.compile(r"<title[^>]*>(.*?)</title>", re.IGNORECASE | re.DOTALL)
_PARSED = 1 << 20
_DECODED = 1 << 18


class Complaint(msgspec.Struct, frozen=True):
    """What a server said about an error: its words and its code, either of them possibly empty."""

    words: str
    code: str = ""


Advise = Callable[[Complaint], str]
"""The setting of the model, as `KEY=VALUE`, that mends what a server complains about; empty if none is known."""


def no_advice(_complaint: Complaint) -> str:
    """Nothing is known about what a server refuses."""
    return ""


def from_status(
    endpoint: Endpoint,
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    charset: str = "",
    advise: Advise = no_advice,
) -> ModelError:
    """The error for an answer whose status is not a success; `charset` is the encoding that its header names."""
    name, complaint = endpoint.name, read_complaint(body, charset)
    if is_out_of_credit(status, complaint.code, complaint.words):
        return _no_credit(name, status, complaint)
    if status in _KEY_REFUSED:
        return _key_refused(name, status, complaint, endpoint.key_variable)
    if status in _NO_SUCH_PLACE and endpoint.model not in complaint.words:
        return _wrong_address(endpoint, status, complaint)
    if 300 <= status < 400:
        target = excerpt(headers.get("Location", ""), 200) or "nowhere"
        return Rejected(
            f"{name} redirects to {target} ({_phrase(status)}).",
            status=status,
            detail=complaint.words,
            hint="Set base_url to the address it names.",
            setting=OTHER_ADDRESS,
        )
    return _by_status(name, status, complaint, retry_after(headers), advise)


def from_error_field(name: str, error: Any) -> ModelError:
    """The error for an answer with status 200 whose body is an error anyway."""
    return _from_complaint(name, _complaint_in({"error": error}))


def is_complaint(error: Any) -> bool:
    """Whether the `error` of an answer says anything; some servers send it, empty, with every reply."""
    if isinstance(error, list):
        return any(map(is_complaint, error))
    return any(error.values()) if isinstance(error, dict) else bool(error)


def without_reply(name: str, status: int, body: bytes, charset: str, missing: str) -> ModelError:
    """The error for an answer with a successful status and without a reply: what it says instead, if anything.

    `missing` names what a reply would be in.
    """
    try:
        data = msgspec.json.decode(as_utf_8(body, charset))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        data = None
    complaint = _complaint_in(data) if isinstance(data, dict) else Complaint("")
    if complaint.words:
        return _from_complaint(name, complaint)
    return unreadable(name, status, body, f"JSON that holds no {missing}")


def _from_complaint(name: str, complaint: Complaint) -> ModelError:
    """By the code, which may be a status; an answer that says 200 has no other."""
    code = complaint.code
    status = int(code) if code.isdecimal() and len(code) == 3 and 400 <= int(code) < 600 else None
    if is_out_of_credit(status or http.HTTPStatus.BAD_REQUEST, code, complaint.words):
        return _no_credit(name, status or http.HTTPStatus.OK, complaint)
    if status is None and code not in _POLICY_CODES:
        return Unavailable(f"{name} answered 200 with an error: {_quoted(complaint)}.", detail=complaint.words)
    return _by_status(name, status or 400, complaint, None)


def unreadable(name: str, status: int, body: bytes, reason: str) -> Unavailable:
    """The error for an answer with a successful status that holds no reply."""
    text, hint = body[:_DECODED].decode("utf-8", "replace"), ""
    start = text.lstrip()[:200].lower()
    if not body.strip():
        reason = "an empty body"
    elif start.startswith(("<!doctype", "<html", "<head", "<body")):
        reason, hint = f"an HTML page{_quoted_title(text)} instead of JSON", _NOT_AN_API
    setting = OTHER_ADDRESS if hint else ""
    message = f"{name} answered {status} with {reason}."
    return Unavailable(message, status=status, detail=text, hint=hint, setting=setting)


def reply_too_large(name: str, size: int, cap: int) -> Rejected:
    """The error for a reply larger than what may be read; asking again would only cost as much again."""
    return Rejected(
        f"{name} answered with at least {size:,} bytes, and a reply may have {cap:,}.",
        hint="Lower max_tokens, or raise max_reply_bytes in the model's args.",
    )


def read_complaint(body: bytes, charset: str = "") -> Complaint:
    """The server's own words, from whatever shape and encoding they come in."""
    is_long = len(body) > _PARSED
    body = as_utf_8(body[:_PARSED], charset)
    text = body[:_DECODED].decode("utf-8", "replace")
    if is_long:
        return Complaint(text)
    try:
        found = _complaint_in(msgspec.json.decode(body))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        title = _TITLE.search(text)
        return Complaint(title.group(1) if title else text)
    return found if found.words else Complaint(text, found.code)


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """Seconds the server wants us to wait (`retry-after-ms`, `Retry-After`); None where it names none."""
    milliseconds = _header_number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("Retry-After")
    seconds = _header_number(value)
    if seconds is not None or value is None:
        return seconds
    until = _timestamp(value)
    if until is None:
        return None
    # Measured on the server's own clock where it tells the time, for ours may differ.
    sent = _timestamp(headers.get("Date", ""))
    return max(0.0, until - (sent if sent is not None else now()))


def _by_status(
    name: str, status: int, complaint: Complaint, wait: float | None, advise: Advise = no_advice
) -> ModelError:
    said = f"{name} answered {_phrase(status)}: {_quoted(complaint)}."
    detail = complaint.words
    if status == http.HTTPStatus.TOO_MANY_REQUESTS:
        return RateLimited(said, status=status, detail=detail, retry_after=wait)
    if status >= 500 or status in _TRY_AGAIN or status < 400:
        return Unavailable(said, status=status, detail=detail, retry_after=wait)
    if complaint.code in _POLICY_CODES:
        return Blocked(said, status=status, detail=detail)
    setting = advise(complaint)
    hint = f"Set {setting.replace('=', ': ', 1)}." if setting else ""
    return Rejected(said, status=status, detail=detail, hint=hint, setting=setting)


def _no_credit(name: str, status: int, complaint: Complaint) -> Rejected:
    """As a 402, whatever status it came with: the caller then disables the model."""
    code = next(filter(is_credit_code, (complaint.code, complaint.words)), "") or _phrase(status)
    said = f"{name} is out of credit ({code}): {_quoted(complaint)}."
    as_status = http.HTTPStatus.PAYMENT_REQUIRED
    return Rejected(said, status=as_status, detail=complaint.words, hint="Add credit, then resume.")


def _wrong_address(endpoint: Endpoint, status: int, complaint: Complaint) -> Rejected:
    """The server has nothing at this address, and does not speak of the model."""
    said = f"{endpoint.name} answered {_phrase(status)} at {excerpt(endpoint.url, 200)}: {_quoted(complaint)}."
    hint = f"Check {THIS_MODEL}.base_url, which usually ends in /v1, and the model's name."
    return Rejected(said, status=status, detail=complaint.words, hint=hint, setting=OTHER_ADDRESS)


def _key_refused(name: str, status: int, complaint: Complaint, variable: str) -> ModelError:
    """The server does not accept the key, or not for this."""
    said = f"{name} answered {_phrase(status)}: {_quoted(complaint)}."
    if complaint.code in _POLICY_CODES:
        return Blocked(said, status=status, detail=complaint.words)
    has_no_key = not variable and status == http.HTTPStatus.UNAUTHORIZED
    setting = f"{THIS_MODEL}.api_key_env=VARIABLE" if has_no_key else ""
    if not variable:
        hint = f"No key was sent: set {THIS_MODEL}.api_key_env to the environment variable that holds it."
    elif status == http.HTTPStatus.UNAUTHORIZED:
        said = f"{variable} is set, but {name} refused it ({_phrase(status)}): {_quoted(complaint)}."
        hint = f"Correct {variable} in the environment or in .env."
    else:
        hint = f"The key in {variable} may not do this: check the permissions of the key, and the model's name."
    return Rejected(said, status=status, detail=complaint.words, hint=hint, setting=setting)


def _complaint_in(data: Any) -> Complaint:
    if isinstance(data, list) and data:
        data = data[0]
    if not isinstance(data, dict):
        return Complaint(data if isinstance(data, str) else "")
    inner = data.get("error") or data.get("errors") or data.get("base_resp") or data
    if isinstance(inner, list):
        inner = next(filter(is_complaint, inner), "")
    if isinstance(inner, str):
        return Complaint(inner, _code_text(data.get("code")))
    if not isinstance(inner, dict):
        return Complaint("")
    words = next((inner[name] for name in _WORDS if inner.get(name)), "")
    return Complaint(words if isinstance(words, str) else str(words), _error_code(inner))


def _error_code(error: dict[str, Any]) -> str:
    candidates = [error.get("code"), error.get("type")]
    inner, metadata, details = error.get("innererror"), error.get("metadata"), error.get("details")
    if isinstance(details, dict):
        candidates.append(details.get("error_code"))
    if isinstance(inner, dict) and inner.get("code") == "ResponsibleAIPolicyViolation":
        return "content_filter"
    if isinstance(metadata, dict) and "flagged_input" in metadata:
        return "content_filter"
    texts = [_code_text(candidate) for candidate in candidates]
    return next((text for text in texts if text in _POLICY_CODES or is_credit_code(text)), texts[0])


def _code_text(value: Any) -> str:
    return str(value) if isinstance(value, str | int) else ""


def _quoted(complaint: Complaint) -> str:
    return excerpt(complaint.words, 200).rstrip(".") or "no explanation"


def _phrase(status: int) -> str:
    try:
        return f"{status} {http.HTTPStatus(status).phrase}"
    except ValueError:
        return str(status)


def _quoted_title(text: str) -> str:
    found = _TITLE.search(text)
    return f' ("{excerpt(found.group(1), 80)}")' if found else ""


def _header_number(value: str | None) -> float | None:
    try:
        number = float(value or "")
    except ValueError:
        return None
    return number if math.isfinite(number) and number >= 0 else None


def _timestamp(value: str) -> float | None:
    try:
        return email.utils.parsedate_to_datetime(value).timestamp()
    except (TypeError, ValueError, OverflowError):
        return None
