"""Why a reply ends, in one spelling: an answer, a policy that stepped in, or an outage behind a successful status.

A reason that is in none of these lists is kept as it is: the text is the model's all the same.
"""

from __future__ import annotations

import msgspec

from holdfast.models.content import joined_text
from holdfast.models.errors import Blocked, ModelError, Unavailable, excerpt
from holdfast.models.message import Reply

_SPELLINGS = {
    "stop": ("eos", "eos_token", "end_turn", "stop_sequence", "complete", "completed"),
    "length": ("max_tokens", "max_length", "model_length", "model_context_window_exceeded"),
    "tool_calls": ("tool_use", "tool_call"),
    "content_filter": ("safety", "sensitive", "blocklist", "prohibited_content", "error_toxic"),
    "error": ("server_error", "internal_error", "internal_server_error", "failed", "failure"),
    "abort": ("aborted",),
    "cancelled": ("canceled", "cancel", "user_cancel"),
    "timeout": ("timed_out",),
    "overloaded": ("overloaded_error", "server_overloaded", "engine_overloaded"),
}
_OTHER_SPELLINGS = {other: usual for usual, others in _SPELLINGS.items() for other in others}
_OUTAGES = frozenset(
    {"error", "abort", "cancelled", "timeout", "overloaded", "network_error", "insufficient_system_resource"}
)
_BLOCKED = frozenset({"content_filter"})
USUAL_REASONS = frozenset({"", "stop", "length", "tool_calls", "function_call", "refusal"})
"""The reasons that an answer ends with; empty where the server gives none."""
_KNOWN = USUAL_REASONS | _OUTAGES | _BLOCKED
EVERY_REASON = _KNOWN | _OTHER_SPELLINGS.keys()
"""All that have a meaning here, in every spelling."""


_SHOWN = 80


def usual_spelling(reason: str) -> str:
    """The reason as it is usually spelled; one that is unknown is kept as it is."""
    if reason in _KNOWN:
        return reason
    lower = reason.lower()
    lower = _OTHER_SPELLINGS.get(lower, lower)
    return lower if lower in _KNOWN else reason


def is_known_reason(reason: str) -> bool:
    """Whether it is a reason that this version knows the meaning of."""
    return usual_spelling(reason) in _KNOWN or _is_no_word(reason)


def _is_no_word(reason: str) -> bool:
    """Whether it is the JSON of a map or a list: that reports on something else than how the text ends."""
    if not reason.startswith(("{", "[")):
        return False
    try:
        msgspec.json.decode(reason)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return False
    return True


def finish_error(name: str, reply: Reply, status: int | None = None) -> ModelError | None:
    """The error that a reply stands for whose finish reason says that it is not an answer; None for any other."""
    reason = usual_spelling(reply.finish)
    if reason in USUAL_REASONS or not is_known_reason(reason):
        return None
    shown = excerpt(reason, _SHOWN)
    said = joined_text(reply.content) or reply.refusal
    failure: ModelError
    if reason in _BLOCKED:
        failure = Blocked(f"{name} blocked the reply (finish_reason {shown}).", status=status, detail=said)
    else:
        failure = Unavailable(f"{name} broke the reply off (finish_reason {shown}).", status=status, detail=said)
    failure.usage = reply.usage
    return failure


def missing_reason(name: str, reply: Reply, status: int) -> Unavailable:
    """The error for a reply without a finish reason, from a server that gives one otherwise."""
    said = joined_text(reply.content) or reply.refusal
    failure = Unavailable(
        f"{name} broke the reply off (no finish_reason, which its earlier replies have).", status=status, detail=said
    )
    failure.usage = reply.usage
    return failure
