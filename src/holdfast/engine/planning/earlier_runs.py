"""Runs made before names changed: their configuration under the names of today, and digests by the rule they used.

Everything that knows how an earlier version wrote a run is here and in `tasks/source/earlier_spelling.py`. It can be
deleted once no such run is resumed any more. The names that the code of such a run may still use are accepted where
they are used: `Limits` in `holdfast`, `solve` and `score` in `tasks/task.py`.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from holdfast.errors import NewerFormat
from holdfast.run.core.records import TaskCode
from holdfast.tasks.task import Task
from holdfast.tasks.task_code import RULE, code_of, earlier_code_of

if TYPE_CHECKING:
    from holdfast.tasks.source.spelling import Spelling

_FIELDS = {"deadline": "retry_deadline", "grace": "grace_period"}
"""Fields of `runner`, of the run and of its tasks."""
_EARLIER_UPLOAD_SECONDS = 5.0
"""What `upload_interval` was if the eval did not say, as long as `runner` had no `lease`."""


def with_present_names(config: Any) -> Any:
    """A saved configuration whose fields have the names of today, without what was only a default of its time."""
    if not isinstance(config, dict):
        return config
    renamed = _renamed_runner(config)
    if isinstance(runner := renamed.get("runner"), dict) and "lease" not in runner:
        renamed["runner"] = {name: value for name, value in runner.items() if not _is_earlier_default(name, value)}
    if isinstance(tasks := renamed.get("tasks"), dict):
        renamed["tasks"] = {name: _renamed_runner(task) for name, task in tasks.items()}
    return renamed


def _is_earlier_default(name: str, value: Any) -> bool:
    return name == "upload_interval" and value == _EARLIER_UPLOAD_SECONDS


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
    spellings = earlier_spellings()
    if saved.rule not in spellings:
        raise NewerFormat(
            f"The code of the task {task.name!r} was recorded by a newer version of Holdfast (rule {saved.rule}).",
            hint="Resume the run with that version.",
        )
    return earlier_code_of(task, spellings[saved.rule])


def earlier_spellings() -> dict[int, Spelling]:
    """By their rule, the spellings of digests that earlier versions have made."""
    # Most runs are not that old.
    from holdfast.tasks.source.earlier_spelling import EarlierSpelling  # noqa: PLC0415
    from holdfast.tasks.source.spelling import PRESENT  # noqa: PLC0415

    return {EarlierSpelling.rule: EarlierSpelling(Task), PRESENT.rule: PRESENT}


def new_salt() -> str:
    """What the digests in a run's trees are salted with."""
    return os.urandom(16).hex()
