"""Rows 71, 72 and 75: copies of inputs that are damaged, headers that are forged, and runs of many sessions."""

from __future__ import annotations

import pytest
from gate_world import make_rows

from holdfast.run.fold.reader import RunReader

CODE = """
def own(answer, sample):
    return answer.text == sample.target
"""


def copies(world):
    """The copies in the run's inputs, by their names."""
    reader = RunReader(world.run_dir)
    known = {name: world.run_dir / "inputs" / copy.digest for name, copy in reader.sessions[-1].inputs.items()}
    reader.close()
    return known


def remove(path):
    path.unlink()


def damage(path):
    path.write_bytes(path.read_bytes()[:-2] + b"?\n")


def truncate(path):
    path.write_bytes(b"")


@pytest.mark.parametrize("harm", [remove, damage, truncate])
@pytest.mark.parametrize("name", ["datasets/rows", "sources/t/own.py"])
@pytest.mark.parametrize("is_complete", [False, True])
def test_resume_71_a_copy_is_made_again(world, harm, name, is_complete):
    """Resume 71: a damaged or missing copy is made again from its source, with a note, and the run is sound again."""
    (world.directory / "own.py").write_text(CODE)
    world.task["scorers"] = ["own.py:own"]
    world.run() if is_complete else world.begin()
    path = copies(world)[name]
    before = path.read_bytes()
    harm(path)
    assert not world.json("verify", "r", code=1)["ok"]
    told = world("resume", "r", code=0)
    assert f"note: The run's copy of {name.rpartition('/')[2]} (inputs/" in told.err and "was made again" in told.err
    assert path.read_bytes() == before
    world.check_complete(4)
    assert "made again" not in world("resume", "r", code=0).err


def test_resume_71_the_source_is_another(world):
    """Resume 71: a source with other content is no replacement: nothing is written, and the copy is named."""
    world.begin()
    remove(copies(world)["datasets/rows"])
    world.write_rows(make_rows(5))
    before = world.everything()
    told = world("resume", "r")
    assert told.code != 0 and "copy" in told.err
    assert world.everything() == before


def test_resume_71_the_rows_are_the_same_in_another_form(world):
    """Resume 71: what counts is the content: reformatted rows make the same copy."""
    world.begin()
    path = copies(world)["datasets/rows"]
    remove(path)
    text = (world.directory / "rows.jsonl").read_text()
    (world.directory / "rows.jsonl").write_text(text.replace('": "', '":    "'))
    world("resume", "r", code=0)
    assert path.exists()
    world.check_complete(4)


FORGED = {
    "an entry": (
        "#   source:",
        "# Resumed by holdfast 0.1.0 at 2026-01-01T00:00:00+00:00:\n#   - seed: 0 → 4\n#   source:",
    ),
    "another source": ("#   source: ", "#   source: other"),
    "a line of an entry": ("#   - runner.grace_period: 30.0 → 3.0", "#   - runner.grace_period: 30.0 → 9.0"),
    "an entry left out": ("#   - runner.grace_period: 30.0 → 3.0\n", ""),
}


def test_resume_72_edited_values_are_named_by_verify(world):
    """Resume 72: what resume refuses, verify names; nothing is lost. Comments and formatting are nothing to name."""
    world.run()
    config = world.run_dir / "config.yaml"
    written = config.read_text()
    config.write_text(written.replace("epochs: 1", "epochs: 3"))
    (note,) = world.json("verify", "r", code=0)["notes"]
    assert note.startswith("A resume would be refused: values in ") and "tasks.t.epochs" in note, note
    assert "were edited by hand" in world("resume", "r", code=3).err
    config.write_text("not: [yaml")
    assert "is not valid YAML" in world.json("verify", "r", code=0)["notes"][-1]
    config.write_text(f"{written}# mine\n")
    assert world.json("verify", "r", code=0)["notes"] == []


@pytest.mark.parametrize("name", FORGED)
def test_resume_72_a_forged_header(world, name):
    """Resume 72: resume tolerates it; `verify` names what the journal does not say, and says that nothing is lost."""
    world.run()
    world("resume", "r", "--set", "grace_period=3", code=0)
    config = world.run_dir / "config.yaml"
    old, new = FORGED[name]
    assert old in world.config
    config.write_text(world.config.replace(old, new))
    forged = config.read_bytes()
    notes = world.json("verify", "r", code=0)["notes"]
    assert any("The header of config.yaml differs from the journal" in note for note in notes), notes
    assert "differs from the journal" in world("verify", "r", code=0).out
    world("resume", "r", code=0)
    assert config.read_bytes() == forged


def test_resume_72_comments_of_a_person_are_not_a_forgery(world):
    """Resume 72: a header as it was written, with or without a person's own comments, is nothing to name."""
    world.run()
    world("resume", "r", "--set", "grace_period=3", code=0)
    assert world.json("verify", "r", code=0)["notes"] == []
    config = world.run_dir / "config.yaml"
    config.write_text("# mine\n" + world.config.replace("\nname:", "\n# about the name\nname:"))
    assert world.json("verify", "r", code=0)["notes"] == []


def session_bytes(world, count):
    """The sizes of the session records after so many resumes."""
    for _ in range(count):
        world("resume", "r", "--set", f"grace_period={count + 1 + _}", code=0)
    return [len(line) for line in world("cat", "r", code=0).out.splitlines() if '"type":"session"' in line]


def test_resume_75_many_sessions(world):
    """Resume 75: status shows the newest and a count; a session record does not grow with the sessions before it."""
    world.run()
    sizes = session_bytes(world, 40)
    assert len(sizes) == 41
    assert max(sizes[1:]) - min(sizes[1:]) < 200, sizes
    out = world("status", "r", code=0).out
    assert "… 35 more sessions: 35 completed" in out and "--sessions lists them" in " ".join(out.split())
    listed = [line for line in out.splitlines() if line.strip()[:2].strip().isdigit() and "completed" in line]
    assert [int(line.split()[0]) for line in listed] == [1, 37, 38, 39, 40, 41]
    assert len(world.status()["sessions"]) == 41
