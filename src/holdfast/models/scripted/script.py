"""The script of a scripted model, as `args` gives it; checked whole before the first request.

    args of the model:
      replies: {"What is 2 + 2?": "4"}                   # by the exact prompt (the last user message)
      rules:                                             # in order, the first that fits
        - {contains: France, reply: Paris}
        - {matches: "^[0-9]+$", reply: [odd, even]}      # of a list, the request's fingerprint picks one
      turns: [draft, better, best]                       # by the number of assistant messages so far
      default: I do not know.
      latency: {seconds: 0.05, jitter: 0.02, seed: 1}    # or just a number of seconds
      errors:                                            # before any reply
        - {contains: Spain, rate_limited: {times: 2, retry_after: 0.01}}
        - {share: 0.1, unavailable: {times: 1}}

A reply is a text, or `{text, finish, reasoning, refusal, tool_calls: [{name, arguments, id}]}`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from holdfast.errors import ConfigurationError
from holdfast.models.provider import read_options
from holdfast.suggestions import suggest_or_list

WaitSeconds = Annotated[float, Meta(ge=0, le=86_400)]
ERROR_KINDS = ("rate_limited", "unavailable", "rejected", "blocked")


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scripted call of a tool; without an id it gets one by its place in the reply."""

    name: str
    arguments: str | dict[str, Any] = ""
    id: str = ""


class ScriptLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One scripted reply."""

    text: str | None = None
    finish: str = ""
    reasoning: str = ""
    refusal: str = ""
    tool_calls: list[ScriptedCall] = []

    def __post_init__(self) -> None:
        if self.text is None and not self.refusal and not self.tool_calls:
            raise ValueError("A reply needs a text, a refusal or tool_calls")


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a reply takes: `seconds`, and up to `jitter` more, decided by the request and the seed."""

    seconds: WaitSeconds = 0.0
    jitter: WaitSeconds = 0.0
    seed: int = 0


class ScriptedFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A scripted error: for the first `times` tries of each request, or for ever."""

    times: Annotated[int, Meta(ge=1)] | None = None
    retry_after: WaitSeconds | None = None
    status: int | None = None
    message: str = ""


Lines = str | ScriptLine | Annotated[list[str | ScriptLine], Meta(min_length=1)]


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which prompts are meant: all where nothing is stated."""

    exact: str | None = None
    contains: str | None = None
    matches: str | None = None

    def pattern(self) -> re.Pattern[str] | None:
        """The compiled `matches`, or None."""
        return re.compile(self.matches) if self.matches is not None else None


class Rule(Match, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The reply for the prompts it fits."""

    reply: Lines


class ErrorRule(Match, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The error for the prompts it fits; with `share`, for that part of them, picked by fingerprint."""

    share: Annotated[float, Meta(ge=0, le=1)] = 1.0
    rate_limited: ScriptedFault | None = None
    unavailable: ScriptedFault | None = None
    rejected: ScriptedFault | None = None
    blocked: ScriptedFault | None = None

    def kinds(self) -> list[str]:
        """The names of the errors that are stated; one is right."""
        return [kind for kind in ERROR_KINDS if getattr(self, kind) is not None]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a scripted model says, when it fails, and how long it takes."""

    replies: dict[str, Lines] = {}
    rules: list[Rule] = []
    turns: list[str | ScriptLine] = []
    default: Lines | None = None
    latency: Latency | WaitSeconds = 0.0
    errors: list[ErrorRule] = []


def read_script(where: str, args: dict[str, Any]) -> Script:
    """The script in a model's args; a ConfigurationError says which part of it is wrong."""
    for part, kind in (("rules", Rule), ("errors", ErrorRule)):
        entries = args.get(part)
        for number, entry in enumerate(entries if isinstance(entries, list) else []):
            _check_option_names(f"{where}: {part}[{number}]", entry, kind)
    script = read_options(where, args, Script)
    for match in (*script.rules, *script.errors):
        _check_pattern(where, match)
    for number, rule in enumerate(script.errors):
        if len(rule.kinds()) != 1:
            raise ConfigurationError(
                f"{where}: errors[{number}] must state one error.", hint=f"One of {', '.join(ERROR_KINDS)}."
            )
    return script


def _check_option_names(where: str, entry: Any, kind: type[msgspec.Struct]) -> None:
    names = list(kind.__struct_fields__)
    for name in entry if isinstance(entry, dict) else ():
        if name not in names:
            raise ConfigurationError(f"{where} has no option {name!r}.", hint=suggest_or_list(str(name), names))


def _check_pattern(where: str, rule: Match) -> None:
    try:
        rule.pattern()
    except re.error as error:
        raise ConfigurationError(
            f"{where}: matches {rule.matches!r} is not a valid regular expression: {error}."
        ) from error
