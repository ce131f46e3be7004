"""The `sampling` of tasks, in full: defaults are filled in, and what cannot be meant is named.

A strategy has a use for some fields only; one that it would ignore is refused, so that nobody believes it has an
effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from holdfast.spec.loading.error_messages import describe_value, item_path
from holdfast.spec.models_under_test import models_under_test
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.sampling import (
    EXTRA_FIELDS,
    LEAST_ESCALATING_TURNS,
    REQUIRED_FIELDS,
    SELECTIONS,
    NamedCheck,
    SamplingSpec,
)
from holdfast.spec.schema.task import TaskSpec
from holdfast.suggestions import nearest_or_known

_ALL_SELECTIONS = ("first", "deterministic", "best")


def resolve_sampling(sampling: SamplingSpec | None, *, deterministic: bool) -> SamplingSpec | None:
    """The same with every default that the strategy has a use for."""
    if sampling is None:
        return None
    scorer = None if sampling.scorer is None else short_form(sampling.scorer)
    return msgspec.structs.replace(
        sampling,
        selection=sampling.selection or _default_selection(sampling.strategy, deterministic=deterministic),
        requirements=[short_form(given) for given in sampling.requirements],
        vote=sampling.vote or ("majority" if sampling.strategy == "vote" else None),
        scorer=scorer,
        escalate_to=sampling.escalate_to or None,
    )


def _default_selection(strategy: str, *, deterministic: bool) -> Any:
    wanted = "deterministic" if deterministic else "first"
    return wanted if wanted in _selections(strategy) else None


def _selections(strategy: str) -> tuple[str, ...]:
    return SELECTIONS.get(strategy, _ALL_SELECTIONS)


def short_form(given: NamedCheck) -> NamedCheck:
    """A scorer or a requirement by its bare name where it has no arguments."""
    if isinstance(given, dict):
        ((name, arguments),) = given.items()
        return name if arguments is None or arguments == {} else {name: arguments}
    return given


def sampling_problems(place: str, task: TaskSpec, spec: EvalSpec) -> Iterator[str]:
    """A sentence for everything in the `sampling` of a task that cannot be meant."""
    sampling = task.sampling
    if sampling is None:
        return
    at = f"{place}.sampling"
    yield from _field_problems(at, sampling)
    yield from _selection_problems(at, sampling, deterministic=spec.deterministic is True)
    for where, given in sampling.checks():
        if isinstance(given, dict) and len(given) != 1:
            yield f"{at}.{where} must have exactly one name with its arguments; it has {len(given)}"
    yield from _model_problems(at, sampling, spec)
    yield from _price_problems(at, sampling, task, spec)


def _price_problems(at: str, sampling: SamplingSpec, task: TaskSpec, spec: EvalSpec) -> Iterator[str]:
    """A cap on cost would never be reached by a model that has no price."""
    if sampling.budget.cost is None:
        return
    others = [model for _, model in sampling.other_models()]
    for name in sorted({*(task.models or models_under_test(spec)), *others}):
        if name in spec.models and not _has_price(name, spec):
            yield f"{at}.budget.cost needs a price of every model that is asked, and models.{name} has none"


def _has_price(name: str, spec: EvalSpec) -> bool:
    """Whether a model has a price, its own or that of a model it is derived from."""
    seen: set[str] = set()
    while name in spec.models and name not in seen:
        seen.add(name)
        if spec.models[name].price is not None:
            return True
        name = spec.models[name].base or ""
    return False


def _field_problems(at: str, sampling: SamplingSpec) -> Iterator[str]:
    strategy = sampling.strategy
    for owner, names in EXTRA_FIELDS.items():
        for name in names if owner != strategy else ():
            if getattr(sampling, name) is not None:
                yield f"{at}.{name} is for the strategy {owner}; {strategy} has no use for it"
    needed = REQUIRED_FIELDS.get(strategy)
    if needed and not getattr(sampling, needed):
        yield f"{at}.{needed} is missing; the strategy {strategy} needs it"
    if strategy == "escalate" and sampling.loop_budget < LEAST_ESCALATING_TURNS:
        yield (
            f"{at}.loop_budget is {sampling.loop_budget}; the strategy escalate needs {LEAST_ESCALATING_TURNS} or more:"
            " the next model is asked after two turns in a row that miss the same requirements"
        )
    try:
        re.compile(sampling.extract or "")
    except (re.error, RecursionError, OverflowError) as error:
        yield f"{at}.extract is {describe_value(sampling.extract)}, which is not a valid regular expression: {error}"


def _selection_problems(at: str, sampling: SamplingSpec, *, deterministic: bool) -> Iterator[str]:
    given, strategy = sampling.selection, sampling.strategy
    if given is None:
        return
    if given not in _selections(strategy):
        yield f"{at}.selection is {describe_value(given)}; {strategy} has no use for it"
    elif deterministic and given != "deterministic":
        yield (
            f"deterministic is true, which makes every selection deterministic, and {at}.selection is"
            f" {describe_value(given)}; leave one of them out"
        )


def _model_problems(at: str, sampling: SamplingSpec, spec: EvalSpec) -> Iterator[str]:
    for where, model in sampling.other_models():
        if model not in spec.models:
            yield (
                f"{at}.{where} is {describe_value(model)}, which is not a model of the eval;"
                f" {nearest_or_known(model, spec.models)}"
            )
    larger = sampling.escalate_to or []
    for index, model in enumerate(larger):
        if model in larger[:index]:
            yield f"{item_path(f'{at}.escalate_to', index)} is {describe_value(model)} a second time; keep one"
