"""Text as scorers compare it: the acceptable targets of a sample, and two texts that count as equal."""

from __future__ import annotations

import unicodedata
from typing import Any

from holdfast.errors import ConfigurationError
from holdfast.tasks.json_values import json_text
from holdfast.tasks.sample import Sample


def target_texts(sample: Sample, scorer: str, place: str = "the sample") -> list[str]:
    """Every text that the sample accepts; a number counts as its JSON spelling."""
    given = sample.target if isinstance(sample.target, list) else [sample.target]
    if sample.target is None or not given:
        raise ConfigurationError(
            f"The scorer {scorer!r} needs a target, and {place} has none.",
            hint="Add a field 'target', or name its column in the dataset: fields: {target: answer}. In an eval file,"
            ' the task may have a target too, such as target: "{answer}".',
        )
    return [_acceptable_text(item, scorer, place) for item in given]


def folded_text(text: str, *, ignore_case: bool = False, ignore_punctuation: bool = False) -> str:
    """The text without surrounding white space, and without what else is to be ignored.

    Characters that are composed differently but look the same are one.
    """
    plain = unicodedata.normalize("NFC", text).strip()
    if ignore_case:
        plain = unicodedata.normalize("NFC", plain.casefold())
    if ignore_punctuation:
        kept = (" " if unicodedata.category(character)[0] == "P" else character for character in plain)
        plain = " ".join("".join(kept).split())
    return plain


def _acceptable_text(item: Any, scorer: str, place: str) -> str:
    if isinstance(item, (str, int, float)):
        return json_text(item)
    raise ConfigurationError(
        f"The scorer {scorer!r} compares texts, and the target of {place} is {json_text(item)[:60]}.",
        hint="Give a text, a number or a list of them.",
    )
