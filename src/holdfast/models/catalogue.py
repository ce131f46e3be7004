"""All providers by name: built-in ones and plug-ins, how one is opened, and which are ready on this machine.

The built-in ones are found without any metadata, so that a source tree works, and plug-ins through the entry-point
group "holdfast.providers". A plug-in cannot take a built-in's name.
"""

import contextlib
import importlib
import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, cast
from urllib.parse import urlsplit

from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.models.errors import excerpt
from holdfast.models.http.service import Service
from holdfast.models.openai.presets import PRESETS
from holdfast.models.provider import Opener, Provider, read_options
from holdfast.models.redaction import redact
from holdfast.spec import ModelSpec
from holdfast.spec.schema.model import LOCAL
from holdfast.suggestions import suggest_or_list

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "holdfast.providers"
BUILT_IN = {
    **dict.fromkeys(PRESETS, "holdfast.models.openai.provider:open_preset"),
    "anthropic": "holdfast.models.anthropic.provider:open_anthropic",
    "openai": "holdfast.models.openai.provider:open_openai",
    "command": "holdfast.models.command.provider:open_command",
    "local": "holdfast.models.local.provider:open_local",
    "scripted": "holdfast.models.scripted.provider:open_scripted",
}
_OPTIONS = {
    **dict.fromkeys((*PRESETS, "openai"), "holdfast.models.openai.endpoint:OpenAIOptions"),
    "anthropic": "holdfast.models.anthropic.options:AnthropicOptions",
    "command": "holdfast.models.command.provider:CommandOptions",
    "local": "holdfast.models.local.options:LocalOptions",
    "scripted": "holdfast.models.scripted.script:Script",
}
_PROBE_SECONDS = 0.2
COMMAND = "command"
"""The provider of models that agents call by themselves."""
IMPORTED = "imported"
"""The provider of models in imported runs, whose replies are on record: it cannot be asked. No list has it."""


class ProviderStatus(NamedTuple):
    """One provider: whether it is ready, what it needs where it is not, and what it is."""

    name: str
    ready: bool
    needs: str
    description: str


def open_provider(spec: ModelSpec) -> Provider:
    """The provider a model names, ready; a ConfigurationError where it does not exist or needs something."""
    name = spec.provider
    if name == IMPORTED:
        # Loaded for a run of another tool's results only.
        from holdfast.models.imported import ImportedModel  # noqa: PLC0415

        return ImportedModel(spec.model)
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast("Opener", getattr(importlib.import_module(module), attribute))(spec)
    found = plug_ins()
    if name not in found:
        raise ConfigurationError(f"There is no provider {name!r}.", hint=suggest_or_list(name, [*BUILT_IN, *found]))
    if len(found[name]) > 1:
        rivals = ", ".join(point.value for point in found[name])
        raise ConfigurationError(f"Provider {name!r} is offered by {rivals}.", hint="Uninstall all but one.")
    return _open_plug_in(found[name][0], spec)


def effective_options(name: str, args: dict[str, Any]) -> Any:
    """The options of a provider with its defaults, as values that can be compared; of a plug-in only those given.

    Raises:
        ConfigurationError: an option does not exist, or cannot have that value.
    """
    if name not in _OPTIONS:
        return args
    module, _, kind = _OPTIONS[name].partition(":")
    return read_options(f"Provider {name}", args, getattr(importlib.import_module(module), kind))


def import_provider(name: str) -> None:
    """Imports the code of a provider, if it exists, without opening it: no key is needed."""
    if name in BUILT_IN:
        importlib.import_module(BUILT_IN[name].partition(":")[0])
        return
    with contextlib.suppress(ConfigurationError):
        for point in plug_ins().get(name, ()):
            load_opener(point)


def plug_ins() -> "dict[str, list[EntryPoint]]":
    """Providers of other installed packages, by name."""
    from importlib import metadata  # noqa: PLC0415 - slow to load, and most evals name built-in providers

    found: dict[str, list[EntryPoint]] = {}
    for point in sorted(metadata.entry_points(group=GROUP), key=lambda point: point.value):
        if point.name not in BUILT_IN:
            found.setdefault(point.name, []).append(point)
    return found


def _open_plug_in(point: "EntryPoint", spec: ModelSpec) -> Provider:
    opened = _of_plug_in(point, "opened", load_opener(point), spec)
    if not callable(getattr(opened, "send", None)) or not callable(getattr(opened, "close", None)):
        raise ConfigurationError(
            f"The plug-in provider {point.name!r} ({point.value}) returned {type(opened).__name__}.",
            hint="It must return an object with `send` and `close`.",
        )
    return cast("Provider", opened)


