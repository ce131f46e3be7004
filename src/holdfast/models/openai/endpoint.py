"""Where a model is reached and with what: decided once, when the provider is opened.

A key is read from the environment under the name the configuration gives; it appears in no message.
A preset's key goes to the preset's own address, and to one that the environment names beside the key: with another
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
from holdfast.models.openai.presets import Preset
from holdfast.models.redaction import known_secrets, read_key
from holdfast.spec import ModelSpec
from holdfast.spec.loading.key_detection import has_credentials, is_key_name
from holdfast.spec.schema.model import CONNECT_SECONDS, READ_SECONDS, TOTAL_SECONDS

REPLY_BYTES = 64 * 2**20
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_ROUTE = "/chat/completions"


class OpenAIOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The `args` of every OpenAI-compatible provider."""

    max_reply_bytes: int = REPLY_BYTES
    """The longest reply that is read, in bytes. Example: `1048576`"""

    max_tokens_field: str | None = None
    """The field of the request that carries `generation.max_tokens`. Default: that of the service, see the table;
    max_tokens where another address is set.
    Example: `max_completion_tokens`
    """

    reasoning_field: str | None = None
    """The field of a message in which the reasoning before a tool call is sent back. Default: it is not sent back.
    Example: `reasoning_content`
    """

    api_version: str | None = None
    """The value of `api-version` in the address, as some Azure deployments need it. Default: none.
    Example: `'2024-10-21'`
    """


class Endpoint(msgspec.Struct, frozen=True):
    """A chat endpoint, ready to be called."""

    name: str
    url: str
    model: str
    headers: dict[str, str]
    connect_seconds: float
    read_seconds: float
    total_seconds: float
    proxy: str | None = None
    max_tokens_field: str = "max_tokens"
    reasoning_field: str | None = None
    max_reply_bytes: int = REPLY_BYTES
    key_variable: str = ""
    """The environment variable that the key comes from; empty where no key is sent."""

    @property
    def address(self) -> str:
        """The address as an eval file gives it: without the route of the protocol."""
        parts = urlsplit(self.url)
        return parts._replace(path=parts.path.removesuffix(_ROUTE), query="").geturl()


def resolve_endpoint(
    spec: ModelSpec, preset: Preset, options: OpenAIOptions, environment: Mapping[str, str] = os.environ
) -> Endpoint:
    """The endpoint of a model; a ConfigurationError names what is missing and how to supply it."""
    name = f"{spec.provider}/{spec.model}"
    named = "" if spec.base_url else environment.get(preset.base_url_env, "").strip()
    base_url = (spec.base_url or named or preset.base_url).rstrip("/")
    url = _chat_url(name, base_url, preset, options.api_version)
    at_home = not preset.base_url or base_url == preset.base_url
    key_variable = spec.api_key_env or (preset.api_key_env if at_home else "")
    if not key_variable and named and environment.get(preset.api_key_env):
        key_variable = _key_for_named_address(name, preset)
    return Endpoint(
        name=name,
        url=url,
        model=spec.model,
        headers={**_key_header(name, key_variable, preset, environment), **_own_headers(name, spec.headers)},
        connect_seconds=spec.timeouts.connect or CONNECT_SECONDS,
        read_seconds=spec.timeouts.read or READ_SECONDS,
        total_seconds=spec.timeouts.total or TOTAL_SECONDS,
        proxy=_proxy_address(name, spec.proxy, url),
        max_tokens_field=options.max_tokens_field or (preset.max_tokens_field if at_home else "max_tokens"),
        reasoning_field=options.reasoning_field,
        max_reply_bytes=options.max_reply_bytes,
        key_variable=key_variable,
    )


def _key_for_named_address(name: str, preset: Preset) -> str:
    """The variable of the key for an address that a variable names, as the service's own library takes both.

    Raises:
        ConfigurationError: the file `.env` would send a key of the person's environment to an address of its own.
    """
    if preset.base_url_env in names_from_file and preset.api_key_env not in names_from_file:
        raise ConfigurationError(
            f"{name}: {preset.base_url_env} is set in a file .env, and {preset.api_key_env} is not: the key would go to"
            " an address that somebody else may have written.",
            hint=f"Set {preset.base_url_env} in the environment, or name the key for that address in api_key_env.",
        )
    return preset.api_key_env


def _chat_url(name: str, base_url: str, preset: Preset, api_version: str | None) -> str:
    if not base_url:
        raise ConfigurationError(f"{name} has no base_url.", hint=f"Set it, for example to {preset.base_url_example}.")
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
    path = parts.path.rstrip("/") or preset.base_path
    path = path if path.endswith(_ROUTE) else path + _ROUTE
    query = f"api-version={api_version}" if api_version else parts.query
    return parts._replace(path=path, query=query, fragment="").geturl()


def _split_url(url: str) -> SplitResult | None:
    try:
        parts = urlsplit(url)
        host = (parts.hostname or "").encode("idna")
        usable = parts.scheme in {"http", "https"} and bool(host) and parts.port != 0
    except ValueError:
        return None
    return parts if usable else None


def _key_header(name: str, variable: str, preset: Preset, environment: Mapping[str, str]) -> dict[str, str]:
    if not variable:
        return {}
    key = read_key(name, variable, environment)
    return {preset.key_header: f"Bearer {key}" if preset.key_header == "Authorization" else key}


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
