"""The gate: whether a run may be resumed with the eval, data and code of now.

Every path that could execute trials passes here first. `decide` is a pure function from the saved and the offered side
to a verdict with reasons; `resume_refused` makes the error message of a refusal. Nothing is written before.

It compares the two evals, field by field (spec/compare.py); the content of every sample that was asked, by key; and
the code of every Python task, by what it is and what it holds, with its settings and its size.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from holdfast.errors import ResumeAborted
from holdfast.run.core.display_text import SHORT_DIGITS, change_text, list_text, short_sample
from holdfast.run.core.records import BUILT_IN_SOLVER, SAMPLING_ROOT, SCORER_ROOT, TOOLS_ROOT, Change, TaskCode
from holdfast.run.core.slots.slot_names import judge_of, scorer_of
from holdfast.run.drift.code_changes import code_changes, first_changes, is_lost, place_of
from holdfast.run.drift.task_size import task_size_differences
from holdfast.spec import Drift, EvalSpec
from holdfast.spec.compare import Difference, DriftVerdict, merge_evals, way_out_of
from holdfast.spec.loading.error_messages import key_path

SampleDigests = Mapping[str, tuple[bytes, bytes]]
"""Samples by their key: the digest of its input, the digest of its target."""


UnsteadyNames = dict[str, dict[str, set[str]]]


class Samples(msgspec.Struct, frozen=True):
    """The samples of a task, on one side of the comparison."""

    asked: SampleDigests
    every: SampleDigests
    """All that its dataset has, asked about or not."""
    keyed: bool
    """Whether the dataset gives them ids of their own."""
    numbers: Mapping[str, int] = {}
    """The rows of those without ids, counted from 1: a person cannot search for a digest."""

    def names(self, keys: Iterable[str]) -> str:
        """The first few samples as people find them."""
        return list_text([self._name(key) for key in keys])

    def _name(self, key: str) -> str:
        return f"{short_sample(key)} (row {self.numbers[key]})" if key in self.numbers else short_sample(key)


class Snapshot(msgspec.Struct, frozen=True):
    """One side of the comparison."""

    spec: EvalSpec
    code: dict[str, TaskCode] = {}
    samples: dict[str, Samples] = {}
    """By task, only where the two sides are not known to be the same."""
    files: dict[str, list[str]] = {}
    """By task, the files of its code that have changed; empty where that is unknown."""
    weights: dict[str, str] = {}
    """By model, the digest of its weights, of those that are files and are compared."""
    places: dict[str, dict[str, str]] = {}
    """By task and name, the file in which a person finds a piece of code or a value."""
    mutated: dict[str, frozenset[str]] = {}
    """By task, the names of values that this process has changed since it took them first."""
    templates: dict[str, str] = {}
    """By task, the identity of the template of its workspaces, of those that are compared."""
    axis_files: dict[str, dict[str, str]] = {}
    """By task, the identities of the files of its axis values as they are now, of those that can be found."""
    unsteady: UnsteadyNames = {}
    """By task and root, the names of values that are others at every import."""
    raised: dict[str, frozenset[str]] = {}
    """By task, what only differs because Holdfast's own part has another behaviour number now: the names of settings,
    and of scorers as roots.
    """


class Decision(msgspec.Struct, frozen=True):
    """Whether a run may be resumed, and with which eval."""

    spec: EvalSpec
    """The eval to resume with, if nothing is refused."""
    differences: list[Difference]
    notes: list[str] = []
    """What a person should know of the comparison, whatever its verdict."""

    @property
    def refused(self) -> list[Difference]:
        return [item for item in self.differences if item.verdict is DriftVerdict.REFUSED]

    @property
    def changes(self) -> list[Change]:
        """What is recorded about this resume."""
        recorded = {DriftVerdict.APPLIED, DriftVerdict.GROWN}
        return [Change(item.path, item.old, item.new) for item in self.differences if item.verdict in recorded]

    @property
    def kept(self) -> list[Difference]:
        """Where fewer were offered and the saved ones are kept."""
        return [item for item in self.differences if item.verdict is DriftVerdict.KEPT]


def decide(saved: Snapshot, offered: Snapshot, freely: Collection[str] = (), *, rescoring: bool = False) -> Decision:
    """Whether the run may be resumed with what is offered, and with which eval; the rest as for `merge_evals`."""
    joined = merge_evals(saved.spec, offered.spec, freely, rescoring=rescoring)
    differences = list(joined.differences)
    for task, samples in offered.samples.items():
        differences += _compare_samples(task, saved.samples[task], samples)
    for task, code in offered.code.items():
        if task in saved.code:
            where = ", ".join(offered.files.get(task) or code.files) or "its task"
            entry = joined.spec.tasks[task]
            field = f"tasks.{task}.{'solver' if entry.solver else 'use'}"
            raised = offered.raised.get(task, frozenset())
            differences += _compare_code(task, saved.code[task], code, where, field, raised)
            differences += _compare_trees(task, saved.code[task], offered, field)
            differences += _compare_axis_files(task, saved.code[task], offered.axis_files.get(task, {}))
            if entry.solver:
                differences += _compare_settings(field, saved.code[task], code, where, raised)
            elif entry.use:
                differences += _compare_settings(field, saved.code[task], code, where, raised)
                # An axis that the eval widens is compared there, under the name that it has there.
                known = {item.path for item in differences}
                known |= {path.replace(f"tasks.{task}.axes.", f"tasks.{task}.") for path in known}
                sizes = task_size_differences(task, saved.code[task], code)
                differences += [item for item in sizes if item.path not in known]
            else:
                differences += _compare_sampling(task, saved.code[task], code, offered.files.get(task, []))
                differences += _compare_tools(task, saved.code[task], code, where, raised)
    differences += _compare_weights(saved.weights, offered.weights)
    differences += _compare_templates(saved.templates, offered.templates)
    return Decision(joined.spec, judged_anew(differences) if rescoring else differences)


def judged_anew(differences: list[Difference]) -> list[Difference]:
    """The differences where answers are scored once more: how they are judged may change."""
    named = {item.path for item in differences if item.drift is Drift.SCORING and item.old != ""}
    return [
        msgspec.structs.replace(item, verdict=DriftVerdict.APPLIED, way_out="") if _is_judging(item) else item
        for item in differences
        # Where the arguments of a scorer are listed, that its digest is another says nothing more.
        if not named & {item.path, *_scorer_paths(item.path)} or item.old != ""
    ]


def _scorer_paths(path: str) -> Iterator[str]:
    """The path of the scorer that a judge's slot belongs to, if it is the path of one."""
    place, mark, slot = path.rpartition(".scorers.")
    if mark and judge_of(slot):
        yield f"{place}{mark}{scorer_of(slot)}"


