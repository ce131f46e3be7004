"""Recovering a log of Inspect's whose eval was killed: what a flush has written, and what the buffers have beyond it.

Samples in the log come first, then those in the database on this machine, then those in the segments beside the log. A
sample that a buffer has started again after the one in the log had ended is the newer one, and counts. A sample whose
transcript is not whole is written with an error, whatever its summary says: a retry of Inspect's runs it again.
"""

import contextlib
import datetime as dt
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.errors import UsageError
from holdfast.interop.importing.foreign_values import map_of
from holdfast.interop.inspect.archive.zip_reader import ArchiveError
from holdfast.interop.inspect.eval_archive import SUFFIX, EvalArchive, SampleKey, key_of
from holdfast.interop.inspect.log_writer import LogWriter
from holdfast.interop.inspect.recovering.buffer_database import BufferDatabase, find_databases, living_process
from holdfast.interop.inspect.recovering.buffer_rows import BufferedSample, SampleRows, dangling_references
from holdfast.interop.inspect.recovering.buffer_segments import BufferSegments
from holdfast.interop.inspect.recovering.recovered_sample import INTERRUPTED, error_of, make_sample, make_summary
from holdfast.interop.inspect.recovering.sample_check import SampleCheck, can_be_copied
from holdfast.interop.inspect.recovering.summary_store import SummaryStore
from holdfast.storage.filesystem import FileSystem, RealFileSystem

LOG = "log"
COMPLETE, INCOMPLETE, HOLLOW = "complete", "in progress", "transcript lost"
_MESSAGE = "The process of the eval ended before the eval did; this log was recovered by holdfast."


class RecoveredSample(msgspec.Struct, frozen=True):
    """What became of one sample."""

    id: str
    epoch: int
    source: str
    """`log`, `database` or `filestore`."""
    state: str
    """`complete`, `in progress` or `transcript lost`; only a complete one is not run again."""
    note: str = ""


class RecoveredLog(msgspec.Struct, frozen=True):
    """A log that was recovered."""

    log: str
    output: str
    planned: int | None
    complete: int
    unplanned: int
    """How many of the complete ones the dataset of the eval does not have."""
    samples: list[RecoveredSample]
    warnings: list[str]
    """What was skipped, and what is lost."""

    @property
    def ok(self) -> bool:
        """Whether nothing was skipped or lost."""
        return not self.warnings


class Buffers(NamedTuple):
    """What the buffers of a log have, in the order in which they count."""

    found: dict[SampleKey, list[BufferedSample]]
    """By sample, the database's before the segments'."""
    sources: list[str]
    warnings: list[str]


def default_output(log: Path) -> Path:
    """Where a recovered log is written, unless another place is given."""
    return log.with_name(f"{log.name.removesuffix(SUFFIX)}-recovered{SUFFIX}")


def recover_log(
    log: Path,
    output: Path | None = None,
    *,
    overwrite: bool = False,
    with_events: bool = True,
    fs: FileSystem | None = None,
) -> RecoveredLog:
    """Writes what there is of a crashed log as a log with the status `error`; the original is not changed.

    Raises:
        UsageError: there is nothing to recover, its eval is still running, or the output exists.
        ArchiveError: the log cannot be read.
    """
    output = output or default_output(log)
    with EvalArchive(log) as archive, contextlib.ExitStack() as stack:
        _check_recoverable(archive, output, overwrite=overwrite)
        buffers = open_buffers(log, stack)
        recovery = _Recovery(archive, buffers, with_events=with_events)
        recovery.write(fs or RealFileSystem(), output)
        header = archive.header()
        complete = [sample for sample in recovery.samples if sample.state == COMPLETE]
        return RecoveredLog(
            str(log),
            str(output),
            expected_samples(header),
            len(complete),
            _unplanned(header, complete),
            recovery.samples,
            recovery.warnings,
        )


def _check_recoverable(archive: EvalArchive, output: Path, *, overwrite: bool) -> None:
    if archive.has_ended:
        status = archive.header().get("status")
        hint = "" if status == "success" else f"Inspect continues it: inspect eval-retry {archive.path}"
        raise UsageError(
            f"{archive.path} has ended with the status {status!r}: there is nothing to recover.", hint=hint
        )
    for database in find_databases(archive.path):
        if process := living_process(database):
            raise UsageError(
                f"The eval of {archive.path} is running: process {process} writes to it.",
                hint="Recover it when that process has ended.",
            )
    if output.resolve() == archive.path.resolve():
        raise UsageError("The output is the log itself.", hint="The original is never changed: give another --output.")
    if output.exists() and not overwrite:
        raise UsageError(f"{output} exists.", hint="Give --overwrite to replace it, or another --output.")


