"""The script of a scripted model, as `args` gives it; checked whole before the first request.

    args of the model:
      replies: {"What is 2 + 2?": "4"}                   # by the exact prompt: the last message of the user or a tool
      rules:                                             # in order, the first that fits
        - {contains: France, reply: Paris}
        - {matches: "^[0-9]+$", reply: [odd, even]}      # of a list, the request's fingerprint picks one
      turns: [draft, better, best]                       # by the number of assistant messages so far
      default: I do not know.
      latency: {seconds: 0.05, jitter: 0.02, seed: 1}    # or just a number of seconds
      errors:                                            # before any reply
        - {contains: Spain, rate_limited: {times: 2, retry_after: 0.01}}
        - {share: 0.1, unavailable: {times: 1}}

A reply is a text, or `{text, finish, reasoning, refusal, undecoded, usage, tool_calls: [{name, arguments, id}]}`.
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
ERROR_KINDS = ("rate_limited", "unavailable", "rejected", "no_credit", "blocked")


class ScriptedCall(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A call of a tool."""

    name: str
    """The name of the tool. Example: `search`"""

    arguments: str | dict[str, Any] = ""
    """Its arguments, as a map or as JSON text. Example: `{query: Paris}`"""

    id: str = ""
    """The id of the call. Default: by its position, such as call_1. Example: `call_7`"""


class ScriptLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A reply that is more than a text. It needs a text, a refusal or tool calls."""

    text: str | None = None
    """The text of the reply. Example: `Paris`"""

    finish: str = ""
    """Why the reply ends. As from any model, content_filter is blocked, and abort and its like are an outage.
    Default: stop, or tool_calls where there are any.
    Example: `length`
    """

    reasoning: str = ""
    """The reasoning before the reply. Example: `France is in Europe.`"""

    refusal: str = ""
    """The text of a refusal. Example: `I cannot help with that.`"""

    tool_calls: list[ScriptedCall] = []
    """Calls of tools. Example: `[{name: search, arguments: {query: Paris}}]`"""

    undecoded: str = ""
    """The bytes of the text, in base64, of a reply that is not valid UTF-8. Example: `UGFyaf8=`"""

    usage: bool = True
    """Whether the reply says what it took. Example: `false`"""

    def __post_init__(self) -> None:
        if self.text is None and not self.refusal and not self.tool_calls:
            raise ValueError("A reply needs a text, a refusal or tool_calls")


class Latency(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How long a reply takes. The same request always takes the same time."""

    seconds: WaitSeconds = 0.0
    """Seconds before every reply. Example: `0.05`"""

    jitter: WaitSeconds = 0.0
    """Up to this many seconds more, decided by the request and the seed. Example: `0.02`"""

    seed: int = 0
    """The seed of the jitter. Example: `1`"""


class ScriptedFault(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One error, and how often it happens."""

    times: Annotated[int, Meta(ge=1)] | None = None
    """For the first N tries of each request. Default: always. Example: `2`"""

    retry_after: WaitSeconds | None = None
    """Seconds that the error asks to wait. Example: `0.01`"""

    status: int | None = None
    """The HTTP status. Default: 429, 503 or 400, by the kind of error. Example: `529`"""

    message: str = ""
    """The text of the error. Example: `overloaded`"""


Lines = str | ScriptLine | Annotated[list[str | ScriptLine], Meta(min_length=1)]


class Match(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which prompts match; without a condition, all of them."""

    exact: str | None = None
    """Only this prompt (the last message of the user, or of a tool). Example: `What is 2 + 2?`"""

    contains: str | None = None
    """Only prompts that contain this text. Example: `France`"""

    matches: str | None = None
    """Only prompts that contain a match of this regular expression. Example: `'^[0-9]+$'`"""

    def pattern(self) -> re.Pattern[str] | None:
        """The compiled `matches`, or None."""
        return re.compile(self.matches) if self.matches is not None else None


class Rule(Match, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A reply for matching prompts; without a condition, for all prompts."""

    reply: Lines
    """The reply, or a list from which the request always draws the same one. Example: `Paris`"""


class ErrorRule(Match, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """An error for the prompts that match, of exactly one kind."""

    share: Annotated[float, Meta(ge=0, le=1)] = 1.0
    """The share of the matching requests that fail, chosen by their content. Example: `0.1`"""

    rate_limited: ScriptedFault | None = None
    """Fail as a rate limit does (429). Example: `{times: 2, retry_after: 0.01}`"""

    unavailable: ScriptedFault | None = None
    """Fail as an overloaded server does (503). Example: `{times: 1}`"""

    rejected: ScriptedFault | None = None
    """Fail as a bad request does (400). Example: `{message: no}`"""

    no_credit: ScriptedFault | None = None
    """Fail as an account without credit does (402): the model is disabled for the session. Example: `{times: 1}`"""

    blocked: ScriptedFault | None = None
    """Fail as a content policy does. Example: `{message: no}`"""

    def kinds(self) -> list[str]:
        """The names of the errors that are stated; one is right."""
        return [kind for kind in ERROR_KINDS if getattr(self, kind) is not None]


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Replies from a script, in this process, without a key or a cost.

    The model `echo` needs no script: it repeats the prompt.
    """

    replies: dict[str, Lines] = {}
    """Replies by the exact prompt (the last message of the user, or of a tool). Example: `{What is 2 + 2?: '4'}`"""

    rules: list[Rule] = []
    """Replies by rule; the first rule that matches counts. Example: `[{contains: France, reply: Paris}]`"""

    turns: list[str | ScriptLine] = []
    """Replies by the number of assistant messages so far; the last one repeats. Example: `[draft, better]`"""

    default: Lines | None = None
    """The reply where nothing else matches. Example: `I do not know.`"""

    latency: Latency | WaitSeconds = 0.0
    """How long a reply takes, in seconds. Example: `{seconds: 0.05, jitter: 0.02}`"""

    errors: list[ErrorRule] = []
    """Errors that come before any reply; each names exactly one kind of error.
    Example: `[{contains: Spain, rate_limited: {times: 2}}]`
    """


def read_script(where: str, args: dict[str, Any]) -> Script:
    """The script in a model's args; a ConfigurationError says which part of it is wrong."""
    for part, kind in (("rules", Rule), ("errors", ErrorRule)):
        entries = args.get(part)
        for number, entry in enumerate(entries if isinstance(entries, list) else []):
            _check_option_names(f"{where}: {part}[{number}]", entry, kind)
            if kind is Rule and isinstance(entry, dict) and "reply" not in entry:
                raise ConfigurationError(
                    f"{where}: {part}[{number}] has no reply.", hint="Write it as {contains: France, reply: Paris}."
                )
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
