"""Versions of scorers: everything that a judgement rests on, as a few digits, and what people call its scores.

Scores of the newest plan are called as their scorer is; those of another version of it by its digits as well.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from holdfast.digests import json_digest
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import MEMBER, SCORER_ROOT, UNSTEADY, SessionRecord, TaskCode
from holdfast.run.core.slots.slot_names import VERSION_MARK, base_name, judge_of, scorer_of, versioned

_DIGITS = 8


def scorer_version(name: str, code: TaskCode, models: Mapping[str, Any], weights: Mapping[str, str]) -> str:
    """A few digits that stand for everything that a scorer's judgement rests on.

    That is its arguments and its code, the settings of its judge, or the digest of its `weights`, and the targets, if
    those have changed since the run was started.
    """
    nodes = code.tree.roots.get(f"{SCORER_ROOT}{name}", {}) if code.tree is not None else {}
    held = [
        [place, node.kind, node.digest] for place, node in sorted(nodes.items()) if node.kind not in {MEMBER, UNSTEADY}
    ]
    judge = judge_of(name)
    judging = _judging(models.get(judge), weights.get(judge, ""))
    return json_digest([code.scorers.get(name, ""), held, judging, code.targets])[:_DIGITS]


def _judging(model: Any, weights: str) -> Any:
    """What decides how a judge answers: not where it is reached, and not what it costs."""
    if not isinstance(model, Mapping):
        return None
    found = {name: model.get(name) for name in ("provider", "model", "args", "headers", "generation")}
    if weights and isinstance(found["args"], Mapping):
        found["args"] = {name: value for name, value in found["args"].items() if name != "path"}
    return [found, weights]


def slot_titles(plan_slots: Sequence[str], known: Sequence[str], versions: Mapping[str, str]) -> dict[str, str]:
    """What people call each known slot of a task: those of the plan by their plain names, others by their versions.

    `versions` gives the digits of slots with plain names, which other versions have replaced.
    """
    scorers = set(map(scorer_of, plan_slots))
    titles = {}
    for slot in known:
        # Another kind of scorer may have come in the place of a panel.
        is_replaced = scorer_of(slot) in scorers and VERSION_MARK not in slot
        older = versioned(slot, versions.get(slot, "first")) if is_replaced else slot
        titles[slot] = base_name(slot) if slot in plan_slots else older
    return titles


def recorded_version(name: str, task: str, session: SessionRecord, code: Mapping[str, TaskCode]) -> str:
    """The version of a scorer in a session; `code` is the session's own, with its trees. Empty if it had none."""
    models = session.config.get("models")
    models = models if isinstance(models, Mapping) else {}
    return scorer_version(name, code[task], models, session.weights) if task in code else ""


def slots_by_name(session: SessionRecord | None, task: str) -> dict[str, str]:
    """By plain name, the slots that a session planned for a task."""
    plan = session.plan if session is not None else []
    return {base_name(slot): slot for entry in plan if entry.task == task for slot in entry.scorers}


def replaced_versions(sessions: Sequence[SessionRecord], task: str) -> dict[str, str]:
    """The versions behind plain names, by name: those of the first session that planned each."""
    found: dict[str, str] = {}
    for place, session in enumerate(sessions):
        names = {slot for slot in slots_by_name(session, task).values() if VERSION_MARK not in slot} - found.keys()
        if names:
            code = recorded_code(sessions[: place + 1])
            found |= {name: recorded_version(name, task, session, code) for name in names}
    return found
