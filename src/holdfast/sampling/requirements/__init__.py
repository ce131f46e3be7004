"""What a candidate must meet, and the outcome of checking it."""

from typing import TYPE_CHECKING

from holdfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from holdfast.sampling.requirements.model_judge import judge
    from holdfast.sampling.requirements.number_range import numeric
    from holdfast.sampling.requirements.pattern import regex
    from holdfast.sampling.requirements.python_code import python
    from holdfast.sampling.requirements.registry import as_requirement, as_requirements, build_requirement
    from holdfast.sampling.requirements.requirement import Checking, Draft, Requirement
    from holdfast.sampling.requirements.schema import json_schema
    from holdfast.sampling.requirements.substring import includes
    from holdfast.sampling.requirements.text_length import length
    from holdfast.sampling.requirements.user_function import function
    from holdfast.sampling.requirements.verdict import Verdict, VerdictKind

__all__ = [
    "Checking",
    "Draft",
    "Requirement",
    "Verdict",
    "VerdictKind",
    "as_requirement",
    "as_requirements",
    "build_requirement",
    "function",
    "includes",
    "json_schema",
    "judge",
    "length",
    "numeric",
    "python",
    "regex",
]

_HERE = "holdfast.sampling.requirements"

__getattr__ = load_lazily(
    _HERE,
    {
        f"{_HERE}.model_judge": ("judge",),
        f"{_HERE}.number_range": ("numeric",),
        f"{_HERE}.pattern": ("regex",),
        f"{_HERE}.python_code": ("python",),
        f"{_HERE}.registry": ("as_requirement", "as_requirements", "build_requirement"),
        f"{_HERE}.requirement": ("Checking", "Draft", "Requirement"),
        f"{_HERE}.schema": ("json_schema",),
        f"{_HERE}.substring": ("includes",),
        f"{_HERE}.text_length": ("length",),
        f"{_HERE}.user_function": ("function",),
        f"{_HERE}.verdict": ("Verdict", "VerdictKind"),
    },
)
