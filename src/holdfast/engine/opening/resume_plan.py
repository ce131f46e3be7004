"""The plan of a resume: the comparison of the run with what is offered now, and the inputs to use.

Datasets are looked up where the eval says they are; a file whose bytes have not changed is not read further. Where the
file has changed, its samples are compared by key with those that the run has asked about. Where it is missing, the
run's own copy is used. Nothing in the run is written here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from holdfast.digests import file_digest
from holdfast.engine.opening.comparing.explicit_defaults import same_formats, spelled_as_saved
from holdfast.engine.opening.comparing.offer import Offer
from holdfast.engine.opening.comparing.offered_models import with_models_under_test
from holdfast.engine.opening.comparing.renamed_members import MemberComparison
from holdfast.engine.opening.resumed_inputs import ResumedInputs, SampleSelection, select_samples
from holdfast.engine.planning.earlier_runs import comparable_code, with_present_names
from holdfast.engine.planning.inputs import FreshInputs, SavedInputs, input_name, raw_digest, template_input
from holdfast.engine.planning.prepared_eval import (
    axis_field,
    code_files,
    digests_of_weights,
    naming_task,
    other_models,
    task_of_entry,
    with_other_answers,
)
from holdfast.engine.planning.saved_eval import last_session, saved_eval
from holdfast.errors import ConfigurationError, ResumeAborted, UsageError
from holdfast.run.core.config_file import check_config
from holdfast.run.core.display_text import no_results_text
from holdfast.run.core.recorded_code import recorded_code
from holdfast.run.core.records import TaskCode
from holdfast.run.core.slots.slot_names import judge_of
from holdfast.run.drift.code_notes import CodeNotes
from holdfast.run.drift.gate import (
    Decision,
    Samples,
    Snapshot,
    UnsteadyNames,
    decide,
    judged_anew,
    refused_difference,
    resume_refused,
)
from holdfast.run.drift.task_size import merge_task_sizes
from holdfast.run.fold.reader import RunReader
from holdfast.spec import DatasetSpec, Drift, EvalSpec, TaskSpec
from holdfast.spec.code_reference import is_code_reference
from holdfast.spec.compare import GONE, Difference, DriftVerdict, grid_differences, merge_evals, scorer_parts
from holdfast.spec.edited_values import edited_values
from holdfast.spec.grid import Axes, JoinedGrid, asked_models, declared_axes
from holdfast.spec.judged_scorers import judges_of
from holdfast.spec.loading.error_messages import key_path
from holdfast.spec.schema.model import LOCAL
from holdfast.storage.leases.local import refuse_held
from holdfast.tasks.from_spec import declared_samples, declared_scorers, regrouped, samples_on_record, with_keys_of
from holdfast.tasks.grid.axis_files import axis_files
from holdfast.tasks.judges.panels import judge_slots, judging_models, with_saved_judges
from holdfast.tasks.solver import Generate
from holdfast.tasks.stages import is_staged
from holdfast.tasks.task import Task
from holdfast.tasks.task_code import raised_parts


def _is_cost_limited(task: Task) -> bool:
    """Whether a price decides how a trial of the task ends."""
    in_trial = task.limits is not None and task.limits.cost is not None
    return in_trial or (isinstance(task.solver, Generate) and task.solver.has_cost_cap)


class ResumePlan:
    """What the gate has accepted: the eval, the inputs and the tasks of the next session."""

    def __init__(
        self,
        decision: Decision,
        tasks: Mapping[str, Task],
        inputs: ResumedInputs,
        note: str,
        weights: Mapping[str, str],
        unsteady: UnsteadyNames | None = None,
        offered: EvalSpec | None = None,
    ) -> None:
        """`weights` are the digests of the models that are files and were compared; `offered` is what was given."""
        self.decision, self.tasks, self.inputs, self.note = decision, tasks, inputs, note
        self.weights, self.unsteady, self.offered = weights, unsteady or {}, offered


class ResumeComparison:
    """Compares a run with what is offered."""

    def __init__(self, reader: RunReader, offer: Offer | None, given: Mapping[str, Task] | None) -> None:
        self._reader, self._offer, self._given = reader, offer, given or {}
        self._session = reader.sessions[-1]
        self._saved = saved_eval(self._session)
        saved = SavedInputs(reader.layout, self._session.inputs, loads_code=True)
        self._inputs = ResumedInputs(saved, FreshInputs())
        self._tasks: dict[str, Task] = {}
        self._code = recorded_code(reader.sessions)
        self._unsteady: UnsteadyNames = {}
        self._rescoring = offer is not None and offer.rescoring
        self._offered = self._saved if offer is None else self._respelled(self._with_models(offer.spec))
        self._used_models = _models_used(self._saved, reader)
        self._weights: dict[str, str] = {}

    def plan(self) -> ResumePlan:
        """What the next session would use.

        Raises:
            ResumeAborted: the run cannot be resumed with what is offered; nothing was written.
        """
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            reader = self._reader
            before = reader.sessions_before()
            config, name = reader.layout.config, reader.config_name
            note = check_config(config, reader.sessions, same_values, edited_places, before, name)
            self._check_serving()
            decision = self.compare()
            if decision.refused:
                note = no_results_text(reader.place) if reader.may_be_deleted() else ""
                ways_out = self._ways_out(decision)
                raise resume_refused(decision, reader.place, ways_out, note, rescoring=self._rescoring)
            undo.pop_all()
        offered = None if self._offer is None else self._offered
        return ResumePlan(decision, self._tasks, self._inputs, note, self._weights, self._unsteady, offered)

    def close(self) -> None:
        """Frees what was read for the comparison."""
        self._inputs.close()

    def compare(self) -> Decision:
        """Every difference, with its verdict.

        Raises:
            ConfigurationError: a task or a dataset of the eval cannot be loaded here, or a new run would refuse it.
        """
        self._check_tasks()
        joined = merge_evals(self._saved, self._offered, self._freely(), rescoring=self._rescoring)
        try:
            return self._decide(joined.spec)
        except UsageError:
            differences = joined.differences + self._renamed_members()
            if not any(item.verdict is DriftVerdict.REFUSED for item in differences):
                raise
            # A refused change may refer to things that do not exist here, or leave out the code of a task.
            return Decision(joined.spec, differences)

    def _renamed_members(self) -> list[Difference]:
        """The members that come under another name, and the kinds of which nothing is left."""
        members = MemberComparison(
            self._saved,
            self._offered,
            self._used_models,
            self._shares_samples,
            lambda task: code_files(task, self._offered, self._inputs),
        )
        return members.differences(self._code, lambda new, old: comparable_code(self._added_task(new), self._code[old]))

    def _added_task(self, name: str) -> Task:
        if name not in self._tasks:
            entry = self._offered.tasks[name]
            self._tasks[name] = task_of_entry(name, entry, self._offered, self._inputs, self._given.get(name))
        return self._tasks[name]

    def _check_serving(self) -> None:
        path = self._reader.layout.root / "serving.yaml"
        found = raw_digest(path) if path.exists() else ""
        if found != self._session.serving:
            state = (
                "is missing" if not found else "did not exist before" if not self._session.serving else "has changed"
            )
            raise ResumeAborted(
                f"Resume aborted: {path} {state}; it is compared byte for byte.", hint="Restore the file."
            )

    def _decide(self, spec: EvalSpec) -> Decision:
        made = {
            name: self._as_in_run(name, task_of_entry(name, spec.tasks[name], spec, self._inputs, given))
            for name, given in ((name, self._given.get(name)) for name in spec.tasks)
        }
        offered = {name: comparable_code(task, self._code.get(name)) for name, task in made.items()}
        self._tasks = {name: self._widened(name, task, offered[name]) for name, task in made.items()}
        spec, regrouped = self._with_joined_grids(self._without_reductions(spec), made)
        before, after, kept = self._compare_rows(spec)
        weights, self._weights = self._compared_weights(spec)
        templates = {name: compared for name, task in made.items() if (compared := self._compared_template(task))}
        saved = Snapshot(
            self._saved,
            self._code,
            before,
            weights=weights,
            templates={name: kept for name, (kept, _) in templates.items()},
        )
        files = {name: self._changed_files(name, task, spec) for name, task in made.items() if name in self._code}
        self._unsteady = self._unsteady_values(offered, spec)
        now = Snapshot(
            self._offered,
            offered,
            after,
            files,
            self._weights,
            {name: dict(task.taken.places) for name, task in made.items()},
            {name: task.taken.mutated for name, task in made.items()},
            {name: found for name, (_, found) in templates.items()},
            {name: self._axis_files_now(task) for name, task in made.items() if name in self._code},
            self._unsteady,
            {name: raised_parts(made[name], code, offered[name]) for name, code in self._code.items() if name in made},
        )
        decision = decide(saved, now, self._freely(), rescoring=self._rescoring)
        kept += list(_code_kept(spec, self._inputs.saved.copies_used))
        notes = CodeNotes(self._session, self._code, now).lines()
        differences = self._without_digests(spec, self._with_cost_limits(spec, decision.differences))
        differences = self._as_scoring(spec, differences) + list(self._judges_kept(made)) + regrouped
        # That other samples would be chosen too says nothing more where the dataset is refused.
        lost = {item.path for item in kept if item.verdict is DriftVerdict.REFUSED}
        # A rescoring, which a refused target names as its way out, could not use these rows.
        differences = [item for item in differences if item.path not in lost or item.drift is not Drift.SCORING]
        refused = {item.path for item in differences if item.verdict is DriftVerdict.REFUSED}
        kept = [item for item in kept if item.path not in refused]
        decision = Decision(spec, differences + self._renamed_members() + kept, notes)
        if not decision.refused:
            self._check_offered()
            self._check_growth(decision)
        return decision

    def _compared_template(self, task: Task) -> tuple[str, str] | None:
        """The identity of the template of a task's workspaces, in the run and where it is now; None if it is gone."""
        saved = self._session.inputs.get(template_input(task.name))
        if saved is None or not is_staged(task.solver):
            return None
        from holdfast.tasks.agents.command_agent import CommandAgent  # noqa: PLC0415 - most tasks have no agent
        from holdfast.tasks.workspaces.workspace_template import recorded_commit, template_identity  # noqa: PLC0415

        if not isinstance(task.solver, CommandAgent) or not task.solver.template.is_there:
            return None
        commit = recorded_commit(self._reader.layout.inputs / saved.digest)
        return saved.raw, template_identity(task.solver.template, commit)

    def _axis_files_now(self, task: Task) -> dict[str, str]:
        """The identities of the files of axis values, where they are now; the others are in the run."""
        found = [(file, file.template(axis_field(task.name, file))) for file in axis_files(task.grid)]
        if not found:
            return {}
        from holdfast.tasks.workspaces.workspace_template import template_identity  # noqa: PLC0415 - few axes have files

        return {file.key: template_identity(template, "") for file, template in found if template.is_there}

    def _unsteady_values(self, offered: Mapping[str, TaskCode], spec: EvalSpec) -> UnsteadyNames:
        if not any(code.tree for code in (*offered.values(), *self._code.values())):
            return {}
        from holdfast.engine.opening.second_load import unsteady_values  # noqa: PLC0415 - most tasks have no code

        return unsteady_values(self._reader, self._code, offered, spec, self._given)

    def _with_models(self, spec: EvalSpec) -> EvalSpec:
        return with_models_under_test(spec, self._saved, self._session, lambda: self._tasks_in_code(spec))

    def _tasks_in_code(self, spec: EvalSpec) -> Iterator[Task]:
        """The tasks in Python of an eval; one that cannot be loaded is named once everything is compared."""
        for name, entry in spec.tasks.items():
            with contextlib.suppress(UsageError):
                if entry.use:
                    yield task_of_entry(name, entry, spec, self._inputs, self._given.get(name))

    def _respelled(self, spec: EvalSpec) -> EvalSpec:
        """The offered eval in the spelling of the saved one."""
        return spelled_as_saved(spec, self._saved, lambda task: code_files(task, spec, self._inputs))

    def _freely(self) -> set[str]:
        """The paths of what may change whatever its class is."""
        models = {key_path("models", name) for name in self._saved.models if name not in self._used_models}
        asked = {task.dataset for task in self._saved.tasks.values()}
        datasets = {key_path("datasets", name) for name in self._saved.datasets if name not in asked}
        titles = self._offer.titles if self._offer is not None else frozenset()
        if self._rescoring:
            models |= {key_path("models", name) for name in self._judges}
        return {*models, *datasets, *titles, *same_formats(self._offered, self._saved)}

    @functools.cached_property
    def _judges(self) -> set[str]:
        """The judges of the run whose replies are in no answer."""
        named = {judge_of(slot) for entry in self._session.plan for slot in entry.scorers} - {""}
        judges = named - _models_solving(self._saved)
        is_changed = any(self._saved.models.get(name) != self._offered.models.get(name) for name in judges)
        # The code of a solver may have asked them too: that is known from its replies alone.
        return judges - _models_that_answered(self._reader) if is_changed else judges

    def _shares_samples(self, old: str, new: str) -> bool:
        """Whether most samples that a task of the run was asked about are asked about by a task that is added."""
        source, entry = input_name(old, self._saved.tasks[old]), self._offered.tasks[new]
        rows = self._inputs.rows(input_name(new, entry), self._added_task(new))
        if rows.digest == self._session.inputs[source].digest:
            return True
        before = self._selection(old, self._saved, self._recorded(old)).selected_before(
            self._inputs.saved.copied_rows(source, old)
        )
        asked = select_samples(self._added_task(new), rows, entry.limit, entry.sample_ids)
        now = {asked.input_digest(position) for position in range(len(asked))}
        shared = sum(before.input_digest(position) in now for position in range(len(before)))
        return 2 * shared > len(before)

    def _recorded(self, name: str) -> Task:
        """A task of the run as far as its samples are concerned; its code may no longer exist."""
        return samples_on_record(name, self._saved, self._code[name]) or self._tasks[name]

    def _check_tasks(self) -> None:
        """Checks what tasks declare as a new run would: no way out of a refusal leads past that. Code is not loaded.

        Raises:
            ConfigurationError: a prompt, a scorer or a run to compare with is wrong.
        """
        for name, entry in self._offered.tasks.items():
            if entry.use or entry == self._saved.tasks.get(name):
                continue
            built_in = [scorer for scorer in entry.scorers if not is_code_reference(scorer_parts(scorer)[0])]
            declared = msgspec.structs.replace(entry, scorers=built_in)
            with naming_task(name, entry):
                task = declared_samples(name, entry, self._offered.datasets[entry.dataset or ""])
                scorers = declared_scorers(name, declared, code_files(name, self._offered, self._inputs))
                with_other_answers(dataclasses.replace(task, scorers=scorers), self._offered, self._inputs)

    def _check_offered(self) -> None:
        """Checks what the offered eval says of the run's own tasks as a new run would: what is kept may hide it.

        Raises:
            ConfigurationError: two scorers have one name, a sample is beyond the limit, a dataset does not exist.
        """
        for name, entry in self._offered.tasks.items():
            before = self._saved.tasks.get(name)
            if before is None or entry == before:
                continue
            if entry.scorers != before.scorers:
                declared_scorers(name, entry, code_files(name, self._offered, self._inputs))
            if entry.sample_ids and entry.sample_ids != before.sample_ids:
                rows = self._inputs.rows(input_name(name, entry), self._tasks[name])
                select_samples(self._tasks[name], rows, entry.limit, entry.sample_ids)
        self._check_paths()

    def _check_paths(self) -> None:
        """A dataset may be gone from its place, and the run has a copy; a new place where it is not is a mistake."""
        for name in sorted({task.dataset or "" for task in self._saved.tasks.values()} & self._offered.datasets.keys()):
            old, new = self._saved.datasets[name].path, self._offered.datasets[name].path
            is_moved = _relative(old, self._saved) == _relative(new, self._offered)
            if old != new and not is_moved and not Path(new).exists():
                raise ConfigurationError(
                    f"{key_path('datasets', name)}.path: {new} does not exist.",
                    hint="Check the path. Leave it as it is to use the copy in the run.",
                )

    def _ways_out(self, decision: Decision) -> list[str]:
        from holdfast.engine.opening.comparing.ways_out import WaysOut  # noqa: PLC0415 - for a refusal only

        ways = WaysOut(self._reader, self._saved, self._offer, self._given)
        unchanged = decision.refused if self._offer is None else self._refused_with(None)
        return list(ways.lines(decision, unchanged, is_rescorable=self._is_rescorable))

    def _is_rescorable(self) -> bool:
        """Whether the recorded answers could be scored with what is offered: a rename, for one, they could not."""
        offer = Offer(self._saved) if self._offer is None else self._offer
        if offer.rescoring:
            return False
        return self._refused_with(msgspec.structs.replace(offer, rescoring=True)) == []

    def _refused_with(self, offer: Offer | None) -> list[Difference] | None:
        """What would be refused if that were offered instead; None where it cannot even be compared."""
        with contextlib.closing(ResumeComparison(self._reader, offer, self._given)) as other:
            try:
                return other.compare().refused
            except UsageError:
                return None

    def _compared_weights(self, spec: EvalSpec) -> tuple[dict[str, str], dict[str, str]]:
        """The digests of models that are files, saved and offered; of those that trials ask or that have answered."""
        saved = self._session.weights
        models = {name: spec.models[name] for name in self._compared_models(spec) if name in saved}
        found = digests_of_weights(models)
        if any(found[name] != saved[name] for name in found):
            # What is kept of a file may not be why a resume is refused.
            found = digests_of_weights(models, again=True)
        return {name: saved[name] for name in found}, found

    def _compared_models(self, spec: EvalSpec) -> set[str]:
        """The models that are files, as far as trials ask them or they have answered."""
        asked = {model for name in self._tasks for model in asked_models(spec.tasks[name], spec.models)}
        asked = asked.union(*map(other_models, self._tasks.values()))
        asked = asked.union(*(judging_models(task.scorers) for task in self._tasks.values()))
        files = {name for name, model in spec.models.items() if model.provider == LOCAL}
        if not files:
            return files
        from holdfast.run.drift.served_names import names_on_record  # noqa: PLC0415 - few evals have a local model

        return files & (asked | names_on_record(self._reader).by_model.keys())

    def _without_digests(self, spec: EvalSpec, differences: list[Difference]) -> list[Difference]:
        """The differences, where other files of weights are refused if it is not on record what the old ones were."""
        unknown = self._compared_models(spec) - self._session.weights.keys()
        paths = {f"{key_path('models', name)}.args.path" for name in unknown}
        return [
            refused_difference(item.path, Drift.IDENTITY, item.old, item.new) if item.path in paths else item
            for item in differences
        ]

    def _with_cost_limits(self, spec: EvalSpec, differences: list[Difference]) -> list[Difference]:
        """The differences, where a price that decides how a trial ends is part of what is asked."""
        limited = {name: task for name, task in self._tasks.items() if _is_cost_limited(task)}
        under_test = {model for name in limited for model in asked_models(spec.tasks[name], spec.models)}
        models = under_test.union(*map(other_models, limited.values()))
        prices = tuple(key_path(key_path("models", model), "price") for model in models)
        return [
            refused_difference(item.path, Drift.IDENTITY, item.old, item.new) if item.path.startswith(prices) else item
            for item in differences
        ]

    def _as_in_run(self, name: str, task: Task) -> Task:
        """A task with the judges that the run has had, whose samples have the keys that they have in the run."""
        if name in self._saved.tasks:
            task = with_keys_of(task, samples_on_record(name, self._saved, self._code.get(name)))
        return self._with_saved_judges(name, task)

    def _with_saved_judges(self, name: str, task: Task) -> Task:
        """A task with the judges that the run has had and the task no longer has."""
        saved = self._code[name].scorers if name in self._code else ()
        scorers = with_saved_judges(task.scorers, saved)
        return task if len(scorers) == len(task.scorers) else dataclasses.replace(task, scorers=scorers)

    def _judges_kept(self, made: Mapping[str, Task]) -> Iterator[Difference]:
        """The judges that a task in Python no longer has."""
        for name, task in made.items():
            for slot in judge_slots(task.scorers):
                if slot.model not in slot.of.judges and self._saved.tasks[name].use:
                    path = f"tasks.{name}.scorers.{slot.of.name}"
                    yield Difference(path, Drift.ADDITIVE, f"judge {slot.model}", "left out", DriftVerdict.KEPT)

    def _as_scoring(self, spec: EvalSpec, differences: list[Difference]) -> list[Difference]:
        """The differences, where what a model is that only judges is how answers are scored."""
        asked = {model for name, task in self._tasks.items() for model in _asked_by_solvers(name, task, spec)}
        judges = {model for task in self._tasks.values() for model in judging_models(task.scorers)} - asked
        if self._rescoring:
            judges &= self._judges
        places = tuple(f"{key_path('models', name)}." for name in judges)
        found = [
            refused_difference(item.path, Drift.SCORING, item.old, item.new)
            if item.drift is Drift.IDENTITY and item.verdict is DriftVerdict.REFUSED and item.path.startswith(places)
            else item
            for item in differences
        ]
        return judged_anew(found) if self._rescoring else found

    def _changed_files(self, name: str, task: Task, spec: EvalSpec) -> list[str]:
        """The files behind a task that differ from the copies in the run."""
        if not task.taken.files:
            return []
        # Most tasks are not in Python.
        from holdfast.engine.planning.source_copies import copy_of  # noqa: PLC0415
        from holdfast.tasks.source.origin import is_local  # noqa: PLC0415

        paths = {path for path in task.taken.files if is_local(str(path))}
        copies = {path: copy_of(self._session.inputs, name, path, spec) for path in paths}
        changed = {path.name for path, copy in copies.items() if copy is None or copy.digest != file_digest(path)}
        return sorted(changed)

    def _widened(self, name: str, task: Task, code: TaskCode) -> Task:
        """A task in Python with everything that the run asked of it before."""
        if name not in self._code or not self._saved.tasks[name].use:
            return task
        wide = merge_task_sizes(self._code[name], code)
        return task.resized(epochs=wide.epochs, limit=wide.limit, axes=wide.axes)

    def _without_reductions(self, spec: EvalSpec) -> EvalSpec:
        """The eval without the numbers that would make a task in Python ask for less than before."""
        tasks = dict(spec.tasks)
        for name, entry in self._saved.tasks.items():
            task, now = self._tasks[name], spec.tasks[name]
            if entry.use and now.epochs is not None and now.epochs != task.epochs:
                now = msgspec.structs.replace(now, epochs=entry.epochs)
            if entry.use and now.limit is not None and now.limit != task.limit:
                now = msgspec.structs.replace(now, limit=entry.limit)
            tasks[name] = now
        return msgspec.structs.replace(spec, tasks=tasks)

    def _with_joined_grids(self, spec: EvalSpec, made: Mapping[str, Task]) -> tuple[EvalSpec, list[Difference]]:
        """The eval in which tasks in Python run every combination of axis values that they ran before, and what
        differs. Of declared tasks all axes are in the eval, and were compared there.
        """
        tasks, found = dict(spec.tasks), []
        for name, entry in self._saved.tasks.items():
            offered = self._offered.tasks.get(name, entry)
            if entry.use is None or name not in self._code or _same_filters(entry, offered):
                continue
            grid = JoinedGrid(entry, offered, self._code[name].axes, _axes_offered(made[name], entry, offered))
            found += grid_differences(grid, entry, offered, key_path("tasks", name))
            tasks[name] = msgspec.structs.replace(spec.tasks[name], include=grid.include, exclude=grid.exclude)
            self._tasks[name] = regrouped(self._tasks[name], tasks[name])
        return msgspec.structs.replace(spec, tasks=tasks), found

    def _compare_rows(self, spec: EvalSpec) -> tuple[dict[str, Samples], dict[str, Samples], list[Difference]]:
        """The samples of the tasks whose datasets have changed, and the differences of datasets that are gone."""
        before: dict[str, Samples] = {}
        after: dict[str, Samples] = {}
        kept: list[Difference] = []
        for source, names in self._tasks_by_input(spec).items():
            state = self._input_state(source, self._tasks[names[0]])
            if state == "gone":
                path = self._tasks[names[0]].dataset
                there = Path(path.path).name if isinstance(path, DatasetSpec) else "given"
                kept += [_dataset_kept(name, there, GONE) for name in names]
            elif state == "changed":
                selections = {name: self._selection(name, spec) for name in names}
                offered = self._inputs.fresh.rows(source, self._tasks[names[0]])
                self._inputs.choose(source, list(selections.values()), prefers_fresh=self._rescoring)
                for name, selection in selections.items():
                    saved = self._inputs.saved.rows(source, selection.task)
                    rows = self._inputs.rows(source, selection.task)
                    before[name], after[name], chosen = selection.compared(saved, rows, offered)
                    kept += _displaced(name, before[name], chosen)
                    kept += _lost_targets(name, before[name], after[name], selection.keys_now(offered))
        return before, after, kept

    def _tasks_by_input(self, spec: EvalSpec) -> dict[str, list[str]]:
        """The tasks that the run has, by the input that their rows come from."""
        found: dict[str, list[str]] = {}
        for name in self._saved.tasks:
            found.setdefault(input_name(name, spec.tasks[name]), []).append(name)
        return found

    def _selection(self, name: str, spec: EvalSpec, task: Task | None = None) -> SampleSelection:
        entry, code = self._saved.tasks[name], self._code.get(name)
        own = code.limit if code and entry.use else None
        limit = own if entry.limit is None else entry.limit
        return SampleSelection(task or self._tasks[name], entry, limit, spec.tasks[name])

    def _input_state(self, source: str, task: Task) -> str:
        """How the rows of an input compare with those in the run: "same", "changed" or "gone"."""
        saved = self._session.inputs[source]
        if isinstance(task.dataset, DatasetSpec):
            raw = raw_digest(Path(task.dataset.path))
            if not raw or raw == saved.raw:
                return "same" if raw else "gone"
        rows = self._inputs.fresh.rows(source, task)
        return "same" if rows.digest == saved.digest else "changed"

    def _check_growth(self, decision: Decision) -> None:
        """Checks that the samples can be asked and scored by whatever has been added."""
        grown = [item.path for item in decision.differences if item.verdict is DriftVerdict.GROWN]
        for name, task in self._tasks.items():
            place = key_path("tasks", name)
            if any(path == place or path.startswith(f"{place}.") for path in grown):
                entry = decision.spec.tasks[name]
                rows = self._inputs.rows(input_name(name, entry), task)
                task.check(select_samples(task, rows, entry.limit, entry.sample_ids))


