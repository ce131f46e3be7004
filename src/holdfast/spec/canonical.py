"""A typed eval as plain data, as bytes that are equal when evals are, and as a file that loads the same."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.spec.schema.drift import Block
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.introspect import schema_fields

_EXACT_INTEGERS = 2**53
_UNSET: tuple[Any, ...] = (None, "", {}, [])


def plain_data(block: Block, *, explicit: bool = False) -> dict[str, Any]:
    """A block as plain data without the fields that have their default; `explicit` omits only what is unset."""
    data = {}
    for name, field in schema_fields(type(block)).items():
        value = getattr(block, field.attribute)
        entry = _plain_value(value, explicit=explicit)
        if value != field.default or (explicit and entry not in _UNSET):
            data[name] = entry
    return data


def canonical_bytes(spec: EvalSpec) -> bytes:
    """One encoding for all evals that are equal: sorted JSON, defaults left out, 0.0 as 0."""
    return msgspec.json.encode(_one_zero(plain_data(spec)), order="sorted")


def eval_text(spec: EvalSpec, *, explicit: bool = False) -> str:
    """An eval file that loads as this eval; `explicit` writes the defaults out too."""
    # As in loading: only reading and writing files needs PyYAML.
    from holdfast.spec.loading.yaml_document import write_document  # noqa: PLC0415

    return write_document(plain_data(spec, explicit=explicit))


def _plain_value(value: Any, *, explicit: bool) -> Any:
    if isinstance(value, Block):
        return plain_data(value, explicit=explicit)
    if isinstance(value, dict):
        return {name: _plain_value(entry, explicit=explicit) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain_value(entry, explicit=explicit) for entry in value]
    return value


def _one_zero(value: Any) -> Any:
    """The value with every whole float as the integer it equals."""
    if isinstance(value, dict):
        return {name: _one_zero(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_one_zero(entry) for entry in value]
    if isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_INTEGERS:
        return int(value)
    return value
