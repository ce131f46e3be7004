"""The weights of a local model count by their bytes; where they lie is a location.

llama.cpp is stood in for by a module that serves the first bytes of the file: everything around it is the program's.
"""

from __future__ import annotations

import json
import os
import shutil
import time

import pytest

from evals import write_dataset, write_eval
from holdfast.errors import ConfigurationError
from holdfast.models.local.weights_digest import weights_digest

ENGINE = """
import http.server, json, os, threading, types

class CommonParams:
    def __init__(self):
        self.model, self.cpuparams, self.cpuparams_batch = (types.SimpleNamespace() for _ in range(3))

class Server:
    def __init__(self, params):
        path, alias = params.model.path, next(iter(params.model_alias))
        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                said = open(path, "rb").read(64)[4:].decode()
                if os.path.exists("overwrite") and os.path.getsize("asked") >= 2:
                    open(path, "wb").write(b"GGUFother")
                with open("asked", "a") as asked:
                    asked.write("x")
                message = {"role": "assistant", "content": said}
                choice = {"message": message, "finish_reason": "stop"}
                usage = {"prompt_tokens": 1, "completion_tokens": 1}
                data = json.dumps({"model": alias, "choices": [choice], "usage": usage}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            def log_message(self, *_):
                pass
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.listening_address = f"http://127.0.0.1:{server.server_port}"
"""


@pytest.fixture
def local(holdfast, tmp_path):
    """The program with a stand-in for llama.cpp, and weights beside the eval."""
    engine = tmp_path / "engine"
    engine.mkdir()
    (engine / "xllamacpp.py").write_text(ENGINE)
    (tmp_path / "w.gguf").write_bytes(b"GGUFfirst")
    write_dataset(tmp_path, 2)

    def run(*words, code=0, **environment):
        path = os.pathsep.join(filter(None, [str(engine), os.environ.get("PYTHONPATH", "")]))
        ended = holdfast.start(*words, PYTHONPATH=path, **environment).wait()
        assert ended.code == code, ended
        return ended

    return run


def local_eval(tmp_path, path="w.gguf", **model):
    task = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
    models = {"m": {"provider": "local", "model": "small", "args": {"path": path}, **model}}
    data = {"name": "local", "models": models, "datasets": {"rows": {"path": "rows.jsonl"}}, "tasks": {"t": task}}
    return write_eval(tmp_path, data)


def answers(holdfast):
    return [one["text"] for one in holdfast.records("r", "answer")]


GROW = ("--set", "tasks.t.epochs=2")


def test_resume_64_other_bytes_under_the_path_are_refused(local, holdfast, tmp_path):
    """Resume 64: overwritten weights are named with both digests, before anything is written."""
    local("run", local_eval(tmp_path), "--run-dir", "r")
    (tmp_path / "w.gguf").write_bytes(b"GGUFother")
    before = (tmp_path / "r" / "config.yaml").read_bytes(), len(holdfast.records("r"))
    ended = local("resume", "r", *GROW, code=3)
    assert "models.m.args.path (identity): the file holds other weights than those on record (digest " in ended.err
    assert "fork" in ended.err
    assert ((tmp_path / "r" / "config.yaml").read_bytes(), len(holdfast.records("r"))) == before
    (tmp_path / "w.gguf").write_bytes(b"GGUFfirst")
    local("resume", "r", *GROW)
    assert answers(holdfast) == ["first"] * 4


def test_resume_64_the_same_bytes_elsewhere_are_a_location(local, holdfast, tmp_path):
    """Resume 64: applied and recorded; other bytes elsewhere are refused."""
    local("run", local_eval(tmp_path), "--run-dir", "r")
    (tmp_path / "w.gguf").rename(tmp_path / "moved.gguf")
    (tmp_path / "wrong.gguf").write_bytes(b"GGUFother")
    wrong = local("resume", "r", *GROW, "--config", local_eval(tmp_path, "wrong.gguf"), code=3)
    assert "the file holds other weights than those on record" in wrong.err
    moved = str(tmp_path / "moved.gguf")
    ended = local("resume", "r", *GROW, "--config", local_eval(tmp_path, "moved.gguf"))
    assert f"models.m.args.path: {tmp_path / 'w.gguf'} → {moved}" in ended.err
    assert f"#   - models.m.args.path: {tmp_path / 'w.gguf'} → {moved}" in (tmp_path / "r" / "config.yaml").read_text()
    assert answers(holdfast) == ["first"] * 4
    holdfast("diff", "r", local_eval(tmp_path, "moved.gguf", args={"path": "moved.gguf", "context": 64}), code=3)


def test_resume_64_from_another_directory(local, holdfast, tmp_path, monkeypatch):
    """Resume 64: a relative path starts at the eval, from wherever the run is resumed."""
    local("run", local_eval(tmp_path), "--run-dir", "r")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "w.gguf").write_bytes(b"GGUFother")
    monkeypatch.setattr(holdfast, "directory", tmp_path / "elsewhere")
    ended = local("resume", tmp_path / "r", *GROW)
    monkeypatch.setattr(holdfast, "directory", tmp_path)
    assert "args.path" not in ended.err and answers(holdfast) == ["first"] * 4


