"""The command that starts the eval of a run once more, and pays for nothing that the run has answered.

A resume refuses code that has changed; after a fix this is what to type.
"""

from __future__ import annotations

import re
import shlex

from holdfast.run.core.records import SessionRecord

_DROPPED = {"--or-resume", "--json"}
_DROPPED_WITH_VALUE = {"--run-dir"}
_EVAL_FILE = re.compile(r".+\.(ya?ml|py(:\w+)?)", re.DOTALL)


def rerun_command(first: SessionRecord | None, place: str) -> str:
    """The command that starts the eval of a run once more, given the run's first session, and reuses its replies."""
    words = _words_after_run(first.invocation) if first is not None else []
    source = first.source if first is not None else ""
    # A run made in Python or by a fork has no eval file on record.
    again = words or [source if _EVAL_FILE.fullmatch(source) else "EVAL"]
    return shlex.join(["holdfast", "run", *again, "--reuse", place])


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
