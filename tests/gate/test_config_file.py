"""Rows 24 to 27: `config.yaml` and `serving.yaml` as they are found, and a run of a newer format."""

from __future__ import annotations

import re
from dataclasses import replace
from hashlib import sha256

import pytest

from durable import pieces, reframed, segment_paths
from holdfast import ResumeAborted, Sample, Task, evaluate, exact, generate
from holdfast.engine.opening.new_run import input_files, planned_contents
from holdfast.engine.planning.inputs import FreshInputs
from holdfast.engine.planning.prepared_eval import prepare_eval
from holdfast.journal import FORMAT
from holdfast.run import create_run
from holdfast.spec import load_eval, plain_data, resolve


def rewrite(world, text: str | bytes) -> None:
    data = text.encode() if isinstance(text, str) else text
    (world.run_dir / "config.yaml").write_bytes(data)


def bomb() -> str:
    """Nine levels of aliases that would come to a billion values."""
    lines = ['a: &a ["x","x","x","x","x","x","x","x","x"]']
    for before, name in zip("abcdefgh", "bcdefghi", strict=True):
        lines.append(f"{name}: &{name} [{','.join([f'*{before}'] * 9)}]")
    return "\n".join(lines)


HOSTILE = {
    "not YAML": ("a: [1, 2\nb: }", "is not valid YAML"),
    "a list": ("- 1\n- 2\n", "is not a mapping"),
    "a word": ("word\n", "is not a mapping"),
    "empty": ("", "is empty"),
    "blank": ("\n\n   \n", "is empty"),
    "null": ("null\n", "is empty"),
    "not UTF-8": (b"\xff\xfe\x00name", "cannot be read"),
    "NUL bytes": (b"name: \x00\x00\n", "is not valid YAML"),
    "a tag": ("name: !!python/object/apply:os.system ['true']\n", "is not valid YAML"),
    "two documents": ("a: 1\n---\nb: 2\n", "is not valid YAML"),
    "a key twice": ("name: a\nname: b\n", "is not valid YAML"),
    "a bomb": (bomb(), "is not valid YAML"),
    "nested": ("a: " + "[" * 5000, "is not valid YAML"),
    "50 MB": (b"#" * (50 << 20), "cannot be read: it is larger than"),
    "3 MB": ("a: " + "x" * (3 << 20), "is not valid YAML"),
    "another eval": ("models: {m: scripted/echo}\ntasks: {}\n", "edited by hand"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_resume_24_hostile_content(world, name):
    """Whatever stands in config.yaml, the answer is one line of reason, and nothing is written."""
    world.begin()
    content, reason = HOSTILE[name]
    rewrite(world, content)
    told = world.refused(given=False)
    assert re.fullmatch(r"holdfast: Resume aborted: [^\n]{0,20}config\.yaml [^\n]{1,400}\n", told), told
    assert reason in told and "`holdfast repair`" in told
    assert reason in world.refused("--set", "concurrency_limit=2", given=False)


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9])
def test_resume_24_truncated(world, part):
    """A file that was cut off anywhere is refused."""
    world.begin()
    body = world.config.index("name: gate")
    end = body + int((len(world.config) - body) * part)
    rewrite(world, world.config[:end])
    told = world.refused(given=False)
    assert told.startswith("holdfast: Resume aborted: ") and told.count("\n") == 1


def test_resume_24_header_only(world):
    """Comments alone are no configuration."""
    world.begin()
    rewrite(world, "\n".join(world.header) + "\n")
    assert "config.yaml is empty" in world.refused(given=False)


def test_resume_24_unreadable(world):
    """What cannot be read as a file is refused, not written over."""
    world.begin()
    (world.run_dir / "config.yaml").unlink()
    (world.run_dir / "config.yaml").mkdir()
    assert "cannot be read: it is not a file" in world.refused(given=False)


def test_resume_24_of_a_complete_run(world):
    """Also where nothing remains: a run whose configuration was tampered with is not said to be fine."""
    world.run()
    rewrite(world, "- 1\n")
    assert "is not a mapping" in world.refused(given=False)


def capitals():
    return Task(name="capitals", samples=[Sample("Paris", target="Paris")], solver=generate(), scorers=exact())