def test_weights_overwritten_while_they_are_used(local, holdfast, tmp_path):
    """No reply after that counts: the model is disabled, and the next resume names the weights."""
    eval_file = local_eval(tmp_path)
    (tmp_path / "overwrite").touch()
    (tmp_path / "asked").touch()
    write_dataset(tmp_path, 6)
    ended = local("run", eval_file, "--run-dir", "r", code=1)
    assert "were written to while local/small was using them" in ended.err
    assert answers(holdfast) == ["first"] * 2
    (tmp_path / "overwrite").unlink()
    assert "other weights than those on record" in local("resume", "r", code=3).err
    (tmp_path / "w.gguf").write_bytes(b"GGUFfirst")
    local("resume", "r")
    assert answers(holdfast) == ["first"] * 6


def test_reuse_and_fork_know_weights_by_their_bytes(local, holdfast, tmp_path):
    """Other weights under the same path: a fork keeps no trial, `--reuse` takes no reply."""
    local("run", local_eval(tmp_path), "--run-dir", "r")
    shutil.copy(tmp_path / "w.gguf", tmp_path / "copy.gguf")
    (tmp_path / "w.gguf").write_bytes(b"GGUFother")
    kept = local("fork", "r", "--config", local_eval(tmp_path), "--run-dir", "f", "--json")
    assert json.loads(kept.out)["taken"] == 0
    local("run", local_eval(tmp_path), "--run-dir", "n", "--reuse", "r")
    assert holdfast.json("status", "n")["calls"]["saved"]["calls"] == 0
    kept = local("fork", "r", "--config", local_eval(tmp_path, "copy.gguf"), "--run-dir", "g", "--json")
    assert json.loads(kept.out)["taken"] == 2
    local("run", local_eval(tmp_path, "copy.gguf"), "--run-dir", "o", "--reuse", "r")
    assert holdfast.json("status", "o")["calls"]["saved"]["calls"] == 2


def test_weights_that_are_gone_are_named(local, tmp_path):
    """A missing file stops the resume before anything is written, and says what to set."""
    local("run", local_eval(tmp_path), "--run-dir", "r")
    (tmp_path / "w.gguf").unlink()
    ended = local("resume", "r", *GROW, code=2)
    assert "w.gguf cannot be read" in ended.err and "args.path" in ended.err


# The digest, and what is kept of it.


@pytest.fixture
def reads(monkeypatch):
    """How often a file is read."""
    import holdfast.models.local.weights_digest as module  # noqa: PLC0415

    found, real = [], module.file_digest
    monkeypatch.setattr(module, "file_digest", lambda path: found.append(path) or real(path))
    return found


def at_rest(path, content=b"GGUFfirst"):
    """A file that was written long ago, as far as its times can be set; its inode's is waited for."""
    path.write_bytes(content)
    os.utime(path, ns=(0, 0))
    deadline = path.stat().st_ctime_ns + 2.1e9
    while time.time_ns() < deadline:
        time.sleep(0.05)
    return path


def test_a_large_file_is_read_once(tmp_path, reads):
    """The digest of a file at rest is kept; of one that was just written it is not."""
    path = tmp_path / "w.gguf"
    path.write_bytes(b"GGUFfirst")
    assert weights_digest(path) == weights_digest(path) and len(reads) == 2
    at_rest(path)
    found = weights_digest(path)
    assert weights_digest(path) == found and len(reads) == 3
    assert weights_digest(path, again=True) == found and len(reads) == 4


def test_a_kept_digest_does_not_outlive_the_bytes(tmp_path, reads):
    """Same size, same name, same modification time: the time of the inode tells them apart."""
    path = at_rest(tmp_path / "w.gguf")
    first = weights_digest(path)
    path.write_bytes(b"GGUFother")
    os.utime(path, ns=(0, 0))
    assert weights_digest(path) != first
    other = at_rest(tmp_path / "x.gguf")
    other.replace(path)
    assert weights_digest(path) == first


@pytest.mark.parametrize("damage", [b"", b"{}", b"[1]", b"\xff", None])
def test_a_damaged_cache_is_not_believed(tmp_path, cache_home, damage):
    """What cannot be read, or does not have its sum, is computed anew; without a cache it is computed each time."""
    path = at_rest(tmp_path / "w.gguf")
    found = weights_digest(path)
    (kept,) = (cache_home / "holdfast").glob("weights-*.json")
    line = kept.read_bytes()
    kept.write_bytes(line.replace(found.encode(), b"0" * len(found)) if damage is None else damage)
    assert weights_digest(path) == found and kept.read_bytes() == line
    shutil.rmtree(cache_home / "holdfast")
    (cache_home / "holdfast").write_text("not a directory")
    assert weights_digest(path) == found


def test_a_file_that_is_being_written_has_no_digest(tmp_path, monkeypatch):
    """What changes while it is read is refused, not recorded."""
    import holdfast.models.local.weights_digest as module  # noqa: PLC0415

    path, real = tmp_path / "w.gguf", module.file_digest
    path.write_bytes(b"GGUFfirst")

    def reading(at):
        found = real(at)
        path.write_bytes(b"GGUFfirst and more")
        return found

    monkeypatch.setattr(module, "file_digest", reading)
    with pytest.raises(ConfigurationError, match="are being written"):
        weights_digest(path)
