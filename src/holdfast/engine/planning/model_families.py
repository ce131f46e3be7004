"""Judges of the same family as the model under test: models tend to prefer answers that read like their own.

A family is recognised by names alone: the letters that a model's name begins with (`gpt` of gpt-4o-mini, `llama` of
Llama-3.1-8B), or the vendor before it (`anthropic/…`). It is a hint for people, so it may be wrong in either direction.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from holdfast.engine.planning.plan import PlannedTask
from holdfast.models.errors import excerpt
from holdfast.run.core.display_text import list_text
from holdfast.run.core.records import NoteRecord
from holdfast.run.fold.reader import RunReader
from holdfast.spec import ModelSpec
from holdfast.tasks.judges.panels import judging_models

FAMILY_NOTE = "judge_family"
"""The kind of the note about judges of the same family."""
_LETTERS = re.compile(r"[^\W\d_]+")
_SCRIPTED = "scripted"
_OWN_MODELS = frozenset({"anthropic"})
"""Providers whose models are all of one family."""
_LONGEST = 1000


def family_warning(tasks: Sequence[PlannedTask], models: Mapping[str, ModelSpec]) -> str:
    """One sentence about all judges that share a family with a model they judge; empty where none does."""
    pairs = dict.fromkeys(pair for task in tasks for pair in _related_pairs(task, models))
    if not pairs:
        return ""
    named = list_text(
        [f"{judge} judges {model}" if judge != model else f"{judge} judges itself" for judge, model in pairs]
    )
    return excerpt(
        f"Judge and model under test are of one family, and judges tend to prefer answers like their own: {named}."
        " Compare with a judge of another family, or with labels of people (report --labels).",
        _LONGEST,
    )


def new_family_note(reader: RunReader, warning: str) -> NoteRecord | None:
    """The note about it; None where there is nothing to note, or the run has the same note already."""
    known = {note.text for _, note in reader.notes() if note.kind == FAMILY_NOTE} if warning else set()
    return NoteRecord(kind=FAMILY_NOTE, text=warning) if warning and warning not in known else None


def _related_pairs(task: PlannedTask, models: Mapping[str, ModelSpec]) -> Iterator[tuple[str, str]]:
    for judge in judging_models(task.task.scorers):
        for model in task.models:
            if judge == model or _families(models[judge]) & _families(models[model]):
                yield judge, model


def _families(model: ModelSpec) -> set[str]:
    """The names by which a model's family is known."""
    vendor, _, name = model.model.lower().rpartition("/")
    if model.provider == _SCRIPTED:
        return {f"{_SCRIPTED}/{model.model}"}
    found = {f"vendor {vendor.rpartition('/')[2]}"} if vendor else set()
    found |= {f"vendor {model.provider}"} if model.provider in _OWN_MODELS else set()
    letters = _LETTERS.match(name)
    # One letter, as of o3, says nothing by itself.
    return found | ({letters[0]} if letters and len(letters[0]) > 1 else {name})
