"""Real servers on 127.0.0.1 for the tests of providers: one that speaks HTTP well, and one that sends raw bytes."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from holdfast.models import Message, Provider, Reply, Request, open_provider
from holdfast.spec import Generation, ModelSpec

Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]
QUESTION = Request((Message("user", "Capital of France?"),), Generation(temperature=0.0, max_tokens=8))


@dataclass
class Seen:
    """What a server saw, and where it is."""

    base_url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def body(self) -> Any:
        return json.loads(self.bodies[-1])

    def spec(self, **fields: Any) -> ModelSpec:
        return ModelSpec(provider="openai", model="tiny", base_url=self.base_url, **fields)


@contextlib.asynccontextmanager
async def chat_server(answer: Answer) -> AsyncIterator[Seen]:
    """A server that records each request and then answers as it is told."""
    seen = Seen()

    async def handle(request: web.Request) -> web.StreamResponse:
        seen.bodies.append(await request.read())
        seen.headers.append(dict(request.headers))
        seen.targets.append(f"{request.method} {request.path_qs}")
        return await answer(request)

    app = web.Application(client_max_size=2**30)
    app.router.add_route("*", "/{tail:.*}", handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    seen.base_url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield seen
    finally:
        await runner.cleanup()


@contextlib.asynccontextmanager
async def raw_server(pieces: list[bytes], pause: float = 0.0, *, hold: bool = False) -> AsyncIterator[Seen]:
    """A server that reads a request and then sends these bytes, whatever they are; with `hold` it then waits."""
    seen = Seen()
    tasks: set[asyncio.Task[Any]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.add(asyncio.current_task())
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await _read_request(reader)
            seen.arrived.set()
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                await asyncio.sleep(pause)
            if hold:
                await reader.read()
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0)
    seen.base_url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
    try:
        yield seen
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks)


async def _read_request(reader: asyncio.StreamReader) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.lower().split(b"\r\n"):
        if line.startswith(b"content-length:"):
            await reader.readexactly(int(line.split(b":")[1]))


@contextlib.asynccontextmanager
async def opened(spec: ModelSpec) -> AsyncIterator[Provider]:
    provider = open_provider(spec)
    try:
        yield provider
    finally:
        await provider.close()


async def ask_once(spec: ModelSpec, request: Request = QUESTION) -> Reply:
    async with opened(spec) as provider:
        return await provider.send(request)


def ask(answer: Answer, request: Request = QUESTION, **fields: Any) -> Reply:
    """One question to a server that answers like this."""

    async def go() -> Reply:
        async with chat_server(answer) as seen:
            return await ask_once(seen.spec(**fields), request)

    return asyncio.run(go())


def ask_raw(pieces: list[bytes], pause: float = 0.0, *, hold: bool = False, **fields: Any) -> Reply:
    """One question to a server that sends these bytes."""

    async def go() -> Reply:
        async with raw_server(pieces, pause, hold=hold) as seen:
            return await ask_once(seen.spec(**fields))

    return asyncio.run(go())


def answering(body: Any, status: int = 200, headers: dict[str, str] | None = None, kind: str = "") -> Answer:
    """An answer with this body: JSON unless it is bytes or text already."""
    raw = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else json.dumps(body).encode()

    async def answer(_request: web.Request) -> web.StreamResponse:
        return web.Response(body=raw, status=status, headers=headers, content_type=kind or "application/json")

    return answer


def completion(content: Any = "Paris", **fields: Any) -> dict[str, Any]:
    """A complete body as servers send it; fields of the choice may be given, or `usage`, `model`, `id`."""
    choice = {"index": 0, "message": {"role": "assistant", "content": content}, "finish_reason": "stop"}
    outer = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "tiny-2024"}
    usage = {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9}
    body = {**outer, "choices": [choice], "usage": usage}
    for name, value in fields.items():
        (body if name in body else choice)[name] = value
    return body