def _of_plug_in(point: "EntryPoint", done: str, function: Callable[..., object], *args: object) -> object:
    """What a function of a plug-in returns; whatever it raises is one sentence, without a known secret."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - slow to load, and for plug-ins only

    # In a thread of its own whatever it raises, SystemExit included, comes back as a value.
    with ThreadPoolExecutor(1, thread_name_prefix="plug-in") as thread:
        outcome = thread.submit(function, *args)
        error = outcome.exception()
    if isinstance(error, HoldfastError):
        raise ConfigurationError(redact(error.message), hint=redact(error.hint)) from None
    if error is not None:
        reason = excerpt(f"{type(error).__name__}: {error}", 200)
        raise ConfigurationError(f"The plug-in provider {point.name!r} ({point.value}) cannot be {done}: {reason}.")
    return outcome.result()


def load_opener(point: "EntryPoint") -> Opener:
    """The opener behind an entry point; a ConfigurationError names a plug-in that cannot be loaded."""
    opener = _of_plug_in(point, "loaded", point.load)
    if not callable(opener):
        raise ConfigurationError(f"The plug-in provider {point.name!r} ({point.value}) is not a function.")
    return cast("Opener", opener)


def list_providers() -> list[ProviderStatus]:
    """Every provider by name, a broken plug-in with what is wrong with it. No provider is opened to find out."""
    from holdfast.models.anthropic.service import SERVICE as ANTHROPIC  # noqa: PLC0415 - only a list needs all
    from holdfast.models.local.weights import missing_installs  # noqa: PLC0415 - as above

    services: dict[str, Service] = {"anthropic": ANTHROPIC, **PRESETS}
    found = [
        _provider_status(
            "scripted", "", "Answers from a script, in this process; scripted/echo repeats what it is asked"
        ),
        _provider_status(
            "command", "", "A model that the agent of a task calls by itself; its name is for the command"
        ),
        _provider_status(
            "local", missing_installs(), "A GGUF model in a process of its own; local/smollm2 needs no download"
        ),
        *(
            _provider_status(name, _needs_of_service(service), service.description)
            for name, service in services.items()
        ),
        *(_status_of_plug_in(name, points) for name, points in plug_ins().items()),
    ]
    return sorted(found)


def _provider_status(name: str, needs: str, description: str) -> ProviderStatus:
    return ProviderStatus(name, not needs, needs, description)


def _needs_of_service(service: Service) -> str:
    missing = [
        f"the environment variable {variable}"
        for variable in (service.api_key_env, "" if service.base_url else service.base_url_env)
        if variable and not os.environ.get(variable)
    ]
    host = urlsplit(service.base_url).hostname
    if host == "127.0.0.1" and not _is_listening(service.base_url):
        missing.append(f"a server at {urlsplit(service.base_url).netloc}, or base_url")
    return " and ".join(missing)


def _is_listening(url: str) -> bool:
    import socket  # noqa: PLC0415 - for the list of providers only

    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port or 80), _PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _status_of_plug_in(name: str, points: "list[EntryPoint]") -> ProviderStatus:
    if len(points) > 1:
        return _provider_status(name, f"one package that offers it, not {len(points)}", "A plug-in")
    try:
        opener = load_opener(points[0])
    except ConfigurationError as error:
        return _provider_status(name, f"a repair: {error.message}", "A plug-in that cannot be loaded")
    words = inspect.getdoc(opener) or f"A plug-in ({points[0].value})"
    return _provider_status(name, "", words.splitlines()[0].rstrip("."))


def digest_of_weights(spec: ModelSpec, *, again: bool = False) -> str:
    """The digest of a model that is a file on this machine; empty for every other model, and where it is missing.

    With `again`, the file is read, whatever is known of it.

    Raises:
        ConfigurationError: the file cannot be read, or is being written.
    """
    if spec.provider != LOCAL:
        return ""
    # Few evals have a local model.
    from holdfast.models.local.options import LocalOptions  # noqa: PLC0415
    from holdfast.models.local.weights import find_weights  # noqa: PLC0415
    from holdfast.models.local.weights_digest import weights_digest  # noqa: PLC0415

    options = read_options(f"Model local/{spec.model}", spec.args, LocalOptions)
    try:
        weights = find_weights(spec.model, options.path)
    except ConfigurationError:
        return ""
    return weights_digest(weights.absolute(), again=again)
