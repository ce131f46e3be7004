"""Compares what our providers send and read with the official clients of OpenAI and Anthropic, as oracles.

Both speak to the same recording server. A difference that is not listed in `differences.toml` is a fault, and so is one
that is listed and no longer there.
"""

import asyncio
import json
import sys
import tomllib
from collections.abc import AsyncIterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import anthropic_cases  # noqa: E402 - it lies beside this file
import openai_cases  # noqa: E402
from sides import call_client, call_provider, last_sent, serving  # noqa: E402

from holdfast.models.content import joined_text  # noqa: E402
from holdfast.models.message import Reply, Request  # noqa: E402
from holdfast.providers import Generation, Message, ModelError, PassingError  # noqa: E402

SUITES: dict[str, ModuleType] = {"openai": openai_cases, "anthropic": anthropic_cases}
STATUSES = (400, 401, 402, 403, 404, 408, 409, 413, 422, 425, 429, 500, 502, 503, 504, 529)
NO_CREDIT = {
    "insufficient_quota": {"message": "You exceeded your current quota.", "type": "insufficient_quota"},
    "enforced_spend_limit_reached": {
        "type": "rate_limit_error",
        "message": "Spend limit.",
        "details": {"error_code": "enforced_spend_limit_reached"},
    },
}


class Comparison(NamedTuple):
    """One thing as both sides have it."""

    name: str
    theirs: Any
    ours: Any


async def compare_requests(api: str, cases: ModuleType) -> AsyncIterator[Comparison]:
    """Body, headers and address of one request."""
    for name, case in cases.REQUESTS.items():
        async with serving(cases.RESPONSES["structured"]) as server:
            await call_client(api, case.call, server)
            theirs = last_sent(server)
            await call_provider(api, case.request, server, **case.args)
            ours = last_sent(server)
        yield Comparison(f"{api} sends: {name}", theirs.body, ours.body)
        yield Comparison(f"{api} headers: {name}", theirs.headers, ours.headers)
        yield Comparison(f"{api} address: {name}", theirs.target, ours.target)
        if name == "text":
            yield Comparison(f"{api} headers: key and version", theirs.key, ours.key)


async def compare_replies(api: str, cases: ModuleType) -> AsyncIterator[Comparison]:
    """What is read from one response."""
    for name, body in cases.RESPONSES.items():
        async with serving(body) as server:
            theirs = cases.parsed(await call_client(api, cases.first_call, server))
            ours = _read(api, await call_provider(api, Request((openai_cases.USER,)), server))
        yield Comparison(f"{api} reads: {name}", theirs, ours)


async def compare_turns(api: str, cases: ModuleType) -> AsyncIterator[Comparison]:
    """The second request of a conversation, made from what each side read in the first response."""
    generation = Generation(max_tokens=64) if api == "anthropic" else Generation()
    for name, body in cases.TURNS.items():
        async with serving(body) as server:
            said = await call_client(api, cases.first_call, server)
            await call_client(api, cases.second_call(said), server)
            theirs = last_sent(server).body
            reply = await call_provider(api, Request((openai_cases.USER,), generation), server)
            messages = (openai_cases.USER, reply.message, Message("tool", "2", tool_call_id="c1"))
            await call_provider(api, Request(messages, generation), server)
            ours = last_sent(server).body
        yield Comparison(f"{api} next turn: {name}", theirs, ours)


async def compare_errors(api: str, cases: ModuleType) -> AsyncIterator[Comparison]:
    """Whether an error is one that may pass: the official client then sends the request again by itself."""
    bodies = {f"{status}": (status, {"message": "No.", "type": "oracle"}) for status in STATUSES}
    bodies |= {f"429 {code}": (429, error) for code, error in NO_CREDIT.items()}
    for name, (status, error) in bodies.items():
        async with serving({"error": error}, status, {"retry-after-ms": "1"}) as server:
            await asyncio.gather(call_client(api, cases.first_call, server, retries=1), return_exceptions=True)
            theirs = len(server.bodies) > 1
            (ours,) = await asyncio.gather(
                call_provider(api, Request((openai_cases.USER,)), server), return_exceptions=True
            )
        if not isinstance(ours, ModelError):
            raise TypeError(f"{api} {name}: {ours!r}")
        yield Comparison(f"{api} may pass: {name}", theirs, isinstance(ours, PassingError))


def _read(api: str, reply: Reply) -> dict[str, Any]:
    usage = reply.usage
    calls = [(call.id, call.name, call.arguments) for call in reply.tool_calls]
    if api == "anthropic":
        calls = [(*call[:2], json.loads(call[2])) for call in calls]
    return {
        "text": joined_text(reply.content),
        "refusal": reply.refusal,
        "reasoning": reply.reasoning,
        "tool_calls": calls,
        "finish": reply.finish,
        "model": reply.model,
        "id": reply.id,
        "usage": usage and (usage.input_tokens, usage.output_tokens, usage.cached_input_tokens, usage.reasoning_tokens),
    }


async def compared() -> list[Comparison]:
    found = []
    for api, cases in SUITES.items():
        for compare in (compare_requests, compare_replies, compare_turns, compare_errors):
            found += [one async for one in compare(api, cases)]
    return found


def main() -> int:
    """Prints the table; 1 if something differs that is not listed, or is listed and does not."""
    listed = tomllib.loads((HERE / "differences.toml").read_text(encoding="utf-8"))
    found, seen, faults = asyncio.run(compared()), set(), 0
    for one in found:
        if one.theirs == one.ours:
            continue
        seen.add(one.name)
        if one.name in listed:
            print(f"differs, as listed: {one.name}: {listed[one.name]['reason']}")
            continue
        faults += 1
        print(f"DIFFERS: {one.name}\n  theirs {json.dumps(one.theirs)}\n  ours   {json.dumps(one.ours)}")
    for name in listed.keys() - seen:
        faults += 1
        print(f"LISTED, AND NO LONGER DIFFERENT: {name}")
    print("\n| compared | cases | equal |\n|---|---|---|")
    for kind in dict.fromkeys(one.name.partition(":")[0] for one in found):
        cases = [one for one in found if one.name.partition(":")[0] == kind]
        print(f"| {kind} | {len(cases)} | {sum(one.theirs == one.ours for one in cases)} |")
    print(f"\n{faults} faults.")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