def test_resume_24_in_python(world):
    """In Python it is ResumeAborted, which is also a RuntimeError."""
    evaluate(capitals(), ["scripted/echo"], run="r").close()
    rewrite(world, "- 1\n")
    with pytest.raises(ResumeAborted, match=r"Resume aborted: r/config\.yaml is not a mapping"):
        evaluate(capitals(), ["scripted/echo"], run="r")
    with pytest.raises(RuntimeError, match="Resume aborted"):
        evaluate(capitals(), ["scripted/echo"], run="r")


@pytest.mark.parametrize("complete", [True, False], ids=["complete", "incomplete"])
def test_resume_24b_deleted(world, complete):
    """A missing file is written again from the journal, byte for byte, with a note."""
    world.data["concurrency_limit"] = 8
    _ = world.run() if complete else world.begin()
    world("resume", "r", "--set", "concurrency_limit=2", code=0)
    before = world.config
    (world.run_dir / "config.yaml").unlink()
    told = world("resume", "r", code=0)
    assert "note: config.yaml was missing; it is rewritten from the journal." in told.err
    assert world.config == before and world.entries == ["runner.concurrency_limit: 8 → 2"]
    world.check_complete(4)


def test_resume_24b_deleted_before_the_first_trial(world):
    """Also where a session is opened for what remains."""
    world.begin()
    before = world.config
    (world.run_dir / "config.yaml").unlink()
    told = world("resume", "r", code=0)
    assert "config.yaml was missing" in told.err and world.config == before
    world.check_complete(4)


def test_resume_24c_killed_before_the_rewrite(holdfast, world):
    """A change that was recorded and not yet written into the file is rolled forward, once."""
    world.data["concurrency_limit"] = 8
    world.begin()
    before = world.config
    command = ("resume", "r", "--set", "concurrency_limit=2")
    assert holdfast(*command, HOLDFAST_CRASH_AT="config.before-write").code == -9
    assert world.config == before
    told = holdfast("resume", "r", code=0)
    assert "note: config.yaml was older than the journal; it is updated." in told.err
    assert world.entries == ["runner.concurrency_limit: 8 → 2"]
    assert world.body["runner"]["concurrency_limit"] == 2
    assert [len(session["changes"]) for session in world.status()["sessions"]] == [0, 1, 0]
    world.check_complete(4)
    assert "note" not in holdfast("resume", "r", code=0).err


def test_resume_24c_behind_by_several_sessions(holdfast, world):
    """However many sessions were killed there, all their entries come, in order."""
    world.data["concurrency_limit"] = 8
    world.begin()
    for limit in (4, 2):
        command = ("resume", "r", "--set", f"concurrency_limit={limit}")
        # The second one rolls the first forward and dies before it can.
        assert holdfast(*command, HOLDFAST_CRASH_AT="config.before-write").code == -9
    world("resume", "r", code=0)
    assert world.entries == ["runner.concurrency_limit: 8 → 4", "runner.concurrency_limit: 4 → 2"]


EDITS = {
    "a throughput value": ("concurrency_limit: 256", "concurrency_limit: 2", "runner.concurrency_limit"),
    "an identity value": ("model: echo", "model: other", "models.m.model"),
    "a value left out": ("grace_period: 30.0", "grace_period: 10", "runner.grace_period"),
    "a key added": ("seed: 0", "seed: 0\ndescription: mine", "description"),
    "nonsense": ("seed: 0", "seed: 0\nnonsense: 0", "nonsense"),
    "a wrong type": ("seed: 0", "seed: high", "seed"),
}


@pytest.mark.parametrize("name", EDITS)
def test_resume_25_value_edited_by_hand(world, name):
    """A value edited in the file is refused, whatever its class; the place and `repair` are named."""
    world.begin()
    old, new, place = EDITS[name]
    assert old in world.config
    rewrite(world, world.config.replace(old, new, 1))
    told = world.refused(given=False)
    assert f"config.yaml were edited by hand: {place}" in told
    assert "`holdfast repair`" in told and "--set or --config" in told
    assert told.count("\n") == 1


FORMATTING = {
    "a comment": lambda text: text.replace("seed: 0", "seed: 0  # my lucky number"),
    "the header": lambda text: text.replace("# Created by", "# Made by"),
    "no header": lambda text: text[text.index("\n\n") + 2 :],
    "line ends": lambda text: text.replace("\n", "\r\n"),
    "no last newline": lambda text: text.rstrip("\n"),
    "flow style": lambda text: text.replace("models:\n    - m\n", "models: [m]\n"),
    "quotes": lambda text: text.replace("name: gate", 'name: "gate"'),
    "0 for 0.0": lambda text: text.replace("grace_period: 30.0", "grace_period: 30"),
    "order of keys": lambda text: text.replace("seed: 0\n", "") + "seed: 0\n",
    "a default left out": lambda text: text.replace("seed: 0\n", ""),
}


