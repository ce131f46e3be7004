"""Errors of a store's library as one sentence for people, with a hint.

The library's own text has the request, its retries and the first line of a page of XML; a reader wants to know what
the store answered, and what to set.
"""

from __future__ import annotations

import re

_REQUEST = re.compile(r"Error performing [A-Z]+ (?P<url>\S+?)(\?\S*)? in .*? - (?P<answer>.*)", re.DOTALL)
_ANSWER = re.compile(r"Server returned non-2xx status code: (?P<status>\d{3} [^:<]*)")
_CODE = re.compile(r"<Code>(?P<code>\w+)</Code>")
_LONGEST = 300
_INTACT = "The data on this machine is intact."
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
    return f"{answer['status'].strip()}{name} ({request['url']})"


def is_lost_race(error: BaseException) -> bool:
    """Whether the store answered 409, as some do to the loser of a race; an address may have these digits too."""
    request = _REQUEST.search(str(error))
    answer = _ANSWER.search(request["answer"]) if request else None
    return answer is not None and answer["status"].startswith("409")


def failure_hint(error: BaseException) -> str:
    """What may help; in any case that nothing here is lost."""
    text = str(error)
    if _METADATA in text or re.search(r"status code: 40[13]\b", text):
        return f"{_KEYS} {_INTACT}"
    if re.search(r"status code: 404\b", text):
        return f"Does the bucket exist, and is its name right? {_INTACT}"
    return f"{_ADDRESS} {_INTACT}" if "error sending request" in text else _INTACT


def _first_error_line(text: str) -> str:
    return text.split("\n", 1)[0].strip()[:_LONGEST]
