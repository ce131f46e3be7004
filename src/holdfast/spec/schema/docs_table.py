"""The table of fields in the documentation: where each may stand, its class, and what a resume makes of a change.

`python -m holdfast.spec.schema.docs_table docs/resume.md`
writes it anew between its two marks; a test holds that it is up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from holdfast.spec.schema.drift import Drift
from holdfast.spec.schema.eval import EvalSpec
from holdfast.spec.schema.introspect import FieldPlace, block_within, schema_places

BEGIN, END = "<!-- fields: begin -->\n", "<!-- fields: end -->\n"

ON_RESUME = {
    Drift.IDENTITY: "refused; `fork` begins a run with it",
    Drift.RECORDED: "refused; `fork` begins a run with it",
    Drift.SCORING: "refused; `fork` keeps the answers and has them scored again",
    Drift.ADDITIVE: "more is run and noted; of less the run keeps what it has",
    Drift.THROUGHPUT: "applied and noted",
    Drift.LOCATION: "applied and noted",
    Drift.DERIVED: "applied and noted; refused where a task limits its cost",
    Drift.UNMATCHED: "not looked at",
}
_INSTEAD = {"currency": "applied and noted"}
"""Fields of which a change is never refused."""
_EXCEPT = {
    "prompt": "; a variant more is run and noted",
    "scorers": "; a scorer more judges the answers on record, and is noted",
    "solver": "; a file at another place is applied and noted if its code is the same",
    "use": "; a file at another place is applied and noted if its code is the same",
}
"""What of a field may grow or move although its value may not change."""


def fields_table() -> str:
    """The table as Markdown: a row for every field, with all places where it may stand."""
    rows: dict[tuple[Drift, str], list[str]] = {}
    for place in _documented(schema_places(EvalSpec)):
        rows.setdefault((place.drift, place.field.name), []).append(place.path)
    order = list(Drift)
    lines = ["| field | where | class | on resume |", "|---|---|---|---|"]
    for drift, name in sorted(rows, key=lambda key: (order.index(key[0]), key[1])):
        where = ", ".join(f"`{path}`" for path in sorted(set(rows[drift, name]), key=lambda path: (len(path), path)))
        lines.append(f"| `{name}` | {where} | {drift.value} | {_on_resume(drift, name)} |")
    return "\n".join(lines) + "\n"


def _on_resume(drift: Drift, name: str) -> str:
    return _INSTEAD.get(name, ON_RESUME[drift]) + _EXCEPT.get(name, "")


def _documented(found: Iterator[FieldPlace]) -> Iterator[FieldPlace]:
    """Values, and maps whose entries may come and go."""
    for place in found:
        within = block_within(place.field.type)
        if within is None or within[1] == ".*":
            yield place


def with_table(text: str) -> str:
    """A document with the table as it is now between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}{fields_table()}{END}{after}"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(with_table(document.read_text(encoding="utf-8")), encoding="utf-8")
