"""Errors of a store's library as one sentence for people, with a hint.

The library's own text has the request, its retries and the first line of a page of XML; a reader wants to know what
the store answered, and what to set.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from holdfast.terminal.text import duration_text

_REQUEST = re.compile(r"Error performing [A-Z]+ (?P<url>\S+?)(\?\S*)? in .*? - (?P<answer>.*)", re.DOTALL)
_ANSWER = re.compile(r"Server returned non-2xx status code: (?P<status>\d{3} [^:<]*)")
_CODE = re.compile(r"<Code>(?P<code>\w+)</Code>")
_SKEWED = "RequestTimeTooSkewed"
_TIMES = re.compile(r"<(?P<who>RequestTime|ServerTime)>(?P<time>[^<]+)</")
_LONGEST = 300
INTACT = "The data on this machine is intact."
_KEYS = "Set the store's keys, for S3 AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION."
_ADDRESS = "Is the store running? Set AWS_ENDPOINT_URL to use your own server."
_METADATA = "169.254.169.254"
"""Where a machine in a cloud asks for keys if none are set."""


def failure_reason(error: BaseException) -> str:
    """What went wrong, in a few words."""
    text = str(error)
    request = _REQUEST.search(text)
    if request is None:
        return _first_error_line(text) or type(error).__name__
    answer = _ANSWER.search(request["answer"])
    if answer is None:
        return f"{_first_error_line(request['answer'])} ({request['url']})"
    code = _CODE.search(request["answer"])
    name = f", {code['code']}" if code else ""
    if answer["status"].startswith("404"):
        return f"the store answers {answer['status'].strip()}{name} for {request['url']}"
    clock = f"{_clock_text(request['answer'])}: " if code and code["code"] == _SKEWED else ""
    return f"{clock}{answer['status'].strip()}{name} ({request['url']})"


def _clock_text(answer: str) -> str:
    """That the clock is wrong, and by how much, if the store says what time it is there."""
    found = {match["who"]: _parse_time(match["time"]) for match in _TIMES.finditer(answer)}
    here, there = found.get("RequestTime"), found.get("ServerTime")
    apart = "" if here is None or there is None else f" by {duration_text(abs((there - here).total_seconds()))}"
    return f"the clock of this machine differs from the store's{apart}"


def _parse_time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def is_not_found(error: BaseException) -> bool:
    """Whether the store answered 404, whatever the library makes of it: to a condition that may mean it was not met."""
    return _status_of(error).startswith("404")


def is_lost_race(error: BaseException) -> bool:
    """Whether the store answered 409, as some do to the loser of a race; an address may have these digits too."""
    return _status_of(error).startswith("409")


def _status_of(error: BaseException) -> str:
    request = _REQUEST.search(str(error))
    answer = _ANSWER.search(request["answer"]) if request else None
    return answer["status"] if answer is not None else ""


def failure_hint(error: BaseException) -> str:
    """What may help; in any case that nothing here is lost."""
    text = str(error)
    if f"<Code>{_SKEWED}</Code>" in text:
        return f"Set the clock of this machine. {INTACT}"
    if _METADATA in text or re.search(r"status code: 40[13]\b", text):
        return f"{_KEYS} {INTACT}"
    if re.search(r"status code: 404\b", text):
        return f"Does the bucket exist, and is its name right? {INTACT}"
    return f"{_ADDRESS} {INTACT}" if "error sending request" in text else INTACT


def _first_error_line(text: str) -> str:
    return text.split("\n", 1)[0].strip()[:_LONGEST]
