"""What `deterministic: true` could not guarantee of a run, from what is on record of it.

Every call is sent a seed of its own. Whether the same seed gives the same reply is up to whoever serves the model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.run.core.records import SessionRecord

_EXACT = ("scripted", "local")
"""Providers whose replies are computed here, from the seed and nothing else."""


class Determinism(msgspec.Struct, frozen=True):
    """How far the replies of a run can be had again."""

    seed: int
    """What every seed is derived from."""
    not_guaranteed: list[str]


def determinism_of(session: SessionRecord | None) -> Determinism | None:
    """For the eval of a session; None where it does not ask for it."""
    if session is None or session.config.get("deterministic") is not True:
        return None
    limits = [*_seed_limits(session), *_temperature_limits(session), *_solver_limits(session)]
    return Determinism(session.config.get("seed", 0), [*limits, *_sampling_limits(session)])


def _models(session: SessionRecord) -> Mapping[str, Mapping[str, Any]]:
    models: Mapping[str, Mapping[str, Any]] = session.config.get("models", {})
    return models


def _seed_limits(session: SessionRecord) -> Iterator[str]:
    from holdfast.models.catalogue import BUILT_IN  # noqa: PLC0415 - few runs ask for it

    for name, model in _models(session).items():
        provider = model.get("provider", "")
        takes = session.takes_seed.get(name, True if provider in BUILT_IN else None)
        if takes is None:
            yield f"{name}: its provider {provider} does not say whether it takes seeds"
        elif not takes:
            yield f"{name}: its provider {provider} takes no seeds"
        elif provider not in _EXACT:
            yield f"{name}: {provider} is sent a seed with every call, and servers promise little about it"


def _temperature_limits(session: SessionRecord) -> Iterator[str]:
    unset = [
        name
        for name, model in _models(session).items()
        if model.get("provider") != "scripted" and model.get("generation", {}).get("temperature") is None
    ]
    if unset:
        yield f"{', '.join(unset)}: the temperature is left to the provider"


def _solver_limits(session: SessionRecord) -> Iterator[str]:
    for task, code in session.code.items():
        if not code.solver.startswith("generate "):
            yield f"the task {task}: its solver is code of its own, of which only the calls of models are seeded"


def _sampling_limits(session: SessionRecord) -> Iterator[str]:
    tasks: Mapping[str, Mapping[str, Any]] = session.config.get("tasks", {})
    for task, code in session.code.items():
        sampling = tasks.get(task, {}).get("sampling")
        if sampling is None and "sampling" not in code.settings:
            continue
        # Of one that is set up in Python, only that it is there is on record.
        known: Mapping[str, Any] = sampling or {"concurrency_budget": 2}
        caps, lanes = known.get("budget") or {}, known.get("concurrency_budget", 1)
        if "time" in caps or (caps and lanes > 1):
            yield f"the task {task}: the budget of its samplings ({', '.join(caps)}) may be reached sooner or later"
        if lanes > 1 and not _draws_all(known):
            yield f"the task {task}: lanes that are given up stop sooner or later, so what they took may differ"


def _draws_all(sampling: Mapping[str, Any]) -> bool:
    return sampling.get("strategy") == "best_of_n" or sampling.get("vote") == "similarity"
