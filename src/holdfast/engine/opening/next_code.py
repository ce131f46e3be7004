"""The code that the next session of a run records: a tree only where no earlier session has the same."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from holdfast.engine.opening.earlier_targets import EarlierTargets, targets_of
from holdfast.engine.opening.resume_plan import ResumePlan
from holdfast.engine.planning.earlier_runs import new_salt
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.engine.planning.versioned_slots import has_changed_targets
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import SessionRecord, TaskCode
from holdfast.run.drift.code_changes import with_unsteady
from holdfast.run.fold.reader import RunReader
from holdfast.tasks.task_code import code_of


def next_code(reader: RunReader, plan: ResumePlan, prepared: PreparedEval) -> dict[str, TaskCode]:
    """By task, its code as it is now; values that are others at every import are marked as such."""
    last, saved = reader.sessions[-1], recorded_code(reader.sessions)
    salt = next((code.tree.salt for code in saved.values() if code.tree is not None), "") or new_salt()
    found = {}
    for planned in prepared.tasks:
        before = saved.get(planned.name)
        code = code_of(planned.task, salt, before.tree if before is not None else None)
        if before is not None:
            targets = before.targets
            if has_changed_targets(planned, plan.decision):
                earlier = EarlierTargets(reader.layout, reader.sessions, planned.name)
                targets = earlier.value_of(targets_of(planned, code))
            code = msgspec.structs.replace(code, targets=targets)
        if before is not None and before.tree is not None and code.tree is not None:
            tree = with_unsteady(code.tree, before.tree, plan.unsteady.get(planned.name, {}))
            holder = last.code[planned.name].tree_session or last.number
            same = tree == before.tree
            code = msgspec.structs.replace(code, tree=None if same else tree, tree_session=holder if same else 0)
        found[planned.name] = code
    return found


def with_trees(code: Mapping[str, TaskCode], sessions: Sequence[SessionRecord]) -> dict[str, TaskCode]:
    """The code of the next session, with the trees that an earlier one has recorded."""
    saved = recorded_code(sessions)
    return {
        name: one if one.tree is not None or name not in saved else msgspec.structs.replace(one, tree=saved[name].tree)
        for name, one in code.items()
    }
