"""Which providers can be used here and now, and what the others need. Nothing is opened to find out."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import inspect
import os
import socket
from typing import NamedTuple
from urllib.parse import urlsplit

from holdfast.errors import ConfigurationError
from holdfast.models.local.weights import needs_of_local
from holdfast.models.openai.presets import PRESETS, Preset
from holdfast.models.provider import load, plug_ins

_PROBE_SECONDS = 0.2


class Offer(NamedTuple):
    """One provider: whether it is ready, what it needs where it is not, and what it is."""

    name: str
    ready: bool
    needs: str
    description: str


def catalogue() -> list[Offer]:
    """Every provider, built-in and plugged in, by name; a broken plug-in with what is wrong with it."""
    offers = [
        _offer("scripted", "", "Answers from a script, in this process; scripted/echo repeats what it is asked"),
        _offer("local", needs_of_local(), "A GGUF model in a process of its own; local/smollm2 needs no download"),
        *(_offer(name, _needs(preset), preset.description) for name, preset in PRESETS.items()),
        *(_plugged_in(name, points) for name, points in plug_ins().items()),
    ]
    return sorted(offers)


def _offer(name: str, needs: str, description: str) -> Offer:
    return Offer(name, not needs, needs, description)


def _needs(preset: Preset) -> str:
    missing = [
        f"the environment variable {variable}"
        for variable in (preset.api_key_env, preset.base_url_env)
        if variable and not os.environ.get(variable)
    ]
    host = urlsplit(preset.base_url).hostname
    if host == "127.0.0.1" and not _listening(preset.base_url):
        missing.append(f"a server at {urlsplit(preset.base_url).netloc}, or base_url")
    return " and ".join(missing)


def _listening(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port or 80), _PROBE_SECONDS).close()
    except OSError:
        return False
    return True


def _plugged_in(name: str, points: list[importlib.metadata.EntryPoint]) -> Offer:
    if len(points) > 1:
        return _offer(name, f"one package that offers it, not {len(points)}", "A plug-in")
    try:
        opener = load(points[0])
    except ConfigurationError as error:
        return _offer(name, f"a repair: {error.message}", "A plug-in that cannot be loaded")
    words = inspect.getdoc(opener) or f"A plug-in ({points[0].value})"
    return _offer(name, "", words.splitlines()[0].rstrip("."))
