"""The options that each provider takes in `args` of a model, by the name of the provider."""

from __future__ import annotations

import msgspec

from holdfast.models.anthropic.options import AnthropicOptions
from holdfast.models.command.provider import CommandOptions
from holdfast.models.local.options import LocalOptions
from holdfast.models.openai.endpoint import OpenAIOptions
from holdfast.models.openai.presets import PRESETS
from holdfast.models.scripted.script import (
    ErrorRule,
    Latency,
    Rule,
    Script,
    ScriptedCall,
    ScriptedFault,
    ScriptLine,
)

OPTIONS: dict[str, type[msgspec.Struct]] = {
    **dict.fromkeys(PRESETS, OpenAIOptions),
    "anthropic": AnthropicOptions,
    "command": CommandOptions,
    "local": LocalOptions,
    "scripted": Script,
}
"""By provider; a plug-in checks its own."""
SCRIPT_PARTS: dict[str, type[msgspec.Struct]] = {
    "An entry of `rules`": Rule,
    "An entry of `errors`": ErrorRule,
    "`rate_limited`, `unavailable`, `rejected`, `no_credit`, `blocked`": ScriptedFault,
    "A reply as a map": ScriptLine,
    "An entry of `tool_calls`": ScriptedCall,
    "`latency` as a map": Latency,
}
"""The parts of a script, by what they are called in it."""
