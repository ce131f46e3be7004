"""A request that brought no whole answer becomes a ModelError that says in one sentence what happened."""

from __future__ import annotations

import os
from urllib.parse import urlsplit

import aiohttp

from holdfast.models.errors import OTHER_ADDRESS, THIS_MODEL, ModelError, Rejected, Unavailable, excerpt
from holdfast.models.http.endpoint import Endpoint


def from_transport(endpoint: Endpoint, error: aiohttp.ClientError | OSError) -> ModelError:
    """The error for a request that failed below the level of HTTP statuses."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return _from_proxy(endpoint, error)
    if isinstance(error, aiohttp.InvalidURL):
        return Rejected(f"{endpoint.name} has no valid address.", detail=str(error), hint="Check base_url.")
    if isinstance(error, aiohttp.ClientSSLError) and _is_plain_http(error):
        return _from_plain_http(endpoint)
    what, hint = _describe(endpoint, error)
    return Unavailable(f"{endpoint.name} {what}.", hint=hint, setting=OTHER_ADDRESS if "base_url" in hint else "")


def _from_proxy(endpoint: Endpoint, error: aiohttp.ClientHttpProxyError) -> ModelError:
    kind = Rejected if 400 <= error.status < 500 else Unavailable
    said = excerpt(error.message, 200)
    return kind(f"{endpoint.name}: the proxy answered {error.status} {said}".rstrip() + ".", status=error.status)


_NOT_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""How versions of OpenSSL call bytes that are no TLS at all."""


def _is_plain_http(error: aiohttp.ClientSSLError) -> bool:
    """Whether the other side has answered the greeting of TLS with something else."""
    reason = str(getattr(getattr(error, "os_error", None), "reason", "") or "")
    return reason.upper().replace(" ", "_") in _NOT_TLS


def _from_plain_http(endpoint: Endpoint) -> Rejected:
    """Waiting does not help: the address is wrong."""
    base = endpoint.url.replace("https://", "http://", 1).rpartition("/v1/")[0]
    setting = f"{THIS_MODEL}.base_url={base}/v1" if base else ""
    hint = f"Set {setting.replace('=', ': ', 1)}." if setting else "Write http:// in base_url."
    return Rejected(f"{endpoint.name} at {_host_of(endpoint.url)} speaks http, not https.", hint=hint, setting=setting)


def _describe(endpoint: Endpoint, error: aiohttp.ClientError | OSError) -> tuple[str, str]:
    if isinstance(error, TimeoutError):
        return _describe_timeout(endpoint, error)
    if isinstance(error, aiohttp.ClientConnectorError):
        return _describe_connection(endpoint, error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "closed the connection without an answer", ""
    if isinstance(error, aiohttp.ClientPayloadError):
        return "broke off its answer half-way, or garbled it", ""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"sent something that is not HTTP ({excerpt(error.message, 120)})", ""
    return f"lost the connection ({_os_reason(error)})", ""


def _describe_timeout(endpoint: Endpoint, error: TimeoutError) -> tuple[str, str]:
    if isinstance(error, aiohttp.ConnectionTimeoutError):
        return f"could not be reached at {_host_of(endpoint.url)} within {endpoint.connect_seconds:g} s", ""
    if isinstance(error, aiohttp.SocketTimeoutError):
        return f"sent nothing for {endpoint.read_seconds:g} s", "Raise timeouts.read if it needs longer."
    limit = f"{endpoint.total_seconds:g} s"
    return f"had not finished its answer after {limit}", "Raise timeouts.total if it needs longer."


def _describe_connection(endpoint: Endpoint, error: aiohttp.ClientConnectorError) -> tuple[str, str]:
    host = _host_of(endpoint.url)
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return f"cannot be reached: no connection to the proxy {_host_of(endpoint.proxy or '')}", ""
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"cannot be reached: the host name {host.rpartition(':')[0] or host} does not resolve", "Check base_url."
    if isinstance(error, aiohttp.ClientSSLError):
        return (
            f"cannot be trusted: TLS with {host} failed ({_os_reason(error)})",
            "Check base_url and certificates.",
        )
    return f"cannot be reached at {host} ({_os_reason(error)})", "Check that the server runs, and base_url."


def _os_reason(error: BaseException) -> str:
    inner = getattr(error, "os_error", None) or getattr(error, "certificate_error", None) or error
    if isinstance(inner, ConnectionError) and inner.errno:
        return os.strerror(inner.errno).lower()
    words = getattr(inner, "strerror", None) or str(inner) or type(inner).__name__
    return excerpt(words, 120)


def _host_of(url: str) -> str:
    # Without user name and password, which a proxy's address may hold.
    return urlsplit(url).netloc.rpartition("@")[2]
