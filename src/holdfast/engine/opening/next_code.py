"""The code that the next session of a run records: a tree only where no earlier session has the same."""

from __future__ import annotations

import msgspec

from holdfast.engine.opening.resume_plan import ResumePlan
from holdfast.engine.planning.earlier_runs import new_salt
from holdfast.engine.planning.prepared_eval import PreparedEval
from holdfast.run.core.records import TaskCode
from holdfast.run.drift.code_changes import recorded_code, with_unsteady
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
        if before is not None and before.tree is not None and code.tree is not None:
            tree = with_unsteady(code.tree, before.tree, plan.unsteady.get(planned.name, {}))
            holder = last.code[planned.name].tree_session or last.number
            same = tree == before.tree
            code = msgspec.structs.replace(code, tree=None if same else tree, tree_session=holder if same else 0)
        found[planned.name] = code
    return found
