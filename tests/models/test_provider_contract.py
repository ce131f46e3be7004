"""The contract that every provider keeps: ours pass it, and each of its checks can fail."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import ClassVar

import aiohttp
import pytest

from holdfast.models.anthropic.provider import open_anthropic
from holdfast.models.catalogue import open_provider
from holdfast.models.content import ToolCall
from holdfast.models.errors import Rejected
from holdfast.models.local import provider as local_provider
from holdfast.models.local.options import LocalOptions
from holdfast.models.local.provider import LocalProvider
from holdfast.models.message import Reply, Usage
from holdfast.models.openai.provider import open_openai, open_preset
from holdfast.models.provider import read_options
from holdfast.spec import ModelSpec
from holdfast.testing import ContractBroken, HttpProviderContract, ProviderContract, Scene


def chat_body(scene: Scene) -> dict:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in scene.tool_calls
    ]
    message = {"role": "assistant", "content": scene.text or None, "tool_calls": calls or None}
    usage = {"prompt_tokens": scene.usage.input_tokens, "completion_tokens": scene.usage.output_tokens}
    return {
        "id": "chatcmpl-1",
        "model": scene.model,
        "choices": [{"index": 0, "message": message, "finish_reason": scene.finish}],
        "usage": usage,
    }


class TestOpenAI(HttpProviderContract):
    """The chat protocol."""

    provider, opener = "openai", staticmethod(open_openai)

    def reply_body(self, scene):
        return chat_body(scene)


class TestPreset(TestOpenAI):
    """A service that speaks the same."""

    provider, opener = "together", staticmethod(open_preset)


class TestAnthropic(HttpProviderContract):
    """The Messages API."""

    provider, opener = "anthropic", staticmethod(open_anthropic)
    reasons: ClassVar = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}

    def reply_body(self, scene):
        text = [{"type": "text", "text": scene.text}] if scene.text else []
        calls = [
            {"type": "tool_use", "id": call.id, "name": call.name, "input": {"query": "Paris"}}
            for call in scene.tool_calls
        ]
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": scene.model,
            "content": [*text, *calls],
            "stop_reason": self.reasons[scene.finish],
            "usage": {"input_tokens": scene.usage.input_tokens, "output_tokens": scene.usage.output_tokens},
        }

    def error_body(self, scene):
        return {"type": "error", "error": {"type": "api_error", "message": scene.message}, "request_id": "r"}


class TestLocal(HttpProviderContract):
    """llama.cpp is played by the contract's server; the real one has tests of its own."""

    provider, sends_key = "local", False

    @pytest.fixture(autouse=True)
    def _weights(self, tmp_path, monkeypatch):
        self.weights = tmp_path / "tiny.gguf"
        self.weights.write_bytes(b"GGUF")
        self.monkeypatch = monkeypatch

    def open_at(self, base_url, **fields):
        async def start(_options, _seconds):
            async def nothing():
                return None

            address = base_url.removesuffix("/v1")
            return SimpleNamespace(address=address, key="k", running=True, log="", ended=nothing, end=nothing)

        self.monkeypatch.setattr(local_provider.LlamaProcess, "start", start)
        spec = ModelSpec(provider="local", model="tiny", **fields)
        options = read_options("Model local/tiny", spec.args, LocalOptions)
        return LocalProvider(spec, options, self.weights)

    def reply_body(self, scene):
        return chat_body(scene)


class TestScripted(ProviderContract):
    """A model in this process."""

    kinds: ClassVar = {429: "rate_limited", 400: "rejected", 401: "rejected"}

    @contextlib.asynccontextmanager
    async def playing(self, scene):
        calls = [{"id": call.id, "name": call.name, "arguments": call.arguments} for call in scene.tool_calls]
        args = {"default": {"text": scene.text, "finish": scene.finish, "tool_calls": calls}}
        if scene.status >= 400:
            fault = {"status": scene.status, "message": scene.message}
            fault |= {} if scene.retry_after is None else {"retry_after": scene.retry_after}
            args["errors"] = [{self.kinds.get(scene.status, "unavailable"): fault}]
        yield open_provider(ModelSpec(provider="scripted", model=scene.model, args=args))

    def open_with_options(self, args):
        return open_provider(ModelSpec(provider="scripted", model="echo", args=args))


