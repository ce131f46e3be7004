"""Rows 52, 53, 54, 82: state that no value shows at first sight: memories of caches, source that is read, assertions
that Python leaves out, and names that stand for one thing.
"""

from __future__ import annotations

import os

import pytest
from code_project import code

SOLVE = "async def solve(trial):\n    return (await trial.generate({0})).text\n"

CACHED = """
    import functools, pathlib
    @CACHE
    def rules(name):
        return pathlib.Path(name).read_text()
    rules("rules.txt")
    async def solve(trial):
        return (await trial.generate(trial.sample.input + rules("rules.txt"))).text
"""


@pytest.mark.parametrize("cache", ["functools.cache", "functools.lru_cache", "functools.lru_cache(maxsize=2)"])
def test_resume_54_what_a_cache_has_remembered_from_a_file(project, cache):
    """54: a file that a cached function read at import is compared by what was remembered."""
    project.write(tk=code(CACHED.replace("CACHE", cache)))
    (project.directory / "rules.txt").write_text("be kind")
    project.run()
    project.accepted()
    (project.directory / "rules.txt").write_text("be rude")
    assert "rules (remembered)['rules.txt'] in tk.py has changed: 'be kind' → 'be rude'" in project.refused()
    (project.directory / "rules.txt").write_text("be kind")
    project.edit('rules("rules.txt")\nasync', "async")
    project.accepted()


SOURCE = """
    import inspect
    def polite(text):
        # Say please.
        return text
    async def solve(trial):
        return (await trial.generate(inspect.getsource(polite) + polite("x"))).text
"""


def test_resume_52_source_that_code_reads_counts_as_it_is_written(project):
    """52: comments are in the prompt here, and are not where no code reads source."""
    project.write(tk=code(SOURCE))
    project.run()
    project.edit("Say please", "Say thanks")
    assert "polite (source)" in project.refused()
    project.edit("Say thanks", "Say please")
    project.accepted()


def test_resume_61_comments_count_nowhere_else(project):
    """61: the same edit, where the source is not read."""
    project.write(tk=code(SOURCE.replace("inspect.getsource(polite)", "'x'")))
    project.run()
    project.edit("Say please", "Say thanks")
    project.accepted()


ASSERTING = """
    def checked(text):
        CHECK
        return text
    async def solve(trial):
        try:
            said = checked("x")
        except AssertionError:
            said = "refused"
        return (await trial.generate(said)).text
"""


@pytest.mark.parametrize("check", ["assert text == 'y'", "if __debug__: text = 'y'"])
def test_resume_53_python_that_leaves_assertions_out(project, check):
    """53: `-O` makes other code of this source, whichever session had it."""
    project.write(tk=code(ASSERTING.replace("CHECK", check)))
    project.run()
    assert "assertions" in project.refused(PYTHONOPTIMIZE="1")
    project.accepted()


def test_resume_82_python_o_makes_no_difference_to_other_code(project):
    """82: without assertions, the code is the same."""
    project.write(tk=code(ASSERTING.replace("CHECK", "text = text.strip()")))
    project.run(PYTHONOPTIMIZE="1")
    project.accepted()
    project.accepted(PYTHONOPTIMIZE="2")


ALIASED = """
    SEEN = ["a"]
    SHOWN = COPY
    async def solve(trial):
        SEEN.append("b")
        return (await trial.generate(str(SHOWN))).text
"""


@pytest.mark.parametrize(("before", "after"), [("SEEN", "list(SEEN)"), ("SEEN[:]", "SEEN")])
def test_resume_53_two_names_of_one_list(project, before, after):
    """53: whether a change of one is a change of the other."""
    project.write(tk=code(ALIASED.replace("COPY", before)))
    project.run()
    project.accepted()
    project.edit(f"SHOWN = {before}", f"SHOWN = {after}")
    assert "SEEN" in project.refused()


def test_two_names_of_a_list_that_nothing_changes(project):
    """Where code only reads, a copy is as good as the list."""
    project.write(tk=code(ALIASED.replace("COPY", "SEEN").replace('SEEN.append("b")', "SEEN.copy()")))
    project.run()
    project.edit("SHOWN = SEEN", "SHOWN = list(SEEN)")
    project.accepted()


PROPERTY = """
    import functools, pathlib
    class Agent:
        @functools.cached_property
        def rules(self):
            return pathlib.Path("rules.txt").read_text()
    AGENT = Agent()
    AGENT.rules
    async def solve(trial):
        return (await trial.generate(trial.sample.input + AGENT.rules)).text
"""


def test_resume_54_what_a_cached_property_has_remembered_from_a_file(project):
    """54: the same of a property, which keeps it as an attribute."""
    project.write(tk=code(PROPERTY))
    (project.directory / "rules.txt").write_text("be kind")
    project.run()
    project.accepted()
    (project.directory / "rules.txt").write_text("be rude")
    assert "AGENT.rules (remembered) in tk.py has changed: 'be kind' → 'be rude'" in project.refused()
    (project.directory / "rules.txt").write_text("be kind")
    project.edit("\nAGENT.rules\n", "\n")
    project.accepted()


ENVIRONMENT = {f"HF_OTHER_{number}": f"value {number}" for number in range(60)}


@pytest.mark.parametrize("count", [60, 38])
def test_resume_54_one_variable_of_a_whole_environment(project, monkeypatch, count):
    """54: a copy of the environment is compared variable by variable, however many there are."""
    for name in list(os.environ):
        if name.startswith("HF_OTHER_") or (len(os.environ) > 15 and name not in {"PATH", "HOME", "TMPDIR"}):
            monkeypatch.delenv(name)
    others = dict(list(ENVIRONMENT.items())[:count])
    project.write(tk=code("import os\nE = dict(os.environ)\n" + SOLVE.format("E['STYLE']")))
    project.run(**others, STYLE="polite")
    assert "every import" not in project.accepted(**others, STYLE="polite")
    said = project.refused(**others, STYLE="rude")
    assert "E['STYLE'] in tk.py has changed; it comes from the environment and is not shown" in said
    assert "has gone" not in said


@pytest.mark.parametrize(
    ("made", "name", "unsteady"),
    [
        ("{'t': time.time(), **{str(n): n for n in range(COUNT)}, 'p': P}", "V['p']", "V['t']"),
        ("[time.time(), P, *range(COUNT)]", "V[1]", "V[0]"),
        ("[time.time(), {'a': P}, *range(COUNT)]", "V[1]", "V[0]"),
    ],
)
def test_resume_80_one_unsteady_member_hides_no_other(project, made, name, unsteady):
    """80: the others are compared, and only the unsteady one is named as such."""
    read = "import time, pathlib\nP = (pathlib.Path(__file__).parent / 'p.txt').read_text()\n"
    project.write(tk=code(f"{read}V = {made.replace('COUNT', '60')}\n" + SOLVE.format(f"str({name})")))
    (project.directory / "p.txt").write_text("one")
    project.run()
    assert f"not compared, because it differs at every import: {unsteady}\n" in project.accepted()
    (project.directory / "p.txt").write_text("two")
    assert f"{name}" in project.refused()
