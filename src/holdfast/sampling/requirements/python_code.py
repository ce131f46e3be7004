"""`python`: the answer is Python that compiles. It is never executed."""

from __future__ import annotations

import warnings
from typing import ClassVar, Unpack

from holdfast.models.errors import excerpt
from holdfast.sampling.requirements.built_in import BuiltInRequirement, Naming
from holdfast.sampling.requirements.requirement import Draft
from holdfast.sampling.requirements.verdict import Verdict
from holdfast.tasks.judges.fenced_block import fenced_block

LONGEST_SOURCE = 1_000_000
"""Longer answers are not compiled: they fail. Compiling this much takes about a second."""

_LANGUAGES = frozenset({"python", "py", "python3"})
_MESSAGE_CHARACTERS = 200


class PythonRequirement(BuiltInRequirement, frozen=True, kw_only=True):
    """Met if the answer, or the one fenced block in it, compiles as a module."""

    kind: ClassVar[str] = "python"

    def check(self, draft: Draft) -> Verdict:
        text = draft.text
        if len(text) > LONGEST_SOURCE:
            return self.failed(f"The answer has {len(text):,} characters; at most {LONGEST_SOURCE:,} are compiled.")
        block = fenced_block(text, _LANGUAGES)
        fault = _syntax_fault(text if block is None else block)
        # A module may well have a fence in a docstring.
        if fault and block is not None and not _syntax_fault(text):
            return self.passed()
        return self.failed(fault) if fault else self.passed()

    def derived_description(self) -> str:
        return "The answer must be valid Python code, as it is or in one fenced block."


def python(**naming: Unpack[Naming]) -> PythonRequirement:
    """The answer is Python code that compiles.

    Raises:
        ConfigurationError: an argument has the wrong type.
    """
    return PythonRequirement.build(dict(naming), "python()")


def _syntax_fault(source: str) -> str:
    """Why a text does not compile, as a sentence; empty where it does."""
    if not source.strip():
        return "The answer holds no Python code."
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            compile(source, "<answer>", "exec", dont_inherit=True)
    except SyntaxError as error:
        line = f" in line {error.lineno}" if error.lineno else ""
        return f"The answer is not valid Python{line}: {excerpt(error.msg or 'invalid syntax', _MESSAGE_CHARACTERS)}."
    except (MemoryError, RecursionError):
        return "The answer is not valid Python: it is nested too deeply."
    except ValueError:
        return "The answer is not valid Python: it holds characters that source code cannot have."
    return ""
