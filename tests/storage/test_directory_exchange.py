"""Two directories change places in one step, or nothing happens."""

from __future__ import annotations

import ctypes
import errno
import types

import pytest

from durable import snapshot
from holdfast.storage.operating_system import EXCHANGE_UNSUPPORTED, exchange_directories


def test_each_has_what_the_other_had(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    exchange_directories(tmp_path / "a", tmp_path / "b")
    assert snapshot(tmp_path) == {"a": None, "a/b": b"b", "b": None, "b/a": b"a"}


def test_a_path_that_is_not_there_is_an_error_and_changes_nothing(tmp_path):
    (tmp_path / "a").mkdir()
    with pytest.raises(FileNotFoundError):
        exchange_directories(tmp_path / "a", tmp_path / "b")
    assert snapshot(tmp_path) == {"a": None}


def test_a_system_without_such_a_call_says_so(tmp_path, monkeypatch):
    """The caller is told by an error that means: not here."""
    monkeypatch.setattr(ctypes, "CDLL", lambda *_, **__: types.SimpleNamespace())
    with pytest.raises(OSError, match="not implemented") as raised:
        exchange_directories(tmp_path / "a", tmp_path / "b")
    assert raised.value.errno == errno.ENOSYS
    assert raised.value.errno in EXCHANGE_UNSUPPORTED
