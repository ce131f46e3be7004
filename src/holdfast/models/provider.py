"""The one door to a model: a provider answers one `send` with one reply or one ModelError.

Providers are found by name: the built-in ones without any metadata, so that a source tree works, and plug-ins
through the entry-point group "holdfast.providers". A plug-in cannot take a built-in's name.
"""

from __future__ import annotations

import importlib
import importlib.metadata
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, cast

from holdfast.errors import ConfigurationError
from holdfast.models.errors import excerpt
from holdfast.models.message import Reply, Request
from holdfast.models.openai.presets import PRESETS
from holdfast.models.options import nearest
from holdfast.spec import ModelSpec

GROUP = "holdfast.providers"
BUILT_IN = {
    **dict.fromkeys(PRESETS, "holdfast.models.openai.presets:open_preset"),
    "openai": "holdfast.models.openai.provider:open_openai",
    "local": "holdfast.models.local.provider:open_local",
    "scripted": "holdfast.models.scripted.provider:open_scripted",
}


class Provider(Protocol):
    """A model that can be asked."""

    async def send(self, request: Request) -> Reply:
        """Try exactly once; raise a ModelError where no whole reply came back."""
        ...

    async def close(self) -> None:
        """Let go of connections and processes. Closing twice is harmless."""
        ...


Opener = Callable[[ModelSpec], Provider]


def open_provider(spec: ModelSpec) -> Provider:
    """The provider a model names, ready; a ConfigurationError where it is not there or lacks something."""
    name = spec.provider
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast("Opener", getattr(importlib.import_module(module), attribute))(spec)
    found = plug_ins()
    if name not in found:
        raise ConfigurationError(f"There is no provider {name!r}.", hint=nearest(name, [*BUILT_IN, *found]))
    if len(found[name]) > 1:
        rivals = ", ".join(point.value for point in found[name])
        raise ConfigurationError(f"Provider {name!r} is offered by {rivals}.", hint="Uninstall all but one.")
    return load(found[name][0])(spec)


def plug_ins() -> dict[str, list[importlib.metadata.EntryPoint]]:
    """Providers of other installed packages, by name."""
    found: dict[str, list[importlib.metadata.EntryPoint]] = {}
    for point in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda point: point.value):
        if point.name not in BUILT_IN:
            found.setdefault(point.name, []).append(point)
    return found


def load(point: importlib.metadata.EntryPoint) -> Opener:
    """The opener behind an entry point; a ConfigurationError names a plug-in that cannot be loaded."""
    # In a thread of its own whatever a plug-in raises, SystemExit included, comes back as a value.
    with ThreadPoolExecutor(1, thread_name_prefix="plug-in") as thread:
        loading = thread.submit(point.load)
        error = loading.exception()
    if error is not None:
        reason = excerpt(f"{type(error).__name__}: {error}", 200)
        raise ConfigurationError(f"The plug-in provider {point.name!r} ({point.value}) cannot be loaded: {reason}.")
    opener = loading.result()
    if not callable(opener):
        raise ConfigurationError(f"The plug-in provider {point.name!r} ({point.value}) is not a function.")
    return cast("Opener", opener)
