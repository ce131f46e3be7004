"""An eval file into a typed eval; whatever is wrong with it is one ConfigurationError.

The file is YAML (JSON is YAML too), UTF-8, of moderate size. Relative paths in it start at its directory.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.spec.loading.error_messages import describe_value, refuse
from holdfast.spec.loading.literal_keys import literal_keys
from holdfast.spec.loading.validate import SchemaChecker
from holdfast.spec.schema.eval import EvalSpec
from holdfast.suggestions import nearest_name

_DATASETS = {".csv", ".jsonl", ".ndjson", ".tsv", ".parquet"}
_EVAL_SUFFIXES = {".yaml", ".yml", ".json", ".py"}


def load_eval(path: str | os.PathLike[str]) -> EvalSpec:
    """The eval in a file; it is called after the file when it does not give a name."""
    file = Path(path)
    if file.suffix.lower() in _DATASETS:
        raise ConfigurationError(
            f"{file} is a dataset, not an eval file.",
            hint=f"Name it in one: datasets: {{{file.stem}: {{path: {file.name}}}}}. See `holdfast init`.",
        )
    spec = parse_eval(_read_text(file), str(file))
    directory = recordable_path(os.path.normpath(file.absolute().parent / spec.directory))
    return msgspec.structs.replace(spec, name=spec.name or file.stem, directory=directory)


def parse_eval(text: str, source: str = "the eval") -> EvalSpec:
    """The eval in a text; `source` is what an error calls it."""
    # Reading YAML is the only thing that needs PyYAML, and most importers of the schema never do it.
    from holdfast.spec.loading.yaml_document import read_document  # noqa: PLC0415

    data = read_document(text, source)
    if data is None:
        raise ConfigurationError(f"{source} is empty.", hint="Write at least `models` and `tasks`.")
    return typed_eval(data, source)


def typed_eval(data: Any, source: str = "the eval") -> EvalSpec:
    """The eval that plain data describes; all its problems in one ConfigurationError otherwise."""
    refuse(source, list(literal_keys(data)))
    checker = SchemaChecker()
    normalised = checker.value(data, EvalSpec, "")
    refuse(source, checker.problems, hint=_hint_for(data))
    return msgspec.convert(normalised, EvalSpec)


def _hint_for(data: Any) -> str:
    """A file with neither models nor tasks was probably written for another tool."""
    is_foreign = isinstance(data, dict) and not {"models", "tasks"} & data.keys()
    return (
        "An eval file has models, datasets and tasks; `holdfast init` writes one to start from." if is_foreign else ""
    )


def recordable_path(path: str) -> str:
    """A path that can be written in an eval.

    Raises:
        ConfigurationError: it has bytes that are not text in this locale.
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        shown_path = path.encode(errors="backslashreplace").decode()
        raise ConfigurationError(
            f"The name of {shown_path} is not text in this locale, so a run cannot record it.",
            hint="Rename it or, if it is written in UTF-8, set PYTHONUTF8=1.",
        ) from None
    return path


def _read_text(file: Path) -> str:
    try:
        return _read_bytes(file).decode("utf-8-sig")
    except FileNotFoundError:
        raise ConfigurationError(f"{file} does not exist.", hint=_near_file(file)) from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(
            f"{file} is not UTF-8 text (at byte {error.start}).", hint="Re-save the file as UTF-8."
        ) from None
    except IsADirectoryError:
        raise ConfigurationError(f"{file} is a directory.", hint="Name the eval file in it.") from None
    except OSError as error:
        raise ConfigurationError(f"{file} cannot be read: {error.strerror}.", hint="Check its permissions.") from None
    except ValueError as error:  # a path that no system takes
        raise ConfigurationError(f"{describe_value(str(file))} cannot be read: {error}.") from None


def _near_file(file: Path) -> str:
    """The eval file that was probably meant: the one with the other ending, or a name that is near."""
    try:
        names = sorted(entry.name for entry in file.parent.iterdir() if entry.suffix in _EVAL_SUFFIXES)
    except OSError:
        names = []
    by_stem = {Path(name).stem: name for name in reversed(names)}
    stem = nearest_name(file.stem, by_stem, cutoff=0.6)
    found = None if stem is None else by_stem[stem]
    return "Check the path, or run `holdfast init`." if found is None else f"Did you mean {str(file.parent / found)!r}?"


def _read_bytes(file: Path) -> bytes:
    """The content, of which never more than the limit is read: the size that a file system gives may be 0."""
    from holdfast.spec.loading.yaml_document import MAX_BYTES, file_too_large  # noqa: PLC0415 - as above

    with file.open("rb") as stream:
        content = stream.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise file_too_large(str(file))
    return content
