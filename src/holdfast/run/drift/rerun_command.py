"""The command that starts the eval of a run once more, and pays for nothing that the run has answered.

A resume refuses code that has changed; after a fix this is what to type. It works where it is printed: a path that was
relative to another directory is given as one that can be found from here.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from pathlib import Path

from holdfast.run.core.display_text import shell_word, unlike_option
from holdfast.run.core.records import SessionRecord

_DROPPED = {"--or-resume", "--json", "--dry-run", "-q", "--quiet", "-v", "--verbose"}
_DROPPED_WITH_VALUE = {"--run-dir"}
_EVAL_FILE = re.compile(r".+\.(ya?ml|py(:\w+)?)", re.DOTALL)


def rerun_command(first: SessionRecord | None, place: str, words: Sequence[str] | None = None) -> str:
    """The command that starts an eval and reuses the replies of the run at `place`; empty where none applies.

    `words` are those after `holdfast run`; if they are not given, those of the run's first session.
    """
    words = rerun_words(first) if words is None and first is not None else words
    if not words or (first is not None and _has_agents(first)):
        return ""
    return f"holdfast run {shlex.join(words)} --reuse {shell_word(place)}"


def _has_agents(first: SessionRecord) -> bool:
    """Whether a task of the run has an agent: its work is no reply to a request that another run could reuse."""
    tasks = first.config.get("tasks")
    return isinstance(tasks, dict) and any(isinstance(task, dict) and task.get("agent") for task in tasks.values())


def evaluate_line(place: str, keyword: str, **others: str) -> str:
    """The line of Python for the program whose tasks exist only there; `keyword` is what the run is given as."""
    given = "".join(f", {name}={value!r}" for name, value in {keyword: place, **others}.items())
    return f"evaluate(tasks, models{given})  # in Python, with all other arguments as before"


def rerun_words(first: SessionRecord) -> list[str] | None:
    """The words after `holdfast run` that start the eval of a run, given its first session; None if there are none."""
    words = _words_after_run(first.invocation)
    if not words and _EVAL_FILE.fullmatch(first.source):
        # A run made by a fork has the eval file on record, and no command that would start it.
        words = [first.source]
    return [_found_from_here(word, first) for word in words] or None


def _words_after_run(invocation: list[str]) -> list[str]:
    """The arguments of `holdfast run`, without those that are about the run's place or its output."""
    if invocation[1:2] != ["run"]:
        return []
    kept, rest = [], iter(invocation[2:])
    for word in rest:
        option, equals, _ = word.partition("=")
        if option in _DROPPED_WITH_VALUE:
            if not equals:
                next(rest, None)
        elif option not in _DROPPED:
            kept.append(word)
    return kept


def _found_from_here(word: str, first: SessionRecord) -> str:
    """The name of an eval file as one that exists: as it is, or in the directory that the run has on record."""
    home, colon, name = word.partition(":") if ".py:" in word else (word, "", "")
    directory = first.config.get("directory")
    # What another user may not look at does not exist here.
    exists = os.path.exists(home)  # noqa: PTH110 - the other form raises
    if not _EVAL_FILE.fullmatch(home) or word.startswith("--") or exists or not isinstance(directory, str):
        return unlike_option(word) if exists else word
    found = Path(directory) / Path(home).name
    return f"{found}{colon}{name}" if os.path.exists(found) else word  # noqa: PTH110 - as above
