"""Digests of source by the rules of earlier versions: where the names of today were then, and how they were spelled."""

from __future__ import annotations

import hashlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.tasks.source.importing import MODULE_PREFIX
from holdfast.tasks.source.origin import versioned_name
from holdfast.tasks.source.spelling import Directories, Spelling


class EarlierSpelling(Spelling):
    """Digests contained the modules of Holdfast, and the name of a user's module was a hash of its path."""

    rule = 1

    def __init__(self, task_type: type) -> None:
        """`task_type` is the class of tasks: two of its fields had other names."""
        self._task_type = task_type

    def foreign(self, module: str | None, qualified: str) -> str:
        name = qualified.partition(".")[0]
        if not _is_ours(module, name):
            return versioned_name(_with_hashed_modules(module or ""), qualified)
        return versioned_name(_HOMES.get(name, module), _RENAMED.get(qualified, qualified))

    def value(self, value: Any, directories: Directories) -> str:  # noqa: ARG002 - places counted
        return _with_hashed_modules(repr(value))

    def state(self, value: object) -> Any:
        state = super().state(value)
        is_task = type(value) is self._task_type
        return {_TASK_FIELDS.get(name, name): held for name, held in state.items()} if is_task else state

    def order(self, value: Any) -> str:
        return _DOTTED.sub(lambda found: self._earlier_name(found[0]), _with_hashed_modules(repr(value)))

    def _earlier_name(self, dotted: str) -> str:
        """The full name of a class, as it was."""
        module, _, name = dotted.rpartition(".")
        return self.foreign(module, name)


_RENAMED = {"TrialLimits": "Limits"}
_TASK_FIELDS = {"solver": "solve", "scorers": "score"}
_OWN_MODULE = re.compile(rf"\b{MODULE_PREFIX}\w+")
_DOTTED = re.compile(r"\bholdfast(?:\.\w+)+")


def _is_ours(module: str | None, name: str) -> bool:
    """Whether a name is at home in a module of Holdfast, and not only passed on by it."""
    if module is None or not module.startswith("holdfast."):
        return False
    return getattr(getattr(sys.modules.get(module), name, None), "__module__", None) == module


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
