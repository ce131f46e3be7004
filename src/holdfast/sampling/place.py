"""Where in a sampling something happens: which lane, which turn of it, and the seed that belongs there."""

from __future__ import annotations

from contextvars import ContextVar
from hashlib import blake2b
from typing import NamedTuple

_SEED_BITS = 31
"""What every API that takes a seed can hold."""


class Place(NamedTuple):
    """One candidate's place. Lanes and turns count from 0."""

    sampling: int
    """Which sampling of its scope it is, from 1."""
    lane: int
    turn: int
    iteration: int
    """Unique in the sampling: lane times loop_budget, plus turn."""
    seed: int

    def __str__(self) -> str:
        return f"lane {self.lane}, turn {self.turn}"


CURRENT_PLACE: ContextVar[Place | None] = ContextVar("place", default=None)


def current_place() -> Place | None:
    """The place that this code works for: in a requirement, a hook, a repair or a provider; None outside a sampling."""
    return CURRENT_PLACE.get()


def derive_seed(seed: int, *parts: object) -> int:
    """A separate seed for whatever the parts name: the same in every session, and on every machine.

    It is the first 31 bits of the BLAKE2b digest of the parts, joined to the seed by slashes.
    """
    text = "/".join([str(seed), *map(str, parts)])
    return int.from_bytes(blake2b(text.encode(), digest_size=4).digest(), "big") >> (32 - _SEED_BITS)
