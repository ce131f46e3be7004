"""The kinds of files of other tools, recognised by their content."""

from __future__ import annotations

import importlib
import os
import stat
from pathlib import Path
from typing import NamedTuple, Protocol, cast

from holdfast.errors import ConfigurationError, UsageError
from holdfast.interop.importing.foreign_eval import ForeignEval
from holdfast.interop.importing.foreign_values import UnreadableFile, parse_json, read_regular_file
from holdfast.run.core.layout import Layout
from holdfast.spec.loading.yaml_document import read_document

_MOST_BYTES = 64 << 20


class ForeignKind(NamedTuple):
    """One kind: what people call it, and the module that reads it."""

    title: str
    module: str
    """It has `recognises(path)`, and `read(path)` or, for configurations, `convert(path, output)`."""
    is_configuration: bool = False
    """Whether it is no result, but an eval in the words of another tool: an eval file is made of it."""


class Reader(Protocol):
    """The module of a kind."""

    def recognises(self, path: Path) -> bool:
        """Whether a path is of this kind, by its content; never raises for a path that exists."""

    def read(self, path: Path) -> ForeignEval:
        """The eval at a path of this kind."""


KINDS: tuple[ForeignKind, ...] = (
    ForeignKind("the directory of a ProjectScylla experiment", "holdfast.interop.scylla.experiment"),
    ForeignKind(
        "samples_*.jsonl of lm-evaluation-harness, results_*.json beside them, or their directory",
        "holdfast.interop.lm_eval.samples",
    ),
    ForeignKind("a result file of promptfoo (JSON or JSON lines)", "holdfast.interop.promptfoo.results"),
    ForeignKind("effective_config.yaml of SiEval", "holdfast.interop.sieval.config_file", is_configuration=True),
    ForeignKind("a log of Inspect (.eval or .json)", "holdfast.interop.inspect.importing.logs"),
)
"""In the order in which they are tried."""


def find_reader(path: Path) -> Reader:
    """The reader of whatever results are at a path.

    Raises:
        UsageError: nothing is there, or it cannot be imported.
    """
    return cast("Reader", importlib.import_module(find_kind(path).module))


def find_kind(path: Path) -> ForeignKind:
    """The kind of whatever is at a path.

    Raises:
        UsageError: nothing is there, or it cannot be imported.
    """
    _refuse_closed(path)
    if Layout(path).journal.is_dir():
        raise UsageError(f"{path} is a run already.", hint="Only results of other tools are imported.")
    for kind in KINDS:
        if cast("Reader", importlib.import_module(kind.module)).recognises(path):
            return kind
    why = _why_unreadable(path)
    reason = f": {why}" if why else ": it is not recognised"
    raise UsageError(f"{path} cannot be imported{reason}.", hint=f"Known kinds: {kinds_text()}.")


def _refuse_closed(path: Path) -> None:
    """Raises UsageError for what does not exist, or cannot be read at all: it would be taken for empty."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            os.listdir(path)  # noqa: PTH208 - only whether it is possible
        elif stat.S_ISREG(mode):
            path.open("rb").close()
        else:
            raise UsageError(
                f"{path} is neither a file nor a directory.", hint="Name a file or a directory of another tool."
            )
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"{path} does not exist.", hint="Name a file or a directory of another tool.") from None
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}.", hint="Check its permissions.") from None


def _why_unreadable(path: Path) -> str:
    """What is wrong with a file that is JSON or YAML by its name; empty if it can be read, or is something else."""
    try:
        if path.suffix == ".json":
            parse_json(read_regular_file(path, _MOST_BYTES))
        elif path.suffix == ".jsonl":
            parse_json(read_regular_file(path, _MOST_BYTES).partition(b"\n")[0])
        elif path.suffix in {".yaml", ".yml"}:
            read_document(read_regular_file(path, _MOST_BYTES).decode("utf-8-sig"), path.name)
    except UnreadableFile as error:
        return str(error)
    except UnicodeDecodeError as error:
        return f"it is not UTF-8 text (at byte {error.start})"
    except ConfigurationError as error:
        return str(error).rstrip(".")
    return ""


def kinds_text() -> str:
    """The kinds, for an error or a help text."""
    return "; ".join(kind.title for kind in KINDS)