def _same_filters(saved: TaskSpec, offered: TaskSpec) -> bool:
    """Whether neither side leaves out combinations of axis values, so that everything is run."""
    return not (saved.include or saved.exclude or offered.include or offered.exclude)


def _axes_offered(made: Task, saved: TaskSpec, offered: TaskSpec) -> Axes:
    """The axes that a task in Python has by the offered eval, without the values that only the saved one adds."""
    before, after = declared_axes(saved), declared_axes(offered)
    dropped = {axis: set(values) - set(after.get(axis, ())) for axis, values in before.items()}
    return {axis: [one for one in values if one not in dropped.get(axis, ())] for axis, values in made.axes.items()}


def _models_used(saved: EvalSpec, reader: RunReader) -> set[str]:
    """The models that trials of the run ask or have asked: those under test, in samplings, and by name from code."""
    judges = {model for task in saved.tasks.values() for scorer in task.scorers for model in judges_of(scorer)}
    asked = {model for spent in reader.fold.spent().values() for model, _ in spent.shares}
    return _models_solving(saved) | judges | asked


def _models_that_answered(reader: RunReader) -> set[str]:
    """The models whose replies solvers have got, beside those under test."""
    found: set[str] = set()
    for trial in reader.fold.trials():
        found.update(reply.model for reply in trial.row.replies)
        found.update(share.model for end in trial.row.spent for share in end.shares)
    return found


