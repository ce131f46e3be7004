"""Judging answers: built-in scorers by name, and functions as scorers."""

from holdfast.tasks.scorers.base import Scorer
from holdfast.tasks.scorers.choice import choice
from holdfast.tasks.scorers.exact import exact
from holdfast.tasks.scorers.function import FunctionScorer, scorer
from holdfast.tasks.scorers.includes import includes
from holdfast.tasks.scorers.numeric import numeric
from holdfast.tasks.scorers.regex import regex
from holdfast.tasks.scorers.registry import as_scorer, as_scorers, build_scorer

__all__ = [
    "FunctionScorer",
    "Scorer",
    "as_scorer",
    "as_scorers",
    "build_scorer",
    "choice",
    "exact",
    "includes",
    "numeric",
    "regex",
    "scorer",
]