# A provider that breaks the contract is found out.

Send = Callable[..., Awaitable[Reply]]
PLAIN = Reply("Paris", "stop", Usage(7, 2), "served-model-2")


class Careless(ProviderContract):
    """A provider that does the same whatever happens."""

    def __init__(self, found: Reply | Exception) -> None:
        self.found = found

    @contextlib.asynccontextmanager
    async def playing(self, scene):  # noqa: ARG002 - it does not care
        async def send(_request):
            if isinstance(self.found, Exception):
                raise self.found
            return self.found

        async def close():
            pass

        yield SimpleNamespace(send=send, close=close, takes_response_schema="yes")

    def open_with_options(self, args):
        return SimpleNamespace(**args)


@pytest.mark.parametrize(
    ("check", "found"),
    [
        ("test_a_plain_reply", Reply("Lyon", "stop")),
        ("test_usage_is_counted_or_unknown", Reply("Paris", "stop", Usage(-1, 2))),
        ("test_usage_is_counted_or_unknown", Reply("Paris", "stop", {"input_tokens": 1})),
        ("test_a_finish_reason_has_its_usual_spelling", PLAIN),
        ("test_the_served_name_is_reported", Reply("Paris", "stop", None, "tiny")),
        ("test_tool_calls_make_a_round_trip", PLAIN),
        ("test_tool_calls_make_a_round_trip", Reply("", "tool_calls", tool_calls=(ToolCall("", "x", "{}"),))),
        ("test_a_response_schema_is_declared_and_taken", PLAIN),
        ("test_an_image_is_taken_or_refused", Rejected("No.")),
        ("test_a_rate_limit_is_waited_out", Rejected("slow", status=429)),
        ("test_a_rate_limit_is_waited_out", PLAIN),
        ("test_an_outage_may_pass", Rejected("down", status=503)),
        ("test_a_refused_key_closes_the_model", Rejected("key")),
        ("test_a_refused_request_is_not_retried", Rejected("contract says yes", status=400)),
        ("test_an_unknown_option_is_refused", PLAIN),
        ("test_many_requests_at_once", Reply("Lyon", "stop")),
    ],
)
def test_a_careless_provider_breaks_the_contract(check, found):
    """Each check of the contract fails for a provider that does not care."""
    with pytest.raises(ContractBroken):
        getattr(Careless(found), check)()


class Naive:
    """A provider over HTTP as it is written in an afternoon."""

    takes_response_schema = True

    def __init__(self, spec: ModelSpec) -> None:
        self._url, self._key = f"{spec.base_url}/chat", os.environ.get(spec.api_key_env or "", "")
        self._tasks: list[asyncio.Task] = []

    async def send(self, request):
        self._tasks.append(asyncio.create_task(self._post([message.text for message in request.messages[-1:]])))
        status, body = await asyncio.shield(self._tasks[-1])
        if status == 200:
            return Reply(json.loads(body)["text"][:1000].replace("\0", ""), "stop", model="tiny")
        if status >= 500:
            await self._post([])
        raise Rejected("It failed.") from ValueError(f"{self._key} {body!r}")

    async def _post(self, texts):
        async with aiohttp.ClientSession() as session, session.post(self._url, json=texts) as response:
            return response.status, await response.text()

    async def close(self):
        """Forgets to."""


class CarelessHttp(HttpProviderContract):
    """The contract for it."""

    provider, opener = "naive", Naive

    def reply_body(self, scene):
        return {"text": scene.text}


HTTP_CHECKS = [name for name in vars(HttpProviderContract) if name.startswith("test_")]


@pytest.mark.parametrize("check", HTTP_CHECKS)
def test_a_naive_provider_over_http_breaks_the_contract(check, monkeypatch):
    """Each check of a provider over HTTP fails for one that does nothing about it."""
    monkeypatch.setattr("holdfast.testing.http_provider_contract._SECONDS", 2.0)
    with pytest.raises(ContractBroken):
        getattr(CarelessHttp(), check)()