def _models_solving(saved: EvalSpec) -> set[str]:
    """The models under test, and those that samplings ask."""
    named = {model for task in saved.tasks.values() for model in asked_models(task, saved.models)}
    drawn = {model for task in saved.tasks.values() if task.sampling for _, model in task.sampling.other_models()}
    return named | drawn


def _asked_by_solvers(name: str, task: Task, spec: EvalSpec) -> set[str]:
    """The models whose replies are answers, or part of them."""
    return {*asked_models(spec.tasks[name], spec.models), *other_models(task)}


def _relative(path: str, spec: EvalSpec) -> str:
    return os.path.relpath(path, spec.directory or ".")


def _code_kept(spec: EvalSpec, copies_used: Mapping[str, set[str]]) -> Iterator[Difference]:
    """The differences of files that are gone, whose copies in the run are used."""
    for task, names in copies_used.items():
        field = "use" if spec.tasks[task].use else "solver" if spec.tasks[task].solver else "scorers"
        for name in sorted(names):
            yield Difference(f"tasks.{task}.{field}", Drift.LOCATION, name, GONE, DriftVerdict.KEPT)


def _dataset_kept(task: str, old: str, new: str) -> Difference:
    return Difference(f"tasks.{task}.dataset", Drift.ADDITIVE, old, new, DriftVerdict.KEPT)


