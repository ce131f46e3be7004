"""What `run` and `--dry-run` check of experiments before the first agent is started, and `resume` of its program."""

from __future__ import annotations

import sys

import pytest
from agent_evals import agent_eval, make_repository, make_template

from holdfast.tasks.agents.command_agent import command_agent

DONE = "print('done')\n"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"a.txt": "x.txt", "./a.txt": "x.txt"}, "'./a.txt' and 'a.txt' are the same place"),
        ({"a.txt": "x.txt", "a.txt/b.txt": "x.txt"}, "'a.txt/b.txt' lies below 'a.txt', which is a file"),
        ({"main.py/b.txt": "x.txt"}, "'main.py/b.txt' lies below 'main.py', which is a file"),
    ],
)
def test_files_that_exclude_one_another_are_refused(holdfast, tmp_path, files, said):
    """Two files at one place, and one below a file of the eval or of the template."""
    make_template(tmp_path)
    (tmp_path / "x.txt").write_text("x\n")
    eval_ = agent_eval(tmp_path, DONE, workspace={"files": files})
    for option in ((), ("--dry-run",)):
        assert f"workspace.files: {said}" in holdfast("run", eval_, "--run-dir", tmp_path / "r", *option, code=2).err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("axes", "said"),
    [
        ({"x": {"F": "x.txt"}, "y": {"./F": "x.txt"}}, "values of x and of y both give files.F"),
        ({"x": {"F": "x.txt", "a/../F": "x.txt"}}, "not a path inside the workspace"),
        ({"x": {"F": "x.txt", ".//F": "x.txt"}}, '".//F" and "F", which are the same place'),
        (
            {"x": {"F": "x.txt"}, "y": {"F/G": "x.txt"}},
            "y.b.files: 'F/G' is below 'F', which is a file in tasks.t.axes",
        ),
        ({"x": {"main.py/x": "x.txt"}}, "'main.py/x' is below 'main.py', which is a file in the template"),
        ({"x": {"docs": "x.txt"}}, "'docs' is a file, and the template of the workspace has a directory there"),
        ({"x": {"main.py": "docs"}}, "'main.py' is a directory, and the template of the workspace has a file there"),
        ({"x": {"F" * 300: "x.txt"}}, "has a name of more than 255 bytes, which no file can have"),
        ({"x": {".git/hooks/x": "x.txt"}}, "'.git/hooks/x' is in .git, which belongs to the repository"),
    ],
)
def test_files_of_axis_values_that_have_no_place_are_refused(holdfast, tmp_path, axes, said):
    """By `run` and `--dry-run`, before anything is written."""
    # Both kinds of templates are looked at; only one of them has files that the others could be below.
    kind = "repo" if said.startswith("'") else "path"
    (make_repository if kind == "repo" else make_template)(tmp_path)
    (tmp_path / "x.txt").write_text("x\n")
    (tmp_path / "docs").mkdir()
    values = {axis: {"ab"[axis == "y"]: {"files": files}} for axis, files in axes.items()}
    eval_ = agent_eval(tmp_path, DONE, task={"axes": values}, workspace={kind: "template"})
    for option in ((), ("--dry-run",)):
        assert said in holdfast("run", eval_, "--run-dir", tmp_path / "r", *option, code=2).err
    assert not (tmp_path / "r").exists()


def test_files_of_axis_values_that_fit_are_laid_over_one_another(holdfast, tmp_path):
    """Below a directory of another axis, in the place of a file of the template, and of two values of one axis."""
    make_template(tmp_path)
    (tmp_path / "x.txt").write_text("done\n")
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "f").write_text("f\n")
    axes = {
        "x": {
            "a": {"files": {"dir": "d", "main.py": "x.txt"}},
            "b": {"files": {"F": "x.txt"}},
            "c": {"files": {"F/G": "x.txt"}},
        },
        "y": {"e": {"files": {"dir/g": "x.txt"}}},
    }
    eval_ = agent_eval(tmp_path, "print(Path('dir/g').read_text())", task={"axes": axes})
    holdfast("run", eval_, "--run-dir", tmp_path / "r", code=0)


def test_errors_of_an_agent_name_the_task(holdfast, tmp_path):
    eval_ = agent_eval(tmp_path, DONE, agent={"exit_codes": []})
    assert "tasks.t.agent.exit_codes is empty" in holdfast("run", eval_, "--run-dir", tmp_path / "r", code=2).err


def test_the_scorer_checks_needs_checks(holdfast, tmp_path):
    """Every trial would be unscored."""
    eval_ = agent_eval(tmp_path, DONE, scorers=["checks"])
    for option in ((), ("--dry-run",)):
        told = holdfast("run", eval_, "--run-dir", tmp_path / "r", *option, code=2)
        assert "tasks.t: the scorer 'checks' scores the checks of the workspace, and there are none." in told.err
        assert "tasks.t.workspace.checks" in told.err


def test_what_has_no_effect_is_warned_of(holdfast, tmp_path):
    """A placeholder that nothing fills in, a variable that is not set, and settings of a model that nobody calls."""
    agent = {"command": [sys.executable, str(tmp_path / "agent.py"), "{nope}"], "env": ["NOT_SET_ANYWHERE"]}
    model = {"provider": "command", "model": "tiny", "generation": {"temperature": 0.5}}
    eval_ = agent_eval(tmp_path, DONE, agent=agent, models={"m": model})
    for option in (("--dry-run",), ()):
        told = holdfast("run", eval_, "--run-dir", tmp_path / "r", *option)
        assert "tasks.t.agent.command has {nope}, which nothing fills in" in told.err
        assert "{prompt}, {prompt_file}, {workspace}" in told.err
        assert "tasks.t.agent.env names NOT_SET_ANYWHERE, which is not set here" in told.err
        assert "models.m.generation has no effect" in told.err


def test_braces_of_shells_and_code_are_not_warned_of():
    """Variables of the shell, JSON, and placeholders that are filled in."""
    assert not command_agent('x="${HOME}"; cat {prompt_file} {output} {{a}}').warnings()
    assert not command_agent(["run", '{"a": 1}', "{prompt}", "{1: 2}"], resume_command=["run", "{session}"]).warnings()
    (said,) = command_agent("x {promt} ${a}").warnings()
    assert "{promt}" in said


def test_resume_names_a_missing_program_before_the_first_agent(holdfast, tmp_path):
    """As `run` does; a run in which every agent has been started needs none."""
    program = tmp_path / "agent"
    program.write_text(f"#!{sys.executable}\n{DONE}")
    program.chmod(0o755)
    eval_ = agent_eval(tmp_path, DONE, samples=3, agent={"command": [str(program)]}, concurrency_limit=1)
    assert holdfast("run", eval_, "--run-dir", tmp_path / "r", HOLDFAST_CRASH_AT="run.parent-synced").code == -9
    program.rename(tmp_path / "away")
    told = holdfast("resume", tmp_path / "r", code=2)
    assert f"agent.command: the program {program} does not exist" in told.err
    (tmp_path / "away").rename(program)
    holdfast("resume", tmp_path / "r", code=0)
    program.unlink()
    assert "complete" in holdfast("resume", tmp_path / "r", code=0).out