def _is_judging(item: Difference) -> bool:
    return item.drift is Drift.SCORING and item.verdict is DriftVerdict.REFUSED


def _compare_weights(saved: Mapping[str, str], offered: Mapping[str, str]) -> Iterator[Difference]:
    """The bytes of local models, wherever their files lie."""
    for model, digest in saved.items():
        if model in offered and offered[model] != digest:
            digests = f"{digest[:SHORT_DIGITS]} → {offered[model][:SHORT_DIGITS]}"
            why = f"the file holds other weights than those on record (digest {digests})"
            yield refused_difference(f"{key_path('models', model)}.args.path", Drift.IDENTITY, "", why)


def _compare_templates(saved: Mapping[str, str], offered: Mapping[str, str]) -> Iterator[Difference]:
    """The content of the templates of workspaces, wherever they are."""
    for task, identity in saved.items():
        if task in offered and offered[task] != identity:
            digests = f"{identity[:SHORT_DIGITS]} → {offered[task][:SHORT_DIGITS]}"
            why = f"the template of the workspace holds other files than when the run started (digest {digests})"
            yield refused_difference(f"{key_path('tasks', task)}.workspace", Drift.IDENTITY, "", why)


def _compare_samples(task: str, saved: Samples, offered: Samples) -> list[Difference]:
    path = f"tasks.{task}.dataset"
    old, new = saved.asked, offered.every
    inputs = [key for key in old if key in new and old[key][0] != new[key][0]]
    targets = [key for key in old if key in new and old[key][0] == new[key][0] and old[key][1] != new[key][1]]
    missing = [key for key in old if key not in new]
    others = [key for key in new if key not in saved.every]
    added = sum(key not in saved.every for key in offered.asked)
    found = []
    if inputs:
        found.append(refused_difference(path, Drift.IDENTITY, "", f"the input was edited in: {offered.names(inputs)}"))
    if targets:
        found.append(refused_difference(path, Drift.SCORING, "", f"the target was edited in: {offered.names(targets)}"))
    if renamed := _renamed_samples(saved, offered, missing, others):
        pairs = [f"{short_sample(old_id)} → {short_sample(new_id)}" for old_id, new_id in renamed.items()]
        return [*found, refused_difference(path, Drift.IDENTITY, "samples", f"ids renamed: {list_text(pairs)}")]
    if missing and others and not (saved.keyed and offered.keyed):
        # Without ids a sample is its content: an edited one is a missing one and a new one.
        many = "1 other" if len(others) == 1 else f"{len(others)} others"
        edited = f"{len(missing)} replaced by {many}: {list_text(list(map(short_sample, missing)))}"
        edited += f" → {offered.names(others)}"
        return [*found, refused_difference(path, Drift.IDENTITY, "samples", edited)]
    if missing and added and len(missing) == len(old):
        many = "1 other" if added == 1 else f"{added} others"
        replaced = f"all of them replaced by {many}: this is a different eval"
        return [*found, refused_difference(path, Drift.IDENTITY, f"{len(old)} samples", replaced)]
    if missing:
        without = f"without {list_text(list(map(short_sample, missing)))}"
        found.append(Difference(path, Drift.ADDITIVE, f"{len(old)} samples", without, DriftVerdict.KEPT))
    if added:
        total = f"{len(offered.asked)} samples"
        found.append(Difference(path, Drift.ADDITIVE, f"{len(old)} samples", total, DriftVerdict.GROWN))
    return found


