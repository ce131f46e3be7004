"""A chat server in a process of its own, which counts: how often each distinct request came, and what became of it.

Every test has a space of its own on it (the first part of the path), with its own behaviour and counts. A reply
depends on the prompt alone. As a program it prints its port and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import random
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from typing import Any

HUGE_BYTES = 50 * 2**20
PATIENCE_SECONDS = 120.0


class Space:
    """The behaviour that one test asked for, and what happened."""

    def __init__(self) -> None:
        self.behaviour: dict[str, Any] = {}
        self.requests: dict[str, dict[str, Any]] = {}
        self.in_flight = self.most_in_flight = self.passing = self.drawn = 0
        self.held = asyncio.Event()
        self.held.set()

    def configure(self, behaviour: dict[str, Any]) -> None:
        """Takes a new behaviour; `hold` keeps replies back until a behaviour without it comes."""
        self.behaviour = behaviour
        self.passing = behaviour.get("pass", 0)
        if behaviour.get("hold"):
            self.held.clear()
        else:
            self.held.set()

    async def pass_hold(self) -> None:
        """Returns for the first so many that may pass; for the others when replies are no longer kept back.

        Nobody passes before `together` requests have been in flight at once.
        """
        while self.most_in_flight < self.behaviour.get("together", 0):  # noqa: ASYNC110 - many may wait, for any number
            await asyncio.sleep(0.005)
        if self.passing > 0:
            self.passing -= 1
        else:
            await self.held.wait()

    def entry(self, body: dict[str, Any]) -> dict[str, Any]:
        digest = hashlib.blake2b(json.dumps(body, sort_keys=True).encode(), digest_size=8).hexdigest()
        fresh = {
            "prompt": _prompt(body),
            "seed": body.get("seed"),
            "model": body.get("model"),
            "received": 0,
            "answered": 0,
            "aborted": 0,
            "refused": 0,
            "tries": 0,
        }
        return self.requests.setdefault(digest, fresh)

    def totals(self) -> dict[str, int]:
        names = ("received", "answered", "aborted", "refused")
        totals = {name: sum(entry[name] for entry in self.requests.values()) for name in names}
        return {**totals, "in_flight": self.in_flight, "most_in_flight": self.most_in_flight}


def drawn_by(seed: int | None) -> int:
    """What a request with this seed draws, below 100: the same whenever it is asked."""
    return random.Random(seed).randrange(100)


def _prompt(body: dict[str, Any]) -> str:
    return next(message["content"] for message in reversed(body["messages"]) if message["role"] == "user")


def completion(text: str, prompt: str) -> dict[str, Any]:
    """A whole answer; tokens are words."""
    usage = {"prompt_tokens": len(prompt.split()), "completion_tokens": len(text.split())}
    message = {"role": "assistant", "content": text}
    return {"model": "counting", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


def _broken(kind: str, prompt: str) -> tuple[bytes, str]:
    """The body of an answer with status 200 that holds no usable reply."""
    huge = completion("x" * HUGE_BYTES, prompt)
    bodies = {
        "not_json": (b"I am no JSON", "text/plain"),
        "html": (b"<!doctype html><html><title>Gateway problem</title></html>", "text/html"),
        "empty": (b"", "application/json"),
        "wrong_shape": (b'{"choices": "none"}', "application/json"),
        "no_choices": (b'{"object": "chat.completion"}', "application/json"),
        "a_list": (b"[1, 2, 3]", "application/json"),
        "nul": (b"\x00" * 64, "application/json"),
    }
    return (json.dumps(huge).encode(), "application/json") if kind == "huge" else bodies[kind]


async def _answer(space: Space, request: Any, web: Any) -> Any:
    body = await request.json()
    entry = space.entry(body)
    entry["received"] += 1
    entry["tries"] += 1
    space.in_flight += 1
    space.most_in_flight = max(space.in_flight, space.most_in_flight)
    try:
        return await _respond(space.behaviour, space, entry, request, web)
    except asyncio.CancelledError:
        entry["aborted"] += 1
        raise
    finally:
        space.in_flight -= 1


async def _respond(behaviour: dict[str, Any], space: Space, entry: dict[str, Any], request: Any, web: Any) -> Any:
    prompt = entry["prompt"]
    chosen = prompt in behaviour.get("refuse_only", [prompt])
    chosen = chosen and entry["model"] in behaviour.get("refuse_models", [entry["model"]])
    if chosen and entry["tries"] <= behaviour.get("refuse_times", 0):
        entry["refused"] += 1
        headers = {"Retry-After": str(behaviour.get("retry_after", 0.01))}
        about = {"message": behaviour.get("said", "not now"), "code": behaviour.get("error_code")}
        said = json.dumps({"error": about}).encode()
        return web.Response(
            body=said, status=behaviour["refuse_status"], headers=headers, content_type="application/json"
        )
    # What a request draws and how long it takes must not go together.
    jitter = random.Random(repr(entry["seed"])).random() * behaviour.get("jitter", 0.0)
    await asyncio.sleep(behaviour.get("latency", 0.0) + jitter)
    await space.pass_hold()
    entry["answered"] += 1
    kind = behaviour.get("broken")
    if "bodies" in behaviour:
        return _scripted_body(behaviour["bodies"], entry, web)
    if kind == "half":
        return await _half(request, web, prompt)
    if kind:
        raw, content_type = _broken(kind, prompt)
        return web.Response(body=raw, content_type=content_type)
    # Dumped here and not by the server: lone surrogates must go out as they are, escaped.
    space.drawn += 1
    text = behaviour.get("replies", {}).get(entry["model"], behaviour.get("reply", prompt.upper()))
    if behaviour.get("drawing"):
        text = f"draw {space.drawn}"
    elif behaviour.get("seeded"):
        text = f"draw {drawn_by(entry['seed'])}"
    names = behaviour.get("models") or [behaviour.get("model", "counting")]
    whole = completion(text, prompt) | {"model": names[(space.drawn - 1) % len(names)]}
    return web.Response(body=json.dumps(whole).encode(), content_type="application/json")


def _scripted_body(bodies: list[dict[str, Any]], entry: dict[str, Any], web: Any) -> Any:
    """The n-th of these answers to the n-th try of a request, and then the last one: its bytes in hex, or its JSON."""
    answer = bodies[min(entry["tries"], len(bodies)) - 1]
    raw = bytes.fromhex(answer["hex"]) if "hex" in answer else json.dumps(answer["json"]).encode()
    headers = {"Content-Type": "application/json", **answer.get("headers", {})}
    return web.Response(body=raw, status=answer.get("status", 200), headers=headers)


async def _half(request: Any, web: Any, prompt: str) -> Any:
    """The first half of an answer, and then the end of the connection."""
    raw = json.dumps(completion(prompt.upper(), prompt)).encode()
    response = web.StreamResponse(headers={"Content-Length": str(len(raw)), "Content-Type": "application/json"})
    await response.prepare(request)
    await response.write(raw[: len(raw) // 2])
    request.transport.abort()
    return response


async def _serve() -> None:
    from aiohttp import web  # noqa: PLC0415 - the tests themselves do not need it

    spaces: defaultdict[str, Space] = defaultdict(Space)

    async def chat(request: web.Request) -> web.StreamResponse:
        return await _answer(spaces[request.match_info["space"]], request, web)

    async def totals(request: web.Request) -> web.Response:
        return web.json_response(spaces[request.match_info["space"]].totals())

    async def requests(request: web.Request) -> web.Response:
        return web.json_response(list(spaces[request.match_info["space"]].requests.values()))

    async def configure(request: web.Request) -> web.Response:
        spaces[request.match_info["space"]].configure(await request.json())
        return web.json_response({})

    app = web.Application(client_max_size=2**28)
    app.router.add_post("/{space}/v1/chat/completions", chat)
    app.router.add_get("/{space}/totals", totals)
    app.router.add_get("/{space}/requests", requests)
    app.router.add_post("/{space}/behaviour", configure)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


class CountingServer:
    """One space on the server, as a test sees it."""

    def __init__(self, port: int, space: str) -> None:
        self._address = f"http://127.0.0.1:{port}/{space}"
        self.base_url = f"{self._address}/v1"

    def behave(self, **behaviour: Any) -> None:
        """From now on: `latency`, `hold` (after `pass` replies), `refuse_status`, `refuse_times`, `broken`, `reply`.

        `replies` are by the model that is asked; with `refuse_models`, only these are refused.

        With `bodies`, the tries of each request get these answers in turn; `sent` makes one.

        `model` is the name that it reports; of several `models`, each reply has the next.

        With `drawing`, no two replies are the same; with `seeded`, they follow from the request's seed, and with
        `jitter` the time that they take does.
        """
        data = json.dumps(behaviour).encode()
        urllib.request.urlopen(urllib.request.Request(f"{self._address}/behaviour", data=data), timeout=30).close()

    def state(self) -> dict[str, int]:
        """How many requests were received, answered, aborted, refused, and are in flight."""
        return self._get("totals")

    def _get(self, what: str) -> Any:
        with urllib.request.urlopen(f"{self._address}/{what}", timeout=30) as response:
            return json.load(response)

    def wait_for(self, **counts: int) -> dict[str, int]:
        """The state once every count is at least what is asked for."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            state = self.state()
            if all(state[name] >= count for name, count in counts.items()):
                return state
            if time.monotonic() > deadline:
                raise AssertionError(f"the server never saw {counts}: {state}")
            time.sleep(0.01)

    def wait_until_idle(self) -> dict[str, int]:
        """The state once no request is in flight."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (state := self.state())["in_flight"]:
            if time.monotonic() > deadline:
                raise AssertionError(f"the server never fell idle: {state}")
            time.sleep(0.01)
        return state

    def by_seed(self) -> dict[int, int]:
        """How often the request with each seed was worked on; refused tries are not."""
        return {entry["seed"]: entry["received"] - entry["refused"] for entry in self._get("requests")}

    def by_model(self) -> dict[str, list[int]]:
        """By the model that was asked, how often each of its requests was worked on; refused tries are not."""
        found: dict[str, list[int]] = {}
        for entry in self._get("requests"):
            found.setdefault(entry["model"], []).append(entry["received"] - entry["refused"])
        return found

    def worked_on(self) -> dict[str, int]:
        """How often each prompt was worked on; refused tries are not."""
        return {entry["prompt"]: entry["received"] - entry["refused"] for entry in self._get("requests")}


def sent(body: Any, status: int = 200, **headers: Any) -> dict[str, Any]:
    """An answer for the server to give: bytes as they are, anything else as JSON."""
    content = {"hex": body.hex()} if isinstance(body, bytes) else {"json": body}
    named = {name.replace("_", "-"): str(value) for name, value in headers.items()}
    return {**content, "status": status, "headers": named}


@contextlib.contextmanager
def counting_server():
    """A running server; gives the function that makes a space on it."""
    process = subprocess.Popen([sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        port = int(process.stdout.readline())
        yield lambda space: CountingServer(port, space)
    finally:
        process.stdin.close()
        process.wait(30)
        process.stdout.close()


if __name__ == "__main__":
    asyncio.run(_serve())
