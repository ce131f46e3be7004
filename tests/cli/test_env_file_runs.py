"""Keys from a file `.env`: used by run, resume and evaluate, and found nowhere afterwards."""

from __future__ import annotations

import json
from pathlib import Path

from evals import http_eval

SECRET = "not-a-real-key/0123456789"
WITH_KEY = {"api_key_env": "OUR_ENV_FILE_KEY"}


def everything_below(place: Path) -> bytes:
    return b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file() and path.name != ".env")


def assert_hidden(tmp_path, *said: str) -> None:
    for form in (SECRET, SECRET.replace("/", "\\/"), "0123456789"):
        assert form.encode() not in everything_below(tmp_path)
        assert all(form not in text for text in said)


def test_a_key_in_the_file_is_used_by_run_and_resume_and_stays_there(holdfast, server, tmp_path):
    """The file is found beside the eval file, from the run's record on resume, and its value is written nowhere."""
    place = tmp_path / "evals"
    place.mkdir()
    http_eval(place, server.base_url, 3, model=WITH_KEY, retry_deadline=0.01)
    (place / ".env").write_text(f"OUR_ENV_FILE_KEY='{SECRET}'\nthis {SECRET} is malformed\n")
    server.behave(refuse_status=503, refuse_times=1)
    first = holdfast("run", "evals/eval.yaml", "--run-dir", "r", code=1)
    assert "warning: evals/.env, line 2: not of the form NAME=value; it was skipped." in first.err
    dry = holdfast.json("run", "evals/eval.yaml", "--run-dir", "other", "--dry-run", code=0)
    assert dry["warnings"] == ["evals/.env, line 2: not of the form NAME=value; it was skipped."]
    server.behave()
    resumed = holdfast("resume", "r", "--json", code=0)
    assert json.loads(resumed.out)["warnings"] == [
        f"{place / '.env'}, line 2: not of the form NAME=value; it was skipped."
    ]
    assert_hidden(tmp_path, first.err, resumed.out, resumed.err, holdfast("cat", "r").out, holdfast("report", "r").out)


def test_the_environment_wins_over_the_file(holdfast, server, tmp_path):
    """A key in the environment is the one that is refused, and the message names its variable."""
    http_eval(tmp_path, server.base_url, 1, model=WITH_KEY)
    (tmp_path / ".env").write_text("OUR_ENV_FILE_KEY=\n")
    server.behave(refuse_status=401, refuse_times=9)
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", code=1, OUR_ENV_FILE_KEY=SECRET)
    assert "OUR_ENV_FILE_KEY is set, but openai/counting refused it (401 Unauthorized)" in ended.err
    assert "Correct OUR_ENV_FILE_KEY in the environment or in .env." in ended.err
    assert_hidden(tmp_path, ended.out, ended.err)


def test_a_python_file_finds_the_file_beside_itself_before_it_is_loaded(holdfast, tmp_path):
    """The code of a task may read a variable when it is imported; a resume finds the same file."""
    place = tmp_path / "code"
    place.mkdir()
    (place / ".env").write_text("QUESTION_OF_TASK=why\n")
    (place / "task.py").write_text(
        "import os\nfrom holdfast import Sample, Task, exact, generate, task\n"
        "QUESTION = os.environ['QUESTION_OF_TASK']\n"
        "@task\ndef t(n: int = 1):\n"
        "    return Task(samples=[Sample(QUESTION, target='why')] * n, solver=generate(), scorers=exact())\n"
    )
    holdfast("run", "code/task.py", "--model", "scripted/echo", "--run-dir", "r", code=0)
    assert "complete" in holdfast("resume", "r", code=0).out


def test_a_missing_key_names_its_variable_and_the_file(holdfast, tmp_path):
    """Run and dry run say the same, before anything is written."""
    http_eval(tmp_path, "http://127.0.0.1:9/v1", 1, model=WITH_KEY)
    ended = holdfast("run", "eval.yaml", "--run-dir", "r", code=2)
    assert "OUR_ENV_FILE_KEY is not set" in ended.err and ".env beside the eval file" in ended.err
    assert holdfast("run", "eval.yaml", "--run-dir", "r", "--dry-run", code=2).err == ended.err
    assert not (tmp_path / "r").exists()
