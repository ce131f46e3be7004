"""What determines the answer and the scores of a trial, in one of the two runs of a fork.

Two trials with the same identity would get the same answer, apart from chance: the same question in the same words,
put by the same code to the same model under the same limits, with the same seed.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec

from holdfast.engine.planning.plan import PlannedTask
from holdfast.engine.planning.prepared_eval import PreparedEval, other_models
from holdfast.run.core.records import SAMPLING_ROOT, SCORER_ROOT, SOLVER_ROOT, TOOLS_ROOT, TaskCode
from holdfast.run.core.slots.slot_names import judge_of
from holdfast.run.drift.code_changes import code_changes, is_lost
from holdfast.run.drift.gate import UnsteadyNames
from holdfast.spec import plain_data
from holdfast.spec.compare import model_identity
from holdfast.tasks.grid.axis_files import file_key
from holdfast.tasks.solver import Generate

_NO_MATTER_TO_ANSWERS = {"target", "operations"}


_CHANGED = " (changed)"


def mark_changes(
    saved: Mapping[str, TaskCode], codes: Mapping[str, TaskCode], unsteady: UnsteadyNames
) -> dict[str, TaskCode]:
    """The code of now, in which a solver or scorer that the gate would refuse is marked as another one.

    Answers of one agent must not count as those of another, so what the gate compares decides here as well.
    """
    return {name: _with_marks(saved.get(name), code, unsteady.get(name)) for name, code in codes.items()}


def _with_marks(old: TaskCode | None, new: TaskCode, unsteady: Mapping[str, set[str]] | None) -> TaskCode:
    changed: Collection[str] = code_changes(old.tree if old is not None else None, new.tree, unsteady).keys()
    if is_lost(old) and new.tree is not None:
        # Nobody knows what gave the answers.
        changed = new.tree.roots.keys()
    asks = {SOLVER_ROOT, SAMPLING_ROOT, TOOLS_ROOT}.intersection(changed)
    scorers = {name: digest + _CHANGED * (f"{SCORER_ROOT}{name}" in changed) for name, digest in new.scorers.items()}
    return msgspec.structs.replace(new, solver=new.solver + _CHANGED * bool(asks), scorers=scorers)


class TrialIdentities:
    """The identities of the trials in one of the two runs, from its plan and the code behind its tasks."""

    def __init__(self, prepared: PreparedEval, code: Mapping[str, TaskCode], weights: Mapping[str, str]) -> None:
        """`weights` are the digests of models that are files."""
        self.prepared, self._code, self._weights = prepared, code, weights
        self._tasks = {task.name: task for task in prepared.tasks}

    def task(self, name: str) -> PlannedTask | None:
        return self._tasks.get(name)

    def answer_identity(self, task: PlannedTask, model: str, position: int, axes: Mapping[str, str]) -> Any:
        """Everything that determines the answer of one trial."""
        entry, spec = self.prepared.spec.tasks[task.name], self.prepared.spec
        if entry.use or entry.solver:
            own: Any = [self._settings(task.name, axes), entry.args, entry.prompt, entry.choices]
        else:
            chosen = task.chosen_for(model, axes)
            own = [task.task.solver_identity(task.dataset[position], axes, chosen), plain_data(task.limits)]
            # Only then, so that a trial without it is the one that it always was.
            own += [] if task.max_iterations is None else [task.max_iterations]
        if task.task.grid is not None:
            own = [own, self._axis_identity(task, model, axes)]
        # The messages of a plain prompt are all that it makes of a sample: other columns do not matter to it.
        is_prompt = isinstance(task.task.solver, Generate) and not task.task.solver.is_sampled and not entry.use
        return (
            msgspec.json.encode(own, order="sorted"),
            self._code[task.name].solver,
            b"" if is_prompt else task.dataset.input_digest(position),
            *self._model_identity(model),
            spec.seed,
            spec.deterministic,
            [(name, *self._model_identity(name)) for name in other_models(task.task)],
        )

    def _axis_identity(self, task: PlannedTask, model: str, axes: Mapping[str, str]) -> Any:
        """What the axis values of a trial bring, and the value that was chosen for one that depends on others."""
        if (grid := task.task.grid) is None:
            return None
        chosen, files = task.chosen_for(model, axes), self._code[task.name].axis_files
        lines = [(axis, [axes[axis], *chosen.get(axis, ())]) for axis in sorted(axes)]
        keys = [
            file_key(axis, value, path)
            for axis, line in lines
            for value in line
            for path in grid.value(axis, value).files
        ]
        depends = [axis for axis, value in axes.items() if grid.value(axis, value).best_of]
        return [
            grid.identity_at(axes, chosen),
            [(key, files.get(key)) for key in keys],
            [chosen.get(one) for one in depends],
        ]

    def _model_identity(self, name: str) -> tuple[bytes, bytes]:
        """What the replies of a model depend on."""
        model = self.prepared.spec.models[name]
        return model_identity(model, self._weights.get(name, "")), msgspec.json.encode(
            plain_data(model.generation), order="sorted"
        )

    def _settings(self, task: str, axes: Mapping[str, str]) -> dict[str, str]:
        """What a task in Python sets itself, as far as this trial is concerned."""
        prompt = f"prompt {axes.get('prompt', '')}".rstrip()
        return {
            name: digest
            for name, digest in self._code[task].settings.items()
            if name not in _NO_MATTER_TO_ANSWERS and (name == prompt or not name.startswith("prompt"))
        }

    def score_identities(self, task: PlannedTask, position: int, built_in: Collection[str]) -> dict[str, Any]:
        """By scorer, everything that determines its score of an answer."""
        code, entry = self._code[task.name], self.prepared.spec.tasks[task.name]
        target = (entry.target, code.settings.get("target"), task.dataset.target_digest(position))
        row = task.dataset.input_digest(position)
        # Code of one's own may look at any column.
        return {
            name: (digest, target, b"" if name in built_in else row, self._judge_identity(name))
            for name, digest in code.scorers.items()
        }

    def _judge_identity(self, slot: str) -> tuple[bytes, bytes] | None:
        """What the verdicts of a slot's judge depend on beside the scorer; None where no judge is."""
        judge = judge_of(slot)
        return self._model_identity(judge) if judge in self.prepared.spec.models else None
