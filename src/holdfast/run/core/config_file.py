"""`config.yaml`: the resolved configuration for people, under a header that says where it came from.

It is derived from the session records, and never the source of anything. A session's record is synced first; the file
is written from it, atomically. On open, a file from an earlier session is updated, and a missing one is rewritten.
Edited comments and formatting are accepted; edited values, or a file that is not a YAML mapping, abort the resume.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from holdfast.errors import ConfigurationError, ResumeAborted
from holdfast.run.core.display_text import change_text, list_text
from holdfast.run.core.records import SessionRecord
from holdfast.storage import crashpoints
from holdfast.storage.filesystem import FileSystem, write_atomically

SameValues = Callable[[Any, dict[str, Any]], bool]
"""Whether the data of a file says the same as a session's configuration."""
EditedValues = Callable[[Any, dict[str, Any]], list[str]]
"""Where it says something else."""

_MAX_BYTES = 8 << 20
"""More than any configuration takes."""


def config_text(sessions: Sequence[SessionRecord]) -> str:
    """The file after these sessions."""
    from holdfast.spec.loading.yaml_document import write_document  # noqa: PLC0415 - PyYAML is needed here only

    return "\n".join(_header(sessions)) + "\n\n" + write_document(sessions[-1].config)


def _header(sessions: Sequence[SessionRecord]) -> list[str]:
    return _created_header(sessions[0]) + [line for session in sessions[1:] for line in _resumed_header(session)]


def header_differences(path: Path, sessions: Sequence[SessionRecord]) -> list[str]:
    """Where the header of the file says something else about the run than the journal; a person's comments are not
    compared, nor is a file that does not exist.
    """
    try:
        lines = _read_bounded(path).splitlines()
    except (OSError, ValueError):
        return []
    claimed = [line.rstrip() for line in itertools.takewhile(_is_comment, lines) if line.startswith(_CLAIMS)]
    recorded = [line for line in _header(sessions) if line.startswith(_CLAIMS)]
    added = [f"not in the journal: {line}" for line in _without(claimed, recorded)]
    missing = [f"missing, and in the journal: {line}" for line in _without(recorded, claimed)]
    moved = ["in another order than in the journal"] if claimed != recorded and not added and not missing else []
    return added + missing + moved


_CLAIMS = ("# Created by holdfast ", "# Resumed by holdfast ", "#   invocation: ", "#   source: ", "#   - ")


def _is_comment(line: str) -> bool:
    return line.startswith("#") or not line.strip()


def _without(lines: Sequence[str], others: Sequence[str]) -> list[str]:
    """The lines that are not among the others, each as often as it is not."""
    left = Counter(others)
    left.subtract(lines)
    return list(dict.fromkeys(line for line in lines if left[line] < 0))


def _created_header(session: SessionRecord) -> list[str]:
    lines = [f"# Created by holdfast {session.version} at {session.at}"]
    if session.invocation:
        lines.append(f"#   invocation: {_one_line(' '.join(session.invocation))}")
    if session.source:
        lines.append(f"#   source: {_one_line(session.source)}")
    return lines


def _resumed_header(session: SessionRecord) -> list[str]:
    if not session.changes:
        return []
    lines = [f"# Resumed by holdfast {session.version} at {session.at}:"]
    return lines + [
        _one_line(f"#   - {change.path}: {change_text(change.old, change.new)}") for change in session.changes
    ]


def _one_line(text: str) -> str:
    """The text as a comment can hold it: in one line, without characters that YAML refuses."""
    words = [line.rstrip() for line in text.splitlines()]
    return "".join(letter if letter.isprintable() else "?" for letter in " ".join(words))


def is_as_written(path: Path, sessions: Sequence[SessionRecord]) -> bool:
    """Whether the file is what these sessions wrote, to the letter; one that is edited may still say the same."""
    try:
        return _read_bounded(path) == config_text(sessions)
    except (OSError, ValueError):
        return False


def check_config(
    path: Path,
    sessions: Sequence[SessionRecord],
    same: SameValues,
    edited: EditedValues | None = None,
    before: Iterable[Sequence[SessionRecord]] = (),
    name: str = "",
) -> str:
    """What is to be done about the file: nothing (""), or a note that says why it will be rewritten.

    `before` are the sessions as they were before the newest one applied changes that had waited; `name` is how people
    know the file, where `path` is only a copy of it.

    Raises:
        ResumeAborted: its values were edited, or it is not a YAML mapping.
    """
    name = name or str(path)
    try:
        text = _read_bounded(path)
    except FileNotFoundError:
        return "config.yaml was missing; it is rewritten from the journal."
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ResumeAborted(f"Resume aborted: {name} cannot be read: {reason}.", hint=_REPAIR) from error
    if text == config_text(sessions):
        return ""
    # A session without changes leaves the file as it is.
    earlier = [count for count in range(1, len(sessions)) if count == 1 or sessions[count - 1].changes]
    if any(text == config_text(known) for known in (*before, *(sessions[:count] for count in earlier))):
        return "config.yaml was older than the journal; it is updated."
    data = _parse_values(name, text)
    if not same(data, sessions[-1].config):
        fields = edited(data, sessions[-1].config) if edited else []
        named = f": {list_text(fields)}" if fields else ""
        raise ResumeAborted(
            f"Resume aborted: values in {name} were edited by hand{named}.",
            hint=f"Give changes with --set or --config. {_REPAIR}",
        )
    return ""


def _read_bounded(path: Path) -> str:
    """The text of the file, of which never more is read than a configuration takes."""
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file")
    with path.open("rb") as stream:
        data = stream.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise ValueError(f"it is larger than {_MAX_BYTES >> 20} MiB")
    return data.decode("utf-8").replace("\r\n", "\n")


_REPAIR = "`holdfast repair` rewrites it from the journal."


def _parse_values(name: str, text: str) -> dict[str, Any]:
    from holdfast.spec.loading.yaml_document import read_document  # noqa: PLC0415 - PyYAML is needed here only

    try:
        data = read_document(text, "config.yaml")
    except ConfigurationError as error:
        raise ResumeAborted(f"Resume aborted: {name} is not valid YAML: {error.message}", hint=_REPAIR) from None
    if not isinstance(data, dict) or not data:
        state = "is empty" if not data else "is not a mapping"
        raise ResumeAborted(f"Resume aborted: {name} {state}.", hint=_REPAIR)
    return data


def rewrite_truncated(fs: FileSystem, path: Path, sessions: Sequence[SessionRecord]) -> bool:
    """Writes the file again if it is only the beginning of what these sessions wrote, or is missing; whether it was.

    Raises:
        OSError: it could not be written.
    """
    try:
        found, text = _read_bounded(path), config_text(sessions)
    except FileNotFoundError:
        found, text = "", config_text(sessions)
    except (OSError, ValueError):
        return False
    if found == text or not text.startswith(found):
        return False
    write_config(fs, path, sessions)
    return True


def write_config(fs: FileSystem, path: Path, sessions: Sequence[SessionRecord]) -> None:
    """Writes the file from the session records.

    Raises:
        OSError: it could not be written; it is derived, so no data is lost.
    """
    crashpoints.reach("config.before-write")
    write_atomically(fs, path, config_text(sessions).encode("utf-8", "replace"))
