"""Machines that are set up differently: no home, another locale, odd names, a directory that cannot be written."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
import sys

import pytest

from durable import snapshot
from evals import write_dataset, write_eval

TASK = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
EVAL = {
    "models": {"m": {"provider": "scripted", "model": "echo"}},
    "datasets": {"rows": {"path": "rows.jsonl"}},
    "tasks": {"t": TASK},
}
# From linux/prctl.h and linux/capability.h.
PR_CAPBSET_DROP, DAC_OVERRIDE, DAC_READ_SEARCH = 24, 1, 2


def run(directory, *words, without=(), preexec_fn=None, **environment):
    """The program in a process of its own, with and without variables of the environment."""
    kept = {name: value for name, value in os.environ.items() if name not in without}
    return subprocess.run(
        [sys.executable, "-m", "holdfast", *words],
        cwd=directory,
        env={**kept, **environment},
        capture_output=True,
        text=True,
        errors="backslashreplace",
        check=False,
        timeout=60,
        preexec_fn=preexec_fn,
    )


@pytest.fixture
def place(tmp_path):
    """A directory that everybody may enter, with an eval in it."""
    write_dataset(tmp_path, 3)
    write_eval(tmp_path, EVAL)
    return tmp_path


def obey_modes():
    """Makes root obey the permissions of files in the process that is about to start, as other users do."""
    if os.getuid() == 0:
        libc = ctypes.CDLL(None, use_errno=True)
        for capability in (DAC_OVERRIDE, DAC_READ_SEARCH):
            if libc.prctl(PR_CAPBSET_DROP, capability):
                raise OSError(ctypes.get_errno(), "prctl")


@pytest.fixture
def homeless(tmp_path):
    """An environment in which nobody knows the user or a home."""
    place = tmp_path / "homeless"
    place.mkdir()
    (place / "sitecustomize.py").write_text(
        "import pwd\n\ndef getpwuid(uid):\n    raise KeyError(uid)\n\npwd.getpwuid = getpwuid\n"
    )
    return {"without": ("HOME", "XDG_CACHE_HOME", "XDG_STATE_HOME"), "PYTHONPATH": str(place)}


def test_a_user_without_a_home_can_do_everything(place, homeless):
    """In a container the user often has neither a name nor a home: runs are made, read and resumed all the same."""
    told = {}
    for verb in ("run eval.yaml --run-dir r", "status r", "report r", "verify r", "show r", "resume r", "repair r"):
        done = run(place, *verb.split(), **homeless)
        assert done.returncode == 0 and "Traceback" not in done.stderr, done
        told[verb] = done.stdout
    assert "complete, 3 of 3" in told["resume r"]
    assert not (place / "~").exists()


def test_a_run_that_cannot_be_written_can_be_read(place):
    """Reading verbs work where a run may only be read; a resume says what it needs, and changes nothing."""
    assert run(place, "run", "eval.yaml", "--run-dir", "r", HOLDFAST_CRASH_AT="frame.synced:2").returncode == -9
    (place / "r" / "lease").chmod(0o444)
    (place / "r").chmod(0o555)
    before = snapshot(place / "r")
    for verb in ("status", "report", "verify"):
        assert run(place, verb, "r", preexec_fn=obey_modes).returncode == 0
    done = run(place, "resume", "r", preexec_fn=obey_modes)
    assert done.returncode == 5 and "cannot be taken: Permission denied." in done.stderr, done
    assert "needs a writable directory" in done.stderr
    assert snapshot(place / "r") == before
    (place / "r").chmod(0o755)
    (place / "r" / "lease").chmod(0o644)
    assert "3 of 3" in run(place, "resume", "r").stdout


NARROW = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}


def test_a_locale_without_utf8_reads_and_resumes(place):
    """With LC_ALL=C everything works, whatever characters a run has; what cannot be shown is shown as an escape."""
    row = {"id": "s1", "question": "größer → ½", "answer": "größer → ½"}
    (place / "rows.jsonl").write_text(json.dumps(row, ensure_ascii=False) + "\n", encoding="utf-8")
    for locale in ({"LC_ALL": "C"}, NARROW):
        name = f"r{len(locale)}"
        for verb in (f"run eval.yaml --run-dir {name}", f"report {name}", f"show {name} s1", f"cat {name}"):
            done = run(place, *verb.split(), **locale)
            assert done.returncode == 0 and "Traceback" not in done.stderr, done
        assert "größer → ½" in run(place, "show", name, "s1", **locale).stdout


def test_a_path_that_the_locale_cannot_write_is_named(place):
    """A run whose eval is in a directory that this locale has no name for: one sentence, and the way out."""
    home = place / "größe"
    home.mkdir()
    for name in ("eval.yaml", "rows.jsonl"):
        shutil.move(place / name, home / name)
    done = run(home, "run", "eval.yaml", "--run-dir", "r", **NARROW)
    assert done.returncode == 2 and "is not text in this locale" in done.stderr and "PYTHONUTF8=1" in done.stderr
    assert run(home, "run", "eval.yaml", "--run-dir", "r", HOLDFAST_CRASH_AT="frame.synced:2").returncode == -9
    done = run(home, "resume", "r", **NARROW)
    assert "Traceback" not in done.stderr
    assert done.returncode in {0, 2}
    assert "3 of 3" in run(home, "resume", "r").stdout


def test_a_name_that_is_no_text(place):
    """Bytes that are no UTF-8 in the name of a run are no matter; in that of the eval's directory they are named."""
    odd = os.fsdecode(b"r\xfe")
    done = run(place, "run", "eval.yaml", "--run-dir", odd)
    assert done.returncode == 0, done
    assert run(place, "status", odd, "--json").returncode == run(place, "resume", odd).returncode == 0
    home = place / os.fsdecode(b"d\xfe")
    home.mkdir()
    shutil.copy(place / "eval.yaml", home)
    done = run(home, "run", "eval.yaml", "--run-dir", "r")
    assert done.returncode == 2 and "is not text in this locale" in done.stderr
