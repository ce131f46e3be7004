"""Models derived from one another: `judge: {base: small, model: gpt-4o}` is `small` with another model.

What the derived model gives wins, field by field and, in maps, key by key; all else is its base's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from holdfast.spec.loading.error_messages import describe_value, key_path, refuse
from holdfast.spec.schema.drift import Block
from holdfast.spec.schema.introspect import schema_fields
from holdfast.spec.schema.model import CONNECT_SECONDS, READ_SECONDS, TOTAL_SECONDS, ModelSpec
from holdfast.suggestions import nearest_or_known

AnyBlock = TypeVar("AnyBlock", bound=Block)


def derive_models(models: dict[str, ModelSpec], source: str) -> dict[str, ModelSpec]:
    """Every model with its base's fields filled in and no base left."""
    refuse(source, [problem for name in models for problem in _base_problems(name, models)])
    done: dict[str, ModelSpec] = {}
    for name in models:
        for each in reversed(_base_chain(name, models)):
            done[each] = done.get(each) or _derived(models[each], done)
    derived = {name: _with_defaults(done[name]) for name in models}
    refuse(source, [problem for name, model in derived.items() for problem in _missing_problems(name, model)])
    return derived


def _base_problems(name: str, models: dict[str, ModelSpec]) -> Iterator[str]:
    base = models[name].base
    place = key_path(key_path("models", name), "base")
    if base is not None and base not in models:
        others = [other for other in models if other != name]
        yield f"{place} names the unknown model {describe_value(base)}; {nearest_or_known(base, others)}"
        return
    chain = _base_chain(name, models)
    # A circle is reported once, for the first of its names.
    if models[chain[-1]].base == name and name == min(chain):
        yield f"{place} goes round in a circle: {' → '.join([*chain, name])}"


def _base_chain(name: str, models: dict[str, ModelSpec]) -> list[str]:
    """A model, its base, that one's base, and so on, as far as there are new ones."""
    chain = {name: None}
    while (base := models[next(reversed(chain))].base) in models and base not in chain:
        chain[str(base)] = None
    return list(chain)


def _derived(model: ModelSpec, done: dict[str, ModelSpec]) -> ModelSpec:
    if model.base is None:
        return model
    return msgspec.structs.replace(_over_block(done[model.base], model), base=None)


def _over_block(base: AnyBlock, child: AnyBlock) -> AnyBlock:
    """One block over another of the same kind."""
    values = {}
    for field in schema_fields(type(child)).values():
        below, above = getattr(base, field.attribute), getattr(child, field.attribute)
        values[field.attribute] = below if above == field.default else _over_value(below, above)
    return type(child)(**values)


def _over_value(below: Any, above: Any) -> Any:
    if isinstance(above, Block) and isinstance(below, Block):
        return _over_block(below, above)
    if isinstance(above, dict):
        return {**below, **above}
    return above


def _with_defaults(model: ModelSpec) -> ModelSpec:
    """The model with its defaults written out, and its provider taken from `provider/model` if need be."""
    provider, name = model.provider, model.model
    if not provider and "/" in name:
        provider, name = name.split("/", 1)
    timeouts = msgspec.structs.replace(
        model.timeouts,
        connect=model.timeouts.connect or CONNECT_SECONDS,
        read=model.timeouts.read or READ_SECONDS,
        total=model.timeouts.total or TOTAL_SECONDS,
    )
    # An empty list of stops, and logprobs that are not asked for, are the same as none given.
    generation = msgspec.structs.replace(
        model.generation, stop=model.generation.stop or None, logprobs=model.generation.logprobs or None
    )
    return msgspec.structs.replace(model, provider=provider, model=name, timeouts=timeouts, generation=generation)


def _missing_problems(name: str, model: ModelSpec) -> Iterator[str]:
    place = key_path("models", name)
    if not model.provider:
        yield f"{place}.provider is missing; name who serves the model, such as openai or openrouter"
    if not model.model:
        provider, colon, model_name = model.provider.partition(":")
        meant = f", as in provider: {provider}, model: {model_name}" if colon and provider and model_name else ""
        yield f"{place}.model is missing; name the model as its provider calls it{meant}"
