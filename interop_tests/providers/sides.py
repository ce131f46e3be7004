"""One request by the official client and by our provider, to the same recording server."""

import contextlib
import json
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import anthropic
import openai

from holdfast.models.catalogue import open_provider
from holdfast.models.message import Request
from holdfast.providers import ModelSpec, Provider
from holdfast.testing.wire_server import WireAnswer, WireServer, wire_server

KEY, VARIABLE, MODEL = "sk-oracle-0123456789abcdef", "HOLDFAST_ORACLE_KEY", "oracle-model"
HEADERS = ("accept", "content-type")
KEY_HEADERS = ("authorization", "x-api-key", "anthropic-version")
"""The headers that matter; the others say which program asks."""
Call = Callable[[Any], Awaitable[Any]]
"""One call of an official client."""


class Sent(NamedTuple):
    """What one side sent last."""

    body: Any
    headers: dict[str, str]
    key: dict[str, str]
    target: str


@contextlib.asynccontextmanager
async def serving(body: Any, status: int = 200, headers: dict[str, str] | None = None) -> AsyncIterator[WireServer]:
    async with wire_server(WireAnswer(json.dumps(body).encode(), status, headers or {})) as server:
        yield server


def client(api: str, server: WireServer, retries: int = 0) -> Any:
    """The official client, at the address of the server."""
    root = server.base_url.removesuffix("/v1")
    if api == "openai":
        return openai.AsyncOpenAI(api_key=KEY, base_url=f"{root}/v1", max_retries=retries)
    return anthropic.AsyncAnthropic(api_key=KEY, base_url=root, max_retries=retries)


def provider(api: str, server: WireServer, **args: Any) -> Provider:
    os.environ[VARIABLE] = KEY
    spec = ModelSpec(provider=api, model=MODEL, base_url=server.base_url, api_key_env=VARIABLE, args=args)
    return open_provider(spec)


async def call_client(api: str, call: Call, server: WireServer, retries: int = 0) -> Any:
    """What the client returns."""
    async with client(api, server, retries) as official:
        return await call(official)


async def call_provider(api: str, request: Request, server: WireServer, **args: Any) -> Any:
    """What the provider returns."""
    opened = provider(api, server, **args)
    try:
        return await opened.send(request)
    finally:
        await opened.close()


def last_sent(server: WireServer) -> Sent:
    headers = server.headers[-1]
    kept, key = ({name: headers.get(name, "") for name in names} for names in (HEADERS, KEY_HEADERS))
    return Sent(json.loads(server.bodies[-1]), kept, key, server.targets[-1])
