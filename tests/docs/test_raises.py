"""Sampling, row 27: what a public function may raise, also through what it calls, is under its `Raises:`."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import holdfast.sampling
from docs.raised_errors import Source, documented

SOURCE = Source.read(Path(holdfast.__file__).parent)
FROM_OUTSIDE = {"ModelError", "Blocked", "UsageError"}
"""Raised by whatever answers, or by the host, so that no line of ours on the way says so."""
NEVER_SEEN = {
    "NotImplementedError",
    "RuntimeError",
    "holdfast.sampling.lanes.drawing.BudgetReachedError",
    "holdfast.models.message.UnknownRoleError",
}
"""Errors of ours, one that ends a lane and never leaves it, and one that our own messages never meet."""
PUBLIC = ("sampling", "api.sample", "api.model_set")


def public_functions() -> list[str]:
    """The functions, constructors and methods that a user of samplings calls."""
    names = {*holdfast.sampling.__all__, "sample", "ModelSet", "run_sampling"}
    found = []
    for name in SOURCE.functions:
        parts = name.split(".")
        owner = parts[-2] if parts[-2] in names else parts[-1]
        is_ours = name.startswith(tuple(f"holdfast.{place}" for place in PUBLIC))
        is_private = parts[-1].startswith("_") and parts[-1] != "__init__"
        if is_ours and owner in names and not is_private:
            found.append(name)
    return found


@pytest.mark.parametrize("name", public_functions())
def test_what_it_raises_is_documented(name):
    told = documented(SOURCE.functions[name])
    raised = SOURCE.raised_by(name)
    untold = {
        error for error in raised if not SOURCE.ancestors(error) & told and not error.rpartition(".")[2].startswith("_")
    } - NEVER_SEEN
    assert untold == set()
    reached = {one for error in raised for one in SOURCE.ancestors(error)}
    assert told - reached - FROM_OUTSIDE == set()


def test_the_check_finds_what_is_raised_two_calls_away(tmp_path):
    """It could fail: an error below a method of a parameter, a base of it, and one that nobody raises."""
    package = tmp_path / "package"
    package.mkdir()
    (package / "errors.py").write_text("class Base(ValueError): pass\nclass Own(Base): pass\n")
    (package / "parts.py").write_text(
        "from package.errors import Own\n"
        "class Part:\n    def work(self): self._deeper()\n    def _deeper(self): raise Own('x')\n"
    )
    (package / "door.py").write_text(
        "from package.parts import Part\n"
        "def door(part: Part):\n    '''Opens.\n\n    Raises:\n        KeyError: never.\n    '''\n    part.work()\n"
    )
    source = Source.read(package)
    assert source.raised_by("package.door.door") == {"package.errors.Own"}
    assert source.ancestors("package.errors.Own") == {"Own", "Base", "ValueError"}
    function = source.functions["package.door.door"]
    assert isinstance(function, ast.FunctionDef) and documented(function) == {"KeyError"}
