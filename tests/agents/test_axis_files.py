"""Files of axis values in the workspaces of agents: experiments 1, 2 and 16."""

from __future__ import annotations

import shutil

import pytest
import yaml

from agents.agent_evals import agent_eval, left_in, make_template

READS = """
found = {str(path): path.read_text() for path in sorted(Path(".").rglob("*")) if path.is_file()}
Path("main.py").write_text("changed\\n")
if "NOTES.md" in found: Path("NOTES.md").write_text(found["NOTES.md"] + "more\\n")
print("done", json.dumps(found))
"""


def tiers(tmp_path):
    """T0 has no file, T1 one, T2 a directory and a file of the template."""
    place = tmp_path / "tiers"
    (place / "skills" / "deep").mkdir(parents=True)
    (place / "t1.md").write_text("one\n")
    (place / "main.py").write_text("print('of T2')\n")
    (place / "skills" / "deep" / "a.md").write_text("skill\n")
    return {
        "T0": None,
        "T1": {"files": {"NOTES.md": "tiers/t1.md"}},
        "T2": {"files": {"skills": "tiers/skills", "main.py": "tiers/main.py"}},
    }


@pytest.fixture
def eval_(tmp_path):
    make_template(tmp_path)
    return agent_eval(tmp_path, READS, task={"axes": {"tier": tiers(tmp_path)}})


def edit(eval_, change):
    data = yaml.safe_load(eval_.read_text())
    change(data["tasks"]["t"])
    eval_.write_text(yaml.safe_dump(data))


def seen(holdfast):
    """By tier, the files that the agent has found, and its patch."""
    axes = {trial["trial"]: trial["axes"]["tier"] for trial in holdfast.json("show", "r")["trials"]}
    found = holdfast.records("r", "answer")
    return {axes[answer["trial"]]: (yaml.safe_load(answer["text"][5:]), answer["value"]["diff"]) for answer in found}


def test_experiments_2_each_trial_has_the_files_of_its_values(holdfast, tmp_path, eval_):
    """They are laid over the template, whose file of the same name is replaced, and are no change of the agent."""
    holdfast("run", eval_, "--run-dir", "r", code=0)
    found = seen(holdfast)
    template = {"docs/a.txt": "a\n", "main.py": "print('one')\n"}
    assert found["T0"][0] == template
    assert found["T1"][0] == {**template, "NOTES.md": "one\n"}
    assert found["T2"][0] == {**template, "main.py": "print('of T2')\n", "skills/deep/a.md": "skill\n"}
    assert "-print('one')" in found["T1"][1] and "-print('of T2')" in found["T2"][1]
    assert " one\n+more\n" in found["T1"][1]
    assert "skill" not in found["T2"][1]
    prepared = [step["result"] for step in holdfast.records("r", "step") if step.get("name") == "prepare"]
    assert sorted(len(value.get("axis_files", {})) for value in prepared) == [0, 1, 2]
    assert left_in(tmp_path / "r") == []


def test_experiments_2_the_run_is_enough(holdfast, tmp_path, eval_):
    """Neither the files nor the template are needed for a resume; it is the same workspace."""
    holdfast("run", eval_, "--run-dir", "r", "--until", "prepare", code=75)
    for name in ("tiers", "template"):
        shutil.rmtree(tmp_path / name)
    shutil.rmtree(tmp_path / "r" / "workspaces")
    eval_.unlink()
    holdfast("resume", "r", code=0)
    assert seen(holdfast)["T1"][0]["NOTES.md"] == "one\n"
    assert seen(holdfast)["T2"][0]["skills/deep/a.md"] == "skill\n"


def test_changed_content_is_refused_and_named(holdfast, tmp_path, eval_):
    """Experiments 17: axis, value and file; an unchanged file that was moved is none."""
    holdfast("run", eval_, "--run-dir", "r", "--until", "prepare", code=75)
    (tmp_path / "tiers" / "skills" / "deep" / "a.md").write_text("other\n")
    told = holdfast("resume", "r", "--config", eval_, code=3)
    assert "tasks.t.axes (identity): the content of tier=T2: skills has changed" in told.err
    assert "T1" not in told.err
    (tmp_path / "tiers" / "skills" / "deep" / "a.md").write_text("skill\n")
    holdfast("resume", "r", "--config", eval_, code=0)


