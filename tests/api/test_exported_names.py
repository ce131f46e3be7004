"""The public names are the documented ones, and importing them costs nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
import holdfast.events
import holdfast.providers
import holdfast.sampling
import holdfast.testing

ROOT = Path(__file__).parents[2]
DOCUMENTED = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
HEAVY = {"aiohttp", "yaml", "rich", "click", "xllamacpp", "zstandard", "msgspec", "sqlite3", "asyncio", "numpy"}


def test_the_exported_names_are_exactly_the_documented_ones():
    """Each public name has a section of its own in docs/api.md, and no section is about anything else."""
    sections = re.findall(r"^### `(\w+)`$", DOCUMENTED, re.MULTILINE)
    assert sorted(sections) == sorted(holdfast.__all__)
    assert len(set(sections)) == len(sections)


@pytest.mark.parametrize("module", [holdfast.events, holdfast.providers, holdfast.sampling, holdfast.testing])
def test_the_names_of_a_public_module_are_exactly_the_documented_ones(module):
    """Each name stands in the module's table in docs/api.md or docs/providers.md, and no other name does."""
    pages = DOCUMENTED + "\n## \n" + (ROOT / "docs" / "providers.md").read_text(encoding="utf-8")
    table = pages.partition(f"The names in `{module.__name__}`:\n")[2].partition("\n## ")[0]
    cells = re.findall(r"^\| (`.*?`) \|", table, re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(\w+)`", cell)]
    assert sorted(names) == sorted(module.__all__)


@pytest.mark.parametrize("module", [holdfast.events, holdfast.providers])
def test_the_names_for_plug_ins_are_there_and_are_the_same_as_elsewhere(module):
    """No other name is exported, and one that `holdfast` has too is the same object."""
    exported = {name for name in vars(module) if not name.startswith("_")}
    assert exported == set(module.__all__)
    for name in exported & set(holdfast.__all__):
        assert getattr(module, name) is getattr(holdfast, name)


def test_every_kind_of_event_is_public():
    """An observer can tell apart whatever it gets."""
    kinds = {kind.__name__ for kind in holdfast.events.Event.__subclasses__()}
    assert kinds | {"Event", "Observer"} == set(holdfast.events.__all__)


@pytest.mark.parametrize("name", holdfast.__all__)
def test_every_name_can_be_had(name):
    """Each is found where it is said to be, and once found stays."""
    assert getattr(holdfast, name) is getattr(holdfast, name)
    assert name in dir(holdfast)


def test_a_name_that_is_not_there_is_an_attribute_error():
    """A slip is told as for any module."""
    with pytest.raises(AttributeError, match="'evalute'"):
        _ = holdfast.evalute


def test_every_error_is_documented_with_the_exit_code_it_has():
    """What docs/api.md says of an exit code is what the class has."""
    for name, code in re.findall(r"^### `(\w+)`\n\n[^#]*?Exit code (\d)\.", DOCUMENTED, re.MULTILINE):
        assert getattr(holdfast, name).exit_code == int(code)


def test_importing_loads_nothing_heavy():
    """`import holdfast` is free; what a name needs is loaded with the name."""
    code = "import json, sys; before = {*sys.modules}; import holdfast; print(json.dumps([*({*sys.modules} - before)]))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(done.stdout)}
    assert not loaded & HEAVY
    inner = [name for name in json.loads(done.stdout) if name.startswith("holdfast.")]
    assert inner == ["holdfast.version"]


def test_evaluating_with_a_scripted_model_loads_no_http_client_and_no_terminal_library():
    """What is not used is not loaded, also once work begins."""
    code = (
        "import sys; from holdfast import Sample, Task, evaluate, exact, generate\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names & {'aiohttp', 'rich', 'click', 'xllamacpp', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("module", ["holdfast.providers", "holdfast.events"])
def test_the_names_for_plug_ins_load_no_http_client(module):
    """A plug-in pays for what it imports, and not for the built-in providers."""
    code = (
        f"import sys, {module}\n"
        "names = {name.partition('.')[0] for name in sys.modules}\n"
        "print(sorted(names & {'aiohttp', 'rich', 'click', 'yaml', 'xllamacpp', 'numpy'}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_package_says_that_it_is_typed():
    """Type checkers look for the marker."""
    assert (Path(holdfast.__file__).parent / "py.typed").is_file()


def test_the_example_of_the_documentation_works(tmp_path):
    """The first block of docs/api.md does what it says."""
    block, *_ = re.findall(r"^```python\n(.*?)^```", DOCUMENTED, re.MULTILINE | re.DOTALL)
    (tmp_path / "example.py").write_text(block, encoding="utf-8")
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1 of 1 trials valid" in done.stdout


def test_the_data_frames_of_the_documentation_work(tmp_path):
    """The block about data frames, on the run that the first block makes."""
    pytest.importorskip("pandas")
    blocks = re.findall(r"^```python\n(.*?)^```", DOCUMENTED, re.MULTILINE | re.DOTALL)
    frames = next(block for block in blocks if "to_pandas" in block)
    (tmp_path / "example.py").write_text(blocks[0] + frames, encoding="utf-8")
    done = subprocess.run([sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.search(r"capitals +scripted/echo +0\.0", done.stdout)
