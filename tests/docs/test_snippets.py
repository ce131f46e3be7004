"""Every snippet in docs/ works: commands are executed, Python is run, evals are loaded.

Commands of one page are executed in one directory, in their order. RUN is a finished run, `eval.yaml` its eval, and
`s3://bucket/runs/capitals` a place in a real S3 server. Blocks that belong to a test of their own are listed with it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
import yaml

from holdfast.spec import parse_eval, resolve
from object_store import BUCKET, KEYS

ROOT = Path(__file__).parents[2]
PAGES = sorted((ROOT / "docs").glob("*.md"))
ELSEWHERE = {
    "terminal.md": "tests/docs/test_terminal_page.py executes its commands and compares their output",
    "sampling-requirements.md": "tests/sampling/requirements/test_requirement_page.py builds every requirement",
}
NOT_RUN = (
    (r"pip install", "installs from a package index"),
    (r"^make |^python -m bench|^\.venv/bin/python -m bench", "the targets of the Makefile, run by hand"),
    (r"_HOLDFAST_COMPLETE=", "tests/cli/test_completion.py"),
    (r" --labels | --calibration ", "tests/cli/test_report_labels.py"),
)
_MODEL = {"provider": "scripted", "model": "echo", "price": {"input": 1, "output": 1}}
BASE = {
    "models": dict.fromkeys(("small", "judge", "large"), _MODEL),
    "datasets": {"capitals": "capitals.jsonl", "words": "words.jsonl", "bugs": "bugs.jsonl"},
    "tasks": {"any": {"dataset": "capitals", "prompt": "{country}?", "target": "{capital}", "scorers": ["exact"]}},
}
"""What a part of an eval may name, or leave out."""
STAND_INS = "TOOLS = []\n\n\ndef run_tool(name, arguments):\n    return {}\n\n\n"
"""What a solver of the page calls and does not define."""


class Snippet(NamedTuple):
    page: str
    line: int
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def snippets(page: Path) -> list[Snippet]:
    text = page.read_text(encoding="utf-8")
    found = re.finditer(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    return [Snippet(page.name, text[: one.start()].count("\n") + 1, one[1], one[2]) for one in found]


ALL = [snippet for page in PAGES for snippet in snippets(page)]


def of(language: str) -> list[Snippet]:
    return [snippet for snippet in ALL if snippet.language == language and snippet.page not in ELSEWHERE]


def commands(snippet: Snippet) -> list[str]:
    lines = [line[2:] for line in snippet.text.splitlines() if line.startswith("$ ")]
    return [line for line in lines if not any(re.search(pattern, line) for pattern, _ in NOT_RUN)]


@pytest.fixture
def eval_directory(tmp_path, store, monkeypatch):
    """The eval of `holdfast init`, a finished run of it, the examples, and a store in which there is another run."""
    for name, value in {**KEYS, "AWS_ENDPOINT_URL": store.endpoint}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("HOLDFAST_SPOOL", str(tmp_path / "spool"))
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    for command in ("holdfast init", "holdfast run eval.yaml --run-dir RUN"):
        assert run(command, tmp_path).returncode == 0
    return tmp_path


def run(command: str, directory: Path) -> subprocess.CompletedProcess[str]:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    return subprocess.run(
        ["bash", "-c", command],
        cwd=directory,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


@pytest.mark.parametrize("page", sorted({snippet.page for snippet in of("console")}))
def test_the_commands_of_a_page_work(page, eval_directory):
    """Each ends with exit code 0, or the one that a comment behind it names: `# exits 3`."""
    for snippet in of("console"):
        for command in commands(snippet) if snippet.page == page else []:
            done = run(command.replace("s3://bucket/", f"s3://{BUCKET}/{eval_directory.name}/"), eval_directory)
            expected = int(named[1]) if (named := re.search(r"# exits (\d+)", command)) else 0
            assert done.returncode == expected, f"{snippet}: {command}\n{done.stdout}\n{done.stderr}"
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize("snippet", of("python"), ids=str)
def test_python_runs(snippet, tmp_path):
    """Each block is a program, after those before it on its page; a file of a package is compiled."""
    if snippet.text.startswith("# src/") or re.match(r"# \w+\.py\n.*holdfast_shout", snippet.text, re.DOTALL):
        compile(snippet.text, str(snippet), "exec")
        return
    before = [other for other in of("python") if other.page == snippet.page and other.line < snippet.line]
    programs = [other.text for other in before if "evaluate(" in other.text] + [STAND_INS + snippet.text]
    for number, program in enumerate(programs):
        (tmp_path / f"block_{number}.py").write_text(program, encoding="utf-8")
        done = run(f"python block_{number}.py", tmp_path)
        assert done.returncode == 0, f"{snippet}\n{done.stderr}"


@pytest.mark.parametrize("snippet", of("yaml"), ids=str)
def test_an_eval_loads(snippet):
    """A whole eval, or a part of one with the models and datasets that it names."""
    data = {**BASE, **yaml.safe_load(snippet.text)}
    data["datasets"] = {**BASE["datasets"], **data["datasets"]}
    assert resolve(parse_eval(yaml.safe_dump(data)))


@pytest.mark.parametrize("page", [page.name for page in PAGES])
def test_no_command_is_outside_a_console_block(page):
    """So that every command of the documentation is executed."""
    for snippet in ALL:
        if snippet.page == page and snippet.language not in {"console", "yaml", "python"}:
            assert not re.search(r"^(\$ )?holdfast ", snippet.text, re.MULTILINE), str(snippet)


def test_pages_that_are_tested_elsewhere_are():
    """The tests that are named exist and read the page."""
    for page, where in ELSEWHERE.items():
        test = ROOT / where.split()[0]
        helpers = test.read_text(encoding="utf-8") + (ROOT / "tests" / "docs" / "captures.py").read_text(
            encoding="utf-8"
        )
        assert page in helpers
