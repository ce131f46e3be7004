"""A model that answers from a script, in this process: what it says depends on the request alone.

Neither arrival order nor earlier sessions change a reply, so an interrupted run gets the replies it would have
got. Only errors count: the n-th try of one request meets the n-th scripted failure, counted per fingerprint.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.content import ToolCall
from holdfast.models.errors import Blocked, ModelError, RateLimited, Rejected, Unavailable
from holdfast.models.fingerprints import fingerprint
from holdfast.models.message import ENCODING, UNKNOWN_USAGE, Message, Reply, Request, Usage
from holdfast.models.scripted.script import (
    ErrorRule,
    Latency,
    Lines,
    Match,
    Script,
    ScriptedCall,
    ScriptedFault,
    ScriptLine,
    read_script,
)
from holdfast.spec import ModelSpec

Sleep = Callable[[float], Awaitable[object]]
Fits = Callable[[str], bool]


class ScriptedProvider:
    """Answers from a script; `sleep` is how it spends its latency."""

    takes_seed = takes_response_schema = True

    def __init__(self, model: str, script: Script, sleep: Sleep = asyncio.sleep) -> None:
        self._name = f"scripted/{model}"
        self._model = model
        self._sleep = sleep
        self._turns = [_script_line(item) for item in script.turns]
        self._exact = {prompt: _script_lines(reply) for prompt, reply in script.replies.items()}
        self._rules = [(_matcher(rule), _script_lines(rule.reply)) for rule in script.rules]
        self._default = _script_lines(script.default) if script.default is not None else None
        self._errors = [(_matcher(rule), rule, number) for number, rule in enumerate(script.errors)]
        self._tries: dict[tuple[int, bytes], int] = {}
        latency = script.latency
        self._latency = latency if isinstance(latency, Latency) else Latency(seconds=latency)
        self._instant = not (self._latency.seconds or self._latency.jitter)

    async def send(self, request: Request) -> Reply:
        """The scripted reply, or the scripted error, after the scripted time."""
        prompt = _last_prompt(request.messages)
        if not self._instant:
            await self._sleep(self._seconds(request))
        if self._errors:
            self._fail_as_scripted(request, prompt)
        line = self._choose(request, prompt)
        said = line.text or ""
        usage = Usage(sum([len(message.text.split()) for message in request.messages]), len(said.split()))
        if not line.tool_calls and not line.refusal and not line.undecoded and line.usage:
            return Reply(said, line.finish or "stop", usage, self._model, "", None, line.reasoning)
        return _odd_reply(line, said, usage if line.usage else None, self._model)

    async def close(self) -> None:
        """Nothing is held."""

    def _choose(self, request: Request, prompt: str) -> ScriptLine:
        lines = self._exact.get(prompt) or self._by_rule(prompt)
        if lines is None and self._turns:
            said = sum(message.role == "assistant" for message in request.messages)
            return self._turns[min(said, len(self._turns) - 1)]
        lines = lines or self._default
        if lines is None:
            return self._echo(prompt)
        return lines[0] if len(lines) == 1 else lines[_draw(request, b"reply", len(lines))]

    def _by_rule(self, prompt: str) -> list[ScriptLine] | None:
        for fits, lines in self._rules:
            if fits(prompt):
                return lines
        return None

    def _echo(self, prompt: str) -> ScriptLine:
        if self._model == "echo":
            return ScriptLine(prompt)
        raise Rejected(f"{self._name} has no reply for this prompt.", detail=prompt, hint="Add a default to its args.")

    def _seconds(self, request: Request) -> float:
        latency = self._latency
        if not latency.jitter:
            return latency.seconds
        salt = b"latency%d" % latency.seed
        return latency.seconds + latency.jitter * _draw(request, salt, 2**32) / 2**32

    def _fail_as_scripted(self, request: Request, prompt: str) -> None:
        for fits, rule, number in self._errors:
            if not fits(prompt) or not self._within_share(request, rule, number):
                continue
            kind = rule.kinds()[0]
            fault: ScriptedFault = getattr(rule, kind)
            key = (number, fingerprint(request))
            tried = self._tries[key] = self._tries.get(key, 0) + 1
            if fault.times is None or tried <= fault.times:
                raise _scripted_error(self._name, kind, fault)

    def _within_share(self, request: Request, rule: ErrorRule, number: int) -> bool:
        return rule.share >= 1 or _draw(request, b"error%d" % number, 2**32) < rule.share * 2**32


def open_scripted(spec: ModelSpec) -> ScriptedProvider:
    """A model that answers from a script, in this process; scripted/echo repeats what it is asked."""
    where = f"Model scripted/{spec.model}"
    script = read_script(where, spec.args)
    if spec.model != "echo" and not (script.replies or script.rules or script.turns or script.default is not None):
        raise ConfigurationError(
            f"{where} has no replies.",
            hint="Give args.replies, rules, turns or default, or use scripted/echo.",
        )
    return ScriptedProvider(spec.model, script)


def _last_prompt(messages: tuple[Message, ...]) -> str:
    """What a reply is about: the last message of the user, or the result of a tool that has come since."""
    for message in reversed(messages):
        if message.role in {"user", "tool"}:
            return message.text
    return messages[-1].text if messages else ""


def _matcher(match: Match) -> Fits:
    exact, contains, pattern = match.exact, match.contains, match.pattern()

    def fits(prompt: str) -> bool:
        return (
            (exact is None or prompt == exact)
            and (contains is None or contains in prompt)
            and (pattern is None or pattern.search(prompt) is not None)
        )

    return fits


def _script_line(reply: str | ScriptLine) -> ScriptLine:
    return ScriptLine(reply) if isinstance(reply, str) else reply


def _script_lines(reply: Lines) -> list[ScriptLine]:
    return [_script_line(item) for item in reply] if isinstance(reply, list) else [_script_line(reply)]


def _odd_reply(line: ScriptLine, said: str, usage: Usage | None, model: str) -> Reply:
    """A reply that is more than a text, or less."""
    finish = line.finish or ("tool_calls" if line.tool_calls else "stop")
    calls = tuple(_scripted_call(call, number) for number, call in enumerate(line.tool_calls, start=1))
    warnings = {UNKNOWN_USAGE: "The usage of the reply is scripted to be unknown."} if usage is None else {}
    if line.undecoded:
        warnings[ENCODING] = "The reply is scripted to be not valid UTF-8; it is not scored."
    return Reply(
        said,
        finish,
        usage,
        model,
        reasoning=line.reasoning,
        refusal=line.refusal,
        tool_calls=calls,
        undecoded=line.undecoded,
        warnings=warnings,
    )


def _scripted_call(call: ScriptedCall, number: int) -> ToolCall:
    arguments = call.arguments if isinstance(call.arguments, str) else msgspec.json.encode(call.arguments).decode()
    return ToolCall(call.id or f"call_{number}", call.name, arguments)


def _draw(request: Request, salt: bytes, bound: int) -> int:
    """A number below the bound that depends on the request and the salt only."""
    digest = hashlib.blake2b(fingerprint(request), digest_size=8, salt=salt[:16]).digest()
    return int.from_bytes(digest, "big") % bound


def _scripted_error(name: str, kind: str, fault: ScriptedFault) -> ModelError:
    state = "out of credit" if kind == "no_credit" else kind.replace("_", " ")
    said = fault.message or f"{name} is scripted to be {state}."
    if kind == "rate_limited":
        return RateLimited(said, status=fault.status or 429, retry_after=fault.retry_after)
    if kind == "unavailable":
        return Unavailable(said, status=fault.status or 503, retry_after=fault.retry_after)
    if kind == "no_credit":
        return Rejected(said, status=fault.status or 402, hint="Add credit, then resume.")
    if kind == "rejected":
        return Rejected(said, status=fault.status or 400)
    return Blocked(said, status=fault.status or 400)
