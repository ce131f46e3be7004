"""Scorers with judges in an eval: `{model_graded: {model: judge}}`, or several judges as `models`.

Whatever a single verdict depends on is compared like the arguments of any scorer. The judges are a set that may grow,
and how they are combined only decides how the scores on record are read.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.spec.loading.error_messages import describe_value
from holdfast.suggestions import nearest_or_known

MODEL_GRADED = "model_graded"
_JUDGES = ("model", "models")
COMBINING = ("combine", "pass_at")
"""The arguments that only decide how scores are read."""


def judge_arguments(scorer: Any) -> dict[str, Any] | None:
    """The arguments of a scorer with judges; None for any other."""
    if not isinstance(scorer, dict) or len(scorer) != 1:
        return None
    ((kind, arguments),) = scorer.items()
    return arguments if kind == MODEL_GRADED and isinstance(arguments, dict) else None


def judges_named(scorer: Any) -> Iterator[tuple[str, str]]:
    """The judges of a scorer, with where each is named."""
    arguments = judge_arguments(scorer) or {}
    if isinstance(arguments.get("model"), str):
        yield f"{MODEL_GRADED}.model", arguments["model"]
    several = arguments.get("models")
    for index, judge in enumerate(several if isinstance(several, list) else ()):
        if isinstance(judge, str):
            yield f"{MODEL_GRADED}.models[{index}]", judge


def judges_of(scorer: Any) -> list[str]:
    """The judges of a scorer; none for a scorer that has none."""
    return [judge for _, judge in judges_named(scorer)]


def verdict_arguments(scorer: Any) -> dict[str, Any]:
    """The arguments that a single verdict depends on."""
    arguments = judge_arguments(scorer) or {}
    return {name: value for name, value in arguments.items() if name not in (*_JUDGES, *COMBINING)}


def combining_arguments(scorer: Any) -> dict[str, Any]:
    """The arguments that only decide how scores are read."""
    arguments = judge_arguments(scorer) or {}
    return {name: arguments[name] for name in COMBINING if arguments.get(name) is not None}


def with_judges(arguments: dict[str, Any], judges: list[str], combining: dict[str, Any]) -> dict[str, Any]:
    """A scorer with these judges, and these arguments otherwise."""
    named: dict[str, Any] = {"model": judges[0]} if len(judges) == 1 else {"models": judges}
    return {MODEL_GRADED: {**arguments, **named, **combining}}


def unknown_judges(at: str, scorer: Any, models: Any) -> Iterator[str]:
    """A sentence for every judge of a scorer that is no model of the eval."""
    for where, judge in judges_named(scorer):
        if judge not in models:
            yield (
                f"{at}.{where} is {describe_value(judge)}, which is not a model of the eval;"
                f" {nearest_or_known(judge, models)}"
            )
