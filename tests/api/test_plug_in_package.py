"""A plug-in package that is written from docs/api.md alone, outside the tree, installs and works."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "api.md").read_text(encoding="utf-8")
KEY = "key-0123456789-abcdef"


def printed_files() -> dict[str, str]:
    """The files that the page prints, by the name in their first line."""
    found = re.findall(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len({name for name, _ in found}) == len(found)
    return dict(found)


def write(directory: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, encoding="utf-8")


def run(command: list[str], directory: Path, site: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
    return subprocess.run(
        [sys.executable, *command],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> tuple[Path, Path]:
    """The package, built and installed by pip, and a directory with an eval that uses it."""
    pytest.importorskip("hatchling")
    root = tmp_path_factory.mktemp("plug_in")
    files = printed_files()
    package = {name: text for name, text in files.items() if name == "pyproject.toml" or name.startswith("src/")}
    write(root / "package", {**package, "src/holdfast_shout/__init__.py": ""})
    words = '{"id": "a", "word": "hello", "loud": "HELLO!!"}\n{"id": "b", "word": "moin", "loud": "no"}\n'
    write(root / "work", {name: files[name] for name in files if name not in package} | {"words.jsonl": words})
    offline = ["--no-deps", "--no-index", "--no-build-isolation", "--disable-pip-version-check", "--quiet"]
    done = run(
        ["-m", "pip", "install", *offline, "--target", str(root / "site"), str(root / "package")], root, root / "site"
    )
    assert done.returncode == 0, done.stderr
    return root / "work", root / "site"


def test_the_page_prints_a_whole_package():
    """The files that a reader has to write are all on the page."""
    assert set(printed_files()) == {
        "pyproject.toml",
        "src/holdfast_shout/provider.py",
        "src/holdfast_shout/scorers.py",
        "task.py",
        "eval.yaml",
    }


def test_an_installed_provider_is_listed(installed):
    """`holdfast models` names it, with the first line of its description."""
    done = run(["-m", "holdfast", "models"], *installed)
    assert done.returncode == 0, done.stderr
    assert re.search(r"^shout +Repeats what it is asked, in capitals — ready$", done.stdout, re.MULTILINE)


def test_an_eval_uses_the_provider_and_a_task_the_scorer(installed):
    """The provider answers with its options, the scorer judges, and the key is nowhere in the run."""
    done = run(["-m", "holdfast", "run", "eval.yaml", "--run-dir", "r"], *installed, SHOUT_KEY=KEY)
    assert done.returncode == 0, done.stderr
    told = run(["-m", "holdfast", "report", "r", "--json"], *installed)
    tasks = json.loads(told.stdout)["tasks"]
    assert tasks["words"]["shouter"]["metrics"]["exact"]["accuracy"]["value"] == 0.5
    assert tasks["greetings"]["shouter"]["metrics"]["loud"]["accuracy"]["value"] == 1.0
    records = run(["-m", "holdfast", "cat", "r"], *installed).stdout
    assert "HELLO!!" in records
    assert KEY not in records


@pytest.mark.parametrize(
    ("args", "environment", "said"),
    [
        ("{mark: '!!'}", {}, "shout/any needs a key, and the environment variable SHOUT_KEY is not set."),
        ("{marc: '!!'}", {"SHOUT_KEY": KEY}, "Model shout/any has no option 'marc'. Did you mean 'mark'?"),
        ("{mark: 5}", {"SHOUT_KEY": KEY}, "Model shout/any: its args are not valid: Expected `str`, got `int`"),
    ],
    ids=["no key", "unknown option", "wrong option"],
)
def test_what_a_plug_in_refuses_is_one_sentence(installed, args, environment, said):
    """A missing key or a wrong option ends with exit code 2 before anything is written."""
    work, site = installed
    text = (work / "eval.yaml").read_text(encoding="utf-8")
    (work / "wrong.yaml").write_text(text.replace('{mark: "!!"}', args), encoding="utf-8")
    done = run(["-m", "holdfast", "run", "wrong.yaml", "--run-dir", "w"], work, site, **environment)
    assert (done.returncode, (work / "w").exists()) == (2, False)
    assert said in done.stderr
    assert "Traceback" not in done.stderr
