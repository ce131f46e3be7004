"""Taking a dataset in: any format becomes one canonical file of JSON lines, named by its content.

The canonical form has one object per line with sorted keys, so that the same rows give the same digest whatever
format, spacing or key order they came in. Memory does not grow with the number of rows.
"""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import BinaryIO

import msgspec

from holdfast.digests import canonical_json, new_content_digest
from holdfast.errors import ConfigurationError
from holdfast.suggestions import did_you_mean
from holdfast.tasks.datasets.formats import SUFFIXES, Row, detect_format, read_rows, row_refusal
from holdfast.tasks.json_values import json_fault
from holdfast.tasks.sample import Sample

_FROM_WHERE = (
    "Relative paths start at the directory of the eval file; in Python, at that of the file with @task or, without"
    " @task, at the working directory."
)


class Ingested(msgspec.Struct, frozen=True):
    """What a dataset came to: the digest that names its canonical file, and that file's size."""

    digest: str
    rows: int
    bytes: int


def ingest(path: Path, format: str | None, destination: BinaryIO) -> Ingested:  # noqa: A002 - the name users know
    """Write the canonical form of a dataset file to the destination."""
    return _write_canonical(read_dataset(path, format), destination, f"Dataset {path.name}")


def read_dataset(path: Path, format: str | None = None) -> Iterator[Row]:  # noqa: A002 - the name users know
    """The rows of a dataset file, one at a time."""
    if path.is_dir():
        raise ConfigurationError(f"Dataset {path} is a directory.", hint="Name a file in it.")
    form = detect_format(path, format)
    with _open_dataset(path) as stream:
        yield from read_rows(stream, form, path.name)


def ingest_samples(samples: Iterable[Sample], destination: BinaryIO, source: str = "samples") -> Ingested:
    """Write samples made in Python in the same canonical form."""
    return _write_canonical(_sample_rows(samples, source), destination, f"The list of {source}")


def _open_dataset(path: Path) -> BinaryIO:
    try:
        return path.open("rb")
    except FileNotFoundError:
        near = did_you_mean(path.name, [name for name in _siblings(path) if Path(name).suffix in SUFFIXES])
        place = "" if path.is_absolute() else f" in {path.parent.absolute()}"
        name = path.name if place else path
        raise ConfigurationError(f"Dataset {name} does not exist{place}.", hint=near or _FROM_WHERE) from None
    except OSError as error:
        raise ConfigurationError(
            f"Dataset {path} cannot be read: {error.strerror}.", hint="Check its permissions."
        ) from None


def _siblings(path: Path) -> list[str]:
    try:
        return [entry.name for entry in path.parent.iterdir()]
    except OSError:
        return []


def _write_canonical(rows: Iterable[Row], destination: BinaryIO, title: str) -> Ingested:
    content = new_content_digest()
    count = size = 0
    for row in rows:
        line = canonical_json(row) + b"\n"
        content.update(line)
        destination.write(line)
        count += 1
        size += len(line)
    if not count:
        raise ConfigurationError(f"{title} is empty.", hint="A task needs at least one sample.")
    return Ingested(content.hexdigest(), count, size)


def _sample_rows(samples: Iterable[Sample], source: str) -> Iterator[Row]:
    for number, sample in enumerate(samples, start=1):
        place = f"{source} row {number}"
        if not isinstance(sample, Sample):
            raise _not_a_sample(place, sample)
        yield _sample_row(sample, place)


def _not_a_sample(place: str, given: object) -> ConfigurationError:
    way = "Write Sample(**row)." if isinstance(given, dict) else 'Write Sample("the input", target="the answer").'
    return ConfigurationError(f"{place[:1].upper()}{place[1:]} is {type(given).__name__}, not a Sample.", hint=way)


def _sample_row(sample: Sample, place: str) -> Row:
    try:
        row = msgspec.to_builtins(sample, str_keys=True)
    except RecursionError:
        raise row_refusal(place, "is nested too deeply") from None
    except (TypeError, ValueError) as error:
        raise row_refusal(place, f"holds what JSON cannot: {error}") from None
    fault = json_fault(row)
    if fault:
        raise row_refusal(place, fault)
    return {name: value for name, value in row.items() if value is not None and value != {}}
