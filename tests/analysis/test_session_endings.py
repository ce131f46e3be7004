"""Status and report say the same of every session: recovery 52."""

from __future__ import annotations

import msgspec
import pytest

from durable import begin_run, begin_session, commit
from holdfast.analysis.report import make_report
from holdfast.analysis.status import run_status
from holdfast.run.core.records import CallRecord
from holdfast.run.fold.reader import RunReader
from holdfast.storage.leases.holder import UnrecordedEnd


def said(root):
    """What the status and the report say of each session."""
    reader = RunReader(root)
    try:
        status, report = run_status(reader), make_report(reader)
    finally:
        reader.close()
    known = [(one.ended_as, one.ended_at, one.exit_code, one.in_flight_at_kill) for one in status.sessions]
    names = ("ended_as", "ended_at", "exit_code")
    told = [(*(one.get(name) for name in names), one.get("in_flight_at_kill", 0)) for one in report.lineage]
    return known, told


NOTED = UnrecordedEnd(1, "storage failed", 4, "2026-01-02T03:04:05Z")


@pytest.mark.parametrize("is_resumed", [False, True])
def test_an_end_that_could_not_be_recorded_is_no_kill(tmp_path, is_resumed):
    """It is in the lease file, or in the record of the next session."""
    session = begin_run(tmp_path / "r", planned=2)
    commit(session, CallRecord(trial="t1", attempt=1, step="s"))
    session.lease.note_end(NOTED)
    session.abandon()
    if is_resumed:
        begin_session(tmp_path / "r", planned=2).close("interrupted", 130)
    known, told = said(tmp_path / "r")
    assert known[0] == ("storage failed", NOTED.ended_at, 4, 1)
    assert told == known


def test_a_session_that_lost_its_lease_was_not_killed(tmp_path):
    """Its end is a file of its own."""
    session = begin_run(tmp_path / "r", planned=2)
    session.abandon()
    (tmp_path / "r" / "ended").mkdir()
    lost = msgspec.structs.replace(NOTED, ended_as="lease lost")
    (tmp_path / "r" / "ended" / "1.json").write_bytes(msgspec.json.encode(lost))
    known, told = said(tmp_path / "r")
    assert known == told == [("lease lost", NOTED.ended_at, 4, 0)]
