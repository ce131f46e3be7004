"""Any OpenAI-compatible chat endpoint: one `send` is exactly one HTTP request.

Nothing is retried here and no redirect is followed; the caller decides what a ModelError means. A cancelled `send`
closes its connection at once, so that the server stops working. Errors are raised without their cause: those of the
HTTP library hold the request's headers, and with them the key.
"""

from __future__ import annotations

import io

import aiohttp
from yarl import URL

from holdfast.errors import UsageError
from holdfast.models.errors import ModelError
from holdfast.models.finish_reasons import missing_reason
from holdfast.models.message import Reply, Request
from holdfast.models.openai.chat_format import RequestEncoder, decode_reply
from holdfast.models.openai.endpoint import Endpoint, OpenAIOptions, resolve_endpoint
from holdfast.models.openai.error_responses import from_status, reply_too_large
from holdfast.models.openai.presets import PRESETS, Preset
from holdfast.models.openai.transport_errors import from_transport
from holdfast.models.provider import read_options
from holdfast.spec import ModelSpec
from holdfast.version import __version__

# From this size on aiohttp wants a stream, so that one write does not hold the event loop.
_STREAMED = 1 << 20


class OpenAIProvider:
    """A connection pool to one chat endpoint; opened on the first `send`, in the loop that makes it."""

    takes_seed = True

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._name = endpoint.name
        self._url = URL(endpoint.url)
        self._encoder = RequestEncoder(endpoint.model, endpoint.max_tokens_field, endpoint.reasoning_field)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False
        self._gives_reasons = False
        """Whether its replies say why they end: one that does not was then broken off."""

    @property
    def address(self) -> str:
        """Where the model is reached, wherever that is set."""
        return self._endpoint.address

    async def send(self, request: Request) -> Reply:
        """Ask once. A reply comes back whole, or a ModelError says why it is missing."""
        session = self._session or self._open()
        body = self._encoder.encode(request)
        data = body if len(body) < _STREAMED else io.BytesIO(body)
        try:
            async with session.post(
                self._url, data=data, proxy=self._endpoint.proxy, allow_redirects=False
            ) as response:
                content = await self._read(response)
        except (aiohttp.ClientError, OSError) as error:
            failure = from_transport(self._endpoint, error)
        else:
            if 200 <= response.status < 300:
                return self._read_reply(response, content)
            failure = self._read_failure(response, content)
        raise failure

    def _read_reply(self, response: aiohttp.ClientResponse, content: bytes) -> Reply:
        reply = decode_reply(self._name, response.status, content, response.charset or "")
        if not reply.finish and self._gives_reasons:
            raise missing_reason(self._name, reply, response.status)
        self._gives_reasons = bool(reply.finish)
        return reply

    def _read_failure(self, response: aiohttp.ClientResponse, content: bytes) -> ModelError:
        status, headers, charset = response.status, response.headers, response.charset or ""
        return from_status(self._endpoint, status, headers, content, charset)

    async def close(self) -> None:
        """End every connection. Closing twice is harmless."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        if self._closed:
            raise UsageError(f"{self._name} was closed and cannot be asked any more.")
        endpoint = self._endpoint
        timeout = aiohttp.ClientTimeout(
            total=endpoint.total_seconds, connect=endpoint.connect_seconds, sock_read=endpoint.read_seconds
        )
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers={
                "User-Agent": f"holdfast/{__version__}",
                "Accept": "application/json",
                "Content-Type": "application/json",
                **endpoint.headers,
            },
            timeout=timeout,
        )
        return self._session

    async def _read(self, response: aiohttp.ClientResponse) -> bytes:
        stream = response.content
        content = await stream.readany()
        if stream.at_eof() and len(content) <= self._endpoint.max_reply_bytes:
            return content
        return await self._read_on(response, content)

    async def _read_on(self, response: aiohttp.ClientResponse, content: bytes) -> bytes:
        cap = self._endpoint.max_reply_bytes
        received = bytearray(content)
        while len(received) <= cap and not response.content.at_eof():
            received += await response.content.readany()
        if len(received) > cap:
            response.close()
            raise reply_too_large(self._name, response.content_length or len(received), cap)
        return bytes(received)


def open_openai(spec: ModelSpec) -> OpenAIProvider:
    """OpenAI, and with base_url any server that speaks its chat protocol."""
    return open_with_preset(spec, PRESETS["openai"])


def open_preset(spec: ModelSpec) -> OpenAIProvider:
    """The provider, set up for the service that `spec.provider` names."""
    return open_with_preset(spec, PRESETS[spec.provider])


def open_with_preset(spec: ModelSpec, preset: Preset) -> OpenAIProvider:
    """A provider for a named service; a ConfigurationError where something it needs is missing."""
    options = read_options(f"Model {spec.provider}/{spec.model}", spec.args, OpenAIOptions)
    return OpenAIProvider(resolve_endpoint(spec, preset, options))