def _renamed_samples(saved: Samples, offered: Samples, missing: list[str], others: list[str]) -> dict[str, str]:
    """The new id of every sample that is missing under its own, and is there with the same input under another."""
    by_input: dict[bytes, list[str]] = {}
    for key in reversed(others):
        by_input.setdefault(offered.every[key][0], []).append(key)
    found = {key: by_input.get(saved.asked[key][0]) for key in missing}
    return {key: names.pop() for key, names in found.items() if names}


def _compare_code(
    task: str, old: TaskCode, new: TaskCode, where: str, field: str, raised: Collection[str]
) -> Iterator[Difference]:
    """The code of the solver, which `field` names, and of the scorers; `raised` as in `Snapshot`."""
    if old.solver != new.solver:
        if all(code.solver.startswith(BUILT_IN_SOLVER) for code in (old, new)):
            yield _changed_holdfast(field, Drift.IDENTITY, "asks models differently")
        else:
            yield _changed_code(field, Drift.IDENTITY, f"the code of {new.name}() in {where} has changed")
    for name, digest in old.scorers.items():
        if new.scorers.get(name) != digest:
            yield _changed_scorer(f"tasks.{task}.scorers.{name}", name, new, where, raised)


def _changed_scorer(path: str, name: str, new: TaskCode, where: str, raised: Collection[str]) -> Difference:
    if name not in new.scorers:
        return _changed_code(path, Drift.SCORING, f"the scorer {name} is no longer in {where}")
    # Without code of its own a task has built-in scorers only, whose arguments were compared before.
    if not new.files or SCORER_ROOT + name in raised:
        return _changed_holdfast(path, Drift.SCORING, f"scores with {name} differently")
    return _changed_code(path, Drift.SCORING, f"the code of the scorer {name} in {where} has changed")


def _compare_trees(task: str, old: TaskCode, offered: Snapshot, field: str) -> Iterator[Difference]:
    """What the code of a task is and holds, piece by piece; without a record of it, its files decide."""
    if is_lost(old):
        yield from _compare_files(old, offered.code[task].files, offered.files.get(task, []), field)
    places, mutated = offered.places.get(task, {}), offered.mutated.get(task, frozenset())
    found = code_changes(old.tree, offered.code[task].tree, offered.unsteady.get(task))
    for root, changes in found.items():
        path, drift = field, Drift.IDENTITY
        if root.startswith(SCORER_ROOT):
            path, drift = f"tasks.{task}.scorers.{root.removeprefix(SCORER_ROOT)}", Drift.SCORING
        elif root in {SAMPLING_ROOT, TOOLS_ROOT}:
            path = f"tasks.{task}.{root}"
        listed, more = first_changes(changes)
        for change in listed:
            why = change.sentence(place_of(change.name, places), mutated=change.name in mutated)
            yield _changed_code(path, drift, why)
        if more:
            yield _changed_code(path, drift, f"and {more} more")


def _compare_files(old: TaskCode, files: Sequence[str], changed: Sequence[str], field: str) -> Iterator[Difference]:
    """The files of code whose tree is lost: as long as all of them are as they were, the code is."""
    lost = f"the record of what the code was is damaged (session {old.tree_session})"
    if changed:
        yield _changed_code(field, Drift.IDENTITY, f"{lost}, and {list_text(changed)} is not as in the run's own copy")
    elif not files:
        why = f"{lost}, and the code is in no file that could be compared instead"
        yield refused_difference(field, Drift.IDENTITY, "", why, undoable=False)