def open_buffers(log: Path, stack: contextlib.ExitStack) -> Buffers:
    """The buffers of a log; they are open as long as `stack` is."""
    buffers = Buffers({}, [], [])
    for path in find_databases(log):
        try:
            database = stack.enter_context(BufferDatabase(path))
            _add(buffers, database.samples())
            buffers.warnings.extend(f"{loss}; it is skipped" for loss in database.losses)
            break
        except (sqlite3.Error, OSError) as error:
            buffers.warnings.append(f"{path} cannot be read and is skipped: {error}")
    segments = BufferSegments(log)
    _add(buffers, segments.samples())
    buffers.warnings.extend(f"{loss}; it is skipped" for loss in segments.losses)
    return buffers


def _add(buffers: Buffers, samples: Iterator[BufferedSample]) -> None:
    for sample in samples:
        buffers.found.setdefault(sample.key, []).append(sample)
        if sample.source not in buffers.sources:
            buffers.sources.append(sample.source)


def expected_samples(header: dict[str, Any]) -> int | None:
    """How many samples the eval was to run; None where the log does not say."""
    spec = header["eval"]
    dataset, config = (spec.get(name) if isinstance(spec.get(name), dict) else {} for name in ("dataset", "config"))
    ids, size, epochs = dataset.get("sample_ids"), dataset.get("samples"), config.get("epochs")
    samples = len(ids) if isinstance(ids, list) else size
    return samples * (epochs if isinstance(epochs, int) else 1) if isinstance(samples, int) else None


def _unplanned(header: dict[str, Any], complete: list[RecoveredSample]) -> int:
    """How many samples are not among those that the eval was to run."""
    ids = map_of(header["eval"].get("dataset")).get("sample_ids")
    if isinstance(ids, list):
        epochs = map_of(header["eval"].get("config")).get("epochs")
        known, times = set(map(str, ids)), epochs if isinstance(epochs, int) else 1
        return sum(sample.id not in known or sample.epoch > times for sample in complete)
    planned = expected_samples(header)
    return 0 if planned is None else max(0, len(complete) - planned)


