"""Bodies of the Messages API for tests, and one question to a server that answers with them."""

from __future__ import annotations

import asyncio
from typing import Any

from chat_server import QUESTION, Answer, Seen, answering, ask_once, chat_server

from holdfast.models import Reply, Request
from holdfast.spec import ModelSpec

USAGE = {"input_tokens": 7, "output_tokens": 2}


def message_body(*blocks: Any, **fields: Any) -> dict[str, Any]:
    """A whole body as the API sends it; the content is one text unless blocks are given."""
    content = list(blocks) or [{"type": "text", "text": "Paris", "citations": None}]
    body = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-tiny-2026", "content": content}
    return {**body, "stop_reason": "end_turn", "stop_sequence": None, "usage": USAGE, **fields}


def claude(seen: Seen, **fields: Any) -> ModelSpec:
    """The model, behind the server of a test."""
    return ModelSpec(provider="anthropic", model="claude-tiny", base_url=seen.base_url, **fields)


def ask_claude(answer: Answer | dict[str, Any], request: Request = QUESTION, **fields: Any) -> Reply:
    """One question to a server that answers like this."""

    async def go() -> Reply:
        async with chat_server(answering(answer) if isinstance(answer, dict) else answer) as seen:
            return await ask_once(claude(seen, **fields), request)

    return asyncio.run(go())


def sent_to_claude(request: Request = QUESTION, **fields: Any) -> dict[str, Any]:
    """The body of the request that goes out."""
    return exchange(request, **fields).body


def exchange(request: Request = QUESTION, **fields: Any) -> Seen:
    async def go() -> Seen:
        async with chat_server(answering(message_body())) as seen:
            await ask_once(claude(seen, **fields), request)
            return seen

    return asyncio.run(go())
