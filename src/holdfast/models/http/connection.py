"""One HTTP request to a model and its whole answer.

Nothing is retried here and no redirect is followed; the caller decides what a ModelError means. A request that is
cancelled closes its connection at once, so that the server stops working. Errors are raised without their cause: those
of the HTTP library hold the request's headers, and with them the key.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import NamedTuple

import aiohttp
from yarl import URL

from holdfast.errors import UsageError
from holdfast.models.http.endpoint import Endpoint
from holdfast.models.http.error_responses import reply_too_large
from holdfast.models.http.transport_errors import from_transport
from holdfast.version import __version__

# From this size on aiohttp wants a stream, so that one write does not hold the event loop.
_STREAMED = 1 << 20


class HttpAnswer(NamedTuple):
    """What a server answered."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    charset: str
    """The encoding that its header names; empty where it names none."""

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300


class HttpConnection:
    """A connection pool to one endpoint; opened on the first request, in the loop that makes it."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint, self._url = endpoint, URL(endpoint.url)
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    async def post(self, body: bytes) -> HttpAnswer:
        """Send once. An answer comes back whole, whatever its status, or a ModelError says why there is none."""
        session = self._session or self._open()
        data = body if len(body) < _STREAMED else io.BytesIO(body)
        try:
            async with session.post(
                self._url, data=data, proxy=self._endpoint.proxy, allow_redirects=False
            ) as response:
                content = await self._read(response)
        except (aiohttp.ClientError, OSError) as error:
            failure = from_transport(self._endpoint, error)
        else:
            return HttpAnswer(response.status, response.headers, content, response.charset or "")
        raise failure

    async def close(self) -> None:
        """End every connection. Closing twice is harmless."""
        self._closed = True
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    def _open(self) -> aiohttp.ClientSession:
        endpoint = self._endpoint
        if self._closed:
            raise UsageError(f"{endpoint.name} was closed and cannot be asked any more.")
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
            raise reply_too_large(self._endpoint.name, response.content_length or len(received), cap)
        return bytes(received)
