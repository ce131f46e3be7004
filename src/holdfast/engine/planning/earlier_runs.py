"""Runs made before names changed: their configuration under the names of today, and digests by the rule they used.

Everything that knows how an earlier version wrote a run is in this file. It can be deleted once no such run is
resumed any more. The names that the code of such a run may still use are accepted where they are used: `Limits` in
`holdfast`, `solve` and `score` in `tasks/task.py`.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.errors import NewerFormat
from holdfast.run.core.records import TaskCode
from holdfast.tasks.source.importing import MODULE_PREFIX
from holdfast.tasks.source.origin import versioned_name
from holdfast.tasks.source.spelling import PRESENT, Directories, Spelling
from holdfast.tasks.task import Task
from holdfast.tasks.task_code import RULE, code_of, earlier_code_of

_FIELDS = {"deadline": "retry_deadline", "grace": "grace_period"}
"""Fields of `runner`, of the run and of its tasks."""


def with_present_names(config: Any) -> Any:
    """A saved configuration whose fields have the names of today."""
    if not isinstance(config, dict):
        return config
    renamed = _renamed_runner(config)
    if isinstance(tasks := renamed.get("tasks"), dict):
        renamed["tasks"] = {name: _renamed_runner(task) for name, task in tasks.items()}
    return renamed


def _renamed_runner(block: Any) -> Any:
    """A block with its runner fields renamed: those inside `runner`, and those beside it."""
    if not isinstance(block, dict):
        return block
    named = {_FIELDS.get(name, name): value for name, value in block.items()}
    if isinstance(runner := named.get("runner"), dict):
        named["runner"] = {_FIELDS.get(name, name): value for name, value in runner.items()}
    return named


def comparable_code(task: Task, saved: TaskCode | None) -> TaskCode:
    """The code behind a task, by the rule that made the digests it is compared with.

    Raises:
        NewerFormat: a later version made them by a rule that this one does not know.
    """
    if saved is None:
        return code_of(task, new_salt())
    if saved.rule == RULE:
        return code_of(task, saved.tree.salt if saved.tree is not None else new_salt(), saved.tree)
    if saved.rule not in _SPELLINGS:
        raise NewerFormat(
            f"The code of the task {task.name!r} was recorded by a newer version of Holdfast (rule {saved.rule}).",
            hint="Resume the run with that version.",
        )
    return earlier_code_of(task, _SPELLINGS[saved.rule])


def new_salt() -> str:
    """What the digests in a run's trees are salted with."""
    return os.urandom(16).hex()


class _EarlierSpelling(Spelling):
    """Digests contained the modules of Holdfast, and the name of a user's module was a hash of its path."""

    rule = 1

    def foreign(self, module: str | None, qualified: str) -> str:
        name = qualified.partition(".")[0]
        if not _is_ours(module, name):
            return versioned_name(_with_hashed_modules(module or ""), qualified)
        return versioned_name(_HOMES.get(name, module), _RENAMED.get(qualified, qualified))

    def value(self, value: Any, directories: Directories) -> str:  # noqa: ARG002 - places counted
        return _with_hashed_modules(repr(value))

    def state(self, value: object) -> Any:
        state = super().state(value)
        return {_TASK_FIELDS.get(name, name): held for name, held in state.items()} if type(value) is Task else state

    def order(self, value: Any) -> str:
        return _DOTTED.sub(lambda found: _earlier_name(found[0]), _with_hashed_modules(repr(value)))


_EARLIER = _EarlierSpelling()
_SPELLINGS = {_EARLIER.rule: _EARLIER, PRESENT.rule: PRESENT}
_RENAMED = {"TrialLimits": "Limits"}
_TASK_FIELDS = {"solver": "solve", "scorers": "score"}
_OWN_MODULE = re.compile(rf"\b{MODULE_PREFIX}\w+")
_DOTTED = re.compile(r"\bholdfast(?:\.\w+)+")


def _is_ours(module: str | None, name: str) -> bool:
    """Whether a name is at home in a module of Holdfast, and not only passed on by it."""
    if module is None or not module.startswith("holdfast."):
        return False
    return getattr(getattr(sys.modules.get(module), name, None), "__module__", None) == module


def _earlier_name(dotted: str) -> str:
    """The full name of a class, as it was."""
    module, _, name = dotted.rpartition(".")
    return _EARLIER.foreign(module, name)


def _with_hashed_modules(text: str) -> str:
    """The text with the names of a person's modules as they were."""
    return _OWN_MODULE.sub(lambda found: _hashed_module(found[0]), text) if MODULE_PREFIX in text else text


def _hashed_module(name: str) -> str:
    path = getattr(sys.modules.get(name), "__file__", None)
    return name if path is None else MODULE_PREFIX + hashlib.blake2b(bytes(Path(path)), digest_size=8).hexdigest()


_MODULES = {
    "analysis.report": "Report",
    "analysis.run": "Run",
    "errors": "ConfigurationError HoldfastError NewerFormat NotARun ResumeAborted RunDamaged RunHeld StorageFailure"
    " UsageError",
    "executors.local": "evaluate evaluate_async",
    "models.errors": "Blocked ModelError PassingError RateLimited Rejected Unavailable",
    "models.message": "Message Reply Request Usage",
    "models.provider": "Provider open_provider",
    "run.listing": "list_recoverable",
    "run.recover": "recover recover_async",
    "spec.dataset": "DatasetSpec Filter Operation Repeat Shuffle Slice",
    "spec.eval": "EvalSpec",
    "spec.model": "Generation ModelSpec Price RateLimit Timeouts",
    "spec.runner": "RunnerSpec StageLimits TaskRunner",
    "spec.task": "Shot TaskSpec TrialLimits",
    "tasks.answer": "Answer InvalidAnswer as_answer",
    "tasks.choices": "checked_choices lettered prompt_fields shuffled target_index",
    "tasks.columns": "Columns",
    "tasks.dataset": "Dataset",
    "tasks.rows": "Rows",
    "tasks.sample": "Sample",
    "tasks.score": "InvalidScore Score as_score",
    "tasks.scorers.base": "BuiltIn Scorer",
    "tasks.scorers.choice": "Choice choice",
    "tasks.scorers.exact": "Exact exact",
    "tasks.scorers.function": "FunctionScorer scorer",
    "tasks.scorers.includes": "Includes includes",
    "tasks.scorers.numeric": "Numeric numeric",
    "tasks.scorers.regex": "Regex regex",
    "tasks.scorers.registry": "as_scorer as_scorers build_scorer",
    "tasks.solver": "Generate generate",
    "tasks.task": "Task TaskFactory task",
    "tasks.template": "Placeholder Template",
    "tasks.trial": "Trial",
}
"""Where the public names were, and what they are made of."""
_HOMES: Mapping[str, str] = {name: f"holdfast.{module}" for module, names in _MODULES.items() for name in names.split()}
