"""Where a model is reached over HTTP and with what: decided once, when the provider is opened.

A key is read from the environment under the name the configuration gives; it appears in no message.
A service's key goes to the service's own address, and to one that the environment names beside the key: with another
`base_url`, `api_key_env` names the key.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.env_file import names_from_file
from holdfast.models.http.service import Service
from holdfast.models.redaction import known_secrets, read_key
from holdfast.spec import ModelSpec
from holdfast.spec.loading.key_detection import has_credentials, is_key_name
from holdfast.spec.schema.model import CONNECT_SECONDS, READ_SECONDS, TOTAL_SECONDS

REPLY_BYTES = 64 * 2**20
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class Endpoint(msgspec.Struct, frozen=True):
    """An address that answers for one model, ready to be called."""

    name: str
    url: str
    model: str
    headers: dict[str, str]
    connect_seconds: float
    read_seconds: float
    total_seconds: float
    proxy: str | None = None
    max_reply_bytes: int = REPLY_BYTES
    key_variable: str = ""
    """The environment variable that the key comes from; empty where no key is sent."""
    route: str = ""
    """The end of the URL that is the protocol's."""

    @property
    def address(self) -> str:
        """The address as an eval file gives it: without the route of the protocol."""
        parts = urlsplit(self.url)
        return parts._replace(path=parts.path.removesuffix(self.route), query="").geturl()


class Address(msgspec.Struct, frozen=True):
    """The URL of a model, and whether it is its service's own."""

    url: str
    is_home: bool
    is_named: bool = False
    """Whether a variable of the environment names it."""


def resolve_address(
    spec: ModelSpec, service: Service, query: str = "", environment: Mapping[str, str] = os.environ
) -> Address:
    """Where requests to a model go; a ConfigurationError says what is wrong with its address.

    `query` is that of the URL, if the address does not bring its own.
    """
    name = model_name(spec)
    named = "" if spec.base_url else environment.get(service.base_url_env, "").strip()
    base_url = (spec.base_url or named or service.base_url).rstrip("/")
    url = _route_url(name, base_url, service, query)
    is_home = not service.base_url or url == _route_url(name, service.base_url, service, query)
    return Address(url, is_home, bool(named))


def resolve_endpoint(
    spec: ModelSpec,
    service: Service,
    address: Address,
    max_reply_bytes: int,
    environment: Mapping[str, str] = os.environ,
) -> Endpoint:
    """The endpoint of a model; a ConfigurationError names what is missing and how to supply it."""
    name = model_name(spec)
    key_variable = spec.api_key_env or (service.api_key_env if address.is_home else "")
    if not key_variable and address.is_named and environment.get(service.api_key_env):
        key_variable = _key_for_named_address(name, service)
    key, own = _key_header(name, key_variable, service, environment), _own_headers(name, spec.headers)
    given = {header.lower() for header in own}
    usual = {header: value for header, value in service.headers.items() if header.lower() not in given}
    return Endpoint(
        name=name,
        url=address.url,
        model=spec.model,
        headers={**usual, **key, **own},
        connect_seconds=spec.timeouts.connect or CONNECT_SECONDS,
        read_seconds=spec.timeouts.read or READ_SECONDS,
        total_seconds=spec.timeouts.total or TOTAL_SECONDS,
        proxy=_proxy_address(name, spec.proxy, address.url),
        max_reply_bytes=max_reply_bytes,
        key_variable=key_variable,
        route=service.version_path + service.route,
    )


def _key_for_named_address(name: str, service: Service) -> str:
    """The variable of the key for an address that a variable names, as the service's own library takes both.

    Raises:
        ConfigurationError: the file `.env` would send a key of the person's environment to an address of its own.
    """
    if service.base_url_env in names_from_file and service.api_key_env not in names_from_file:
        raise ConfigurationError(
            f"{name}: {service.base_url_env} is set in a file .env, and {service.api_key_env} is not: the key would go"
            " to an address that somebody else may have written.",
            hint=f"Set {service.base_url_env} in the environment, or name the key for that address in api_key_env.",
        )
    return service.api_key_env


def model_name(spec: ModelSpec) -> str:
    """The model as messages name it."""
    return f"{spec.provider}/{spec.model}"


def _route_url(name: str, base_url: str, service: Service, query: str) -> str:
    if not base_url:
        raise ConfigurationError(f"{name} has no base_url.", hint=f"Set it, for example to {service.base_url_example}.")
    parts = _split_url(base_url)
    if parts is None:
        raise ConfigurationError(
            f"{name}: base_url is not an http or https address.", hint="Write it in full, as in https://host/v1."
        )
    if has_credentials(base_url):
        raise ConfigurationError(
            f"{name}: base_url holds a key or password.",
            hint="Put the key in a variable; name it in api_key_env.",
        )
    path = parts.path.rstrip("/") or service.base_path
    if not path.endswith(service.route):
        path = (path if path.endswith(service.version_path) else path + service.version_path) + service.route
    return parts._replace(path=path, query=query or parts.query, fragment="").geturl()


def _split_url(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        usable = parts.scheme in {"http", "https"} and bool(host) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _key_header(name: str, variable: str, service: Service, environment: Mapping[str, str]) -> dict[str, str]:
    if not variable:
        return {}
    key = read_key(name, variable, environment)
    return {service.key_header: f"Bearer {key}" if service.key_header == "Authorization" else key}


def _own_headers(name: str, headers: Mapping[str, str]) -> Mapping[str, str]:
    for header, value in headers.items():
        if is_key_name(header) or header.lower() == "cookie":
            raise ConfigurationError(
                f"{name}: the header {header} would hold a key in plain sight.",
                hint="Put the key in a variable; name it in api_key_env.",
            )
        if not (header + value).isprintable() or not header.isascii():
            raise ConfigurationError(f"{name}: no HTTP header can carry what is given for {header!r}.")
    return headers


def _proxy_address(name: str, proxy: str | None, url: str) -> str | None:
    if proxy is not None:
        if _split_url(proxy) is None:
            raise ConfigurationError(f"{name}: proxy is not an http or https address.", hint="Write it in full.")
        if has_credentials(proxy):
            raise ConfigurationError(
                f"{name}: proxy holds a key or password.",
                hint="Set HTTPS_PROXY in the environment instead.",
            )
        return proxy
    target = urlsplit(url)
    host = target.hostname or ""
    found = getproxies().get(target.scheme)
    if found is None or host in _LOOPBACK or proxy_bypass(host):
        return None
    known_secrets.remember("proxy password", urlsplit(found).password or "")
    return found
