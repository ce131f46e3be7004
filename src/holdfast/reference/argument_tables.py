"""The sections of docs/eval-file.md about scorers, requirements and providers, with the arguments of each."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from holdfast.models.openai.presets import PRESETS
from holdfast.reference.cells import Row, default_cell, example_cell, kind_cell, markdown_table
from holdfast.reference.provider_options import OPTIONS, SCRIPT_PARTS
from holdfast.sampling.requirements.built_in import BuiltInRequirement
from holdfast.sampling.requirements.registry import BUILT_IN as REQUIREMENTS
from holdfast.spec.schema.descriptions import FieldText, field_texts
from holdfast.tasks.scorers.registry import BUILT_IN as SCORERS

_ABOUT_SCORERS = "In `scorers` of a task: a name, a name with arguments, or a function of your own as `file.py:name`."
_ABOUT_REQUIREMENTS = (
    "In `requirements` of a `sampling`, and as its `scorer`: a name, or a name with arguments. The argument that is"
    " marked as short may be given alone: `regex: '^[A-Z]'`. [sampling-requirements.md](sampling-requirements.md) has"
    " more about each of them."
)
_ABOUT_PROVIDERS = "`provider` of a model names one of these, or an installed plug-in, which has `args` of its own."
_SERVICES = ("provider", "service", "`base_url`", "variable of another address", "`api_key_env`", "`max_tokens_field`")
_SERVICE_PARTS = ("base_url", "base_url_env", "api_key_env", "max_tokens_field")
_ABOUT_ADDRESSES = (
    "Without `base_url`, the variable of another address is looked for in the environment; the service's key is then"
    " sent there, if it is set. The address is noted in the run, and may change on resume like `base_url`."
)
_COMMON = tuple(field.name for field in msgspec.structs.fields(BuiltInRequirement))
"""The arguments that every requirement takes."""


def scorer_lines() -> list[str]:
    """Every scorer."""
    lines = ["## Scorers", "", _ABOUT_SCORERS, ""]
    for name, kind in SCORERS.items():
        lines += [f"### Scorer `{name}`", "", *_about(kind)]
    return lines


def requirement_lines() -> list[str]:
    """Every requirement; the arguments that all of them take are listed once."""
    lines = ["## Requirements", "", _ABOUT_REQUIREMENTS, "", "All of them take:", ""]
    lines += [*_arguments(BuiltInRequirement), ""]
    for name, kind in REQUIREMENTS.items():
        lines += [f"### Requirement `{name}`", "", *_about(kind, without=_COMMON, short=kind.short_argument)]
    return lines


def provider_lines() -> list[str]:
    """Every provider, and the parts of a script."""
    services = [
        (f"`{name}`", preset.description, *(_code(getattr(preset, part)) for part in _SERVICE_PARTS))
        for name, preset in PRESETS.items()
    ]
    lines = ["## Providers", "", _ABOUT_PROVIDERS, "", "### OpenAI and compatible services", ""]
    lines += [*markdown_table(_SERVICES, services), "", _ABOUT_ADDRESSES, "", "All of them take these `args`:", ""]
    lines += [*_arguments(OPTIONS["openai"]), ""]
    for name in ("anthropic", "local", "scripted"):
        lines += [f"### Provider `{name}`", "", *_about(OPTIONS[name])]
    for title, part in SCRIPT_PARTS.items():
        lines += [f"#### {title}", "", *_about(part)]
    return lines


def _about(kind: type[msgspec.Struct], without: Iterable[str] = (), short: str = "") -> list[str]:
    """The docstring of a struct, and the table of its fields."""
    table = _arguments(kind, without, short)
    return [" ".join((kind.__doc__ or "").split()), "", *table, *([""] if table else [])]


def _arguments(kind: type[msgspec.Struct], without: Iterable[str] = (), short: str = "") -> list[str]:
    texts = field_texts(kind)
    fields = [field for field in msgspec.structs.fields(kind) if field.name not in without]
    rows = [_argument_row(field, texts[field.name], is_short=field.name == short) for field in fields]
    return markdown_table(("argument", "meaning", "value", "default", "example"), rows) if rows else []


def _argument_row(field: msgspec.structs.FieldInfo, text: FieldText, *, is_short: bool) -> Row:
    default = text.default or ("required" if field.required else default_cell(_default(field)))
    name = f"`{field.encode_name}`{' (short)' if is_short else ''}"
    return name, text.meaning, kind_cell(field.type), default, example_cell(field.encode_name, text)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    return None if field.default is msgspec.NODEFAULT else field.default


def _code(text: str) -> str:
    return f"`{text}`" if text else ""
