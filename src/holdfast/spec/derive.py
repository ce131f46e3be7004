"""Models derived from one another: `judge: {base: small, model: gpt-4o}` is `small` with another model.

What the derived model gives wins, field by field and, in maps, key by key; all else is its base's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from holdfast.spec.drift import Block
from holdfast.spec.fields import fields_of
from holdfast.spec.model import ModelSpec
from holdfast.spec.wording import member, nearest, refuse

CONNECT_SECONDS = 10.0
READ_SECONDS = 600.0

AnyBlock = TypeVar("AnyBlock", bound=Block)


def derive_models(models: dict[str, ModelSpec], source: str) -> dict[str, ModelSpec]:
    """Every model with its base's fields filled in and no base left."""
    refuse(source, [problem for name in models for problem in _chain_problems(name, models)])
    derived = {name: _explicit(_derived(name, models)) for name in models}
    refuse(source, [problem for name, model in derived.items() for problem in _missing(name, model)])
    return derived


def _chain_problems(name: str, models: dict[str, ModelSpec]) -> Iterator[str]:
    chain = [name]
    while base := models[chain[-1]].base:
        place = member(member("models", chain[-1]), "base")
        if base not in models:
            yield f"{place} names the unknown model {base}; {nearest(base, models)}"
            return
        if base in chain:
            yield f"{place} goes round in a circle: {' → '.join([*chain, base])}"
            return
        chain.append(base)


def _derived(name: str, models: dict[str, ModelSpec]) -> ModelSpec:
    model = models[name]
    while model.base:
        base = models[model.base]
        model = msgspec.structs.replace(_over(base, model), base=base.base)
    return model


def _over(base: AnyBlock, child: AnyBlock) -> AnyBlock:
    """One block over another of the same kind."""
    values = {}
    for field in fields_of(type(child)).values():
        below, above = getattr(base, field.attribute), getattr(child, field.attribute)
        values[field.attribute] = below if above == field.default else _joined(below, above)
    return type(child)(**values)


def _joined(below: Any, above: Any) -> Any:
    if isinstance(above, Block) and isinstance(below, Block):
        return _over(below, above)
    if isinstance(above, dict):
        return {**below, **above}
    return above


def _explicit(model: ModelSpec) -> ModelSpec:
    """The model with its defaults written out, and its provider taken from `provider/model` if need be."""
    provider, name = model.provider, model.model
    if not provider and "/" in name:
        provider, name = name.split("/", 1)
    timeouts = msgspec.structs.replace(
        model.timeouts,
        connect=model.timeouts.connect or CONNECT_SECONDS,
        read=model.timeouts.read or READ_SECONDS,
    )
    # An empty list of stops, and logprobs that are not asked for, are the same as none given.
    generation = msgspec.structs.replace(
        model.generation, stop=model.generation.stop or None, logprobs=model.generation.logprobs or None
    )
    return msgspec.structs.replace(model, provider=provider, model=name, timeouts=timeouts, generation=generation)


def _missing(name: str, model: ModelSpec) -> Iterator[str]:
    place = member("models", name)
    if not model.provider:
        yield f"{place}.provider is missing; name who serves the model, such as openai or anthropic"
    if not model.model:
        yield f"{place}.model is missing; name the model as its provider calls it"