def _compare_axis_files(task: str, old: TaskCode, now: Mapping[str, str]) -> Iterator[Difference]:
    """The content of the files that axis values bring; which files they are was compared before."""
    for name, identity in old.axis_files.items():
        if now.get(name, identity) != identity:
            yield refused_difference(f"tasks.{task}.axes", Drift.IDENTITY, "", f"the content of {name} has changed")


def _compare_sampling(task: str, old: TaskCode, new: TaskCode, changed: list[str]) -> Iterator[Difference]:
    """The code behind the sampling of a declarative task: user functions, and the strategies of this version.

    Its configuration is the same: that was compared before.
    """
    if old.settings.get("sampling") == new.settings.get("sampling"):
        return
    path = f"tasks.{task}.sampling"
    if changed:
        yield _changed_code(path, Drift.IDENTITY, f"the code of requirements in {', '.join(changed)} has changed")
    elif new.files:
        why = "the files of the requirements are unchanged, but Holdfast or a package that they use has changed"
        yield refused_difference(path, Drift.IDENTITY, "", why, undoable=False)
    else:
        yield _changed_holdfast(path, Drift.IDENTITY, "draws or checks candidates differently")


def _compare_tools(
    task: str, old: TaskCode, new: TaskCode, where: str, raised: Collection[str]
) -> Iterator[Difference]:
    """What the model is offered by a declarative task: names, descriptions and parameters of its tools."""
    path = f"tasks.{task}.tools"
    if old.settings.get("tools") == new.settings.get("tools"):
        return
    if "tools" in raised:
        yield _changed_holdfast(path, Drift.IDENTITY, "runs the loop of tool calls differently")
    else:
        why = f"what the model is offered has changed (a name, a description or a parameter in {where})"
        yield _changed_code(path, Drift.IDENTITY, why)


def _compare_settings(
    field: str, old: TaskCode, new: TaskCode, where: str, raised: Collection[str]
) -> Iterator[Difference]:
    """The settings of the code that `field` names: an additional prompt is growth, all others must be unchanged."""
    for name in sorted({*old.settings, *new.settings}):
        before, after = old.settings.get(name), new.settings.get(name)
        grown = before is None and name.startswith("prompt ")
        if before != after and name in raised:
            yield _changed_holdfast(field, Drift.IDENTITY, f"uses {name} differently")
        elif before != after and not grown:
            drift = Drift.SCORING if name == "target" else Drift.IDENTITY
            yield _changed_code(field, drift, f"{name} in {where} has changed")


def _changed_code(path: str, drift: Drift, why: str) -> Difference:
    """Code has no value to show: the difference is a sentence, with nothing on its old side."""
    return refused_difference(path, drift, "", why)


def _changed_holdfast(path: str, drift: Drift, does: str) -> Difference:
    """A part of Holdfast that behaves differently than the one that the run was recorded with."""
    refused = refused_difference(path, drift, "", f"this version of Holdfast {does}", undoable=False)
    return msgspec.structs.replace(refused, by_holdfast=True)


def refused_difference(path: str, drift: Drift, old: Any, new: Any, *, undoable: bool = True) -> Difference:
    """A difference with which the run cannot be resumed."""
    return Difference(path, drift, old, new, DriftVerdict.REFUSED, way_out_of(drift), undoable)


def resume_refused(
    decision: Decision, run: str, ways_out: Sequence[str], note: str = "", *, rescoring: bool = False
) -> ResumeAborted:
    """The error that names every refused field with its class and both values, and the ways out, cheapest first.

    `note` is what should be known of the run before choosing one.
    """
    aborted = "Rescoring aborted" if rescoring else "Resume aborted"
    cannot = "cannot be scored again" if rescoring else "cannot resume"
    lines = [f"{aborted}: {run} {cannot} with these changes; nothing was written."]
    for item in decision.refused:
        lines.append(f"  {item.path} ({item.drift.value}): {change_text(item.old, item.new)}")
        if item.way_out:
            lines.append(f"    {item.way_out}")
    lines += [note] if note else []
    if ways_out:
        lines.append("Ways out, cheapest first:")
        lines += [f"  {way}" for way in ways_out]
    return ResumeAborted("\n".join(lines))