@pytest.mark.parametrize("name", FORMATTING)
def test_resume_25_comments_and_formatting_edited(world, name):
    """Comments, the header and the form of the file are anybody's: no entry, and the file stays as it is."""
    world.begin()
    edited = FORMATTING[name](world.config)
    assert edited != world.config
    rewrite(world, edited)
    before = (world.run_dir / "config.yaml").read_bytes()
    told = world("resume", "r", code=0)
    assert (world.run_dir / "config.yaml").read_bytes() == before and "note" not in told.err
    world.check_complete(4)


def test_resume_25_a_later_change_writes_the_file_again(world):
    """After a tolerated edit the next entry comes into a file that is whole again."""
    world.begin()
    rewrite(world, "# mine\n" + world.config)
    world("resume", "r", "--set", "concurrency_limit=2", code=0)
    assert world.header[0].startswith("# Created by") and world.entries == ["runner.concurrency_limit: 256 → 2"]


# serving.yaml


def served(world, content: bytes | None) -> None:
    """A run whose model was served by Holdfast: its session record has the digest of serving.yaml."""
    spec = resolve(load_eval(world.write()), "eval.yaml")
    inputs = FreshInputs()
    prepared = prepare_eval(spec, inputs)
    digest = sha256(content).hexdigest() if content is not None else ""
    contents = replace(planned_contents(spec.name, plain_data(spec, explicit=True), prepared), serving=digest)
    create_run(world.run_dir, contents, inputs=input_files(prepared, inputs.files)).abandon()
    inputs.close()
    if content is not None:
        (world.run_dir / "serving.yaml").write_bytes(content)


SERVING = b"model: m\nreplicas: 2\n"
SERVED_ANEW = {
    "value": b"model: m\nreplicas: 3\n",
    "order of keys": b"replicas: 2\nmodel: m\n",
    "comment": b"model: m # it\nreplicas: 2\n",
    "final newline": b"model: m\nreplicas: 2",
    "empty": b"",
}


@pytest.mark.parametrize("name", SERVED_ANEW)
def test_resume_26_serving_changed(world, name):
    """serving.yaml is compared byte for byte."""
    served(world, SERVING)
    (world.run_dir / "serving.yaml").write_bytes(SERVED_ANEW[name])
    assert "serving.yaml has changed; it is compared byte for byte" in world.refused(given=False)


def test_resume_26_serving_on_one_side_only(world):
    """A file that is gone, or that was not there before, is a change too."""
    served(world, SERVING)
    (world.run_dir / "serving.yaml").unlink()
    assert "serving.yaml is missing" in world.refused(given=False)
    assert "serving.yaml is missing" in world.refused()


def test_resume_26_serving_that_was_not_there(world):
    """A file that appears beside a run that was not served is refused, even an empty one."""
    served(world, None)
    for content in (SERVING, b""):
        (world.run_dir / "serving.yaml").write_bytes(content)
        assert "serving.yaml did not exist before" in world.refused(given=False)


def test_resume_26_serving_unchanged(world):
    """The same bytes go on, session after session."""
    served(world, SERVING)
    world("resume", "r", code=0)
    world("resume", "r", "--set", "concurrency_limit=2", code=0)
    world.check_complete(4)
    (world.run_dir / "serving.yaml").write_bytes(SERVING + b"\n")
    assert "has changed" in world.refused(given=False)


def test_resume_27_newer_format(world):
    """A run that a newer version wrote is refused with the version it takes; nobody is told to begin again."""
    world.run()
    path = segment_paths(world.run_dir)[0]
    data = path.read_bytes()
    last = pieces(data)[0]
    payload = data[last.start + 100 : last.end]
    path.write_bytes(reframed(data, last, payload, format=7) + data[last.end :])
    before = world.everything()
    told = world("resume", "r", code=3).err
    assert f"was written in format 7; this version reads up to {FORMAT}" in told and "Install a newer holdfast" in told
    assert "delete" not in told.lower()
    assert world.json("resume", "r", code=3)["kind"] == "newer_format"
    assert "format 7" in world("resume", "r", "--set", "concurrency_limit=2", code=3).err
    assert world.everything() == before
