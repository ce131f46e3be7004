"""Drift: a saved eval and an offered one become one eval, and every difference gets a verdict.

The rule: a field may change on resume if and only if changing it touches neither sample data nor any persisted result.
Both evals must be resolved, so that an explicit default, a `null` or the order of keys makes no difference. The walk
follows the schema and the class on each field; a new field is judged the day it is added. Nothing is read or written
here.
"""

import enum
from collections.abc import Callable, Collection
from typing import Any, TypeVar

import msgspec

from holdfast.spec.canonical import plain_data
from holdfast.spec.code_reference import is_moved, split_reference
from holdfast.spec.grid import (
    Combination,
    JoinedGrid,
    combination_text,
    declared_axes,
    entries_of,
    short_axis,
)
from holdfast.spec.judged_scorers import (
    COMBINING,
    MODEL_GRADED,
    combining_arguments,
    judges_of,
    verdict_arguments,
    with_judges,
)
from holdfast.spec.loading.error_messages import key_path
from holdfast.spec.schema.axis import AxisValue
from holdfast.spec.schema.drift import Block, Drift
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.introspect import Field, block_within, blocks_in, schema_fields
from holdfast.spec.schema.model import LOCAL, ModelSpec
from holdfast.spec.schema.runner import RunnerSpec
from holdfast.spec.schema.task import TaskSpec

B = TypeVar("B", bound=Block)
Entries = dict[str, AxisValue]


_LISTED = 20
"""So many combinations are named one by one."""


class DriftVerdict(enum.StrEnum):
    """What becomes of a difference."""

    APPLIED = "changed"
    """It only changes how fast, how shown, where things are reached, or how the records are read."""
    GROWN = "added"
    """More is asked for; what is missing will be run."""
    KEPT = "kept"
    """Fewer are offered; the saved ones are kept."""
    REFUSED = "refused"
    """The run cannot be resumed with it."""


GONE = "no longer exists"
"""The new value of a file that is gone, whose copy in the run is used."""


class Difference(msgspec.Struct, frozen=True):
    """One field that differs."""

    path: str
    drift: Drift
    old: Any
    new: Any
    verdict: DriftVerdict
    way_out: str = ""
    undoable: bool = True
    """Whether a person can undo it: not where Holdfast itself has changed, or where nothing says what there was."""
    by_holdfast: bool = False
    """Whether it is Holdfast that has changed: the version that recorded the run has no such difference."""


class MergedEval(msgspec.Struct, frozen=True):
    """The eval that a run would resume with, and what differs from the saved one."""

    spec: EvalSpec
    differences: list[Difference]


_CHANGES = {Drift.THROUGHPUT, Drift.LOCATION, Drift.DERIVED}
_WAYS_OUT = {
    Drift.IDENTITY: "`holdfast fork` starts a run with it and keeps the trials it does not affect",
    Drift.RECORDED: "`holdfast fork` starts a run with it",
    Drift.SCORING: "`holdfast rescore` scores the recorded answers again with it, beside the scores that they have",
}


def merge_evals(
    saved: EvalSpec, offered: EvalSpec, freely: Collection[str] = (), *, rescoring: bool = False
) -> MergedEval:
    """The saved eval with every change that may be made, and all differences with their verdicts.

    `freely` are the paths of what may change whatever its class is: members that no trial uses, titles set by hand.
    With `rescoring`, how answers are judged may change too.
    """
    merger = _EvalMerger(freely, rescoring=rescoring)
    spec = merger.block(saved, offered, "")
    return MergedEval(spec, _without_inherited(merger.differences))


def _without_inherited(differences: list[Difference]) -> list[Difference]:
    """Without what a task only has from the run's own settings, where the same change is listed for those."""
    of_the_run = {
        (item.path.removeprefix("runner."), repr(item.old), repr(item.new))
        for item in differences
        if item.path.startswith("runner.")
    }
    return [
        item
        for item in differences
        if not item.path.startswith("tasks.")
        or (item.path.rpartition(".runner.")[2], repr(item.old), repr(item.new)) not in of_the_run
    ]


