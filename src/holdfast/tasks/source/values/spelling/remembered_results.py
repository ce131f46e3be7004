"""What caches and cached properties held when this process first looked: results that were worked out at import.

What they remember later comes of their use, and says nothing about what they are.
"""

from __future__ import annotations

import gc
from typing import Any, NamedTuple

from holdfast.tasks.source.values.spelling.builtin_content import MapPairs


class _Remembered(NamedTuple):
    function: Any
    """Kept with the keys, so that nothing else gets their identities."""
    keys: list[Any]
    places: frozenset[int]


_FIRST: dict[int, _Remembered] = {}
_KEPT: dict[int, tuple[Any, frozenset[str]]] = {}


def first_remembered(function: Any) -> MapPairs:
    """The calls and results that a cached function had when it was first looked at, as far as it still has them."""
    results = _results(function)
    if id(function) not in _FIRST:
        keys = [key for key, _ in results]
        _FIRST[id(function)] = _Remembered(function, keys, frozenset(map(id, keys)))
    # By identity: to look a key up would run code of whoever wrote its class.
    places = _FIRST[id(function)].places
    return MapPairs((key, result) for key, result in results if id(key) in places)


def first_kept(value: Any, names: set[str]) -> list[str]:
    """Those of an object's cached properties that it held when it was first looked at, and holds."""
    if id(value) not in _KEPT:
        _KEPT[id(value)] = value, frozenset(names)
    return sorted(names & _KEPT[id(value)][1])


def _results(function: Any) -> list[tuple[Any, Any]]:
    """The memory of a cache, which it holds beside its attributes: no call is needed to see it."""
    held, own = gc.get_referents(function), function.__dict__
    places = [place for place, item in enumerate(held) if type(item) is dict and item is not own]
    if len(places) != 1:
        return []
    memory = held[places[0]]
    is_bounded = any(type(item).__name__ == "_lru_list_elem" for item in memory.values())
    return _listed_results(held[1 : places[0]]) if is_bounded else list(memory.items())


def _listed_results(held: list[Any]) -> list[tuple[Any, Any]]:
    """Of a cache with a bound, the list that it keeps in order of use: a call, its result and the type of an entry."""
    is_list = all(getattr(entry, "__name__", "") == "_lru_list_elem" for entry in held[2::3])
    return list(zip(held[0::3], held[1::3], strict=True)) if is_list and len(held) % 3 == 0 else []
