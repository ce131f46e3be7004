"""The names of score slots: what a person calls a scorer, its judge, and its version.

A slot of a plain scorer has the scorer's name (`exact`), that of a judge both names (`quality/a`). Where answers were
scored once more by a scorer that had changed, the slots of the changed one have the digest of what it is behind their
name (`exact@3fa2c1d0`), so both scores stay on record. The version that a run had first has the plain name.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.digests import json_digest
from holdfast.run.core.records import SCORER_ROOT, UNSTEADY, SessionRecord, TaskCode

JUDGE_MARK, VERSION_MARK = "/", "@"
_DIGITS = 8


def base_name(slot: str) -> str:
    """The name of a slot without its version."""
    return slot.partition(VERSION_MARK)[0]


def scorer_of(slot: str) -> str:
    """The scorer that a slot belongs to, as people call it."""
    return base_name(slot).partition(JUDGE_MARK)[0]


def judge_of(slot: str) -> str:
    """The judge whose slot it is; empty for that of a plain scorer."""
    return base_name(slot).partition(JUDGE_MARK)[2]


def versioned(name: str, version: str) -> str:
    """The slot of one version of a scorer."""
    return f"{name}{VERSION_MARK}{version}"


def scorer_version(name: str, code: TaskCode, models: Mapping[str, Any]) -> str:
    """A few digits that stand for everything that a scorer's judgement rests on.

    That is its arguments and its code, the settings of its judge, and the targets, if those have changed since the run
    was started.
    """
    nodes = code.tree.roots.get(f"{SCORER_ROOT}{name}", {}) if code.tree is not None else {}
    held = [[place, node.kind, node.digest] for place, node in sorted(nodes.items()) if node.kind != UNSTEADY]
    return json_digest([code.scorers.get(name, ""), held, _judging(models.get(judge_of(name))), code.targets])[:_DIGITS]


def _judging(model: Any) -> Any:
    """What decides how a judge answers: not where it is reached, and not what it costs."""
    if not isinstance(model, Mapping):
        return None
    return {name: model.get(name) for name in ("provider", "model", "args", "headers", "generation", "system")}


def slot_titles(plan_slots: Sequence[str], known: Sequence[str], versions: Mapping[str, str]) -> dict[str, str]:
    """What people call each known slot of a task: those of the plan by their plain names, others by their versions.

    `versions` gives the digits of slots with plain names, which other versions have replaced.
    """
    planned = {base_name(slot): slot for slot in plan_slots}
    return {slot: _title(slot, planned.get(base_name(slot)), versions) for slot in known}


def _title(slot: str, planned: str | None, versions: Mapping[str, str]) -> str:
    if slot == planned:
        return base_name(slot)
    is_replaced = planned is not None and VERSION_MARK not in slot
    return versioned(slot, versions.get(slot, "first")) if is_replaced else slot


def recorded_version(name: str, task: str, session: SessionRecord, code: Mapping[str, TaskCode]) -> str:
    """The version of a scorer in a session; `code` is the session's own, with its trees. Empty if it had none."""
    models = session.config.get("models")
    return scorer_version(name, code[task], models if isinstance(models, Mapping) else {}) if task in code else ""


def slots_by_name(session: SessionRecord | None, task: str) -> dict[str, str]:
    """By plain name, the slots that a session planned for a task."""
    plan = session.plan if session is not None else []
    return {base_name(slot): slot for entry in plan if entry.task == task for slot in entry.scorers}
