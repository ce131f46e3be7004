"""The value of a score as a number, by the rules of Inspect's `accuracy` and `mean`."""

from collections.abc import Iterator
from typing import Any

from holdfast.interop.importing.foreign_values import number_of

_LETTERS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
_WORDS = {"yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}


def score_number(value: Any) -> float | None:
    """The number that a value stands for; None if it is not a number, or says that there is no score."""
    if not isinstance(value, str):
        return number_of(value)
    if value in _LETTERS:
        return _LETTERS[value]
    return _WORDS.get(value.lower(), _numeral(value))


def _numeral(text: str) -> float | None:
    try:
        return number_of(float(text))
    except ValueError:
        return None


def named_values(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values of a score by name: one, or one for each key or place of a value that has several."""
    if isinstance(value, dict):
        yield from ((f"{name}.{key}", item) for key, item in value.items())
    elif isinstance(value, list):
        yield from ((f"{name}.{place}", item) for place, item in enumerate(value, 1))
    else:
        yield name, value
