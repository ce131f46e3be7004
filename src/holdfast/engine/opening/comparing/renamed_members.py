"""Members of an eval that come under another name: a task or model, a prompt variant or a scorer.

A name is part of a trial's key, so a renamed member would be run and paid for again, beside what it has. It is
recognised by what it is: a member is left out, and another that would be asked the same is added. A wholly different
eval, of which no task or no model is in the run, is refused as well: it belongs in a run of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from holdfast.engine.opening.comparing.explicit_defaults import is_same_scorer
from holdfast.run.core.display_text import list_text
from holdfast.run.core.records import TaskCode
from holdfast.run.drift.gate import refused_difference
from holdfast.spec import Drift, EvalSpec, ModelSpec, TaskSpec, plain_data
from holdfast.spec.compare import Difference, model_identity, prompt_variants, scorers_by_name
from holdfast.spec.grid import NO_OVERRIDES, axis_entries
from holdfast.spec.loading.error_messages import key_path
from holdfast.tasks.source.code_files import CodeBase

_NO_MATTER_TO_ANSWERS = {"target", "operations"}
SharesSamples = Callable[[str, str], bool]
"""Whether most samples that a task of the run was asked about are asked about by a task that is added."""


class MemberComparison:
    """The members of the saved and of the offered eval, by name and by what they are."""

    def __init__(
        self,
        saved: EvalSpec,
        offered: EvalSpec,
        used_models: Collection[str],
        shares_samples: SharesSamples,
        find_code: Callable[[str], CodeBase],
    ) -> None:
        """`find_code` finds the files of a task's code."""
        self._saved, self._offered = saved, offered
        self._used_models, self._shares_samples, self._find_code = used_models, shares_samples, find_code

    def differences(self, code: Mapping[str, TaskCode], code_now: Callable[[str, str], TaskCode]) -> list[Difference]:
        """Every rename, and the kinds of which nothing is left.

        `code` is that of the saved tasks; `code_now` gives that of an added task, made comparable with a saved one.
        """
        found = [*self._models(), *self._tasks(code, code_now)]
        for name in self._saved.tasks.keys() & self._offered.tasks.keys():
            found += _renamed_variants(name, self._saved.tasks[name], self._offered.tasks[name])
            found += _renamed_values(name, self._saved.tasks[name], self._offered.tasks[name])
            found += self._renamed_scorers(name)
        return found

    def _models(self) -> Iterator[Difference]:
        saved, offered = self._saved.models, self._offered.models
        used = [name for name in saved if name in self._used_models]
        left, added = _left_and_added(used, saved, offered)
        pairs = _pairs(left, added, lambda old, new: _model_digest(saved[old]) == _model_digest(offered[new]))
        yield from (renamed("models", "model", old, new) for old, new in pairs.items())
        if used and len(left) == len(used) and added and not pairs:
            yield _different_eval("models", left, added)

    def _tasks(self, code: Mapping[str, TaskCode], code_now: Callable[[str, str], TaskCode]) -> Iterator[Difference]:
        saved, offered = self._saved.tasks, self._offered.tasks
        left, added = _left_and_added(saved, saved, offered)

        def is_same(old: str, new: str) -> bool:
            if old not in code or _settings(saved[old]) != _settings(offered[new]):
                return False
            same_code = _code_digest(code[old]) == _code_digest(code_now(new, old))
            return same_code and self._shares_samples(old, new)

        pairs = _pairs(left, added, is_same)
        yield from (renamed("tasks", "task", old, new) for old, new in pairs.items())
        if len(left) == len(saved) and added and not pairs:
            yield _different_eval("tasks", left, added)

    def _renamed_scorers(self, task: str) -> Iterator[Difference]:
        before, after = (scorers_by_name(spec.tasks[task].scorers) for spec in (self._saved, self._offered))
        left, added = _left_and_added(before, before, after)

        def is_same(old: str, new: str) -> bool:
            return is_same_scorer(after[new], before[old], self._find_code(task))

        for old, new in _pairs(left, added, is_same).items():
            yield renamed(f"{key_path('tasks', task)}.scorers", "scorer", old, new, Drift.SCORING)


def renamed(place: str, kind: str, old: str, new: str, drift: Drift = Drift.IDENTITY) -> Difference:
    """The difference of a member whose name alone has changed."""
    found = refused_difference(key_path(place, old), drift, old, new)
    return msgspec.structs.replace(
        found,
        way_out=f"the same {kind} under another name: call it {old} again, or keep both; `holdfast fork` starts a run"
        " with the new name",
    )


def _different_eval(place: str, old: Iterable[str], new: Iterable[str]) -> Difference:
    found = refused_difference(place, Drift.IDENTITY, list_text(list(old)), list_text(list(new)))
    return msgspec.structs.replace(
        found,
        way_out=f"this is a different eval: it has none of the run's {place}, only others;"
        " `holdfast fork` starts a run with it",
    )


def _left_and_added(
    names: Iterable[str], saved: Collection[str], offered: Collection[str]
) -> tuple[list[str], list[str]]:
    return [name for name in names if name not in offered], [name for name in offered if name not in saved]


def _pairs(left: Iterable[str], added: Iterable[str], is_same: Callable[[str, str], bool]) -> dict[str, str]:
    """For every name that is left out, the first that is added for the same and has no other partner."""
    free, found = list(added), {}
    for old in left:
        new = next((new for new in free if is_same(old, new)), None)
        if new is not None:
            found[old] = new
            free.remove(new)
    return found


def _model_digest(model: ModelSpec) -> tuple[bytes, bytes]:
    """What the replies of a model depend on; not where it is reached."""
    return model_identity(model), msgspec.json.encode(plain_data(model.generation), order="sorted")


def _settings(task: TaskSpec) -> Any:
    """What an entry of `tasks` says about answers, apart from what its code has digests of."""
    sampling = None if task.sampling is None else plain_data(task.sampling)
    return plain_data(task.limits), task.max_iterations, task.tools, bool(task.use), sampling


def _code_digest(code: TaskCode) -> Any:
    settings = {name: digest for name, digest in code.settings.items() if name not in _NO_MATTER_TO_ANSWERS}
    return code.solver, settings


def _renamed_variants(name: str, saved: TaskSpec, offered: TaskSpec) -> Iterator[Difference]:
    before, after = prompt_variants(saved.prompt), prompt_variants(offered.prompt)
    if before is None or after is None:
        return
    left, added = _left_and_added(before, before, after)
    place = f"{key_path('tasks', name)}.prompt"
    for old, new in _pairs(left, added, lambda old, new: before[old] == after[new]).items():
        yield renamed(place, "prompt", old, new)


def _renamed_values(name: str, saved: TaskSpec, offered: TaskSpec) -> Iterator[Difference]:
    """Axis values that come under another name. Of one with nothing special about it, the name is all that it is."""
    before, after = axis_entries(saved), axis_entries(offered)
    for axis in before.keys() & after.keys():
        old_values, new_values = before[axis], after[axis]
        left, added = _left_and_added(old_values, old_values, new_values)
        told = [value for value in left if old_values[value] != NO_OVERRIDES]
        place = key_path(f"{key_path('tasks', name)}.axes", axis)
        pairs = _pairs(told, added, lambda old, new, a=old_values, b=new_values: a[old] == b[new])  # type: ignore[misc]
        yield from (renamed(place, "axis value", old, new) for old, new in pairs.items())