def _verdict(*, is_free: bool) -> DriftVerdict:
    return DriftVerdict.APPLIED if is_free else DriftVerdict.REFUSED


def way_out_of(drift: Drift) -> str:
    """What a person can do about a refused change of this class."""
    return _WAYS_OUT.get(drift, "")


class _EvalMerger:
    def __init__(self, freely: Collection[str], *, rescoring: bool) -> None:
        self._freely, self._rescoring = set(freely), rescoring
        self.differences: list[Difference] = []

    def block(self, saved: B, offered: B, path: str) -> B:
        changes: dict[str, Any] = {}
        for name, field in schema_fields(type(saved)).items():
            old, new = getattr(saved, field.attribute), getattr(offered, field.attribute)
            if not same_value(old, new):
                place = key_path(path, name)
                if path in self._freely:
                    self._freely.add(place)
                changes[field.attribute] = self._field(saved, field, old, new, place)
        joined = msgspec.structs.replace(saved, **changes)
        if isinstance(saved, TaskSpec) and isinstance(offered, TaskSpec) and _GRID_FIELDS & changes.keys():
            return msgspec.structs.replace(joined, **self._grid(saved, offered, path))
        return joined

    def _grid(self, saved: TaskSpec, offered: TaskSpec, path: str) -> dict[str, Any]:
        """What both sides run of a grid; of a task in Python, whose code may bring axes, that is joined later."""
        if saved.use is not None:
            return {"include": offered.include, "exclude": offered.exclude}
        before, after = declared_axes(saved), declared_axes(offered)
        if before.keys() != after.keys():
            names = [", ".join(sorted(axes)) or "none" for axes in (before, after)]
            self._add(f"{path}.axes", Drift.IDENTITY, names[0], names[1], DriftVerdict.REFUSED)
            return {"axes": saved.axes, "include": saved.include, "exclude": saved.exclude}
        grid = JoinedGrid(saved, offered, before, after)
        self.differences += grid_differences(grid, saved, offered, path)
        return {"include": grid.include, "exclude": grid.exclude}

    def _field(self, block: Block, field: Field, old: Any, new: Any, path: str) -> Any:
        if isinstance(old, Block) or isinstance(new, Block):
            return self._optional(field, old, new, path)
        within = block_within(field.type)
        if within and within[1] == ".*":
            return self._map(field, old, new, path)
        if isinstance(block, TaskSpec) and block.use and field.name in _LEFT_OPEN:
            return new
        if isinstance(block, ModelSpec) and block.provider == LOCAL and field.name == "args":
            return self.local_args(field, old, new, path)
        special = _BY_FIELD.get((type(block), field.name))
        return special(self, field, old, new, path) if special else self._leaf(field.drift, old, new, path)

    def _optional(self, field: Field, old: Block | None, new: Block | None, path: str) -> Any:
        """A block that may be absent, which is as if nothing stood in it; one that needs values is compared whole."""
        if old is not None and new is not None:
            return self.block(old, new, path)
        kind = blocks_in(field.type)[0]
        if any(inner.required for inner in schema_fields(kind).values()):
            return self._leaf(field.drift, old, new, path)
        joined = self.block(old or kind(), new or kind(), path)
        return None if joined == kind() else joined

    def _leaf(self, drift: Drift, old: Any, new: Any, path: str) -> Any:
        is_free = path in self._freely or self._is_rescored(drift)
        if drift is Drift.UNMATCHED and not is_free:
            return old
        verdict = _verdict(is_free=drift in _CHANGES or is_free)
        # An empty text counts as absent.
        self._add(path, drift, None if old == "" else old, new, verdict)
        return new if verdict is DriftVerdict.APPLIED else old

    def _is_rescored(self, drift: Drift) -> bool:
        return self._rescoring and drift is Drift.SCORING

    def _map(self, field: Field, old: dict[str, Any], new: dict[str, Any], path: str) -> dict[str, Any]:
        joined = dict(old)
        for name in [*old, *(name for name in new if name not in old)]:
            place = key_path(path, name)
            if name not in new:
                self._add(place, field.drift, "given", "left out", DriftVerdict.KEPT)
            elif name not in old:
                self._add(place, field.drift, None, "added", DriftVerdict.GROWN)
                joined[name] = new[name]
            elif isinstance(old[name], Block):
                joined[name] = self.block(old[name], new[name], place)
        return joined

    def number(self, field: Field, old: int | None, new: int | None, path: str) -> int | None:
        """A number that may grow; None is without bound."""
        grows = limit_bound(new) > limit_bound(old)
        self._add(path, field.drift, old, new, DriftVerdict.GROWN if grows else DriftVerdict.KEPT)
        return new if grows else old

    def names(self, field: Field, old: list[str] | None, new: list[str] | None, path: str) -> list[str] | None:
        """A set of names that may grow; None stands for all."""
        if new is None or old is None:
            self._add(path, field.drift, old, new, DriftVerdict.GROWN if new is None else DriftVerdict.KEPT)
            return None
        for name in sorted(set(old) ^ set(new)):
            if name in old:
                self._add(path, field.drift, name, "left out", DriftVerdict.KEPT)
            else:
                self._add(path, field.drift, None, name, DriftVerdict.GROWN)
        return sorted({*old, *new})

    def scorers(self, field: Field, old: list[Any], new: list[Any], path: str) -> list[Any]:
        """Scorers by name: more may be added; the arguments of one that is there may not change.

        The file of a scorer may be at another place: whether its code is the same, the gate compares.
        """
        before, after = scorers_by_name(old), scorers_by_name(new)
        joined = {**after, **before}
        for name in [name for name in before if name in after and _is_moved_scorer(before[name], after[name])]:
            kinds = _scorer_kind(before[name]), _scorer_kind(after[name])
            self._add(f"{path}.{name}", Drift.LOCATION, *kinds, DriftVerdict.APPLIED)
            joined[name] = before[name] = after[name]
        judged = [name for name in before if name in after and judges_of(before[name]) and judges_of(after[name])]
        for name in judged:
            joined[name] = self._judged(before[name], after[name], f"{path}.{name}")
            before[name], after[name] = ({MODEL_GRADED: verdict_arguments(one)} for one in (before[name], after[name]))
        self._members(field.drift, before, after, path, _scorer_arguments)
        if self._is_rescored(field.drift):
            joined |= {name: scorer for name, scorer in after.items() if name not in judged}
        return [joined[name] for name in [*before, *(name for name in after if name not in before)]]

    def _judged(self, old: Any, new: Any, path: str) -> Any:
        """A scorer with the judges of both, combined as the new one says."""
        judges, now = judges_of(old), judges_of(new)
        for name in (name for name in judges if name not in now):
            self._add(path, Drift.ADDITIVE, f"judge {name}", "left out", DriftVerdict.KEPT)
        added = [name for name in now if name not in judges]
        for name in added:
            self._add(path, Drift.ADDITIVE, None, f"judge {name}", DriftVerdict.GROWN)
        before, after = combining_arguments(old), combining_arguments(new)
        for name in (name for name in COMBINING if not same_value(before.get(name), after.get(name))):
            self._add(f"{path}.{name}", Drift.DERIVED, before.get(name), after.get(name), DriftVerdict.APPLIED)
        judging = new if self._rescoring else old
        if not added and before == after and same_value(verdict_arguments(old), verdict_arguments(judging)):
            return old
        return with_judges(verdict_arguments(judging), [*judges, *added], after)

    def prompt(self, field: Field, old: Any, new: Any, path: str) -> Any:
        """Prompt variants are an axis, whose values may be added; a prompt that is there may not change."""
        before, after = prompt_variants(old), prompt_variants(new)
        if before is None or after is None:
            return self._leaf(field.drift, old, new, path)
        self._members(field.drift, before, after, path, str)
        joined = {**before, **{name: text for name, text in after.items() if name not in before}}
        return list(joined.values()) if isinstance(old, list) and isinstance(new, list) else joined

    def axes(self, field: Field, old: dict[str, Any], new: dict[str, Any], path: str) -> dict[str, Any]:
        """Values may be added to an axis; what is special about one that is there may not change."""
        # Of a task in Python, an axis may be one that its code has: that is known only together with the code.
        joined = {**old, **new}
        for name in old.keys() & new.keys():
            joined[name] = self._axis(field.drift, entries_of(old[name]), entries_of(new[name]), key_path(path, name))
        return joined

    def _axis(self, drift: Drift, before: Entries, after: Entries, path: str) -> Any:
        for value in [*before, *(value for value in after if value not in before)]:
            if value not in after:
                self._add(path, drift, value, "left out", DriftVerdict.KEPT)
            elif value not in before:
                self._add(path, drift, None, value, DriftVerdict.GROWN)
            else:
                self.block(before[value], after[value], key_path(path, value))
        return short_axis({**before, **{value: after[value] for value in after if value not in before}})

    def grid_filter(self, field: Field, old: list[Any], new: list[Any], path: str) -> list[Any]:  # noqa: ARG002
        """Which combinations are run: that is compared once the axes are (see `_grid`)."""
        return new

    def _members(
        self, drift: Drift, before: dict[str, Any], after: dict[str, Any], path: str, show: Callable[[Any], Any]
    ) -> None:
        """Members that have names: more may come, those that are left out stay, and none may change but for scorers
        that score once more.
        """
        for name in [*before, *(name for name in after if name not in before)]:
            place = f"{path}.{name}"
            if name not in after:
                self._add(place, Drift.ADDITIVE, "given", "left out", DriftVerdict.KEPT)
            elif name not in before:
                self._add(place, Drift.ADDITIVE, None, "added", DriftVerdict.GROWN)
            elif not same_value(before[name], after[name]):
                old, new = show(before[name]), show(after[name])
                # Where a scorer of the same name is another one, its arguments may well be the same.
                shown = (before[name], after[name]) if same_value(old, new) else (old, new)
                self._add(place, drift, *shown, _verdict(is_free=self._is_rescored(drift)))

    def local_args(self, field: Field, old: dict[str, Any], new: dict[str, Any], path: str) -> dict[str, Any]:
        """Where the weights of a local model lie may change: the gate compares their bytes."""
        before, after = ({name: args[name] for name in args if name != "path"} for args in (old, new))
        joined = before if same_value(before, after) else self._leaf(field.drift, before, after, path)
        where = new.get("path")
        if old.get("path") != where:
            self._leaf(Drift.LOCATION, old.get("path"), where, f"{path}.path")
        return {**joined, **({"path": where} if where is not None else {})}

    def use(self, field: Field, old: str | None, new: str | None, path: str) -> Any:
        """A task or a solver of the same name in a file at another place: the gate compares its code."""
        return self._leaf(Drift.LOCATION if is_moved(old, new) else field.drift, old, new, path)

    def durability(self, field: Field, old: str, new: str, path: str) -> str:
        """Stricter is harmless; a laxer one would count trials as finished that are in no store."""
        if new == "remote":
            self._freely.add(path)
        return str(self._leaf(field.drift, old, new, path))

    def _add(self, path: str, drift: Drift, old: Any, new: Any, verdict: DriftVerdict) -> None:
        out = way_out_of(drift) if verdict is DriftVerdict.REFUSED else ""
        self.differences.append(Difference(path, drift, old, new, verdict, out))


