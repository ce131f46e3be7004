"""Digests of code are the same in every version, wherever the code lies, and whatever module of ours a class is in."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import msgspec
import pytest

import holdfast
from holdfast.engine.planning import earlier_runs
from holdfast.errors import NewerFormat
from holdfast.tasks.source.digest import source_digest
from holdfast.tasks.source.importing import import_file
from holdfast.tasks.source.spelling import PRESENT
from holdfast.tasks.task_code import code_of

STORED = Path(__file__).parent.parent / "data" / "digests"
GOLDEN = json.loads((STORED / "golden.json").read_text(encoding="utf-8"))
EARLIER = earlier_runs.earlier_spellings()[1]
RULES = {"rule 1": EARLIER, "rule 2": PRESENT}


def shapes_at(directory):
    """The stored code, copied to a directory and imported from there."""
    shutil.copytree(STORED, directory)
    module = import_file(directory / "shapes.py", "shapes.py")
    return {**module.SHAPES, **module.PLACED}


@pytest.fixture(scope="module")
def shapes(tmp_path_factory):
    return shapes_at(tmp_path_factory.mktemp("somewhere") / "project")


@pytest.mark.parametrize(("rule", "shape"), [(rule, shape) for rule in RULES for shape in GOLDEN[rule]])
def test_a_digest_is_as_it_was_recorded(shapes, rule, shape):
    """A digest that changes makes every run of such code refuse its resume: raise the rule instead.

    Those of rule 1 were taken with the last version that recorded them.
    """
    assert source_digest(shapes[shape], RULES[rule]) == GOLDEN[rule][shape]


def test_every_shape_has_a_digest_of_its_own(shapes):
    """The stored digests cover all that is stored, and no two kinds of code have the same one."""
    assert set(GOLDEN["rule 2"]) == set(shapes)
    assert len(set(GOLDEN["rule 2"].values())) == len(shapes)


def test_a_digest_does_not_depend_on_where_the_code_lies(shapes, tmp_path):
    """A project that is moved, and one beside it whose files have the same names, have the same digests."""
    first, second = (
        {name: source_digest(shape) for name, shape in shapes_at(tmp_path / place).items()}
        for place in ("a project", "deep/er/than the first")
    )
    assert first == second == GOLDEN["rule 2"]


def test_another_process_takes_the_same_digests(tmp_path):
    """Neither the order of a set nor an address in memory is part of a digest: row 58 of resume, for every shape."""
    shutil.copytree(STORED, tmp_path / "project")
    script = (
        "import json, sys, pathlib\nfrom holdfast.tasks.source.digest import source_digest\n"
        "from holdfast.tasks.source.importing import import_file\n"
        "module = import_file(pathlib.Path(sys.argv[1]), 'shapes.py')\n"
        "print(json.dumps({n: source_digest(s) for n, s in {**module.SHAPES, **module.PLACED}.items()}))"
    )
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, "-c", script, str(tmp_path / "project" / "shapes.py")],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        )
        assert json.loads(done.stdout) == GOLDEN["rule 2"], f"hash seed {seed}"


def test_no_digest_holds_a_module_of_ours(shapes, monkeypatch):
    """Every class and function of Holdfast may be moved to another module, and no digest changes."""
    moved = [value for name in holdfast.__all__ if hasattr(value := getattr(holdfast, name), "__module__")]
    moved += [type(generate) for generate in (holdfast.generate(), holdfast.exact(), holdfast.regex("a"))]
    for value in moved:
        if value.__module__.startswith("holdfast."):
            monkeypatch.setattr(value, "__module__", "holdfast.another.place", raising=False)
    for name in ("closes over scorers", "closes over a solver", "closes over holdfast's functions", "an error"):
        assert source_digest(shapes[name]) == GOLDEN["rule 2"][name]
        assert source_digest(shapes[name], EARLIER) != GOLDEN["rule 1"][name], "the test cannot fail"


def test_what_lies_in_two_directories_is_told_apart(tmp_path):
    """A path below one directory of the code is not taken for the same path below another."""
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
    (tmp_path / "two" / "other_place.py").write_text("HERE = __file__\ndef noop():\n    return HERE\n")
    (tmp_path / "one" / "code.py").write_text(
        "import sys\nfrom pathlib import Path\n"
        f"sys.path.insert(0, {str(tmp_path / 'two')!r})\nimport other_place\nsys.path.pop(0)\n"
        "def make(*held):\n    async def solve(trial):\n        return held, other_place.noop()\n    return solve\n"
        "ONE = make(other_place.noop, Path(__file__).with_name('data'))\n"
        "TWO = make(other_place.noop, Path(other_place.HERE).with_name('data'))\n"
    )
    module = import_file(tmp_path / "one" / "code.py", "code.py")
    assert source_digest(module.ONE) != source_digest(module.TWO)
    del sys.modules["other_place"]


def test_two_files_of_one_name_keep_their_earlier_names_apart(tmp_path):
    """By rule 1 a module was named by a hash of its path: each of two files of one name by its own."""
    for place in ("one", "two"):
        (tmp_path / place).mkdir()
        (tmp_path / place / "same_name.py").write_text("class Held:\n    pass\n")
    modules = [import_file(tmp_path / place / "same_name.py", "same_name.py") for place in ("one", "two")]
    names = {EARLIER.order(module.Held).split("'")[1].partition(".")[0] for module in modules}
    paths = [bytes(tmp_path / place / "same_name.py") for place in ("one", "two")]
    assert names == {f"holdfast_task_{blake2b(path, digest_size=8).hexdigest()}" for path in paths}


def test_digests_of_a_later_rule_are_not_compared():
    """Whoever cannot tell whether the code is the same says so, and does not say that it has changed."""
    made = holdfast.Task(samples=[holdfast.Sample("x")], solver=holdfast.generate(), scorers=holdfast.exact(), name="t")
    code = code_of(made, "00")
    assert earlier_runs.comparable_code(made, code) == code
    with pytest.raises(NewerFormat, match="newer version of Holdfast"):
        earlier_runs.comparable_code(made, msgspec.structs.replace(code, rule=99))
