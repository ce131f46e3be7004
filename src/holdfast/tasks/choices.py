"""Multiple choice: lettered options, which of them the target means, and an order of each sample's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from holdfast.digests import packed_digest
from holdfast.errors import ConfigurationError
from holdfast.tasks.json_values import decoded_json, json_text
from holdfast.tasks.sample import Sample
from holdfast.tasks.template import Template
from holdfast.terminal.text import quantity

LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def lettered(choices: Sequence[str]) -> str:
    """The options as they are shown: one to a line, each behind its letter."""
    return "\n".join(f"{letter}) {choice}" for letter, choice in zip(LETTERS, choices, strict=False))


def fields_on_axes(sample: Sample, axes: Mapping[str, str] | None) -> dict[str, Any]:
    """What a template may name: the fields of the sample, and `{axes.tier}` unless it has a field that is called so."""
    fields = sample.fields()
    return {"axes": dict(axes), **fields} if axes else fields


def prompt_fields(sample: Sample, template: Template, axes: Mapping[str, str] | None = None) -> dict[str, Any]:
    """What a prompt is made from; `{choices}` alone stands for the lettered list, `{choices.0}` for one option."""
    fields = fields_on_axes(sample, axes)
    if sample.choices and "choices" in template.paths:
        fields["choices"] = lettered(sample.choices)
        fields |= {f"choices.{index}": choice for index, choice in enumerate(sample.choices)}
    return fields


def prompt_text(template: Template, sample: Sample, place: str, axes: Mapping[str, str] | None = None) -> str:
    """A prompt made from a sample; its choices follow where the template does not say where they go."""
    text = template.render(prompt_fields(sample, template, axes), place)
    if sample.choices and not template.names("choices"):
        return f"{text}\n\n{lettered(sample.choices)}"
    return text


def checked_choices(value: Any, place: str) -> list[str]:
    """The options of one sample; a CSV cell may hold them as a JSON array."""
    options = decoded_json(value) if isinstance(value, str) else value
    if not isinstance(options, list) or not all(isinstance(item, str | int | float) for item in options):
        raise ConfigurationError(
            f"The choices of {place} are not a list of texts.", hint='Write them as a JSON array: ["yes", "no"].'
        )
    texts = [json_text(item) for item in options]
    if not 2 <= len(texts) <= len(LETTERS):
        raise ConfigurationError(
            f"{place} has {quantity(len(texts), 'choice')}.", hint=f"Give between 2 and {len(LETTERS)}."
        )
    if len(set(texts)) < len(texts):
        raise ConfigurationError(f"{place} has the same choice twice.", hint="Make every choice a different text.")
    return texts


def target_index(sample: Sample, place: str = "the sample") -> int:
    """Which choice the target means: its letter, its text, or, for an integer, its position from 0."""
    choices = sample.choices or []
    meant = set(_target_readings(sample.target, choices))
    if len(meant) == 1:
        return meant.pop()
    if meant:
        both = " or ".join(LETTERS[index] for index in sorted(meant))
        raise ConfigurationError(
            f"The target {sample.target!r} of {place} could mean choice {both}.",
            hint="Give the letter or the whole text.",
        )
    raise ConfigurationError(
        f"The target {sample.target!r} of {place} is not among its {len(choices)} choices.",
        hint=_wrong_target_hint(sample.target),
    )


def _wrong_target_hint(target: Any) -> str:
    hint = "Give the letter, the text of a choice, or its position counted from 0."
    if isinstance(target, str) and target.strip().isdecimal():
        return f"{hint} A position is a number; a CSV file has only texts, so use letters there, or jsonl."
    return hint


def shuffled(sample: Sample, seed: int, key: str, place: str = "the sample") -> Sample:
    """The sample with its choices in an order that depends on the seed and its key alone; the target follows."""
    if not sample.choices:
        return sample
    order = sorted(range(len(sample.choices)), key=lambda index: _choice_rank(seed, key, index))
    choices = [sample.choices[index] for index in order]
    if sample.target is None:
        return msgspec.structs.replace(sample, choices=choices)
    letter = LETTERS[order.index(target_index(sample, place))]
    return msgspec.structs.replace(sample, choices=choices, target=letter)


def _target_readings(target: Any, choices: Sequence[str]) -> list[int]:
    if isinstance(target, int) and not isinstance(target, bool):
        by_position = [target] if 0 <= target < len(choices) else []
        return by_position + [index for index, choice in enumerate(choices) if choice == str(target)]
    text = json_text(target).strip()
    by_letter = [LETTERS.index(text)] if len(text) == 1 and text in LETTERS[: len(choices)] else []
    return by_letter + [index for index, choice in enumerate(choices) if choice.strip() == text]


def _choice_rank(seed: int, key: str, index: int) -> bytes:
    return packed_digest(f"choices {seed} {index} {key}".encode())
