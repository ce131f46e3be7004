"""The schema as a table for the documentation: every field, where it may stand, and what a change to it means."""

from __future__ import annotations

from holdfast.spec.drift import Drift
from holdfast.spec.eval import EvalSpec
from holdfast.spec.fields import places

ON_RESUME = {
    Drift.IDENTITY: "refused",
    Drift.RECORDED: "refused",
    Drift.SCORING: "refused, names `rescore`",
    Drift.ADDITIVE: "may grow",
    Drift.THROUGHPUT: "applied, recorded",
    Drift.LOCATION: "applied, recorded",
    Drift.UNMATCHED: "not compared",
}


def drift_table() -> str:
    """One row for every field that holds a value, in the order of the schema, as Markdown."""
    rows = [
        f"| `{place.path}` | {place.drift.value} | {ON_RESUME[place.drift]} |"
        for place in places(EvalSpec)
        if place.is_leaf
    ]
    return "\n".join(["| field | class | on resume |", "|---|---|---|", *rows])
