"""Which version of a scorer gave the verdicts: labels of people tell the error rates of that one and of no other.

A version is known by digests: of the scorer's settings (its rubric, template, choices and scale among them), of its own
code, and of the judges it asks. Digests of code are salted by run; those of another run are compared by the files.
"""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from holdfast.digests import json_digest
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import BYTECODE, CODE, PACKAGE, SCORER_ROOT, VALUE, PlanEntry, SessionRecord, TaskCode
from holdfast.run.fold.reader import RunReader
from holdfast.spec.schema.drift import Drift, drift_of
from holdfast.spec.schema.model import ModelSpec

_VERSION = re.compile(r"@[0-9a-f]{8}$")
"""What follows the name of a slot that was added with a changed scorer."""
_WEIGHTS = "weights"
_STEADY = {BYTECODE, CODE, PACKAGE, VALUE}


class OwnCode(msgspec.Struct, frozen=True):
    """The code of a scorer that is a person's own."""

    salt: str
    digest: str
    """Of all code and values that it reaches, with that salt."""
    files: dict[str, str]
    """The files that it was loaded from, with their digests."""


class ScorerVersion(msgspec.Struct, frozen=True):
    """What the verdicts of a scorer rest on."""

    settings: dict[str, str]
    """By slot, the digest of its settings; a scorer without judges has one slot, its own name."""
    panel: str = ""
    """How the verdicts of several judges are combined, as a digest; empty without judges."""
    code: dict[str, OwnCode] = {}
    """By slot, where it is own code."""
    judges: dict[str, dict[str, str]] = {}
    """Models that it asks, each with the digests of what influences its replies."""


class RunVersions:
    """The versions of a run's scorers, by its newest session."""

    def __init__(self, reader: RunReader) -> None:
        sessions = reader.sessions
        self._session: SessionRecord | None = sessions[-1] if sessions else None
        self._code, self._plan = recorded_code(sessions), reader.fold.plan

    def version(self, task: str, scorer: str) -> ScorerVersion:
        """The version of a scorer of a task."""
        panel = panel_of(self._plan, task, scorer)
        slots = list(panel.slots) if panel is not None else [scorer]
        code = self._code.get(task) or TaskCode("", "")
        own = {slot: found for slot in slots if (found := self._own_code(task, slot, code)) is not None}
        return ScorerVersion(
            settings={slot: code.scorers.get(slot, "") for slot in slots},
            panel="" if panel is None else json_digest([slots, panel.combine, panel.pass_at]),
            code=own,
            judges={name: self._model(name) for name in sorted(self._judges(slots, has_code=bool(own)))},
        )

    def _own_code(self, task: str, slot: str, code: TaskCode) -> OwnCode | None:
        nodes = code.tree.roots.get(SCORER_ROOT + slot) if code.tree is not None else None
        if code.tree is None or nodes is None:
            return None
        # Values that are others at every import, and what cannot be compared, are no part of a version.
        steady = {name: [node.kind, node.digest] for name, node in nodes.items() if node.kind in _STEADY}
        inputs, prefix = self._session.inputs if self._session else {}, f"sources/{task}/"
        files = {name.rpartition("/")[2]: found.digest for name, found in inputs.items() if name.startswith(prefix)}
        return OwnCode(code.tree.salt, json_digest(steady), dict(sorted(files.items())))

    def _judges(self, slots: list[str], *, has_code: bool) -> set[str]:
        """The judges in the names of the slots; own code may ask every model that is not under test."""
        models = set(self._models())
        named = {_VERSION.sub("", slot).partition("/")[2] for slot in slots}
        asked = models - {entry.model for entry in self._plan} if has_code else set[str]()
        return (named & models) | asked

    def _models(self) -> Mapping[str, Any]:
        models = self._session.config.get("models") if self._session else None
        return models if isinstance(models, dict) else {}

    def _model(self, name: str) -> dict[str, str]:
        settings, weights = self._models()[name], self._session.weights if self._session else {}
        found = {field: settings[field] for field in _identity_fields() if settings.get(field)}
        return {
            field: json_digest(value)
            for field, value in {**found, **({_WEIGHTS: weights[name]} if name in weights else {})}.items()
        }


def _identity_fields() -> list[str]:
    """The settings of a model that influence its replies; the schema says which these are."""
    hints = typing.get_type_hints(ModelSpec, include_extras=True)
    classed = {name: hint for name, hint in hints.items() if typing.get_origin(hint) is not typing.ClassVar}
    return [name for name, hint in classed.items() if drift_of(hint) is Drift.IDENTITY]


def panel_of(plan: list[PlanEntry], task: str, scorer: str) -> Any:
    """The scorer with judges of that name; None where it has none."""
    return _panels(plan, task).get(scorer)


def panel_of_slot(plan: list[PlanEntry], task: str, slot: str) -> Any:
    """The scorer whose judge has this slot; None where there is none."""
    return next((panel for panel in _panels(plan, task).values() if slot in panel.slots), None)


def _panels(plan: list[PlanEntry], task: str) -> dict[str, Any]:
    return {name: panel for entry in plan if entry.task == task for name, panel in getattr(entry, "panels", {}).items()}


def version_changes(old: ScorerVersion, new: ScorerVersion) -> list[str]:
    """What differs, for people; empty if both are the same version."""
    return [*_slot_changes(old, new), *_judge_changes(old, new)]


def _slot_changes(old: ScorerVersion, new: ScorerVersion) -> Iterator[str]:
    if old.panel != new.panel:
        yield "the judges, or how their verdicts are combined"
    for slot in sorted({*old.settings} & {*new.settings}):
        if not old.settings[slot] or not new.settings[slot]:
            yield f"{slot} (its version is not on record)"
        elif old.settings[slot] != new.settings[slot]:
            yield f"the settings of {slot}, such as its rubric"
        elif reason := _code_change(old.code.get(slot), new.code.get(slot)):
            yield f"{reason} of {slot}"


def _code_change(old: OwnCode | None, new: OwnCode | None) -> str:
    if old is None or new is None:
        return "" if old is new else "the code"
    if old.salt == new.salt:
        return "" if old.digest == new.digest else "the code"
    if not old.files or not new.files:
        return "the code (it is in no file, and cannot be compared with that of another run)"
    changed = sorted(name for name in {*old.files, *new.files} if old.files.get(name) != new.files.get(name))
    return f"the code ({', '.join(changed)})" if changed else ""


def _judge_changes(old: ScorerVersion, new: ScorerVersion) -> Iterator[str]:
    for judge in sorted({*old.judges, *new.judges}):
        before, after = old.judges.get(judge), new.judges.get(judge)
        if before is None or after is None:
            yield f"the model {judge}, which {'is new' if before is None else 'is gone'}"
            continue
        for field in sorted({*before, *after}):
            if before.get(field) != after.get(field):
                yield f"models.{judge}.{field}"