class _Recovery:
    """One recovery: what is written, and what is said about it."""

    def __init__(self, archive: EvalArchive, buffers: Buffers, *, with_events: bool) -> None:
        self._archive, self._buffers, self._with_events = archive, buffers, with_events
        self._check = SampleCheck.of(archive.header()["eval"])
        self.samples: list[RecoveredSample] = []
        self.warnings = list(buffers.warnings)

    def write(self, fs: FileSystem, output: Path) -> None:
        header = self._archive.header()
        with LogWriter(fs, output, header["eval"], header.get("plan") or {}) as writer:
            self._write_samples(writer)
            completed = sum(sample.state == COMPLETE for sample in self.samples) - self._complete_errors
            writer.finish(
                status="error",
                error=error_of(_MESSAGE),
                results={"total_samples": writer.samples, "completed_samples": completed, "scores": []},
                config_updates=self._archive.config_updates() or None,
            )

    _complete_errors = 0

    def _write_samples(self, writer: LogWriter) -> None:
        with SummaryStore(self._summaries()) as summaries:
            self._write_log_samples(writer, summaries)
        written = {SampleKey(sample.id, sample.epoch) for sample in self.samples}
        found = [candidates for key, candidates in self._buffers.found.items() if key not in written]
        for candidates in sorted(found, key=lambda candidates: not candidates[0].is_complete):
            self._write_from_buffer(writer, candidates)

    def _summaries(self) -> Iterator[dict[str, Any]]:
        """The summaries that can be read; a sample says what its summary would say."""
        for name in self._archive.summary_members():
            try:
                yield from self._archive.summaries_in(name)
            except ArchiveError as error:
                self.warnings.append(f"{error.message} It is skipped.")

    def _write_log_samples(self, writer: LogWriter, summaries: SummaryStore) -> None:
        in_log = {key: key.member for key in summaries.keys if key.member in self._archive.zip}
        known = set(in_log.values())
        for name in self._archive.sample_members():
            if name not in known and (key := self._key_in(name)):
                in_log[key] = name
        for key, name in in_log.items():
            summary = summaries.get(key)
            if not _is_superseded(summary, self._buffers.found.get(key)):
                self._write_from_log(writer, key, name, summary)

    def _key_in(self, name: str) -> SampleKey | None:
        """The key of a sample that no summary of the log names."""
        try:
            return key_of(self._archive.sample(name))
        except ArchiveError as error:
            self.warnings.append(f"{error.message} It is skipped.")
            return None

    def _write_from_log(self, writer: LogWriter, key: SampleKey, name: str, summary: dict[str, Any] | None) -> None:
        try:
            sample = self._archive.sample(name)
        except ArchiveError as error:
            self.warnings.append(error.message)
            if key not in self._buffers.found:
                self._write_lost(writer, key, summary, error.message)
            return
        problems = [*self._check.missing(sample), *self._check.unreadable(sample)]
        if problems:
            self._write_faulty(writer, key, sample, problems)
            return
        summary = self._check.summary(summary or _summary_of(sample), sample)
        if self._with_events and can_be_copied(sample):
            writer.copy(self._archive, name, summary)
        else:
            writer.add(key, sample if self._with_events else _without_events(sample), summary)
        self._complete_errors += summary.get("error") is not None
        self._note(key, LOG, COMPLETE)

    def _write_faulty(self, writer: LogWriter, key: SampleKey, sample: dict[str, Any], problems: list[str]) -> None:
        """Writes a sample of the log that is not whole, unless a buffer has a complete one."""
        why = "; ".join(problems)
        if any(found.is_complete for found in self._buffers.found.get(key, [])):
            self.warnings.append(f"{key}: the one in the log is not whole: {why}")
            return
        faulty = self._check.with_error(sample, f"The sample is in the log, but it is not whole: {why}.")
        faulty = faulty if self._with_events else _without_events(faulty)
        writer.add(key, faulty, self._check.summary(_summary_of(faulty), faulty))
        self._note(key, LOG, HOLLOW, f"it is not whole: {why}")

    def _write_lost(self, writer: LogWriter, key: SampleKey, summary: dict[str, Any] | None, why: str) -> None:
        """Writes what a summary says of a sample that the log has lost."""
        if summary is None:
            return
        lost = BufferedSample(key, summary, LOG, lambda: SampleRows([], {}, [], [], None, [why]))
        self._put(writer, lost, lost.read(), HOLLOW, [why])

    def _write_from_buffer(self, writer: LogWriter, candidates: list[BufferedSample]) -> None:
        """Writes the first that is whole or else the first, with what is wrong with it as its error."""
        first: tuple[BufferedSample, SampleRows, list[str]] | None = None
        for found in candidates:
            rows = found.read()
            problems = _problems(found, rows)
            if found.is_complete and not problems:
                self._put(writer, found, rows, COMPLETE, [])
                return
            first = first or (found, rows, problems)
        if first is not None:
            found, rows, problems = first
            self._put(writer, found, rows, HOLLOW if found.is_complete else INCOMPLETE, problems)

    def _put(self, writer: LogWriter, found: BufferedSample, rows: SampleRows, state: str, problems: list[str]) -> None:
        lost = f"its transcript is not whole: {'; '.join(problems)}" if problems else ""
        error = {COMPLETE: "", INCOMPLETE: INTERRUPTED, HOLLOW: f"The sample was complete, but {lost}."}[state]
        sample = make_sample(found, rows, error, with_events=self._with_events)
        if faults := [*([] if error else self._check.missing(sample)), *self._check.unreadable(sample)]:
            state = HOLLOW if state == COMPLETE else state
            lost = f"it is not whole: {'; '.join([*problems, *faults])}"
            beginning = INTERRUPTED if state == INCOMPLETE else "The sample was complete, but"
            sample = self._check.with_error(sample, f"{beginning} {lost}.")
        writer.add(found.key, sample, self._check.summary(make_summary(sample, found.summary), sample))
        self._complete_errors += state == COMPLETE and sample.get("error") is not None
        self._note(found.key, found.source, state, lost)

    def _note(self, key: SampleKey, source: str, state: str, note: str = "") -> None:
        self.samples.append(RecoveredSample(key.id, key.epoch, source, state, note))
        if note:
            self.warnings.append(f"{key}: {note}")


def _problems(found: BufferedSample, rows: SampleRows) -> list[str]:
    """Why a transcript is not whole."""
    if found.is_complete and not rows.events and not rows.losses:
        return ["there are no events"]
    return [*rows.losses, *dangling_references(rows)]


def _is_superseded(summary: dict[str, Any] | None, candidates: list[BufferedSample] | None) -> bool:
    """Whether a buffer has a newer try of a sample: one that started after that in the log had ended."""
    if summary is None or not candidates:
        return False
    ended = _time(summary.get("completed_at")) or _time(summary.get("started_at"))
    started = _time(candidates[0].summary.get("started_at"))
    return ended is not None and started is not None and started > ended


def _time(text: Any) -> dt.datetime | None:
    try:
        found = dt.datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None
    # A time without a zone is one of UTC, as Inspect reads it.
    return found.replace(tzinfo=dt.UTC) if found is not None and found.tzinfo is None else found


_OF_SAMPLE = ("id", "epoch", "input", "target", "choices", "metadata", "scores", "model_usage", "role_usage", "uuid")
_TIMES = ("started_at", "completed_at", "total_time", "working_time", "turn_count")


def _summary_of(sample: dict[str, Any]) -> dict[str, Any]:
    """The summary of a sample that the log has none of."""
    error, limit = sample.get("error"), sample.get("limit")
    found = {name: sample[name] for name in (*_OF_SAMPLE, *_TIMES) if sample.get(name) is not None}
    found["completed"] = True
    if isinstance(error, dict):
        found["error"] = str(error.get("message"))
    if isinstance(limit, dict):
        found["limit"] = limit.get("type")
    return found


def _without_events(sample: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in sample.items() if name != "events_data"} | {"events": []}