_BY_FIELD: dict[tuple[type[Block], str], Callable[[_EvalMerger, Field, Any, Any, str], Any]] = {
    (TaskSpec, "epochs"): _EvalMerger.number,
    (TaskSpec, "limit"): _EvalMerger.number,
    (TaskSpec, "models"): _EvalMerger.names,
    (TaskSpec, "sample_ids"): _EvalMerger.names,
    (TaskSpec, "scorers"): _EvalMerger.scorers,
    (TaskSpec, "prompt"): _EvalMerger.prompt,
    (TaskSpec, "axes"): _EvalMerger.axes,
    (TaskSpec, "include"): _EvalMerger.grid_filter,
    (TaskSpec, "exclude"): _EvalMerger.grid_filter,
    (TaskSpec, "use"): _EvalMerger.use,
    (TaskSpec, "solver"): _EvalMerger.use,
    (RunnerSpec, "durability"): _EvalMerger.durability,
}
_GRID_FIELDS = {"axes", "include", "exclude"}
_LEFT_OPEN = {"epochs", "limit"}
"""What a Python task may bring itself: how many there were and are is known only together with its code."""


def grid_differences(grid: JoinedGrid, saved: TaskSpec, offered: TaskSpec, path: str) -> list[Difference]:
    """The combinations of values on both sides that come or go with `include` and `exclude`."""
    place = f"{path}.{'include' if saved.include != offered.include else 'exclude'}"
    kept = [
        Difference(place, Drift.ADDITIVE, text, "left out", DriftVerdict.KEPT) for text in _first_texts(grid.left_out)
    ]
    return kept + [
        Difference(place, Drift.ADDITIVE, None, text, DriftVerdict.GROWN) for text in _first_texts(grid.added)
    ]


