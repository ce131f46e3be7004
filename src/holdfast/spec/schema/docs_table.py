"""The table of fields in docs/resume.md: where each may appear, its class, and what a change does on resume.

`python -m holdfast.spec.schema.docs_table docs/resume.md` writes it between its two marks; a test checks that it is up
to date.
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
    Drift.IDENTITY: "refused; `fork` starts a run with it",
    Drift.RECORDED: "refused; `fork` starts a run with it",
    Drift.SCORING: "refused; `rescore` scores the recorded answers again",
    Drift.ADDITIVE: "if increased, the missing trials are run; if reduced, existing results are kept",
    Drift.THROUGHPUT: "changed and recorded",
    Drift.LOCATION: "changed and recorded",
    Drift.DERIVED: "changed and recorded; refused where a task limits its cost",
    Drift.UNMATCHED: "not compared",
}
_INSTEAD = {"currency": "changed and recorded"}
"""Fields whose change is never refused."""
EXCEPTIONS = {
    "args": "; the path of local weights may change if their bytes are the same",
    "durability": "; `local` may become `remote`",
    "prompt": "; a new variant is run and recorded",
    "scorers": "; a new scorer scores the recorded answers",
    "solver": "; a file that was moved is accepted if its code is the same",
    "use": "; a file that was moved is accepted if its code is the same",
    **dict.fromkeys(("description", "name", "tags"), "; `--set` changes it where it is shown"),
}
"""Fields that may not change, but may grow, move, become stricter or be set by hand."""


def fields_table() -> str:
    """The table as Markdown: a row for every field, with all places where it may appear."""
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
    return _INSTEAD.get(name, ON_RESUME[drift]) + EXCEPTIONS.get(name, "")


def _documented(found: Iterator[FieldPlace]) -> Iterator[FieldPlace]:
    """Values, and maps whose entries may come and go."""
    for place in found:
        within = block_within(place.field.type)
        if within is None or "*" in within[1]:
            yield place


def with_table(text: str) -> str:
    """A document with the current table between its marks."""
    return between_marks(text, BEGIN, fields_table(), END)


def between_marks(text: str, begin: str, content: str, end: str) -> str:
    """A document with other content between two marks."""
    before, _, rest = text.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}{content}{end}{after}"


if __name__ == "__main__":
    document = Path(sys.argv[1])
    document.write_text(with_table(document.read_text(encoding="utf-8")), encoding="utf-8")