def test_an_added_value_brings_its_files(holdfast, tmp_path, eval_):
    """Experiments 1: only its trials are run, and the run keeps its files as well."""
    holdfast("run", eval_, "--run-dir", "r", code=0)
    (tmp_path / "t3.md").write_text("three\n")
    edit(eval_, lambda task: task["axes"]["tier"].update(T3={"files": {"NOTES.md": "t3.md"}}))
    holdfast("resume", "r", "--config", eval_, "--until", "prepare", code=75)
    (tmp_path / "t3.md").unlink()
    holdfast("resume", "r", code=0)
    assert len(holdfast.records("r", "answer")) == 4
    assert seen(holdfast)["T3"][0]["NOTES.md"] == "three\n"


def test_experiments_16_the_files_of_the_chosen_value_lie_beneath_its_own(holdfast, tmp_path, eval_):
    """What the value gives itself replaces a directory of the chosen one as a whole."""
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "b.md").write_text("own skill\n")
    (tmp_path / "t1.md").write_text("own\n")

    def depend(task):
        task["scorers"] = [{"regex": {"pattern": "(of T2)", "group": 1}}]
        task["target"] = "of T2"
        task["axes"]["tier"]["T5"] = {"best_of": ["T1", "T2"], "files": {"skills": "own", "NOTES.md": "t1.md"}}

    edit(eval_, depend)
    holdfast("run", eval_, "--run-dir", "r", code=0)
    assert seen(holdfast)["T5"][0] == {
        "docs/a.txt": "a\n",
        "main.py": "print('of T2')\n",
        "NOTES.md": "own\n",
        "skills/b.md": "own skill\n",
    }


def test_a_file_that_does_not_exist_is_an_error_before_anything_is_written(holdfast, tmp_path, eval_):
    shutil.rmtree(tmp_path / "tiers")
    told = holdfast("run", eval_, "--run-dir", "r", code=2)
    assert "tasks.t.axes.tier.T1.files: " in told.err and "tiers/t1.md does not exist" in told.err
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize("place", ["tiers/t1.md", "template/main.py"])
def test_a_key_in_a_file_for_workspaces_is_refused(holdfast, tmp_path, eval_, place):
    """The run would keep it as it is."""
    key = "sk-verysecret-0123456789"
    (tmp_path / place).write_text(f"key = {key}\n")
    told = holdfast("run", eval_, "--run-dir", "r", code=2, SOME_API_KEY=key)
    assert "A file for the workspaces of t" in told.err and "SOME_API_KEY" in told.err and key not in told.err
    assert not (tmp_path / "r").exists()


OWN = """
from pathlib import Path
async def solve(trial):
    return "done " + str({path: Path(place).read_text() for path, place in trial.axis_files.items()})
"""


def test_a_solver_of_ones_own_reads_the_copies_of_the_run(holdfast, tmp_path, eval_):
    """Experiments 2: they are the same wherever the run is."""
    (tmp_path / "own.py").write_text(OWN)

    def use_solver(task):
        for name in ("agent", "workspace"):
            del task[name]
        task.update(solver="own.py:solve", axes={"tier": {"T1": {"files": {"d/NOTES.md": "tiers/t1.md"}}}})

    edit(eval_, use_solver)
    eval_.write_text(eval_.read_text().replace("provider: command", "provider: scripted").replace("tiny", "echo"))
    holdfast("run", eval_, "--run-dir", "r", code=0)
    shutil.rmtree(tmp_path / "tiers")
    holdfast("resume", "r", "--redo", "status=valid", code=0)
    assert [answer["text"] for answer in holdfast.records("r", "answer")] == ["done {'d/NOTES.md': 'one\\n'}"] * 2