def _first_texts(combinations: list[Combination]) -> list[str]:
    more = len(combinations) - _LISTED
    texts = list(map(combination_text, combinations[:_LISTED]))
    return [*texts, f"and {more} more combinations"] if more > 0 else texts


def same_value(old: Any, new: Any) -> bool:
    """Equal in value; true and 1 are not the same, 0.0 and 0 are."""
    if isinstance(old, bool) is not isinstance(new, bool):
        return False
    if isinstance(old, Block) and type(old) is type(new):
        return all(same_value(getattr(old, name), getattr(new, name)) for name in old.__struct_fields__)
    if isinstance(old, dict) and isinstance(new, dict):
        return old.keys() == new.keys() and all(same_value(old[name], new[name]) for name in old)
    if isinstance(old, list) and isinstance(new, list):
        return len(old) == len(new) and all(map(same_value, old, new))
    return bool(old == new)


def limit_bound(limit: int | None) -> float:
    """A limit as a number that can be compared; none is the largest."""
    return float("inf") if limit is None else limit


def scorers_by_name(scorers: list[Any]) -> dict[str, Any]:
    """Each scorer under the name that its scores have: the one it is given, its name in its file, or its kind."""
    named: dict[str, Any] = {}
    for scorer in scorers:
        kind = _scorer_kind(scorer)
        name = str((_scorer_arguments(scorer) or {}).get("name", split_reference(kind)[1] or kind))
        # Of two that share a name, which is refused when they are loaded, neither may hide the other here.
        named[kind if name in named else name] = scorer
    return named


