"""An offered eval in the spelling of the saved one, wherever both say the same.

Resolving knows the defaults of the schema. Other defaults are known only to what takes the values: the arguments of a
scorer or of a Python task, the options of a provider, the format that the name of a file implies. Spelling one of
these out is not a change.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from holdfast.errors import HoldfastError
from holdfast.models.catalogue import effective_options
from holdfast.spec import DatasetSpec, EvalSpec, ModelSpec, SamplingSpec, TaskSpec
from holdfast.spec.compare import scorer_parts, scorers_by_name
from holdfast.spec.judged_scorers import (
    COMBINING,
    combining_arguments,
    judge_arguments,
    judges_of,
    verdict_arguments,
    with_judges,
)
from holdfast.spec.loading.error_messages import key_path
from holdfast.spec.schema.dataset import Operation
from holdfast.tasks.datasets.formats import detect_format
from holdfast.tasks.scorers.registry import scorer_effect

if TYPE_CHECKING:
    from holdfast.tasks.source.code_files import CodeBase

T = TypeVar("T")


def spelled_as_saved(offered: EvalSpec, saved: EvalSpec, code: Callable[[str], CodeBase]) -> EvalSpec:
    """The offered eval with the saved spelling of all that is the same; `code` finds the files of a task's code."""
    models = {name: _model(entry, saved.models.get(name)) for name, entry in offered.models.items()}
    datasets = {name: _dataset(entry, saved.datasets.get(name)) for name, entry in offered.datasets.items()}
    tasks = {name: _task(entry, saved.tasks.get(name), code(name)) for name, entry in offered.tasks.items()}
    return msgspec.structs.replace(offered, models=models, datasets=datasets, tasks=tasks)


def _model(new: ModelSpec, old: ModelSpec | None) -> ModelSpec:
    if old is None or new.args == old.args or new.provider != old.provider:
        return new
    same = is_same(lambda args: effective_options(new.provider, args), new.args, old.args)
    return msgspec.structs.replace(new, args=old.args) if same else new


def _dataset(new: DatasetSpec, old: DatasetSpec | None) -> DatasetSpec:
    if old is None:
        return new
    changes: dict[str, Any] = {}
    if new.format != old.format and is_same(lambda form: detect_format(Path(new.path), form), new.format, old.format):
        changes["format"] = old.format
    if _without_own_names(new.fields) == _without_own_names(old.fields):
        changes["fields"] = old.fields
    if _effective_operations(new) == _effective_operations(old):
        changes["operations"] = old.operations
    return msgspec.structs.replace(new, **changes)


def same_formats(offered: EvalSpec, saved: EvalSpec) -> list[str]:
    """The paths of formats that have to be spelled out for a file at another place, and are the same."""
    return [
        f"{key_path('datasets', name)}.format"
        for name, new in offered.datasets.items()
        if (old := saved.datasets.get(name)) is not None
        and is_same(lambda entry: detect_format(Path(entry.path), entry.format), new, old)
    ]


def _without_own_names(fields: Mapping[Any, str]) -> dict[Any, str]:
    """Without the parts of a sample that are in the column of their own name."""
    return {part: column for part, column in fields.items() if column != part}


def _effective_operations(dataset: DatasetSpec) -> list[Operation]:
    """Without the steps that choose everything, once and in the same order."""
    return [operation for operation in dataset.operations if not _is_idle(operation)]


def _is_idle(operation: Operation) -> bool:
    part, repeat = operation.slice, operation.repeat
    return (part is not None and part.start == 0 and part.num is None) or (repeat is not None and repeat.times == 1)


def _task(new: TaskSpec, old: TaskSpec | None, code: CodeBase) -> TaskSpec:
    if old is None:
        return new
    changes: dict[str, Any] = {"scorers": _scorers(new.scorers, old.scorers, code)}
    if new.use and old.use and new.args != old.args:
        from holdfast.tasks.task_reference import task_arguments  # noqa: PLC0415 - most tasks are not in Python

        use = new.use
        if is_same(lambda args: task_arguments(use, code, args), new.args, old.args):
            changes["args"] = old.args
    if not (new.use or old.use or new.solver or old.solver):
        # A solver of one's own gets the input as it is, and sees that there is no prompt.
        changes |= {part: getattr(old, part) for part, usual in _TEMPLATES.items() if _is_usual(new, old, part, usual)}
    if new.sampling is not None and old.sampling is not None and new.sampling != old.sampling:
        changes["sampling"] = _sampling(new.sampling, old.sampling, code)
    return msgspec.structs.replace(new, **changes)


_TEMPLATES = {"prompt": "{input}", "target": "{target}"}
"""What templates that are left out amount to."""


def _is_usual(new: TaskSpec, old: TaskSpec, part: str, usual: str) -> bool:
    return getattr(new, part) in (None, usual) and getattr(old, part) in (None, usual)


def _scorers(new: list[Any], old: list[Any], code: CodeBase) -> list[Any]:
    saved = scorers_by_name(old)
    return [_scorer(given, saved, code) for given in new]


def _scorer(given: Any, saved: Mapping[str, Any], code: CodeBase) -> Any:
    (name,) = scorers_by_name([given])
    if name not in saved:
        return given
    if is_same(lambda scorer: scorer_effect(scorer, code), given, saved[name]):
        return saved[name]
    is_judged = judge_arguments(given) is not None and judge_arguments(saved[name]) is not None
    return _judged_scorer(given, saved[name], code) if is_judged else given


def _judged_scorer(given: Any, saved: Any, code: CodeBase) -> Any:
    """A scorer whose judges may be others: whatever else is the same is spelled as it is saved."""
    for how, *combined in itertools.product((saved, given), repeat=1 + len(COMBINING)):
        owners = zip(COMBINING, map(combining_arguments, combined), strict=True)
        combining = {name: owner[name] for name, owner in owners if name in owner}
        spelled = with_judges(verdict_arguments(how), judges_of(given), combining)
        if is_same(lambda scorer: scorer_effect(scorer, code), given, spelled):
            return spelled
    return given


def is_same_scorer(given: Any, saved: Any, code: CodeBase) -> bool:
    """Whether two scorers judge alike, whatever they are called; of two panels, whether a judge of both would."""
    if judge_arguments(given) is not None and judge_arguments(saved) is not None:
        shared = [judge for judge in judges_of(given) if judge in judges_of(saved)]
        given, saved = (with_judges(verdict_arguments(one), shared[:1], {}) for one in (given, saved))
    return is_same(lambda scorer: scorer_effect(_without_name(scorer), code), given, saved)


def _without_name(scorer: Any) -> Any:
    kind, arguments = scorer_parts(scorer)
    return {kind: arguments}


def _sampling(new: SamplingSpec, old: SamplingSpec, code: CodeBase) -> SamplingSpec:
    """The saved one where both build the same strategy, with the same requirements."""
    # Most evals have none.
    from holdfast.sampling.from_spec import build_strategy  # noqa: PLC0415

    return old if is_same(lambda one: build_strategy(one, "sampling", code).identity(), new, old) else new


def is_same(effect: Callable[[T], Any], new: T, old: T) -> bool:
    """Whether two spellings have the same effect; what cannot be understood is the same as nothing."""
    try:
        return bool(effect(new) == effect(old))
    except HoldfastError:
        return False
