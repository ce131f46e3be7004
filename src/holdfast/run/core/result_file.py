"""`artifacts/<trial>/result.json`: a copy of a trial's result, in case the journal is lost.

The file holds the trial's record, its answer, and a checksum over both. It is written atomically, before the journal
says that the trial is finished. Reading never raises: an incomplete or changed file, or one without a verdict, is
a ResultFileFault that says why, and never a result.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.digests import content_digest
from holdfast.errors import UsageError
from holdfast.run.core.keys.key_free_records import key_free_line, key_free_value
from holdfast.run.core.layout import Layout
from holdfast.run.core.records import AnswerRecord, Status, TrialRecord
from holdfast.storage.filesystem import FileSystem, write_atomically

RESULT = "result.json"
RESULT_BYTES = 8 << 20
"""A larger file is not a result: reading takes bounded memory, whatever the file is."""
_CHECKSUM, _ANSWER, _RUN, _EARLIER = "checksum", "answer", "run", "earlier_runs"
_OF_ANSWER: dict[str, Any] = {"text": "", "value": None, "unscored": ""}
"""The fields of an answer that are written, with their defaults, which are not."""
_UNREADABLE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


class ResultFileFault(msgspec.Struct, frozen=True):
    """A result file that does not count, and why."""

    where: str
    """The file, relative to the run."""
    reason: str


def write_result_file(
    fs: FileSystem, layout: Layout, trial: TrialRecord, answer: AnswerRecord | None = None, run: str = ""
) -> Path:
    """Writes the result file of a trial; after a crash it is the old one, the new one, or missing.

    `run` is the id of the run, or empty if nobody knows it.

    Raises:
        UsageError: the trial cannot be written as a file.
        OSError: the disk failed.
    """
    data = encode_result(trial, answer, run)
    directory = make_directory_of(fs, layout, trial)
    fs.sync_directory(layout.artifacts)
    write_atomically(fs, directory / RESULT, data)
    return directory / RESULT


def make_directory_of(fs: FileSystem, layout: Layout, trial: TrialRecord) -> Path:
    """The directory of a trial's files, which exists from now on; it is not synced.

    Raises:
        UsageError: the key of the trial is no name of a directory.
        OSError: the disk failed.
    """
    directory = layout.artifacts / _directory_name(trial.trial)
    with contextlib.suppress(FileExistsError):
        fs.make_directory(directory)
    return directory


def encode_result(
    trial: TrialRecord, answer: AnswerRecord | None = None, run: str = "", earlier: Sequence[str] = ()
) -> bytes:
    """The bytes of a result file; an answer that makes it too large is left out.

    `earlier` are the ids that the run had before, under which other files of it may be: without a journal, only the
    files can tell.

    Raises:
        UsageError: the trial holds something that JSON cannot, or is too large.
    """
    more: dict[str, Any] = {_RUN: run} if run else {}
    if earlier:
        more[_EARLIER] = list(earlier)
    if answer is None:
        return _encoded(trial, more)
    answer = key_free_value(answer)
    # By its default, not by its truth: 0, False and an empty list are values too.
    kept = {name: value for name, default in _OF_ANSWER.items() if (value := getattr(answer, name)) != default}
    try:
        return _encoded(trial, {**more, _ANSWER: {"text": answer.text, **kept}})
    except UsageError:
        return _encoded(trial, more)


def _encoded(trial: TrialRecord, more: dict[str, Any]) -> bytes:
    content = msgspec.json.decode(key_free_line(trial)[0]) | more
    # Also written if there are no scores: a file without the field has lost them.
    content.setdefault("scores", {})
    data = msgspec.json.encode({**content, _CHECKSUM: content_digest(_sorted_json(content))})
    pretty = msgspec.json.format(data, indent=2) + b"\n"
    if len(pretty) > RESULT_BYTES:
        raise UsageError(f"The result of the trial {trial.trial} is larger than {RESULT_BYTES} bytes.")
    return pretty


def _directory_name(key: str) -> str:
    if key in {"", ".", ".."} or "/" in key or "\0" in key:
        raise UsageError(f"The trial key {key!r} cannot name a directory.")
    return key


def _sorted_json(content: dict[str, Any]) -> bytes:
    return msgspec.json.encode(content, order="sorted")


def read_result(path: Path) -> TrialRecord | ResultFileFault:
    """The trial whose result the file holds, or what is wrong with the file."""
    found = load_result_file(path)
    return found if isinstance(found, ResultFileFault) else found.trial


class ResultFile(NamedTuple):
    """An intact result file."""

    path: Path
    trial: TrialRecord
    digest: str
    """Under which a record cites the file."""
    answer: AnswerRecord | None = None
    run: str = ""
    """The id of the run that it is a result of; empty in files of earlier versions and of other programs."""
    earlier: tuple[str, ...] = ()
    """The ids that this run had before."""


def load_result_file(path: Path) -> ResultFile | ResultFileFault:
    """Everything that the file holds, or what is wrong with it."""
    try:
        data = _read_regular_file(path)
        content = _decode_object(data)
        answer, run, earlier = content.get(_ANSWER), content.get(_RUN, ""), content.get(_EARLIER)
        trial = _decode_trial(content, path.parent.name)
        before = tuple(map(str, earlier)) if isinstance(earlier, list) else ()
        return ResultFile(path, trial, content_digest(data), _decode_answer(trial, answer), str(run), before)
    except _InvalidResultError as error:
        return ResultFileFault(result_location(path), str(error))
    except OSError as error:
        return ResultFileFault(result_location(path), f"it cannot be read: {error.strerror}")


def result_location(path: Path) -> str:
    """How a result file is named in messages: relative to its run."""
    return f"artifacts/{path.parent.name}/{path.name}"


class _InvalidResultError(Exception):
    """Why a file is not a result."""


def _read_regular_file(path: Path) -> bytes:
    # Non-blocking: the path may be a pipe without a writer.
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(fd, "rb") as stream:  # noqa: PTH123 - a descriptor is no path
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise _InvalidResultError("it is not a file")
        data = stream.read(RESULT_BYTES + 1)
    if len(data) > RESULT_BYTES:
        raise _InvalidResultError(f"it is larger than any result ({RESULT_BYTES} bytes)")
    return data


def _decode_object(data: bytes) -> dict[str, Any]:
    if not data:
        raise _InvalidResultError("it is empty")
    try:
        content = msgspec.json.decode(data)
    except _UNREADABLE as error:
        raise _InvalidResultError(f"it is not valid JSON, or it is incomplete: {error}") from None
    if not isinstance(content, dict):
        raise _InvalidResultError("it is not a JSON object")
    return content


def _decode_trial(content: dict[str, Any], directory: str) -> TrialRecord:
    checksum = content.pop(_CHECKSUM, None)
    if checksum is None:
        raise _InvalidResultError("it has no checksum")
    canonical = _sorted_json(content)
    if checksum != content_digest(canonical):
        raise _InvalidResultError("its checksum does not match its content")
    _check_verdict(content)
    try:
        trial = msgspec.json.decode(canonical, type=TrialRecord)
    except _UNREADABLE as error:
        raise _InvalidResultError(f"it is not the result of a trial: {error}") from None
    if trial.trial != directory:
        raise _InvalidResultError(f"it belongs to the trial {trial.trial}")
    return trial


def _decode_answer(trial: TrialRecord, answer: object) -> AnswerRecord | None:
    if answer is None:
        return None
    try:
        kept = msgspec.convert(answer, _WrittenAnswer)
    except msgspec.ValidationError as error:
        raise _InvalidResultError(f"its answer is not one: {error}") from None
    return AnswerRecord(trial=trial.trial, attempt=trial.attempt, **msgspec.structs.asdict(kept))


class _WrittenAnswer(msgspec.Struct, frozen=True):
    text: str = ""
    value: Any = None
    unscored: str = ""


def _check_verdict(content: dict[str, Any]) -> None:
    status = content.get("status")
    if status is None:
        raise _InvalidResultError("it holds no verdict: no status")
    if status not in {known.value for known in Status}:
        raise _InvalidResultError(f"it holds no verdict: its status is {status!r:.40}")
    if status == Status.VALID.value and "scores" not in content:
        raise _InvalidResultError("it holds no verdict: no scores")


def read_results(layout: Layout) -> Iterator[ResultFile | ResultFileFault]:
    """Every result file of a run, by the names of the trials; one at a time."""
    try:
        names = sorted(path.name for path in layout.artifacts.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return
    for name in names:
        path = layout.artifacts / name / RESULT
        found = load_result_file(path)
        # Distinguished only now: most directories have one, and looking first would cost as much as reading.
        if isinstance(found, ResultFile) or os.path.lexists(path):
            yield found