def _scorer_kind(scorer: Any) -> str:
    return scorer if isinstance(scorer, str) else str(next(iter(scorer)))


def _scorer_arguments(scorer: Any) -> Any:
    return {} if isinstance(scorer, str) else next(iter(scorer.values()))


def scorer_parts(scorer: Any) -> tuple[str, Any]:
    """The kind of a scorer and its arguments, apart from the name of its scores."""
    arguments = _scorer_arguments(scorer) or {}
    return _scorer_kind(scorer), {name: value for name, value in arguments.items() if name != "name"}


def _is_moved_scorer(old: Any, new: Any) -> bool:
    kinds = _scorer_kind(old), _scorer_kind(new)
    same_arguments = same_value(_scorer_arguments(old), _scorer_arguments(new))
    return kinds[0] != kinds[1] and is_moved(*kinds) and same_arguments


def prompt_variants(prompt: Any) -> dict[str, str] | None:
    """The variants of a prompt by name; None where there is only one prompt."""
    if isinstance(prompt, dict):
        return prompt
    if isinstance(prompt, list):
        return {str(number): text for number, text in enumerate(prompt, start=1)}
    return None


def model_identity(model: ModelSpec, weights: str = "") -> bytes:
    """What makes two models the same one: who serves it, its name and the provider's options; not where it is
    reached. Of a model that is a file, the digest of its weights, if that is known, and not where it lies.
    """
    kept = {
        name: value for name, value in plain_data(model).items() if name in {"provider", "model", "headers", "args"}
    }
    if weights:
        args = {name: value for name, value in model.args.items() if name != "path"}
        kept |= {"args": args, "weights": weights}
    return msgspec.json.encode(kept, order="sorted")