def _displaced(task: str, before: Samples, chosen: set[str]) -> list[Difference]:
    """The difference where other samples would be chosen now, though those that were asked about still exist."""
    others = [key for key in before.asked if key not in chosen]
    if not chosen or not others or len(chosen) < len(before.asked):
        return []
    return [_dataset_kept(task, f"{len(before.asked)} samples", "other samples would be chosen")]


def _lost_targets(task: str, before: Samples, after: Samples, chosen: set[str]) -> list[Difference]:
    """The difference where edited targets are in rows that the run cannot use: they would silently be ignored.

    The run's own copy is used unless all samples on record are `chosen` from the rows of now.
    """
    edited = [key for key, (_, target) in before.asked.items() if key in after.every and after.every[key][1] != target]
    if not edited or before.asked.keys() <= chosen:
        return []
    without = "" if before.keyed else " (without ids, a row whose other columns have changed is another sample)"
    why = f"the target was edited, but the rows no longer have every sample on record{without}: {after.names(edited)}"
    return [refused_difference(f"tasks.{task}.dataset", Drift.IDENTITY, "", why)]


def same_values(data: Any, config: dict[str, Any]) -> bool:
    """Whether a configuration file, however it is written, says the same as a session's configuration."""
    return not edited_places(data, config)


def edited_places(data: Any, config: dict[str, Any]) -> list[str]:
    """Where a configuration file says something else than a session's configuration."""
    return edited_values(with_present_names(data), with_present_names(config))


def plan_resume(reader: RunReader, offer: Offer | None = None, tasks: Mapping[str, Task] | None = None) -> ResumePlan:
    """The plan of a resume, while another session may be working on the run; writes nothing into the run.

    Between two reads the other session may have recorded a change and rewritten `config.yaml`. What looks like
    tampering is then only news: the run is compared again, or reported as held.

    Raises:
        NotARun: no session record is left.
        ResumeAborted: the run cannot be resumed with what is offered.
        RunHeld: another session is using it, and its work cannot be distinguished from a change.
    """
    last_session(reader)
    while True:
        count = len(reader.sessions)
        try:
            return ResumeComparison(reader, offer, tasks).plan()
        except ResumeAborted:
            refuse_held(reader.fs, reader.layout.root)
            reader.refresh()
            if len(reader.sessions) == count:
                raise
