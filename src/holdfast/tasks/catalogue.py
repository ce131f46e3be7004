"""What an eval file can name: built-in scorers, formats of datasets and operations on them.

Everything here is read from the definitions that are used in a run, so that nothing can be listed that does not work.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import msgspec

from holdfast.spec import DatasetSpec, Operation
from holdfast.spec.schema.introspect import blocks_in, schema_fields
from holdfast.tasks.datasets.formats import READERS, SUFFIXES, detect_format
from holdfast.tasks.datasets.ingest import read_dataset
from holdfast.tasks.scorers.registry import BUILT_IN


class Argument(msgspec.Struct, frozen=True):
    """An argument by its name in an eval file; the default is null where it is required."""

    name: str
    required: bool
    default: Any = None


class CatalogueEntry(msgspec.Struct, frozen=True):
    """Something that an eval file can name, what it does in one sentence, and the arguments it takes."""

    name: str
    description: str
    arguments: list[Argument] = []


class DatasetFormat(msgspec.Struct, frozen=True):
    """A format of datasets, and the endings of file names that stand for it."""

    name: str
    description: str
    endings: list[str]


class DatasetSummary(msgspec.Struct, frozen=True):
    """A dataset of an eval: its file, how many rows it has, and the columns that its rows have."""

    name: str
    path: str
    format: str
    rows: int
    columns: list[str]


def list_scorers() -> list[CatalogueEntry]:
    """Every built-in scorer."""
    return [_entry(name, scorer) for name, scorer in BUILT_IN.items()]


def list_operations() -> list[CatalogueEntry]:
    """Every operation on datasets."""
    fields = schema_fields(Operation)
    return [_entry(name, blocks_in(field.type)[0]) for name, field in fields.items()]


def list_formats() -> list[DatasetFormat]:
    """Every format that a dataset may have."""
    return [
        DatasetFormat(name, _first_sentence(reader), [ending for ending, form in SUFFIXES.items() if form == name])
        for name, reader in READERS.items()
    ]


def summarise_dataset(name: str, dataset: DatasetSpec) -> DatasetSummary:
    """Reads a dataset from its file, row by row, before its operations.

    Raises:
        ConfigurationError: it does not exist, or a row of it is wrong.
    """
    path, count = Path(dataset.path), 0
    columns: dict[str, None] = {}
    for row in read_dataset(path, dataset.format):
        count += 1
        columns |= dict.fromkeys(row)
    return DatasetSummary(name, dataset.path, detect_format(path, dataset.format), count, list(columns))


def _entry(name: str, kind: type[msgspec.Struct]) -> CatalogueEntry:
    arguments = [_argument(field) for field in msgspec.structs.fields(kind)]
    # What has to be given comes first.
    ordered = sorted(arguments, key=lambda argument: (not argument.required, argument.name == "name"))
    return CatalogueEntry(name, _first_sentence(kind), ordered)


def _argument(field: msgspec.structs.FieldInfo) -> Argument:
    return Argument(field.encode_name, field.required, None if field.required else field.default)


def _first_sentence(documented: object) -> str:
    return (inspect.getdoc(documented) or "").split("\n\n", maxsplit=1)[0].replace("\n", " ").rstrip(".")
