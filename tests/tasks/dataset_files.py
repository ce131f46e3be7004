"""Datasets on disk for tests: written as given, ingested, opened."""

import json
from pathlib import Path

from holdfast.spec import Operation
from holdfast.tasks.datasets.columns import Columns
from holdfast.tasks.datasets.dataset import Dataset
from holdfast.tasks.datasets.ingest import ingest
from holdfast.tasks.datasets.row_file import Rows


def write_jsonl(path: Path, rows: list) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def open_rows(source: Path, form: str | None = None) -> Rows:
    canonical = source.with_name(source.name + ".canonical")
    with canonical.open("wb") as destination:
        taken = ingest(source, form, destination)
    return Rows.open(canonical, digest=taken.digest, source=source.name)


def open_dataset(
    source: Path,
    operations: list[Operation] | None = None,
    columns: Columns | None = None,
    limit: int | None = None,
    **options,
) -> Dataset:
    return Dataset(open_rows(source), columns, operations or [], limit, **options)
