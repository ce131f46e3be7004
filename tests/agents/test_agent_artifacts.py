"""The files of an agent's work are on record: verify, repair and forks know them (recovery 20, 21 and 39)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from contextlib import closing

import pytest

from agents.agent_evals import agent_eval, make_repository, make_template
from holdfast.engine.opening.forking.fork_files import ForkFiles
from holdfast.run.core.layout import Layout
from holdfast.run.fold.reader import RunReader
from holdfast.storage import RealFileSystem
from program import until

WORKS = "Path('made').write_text(sys.argv[0]); print('done')"
KEPT = {"stdout", "stderr", "prompt.txt", "replay.sh", "diff.patch", "check-1.txt"}


def worked(holdfast, tmp_path, **options):
    """A finished run with one check; the directory of its only trial's files."""
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, WORKS, workspace={"checks": ["echo checked"]}, **options)
    holdfast("run", eval_, "--run-dir", "r")
    (place,) = (tmp_path / "r" / "artifacts").iterdir()
    return place


def cited(holdfast, run="r"):
    return set(holdfast.records(run, "trial")[-1].get("artifacts", {}))


@pytest.mark.parametrize(("name", "becomes"), [("stdout", "missing"), ("diff.patch", "damaged")])
def test_recovery_21_a_missing_or_damaged_file_of_an_agent_is_named(holdfast, tmp_path, name, becomes):
    place = worked(holdfast, tmp_path)
    assert cited(holdfast) == KEPT
    holdfast("verify", "r", "--deep", code=0)
    if becomes == "missing":
        (place / name).unlink()
    else:
        (place / name).write_bytes(b"other")
    (damage,) = holdfast.json("verify", "r", code=1)["damage"]
    assert damage["where"] == f"artifacts/{place.name}/{name}"
    assert len(holdfast.json("verify", "r", "--deep", code=1)["damage"]) == 1
    told = holdfast.json("repair", "r", code=1)
    assert f"artifacts/{place.name}/{name}" in json.dumps(told)


def test_only_the_files_of_the_attempt_that_counts_are_checked(holdfast, tmp_path):
    """A redo has files of its own; what becomes of those of the earlier attempt is no damage."""
    place = worked(holdfast, tmp_path)
    holdfast("resume", "r", "--redo", "status=valid", code=0)
    assert cited(holdfast) == {f"attempt-2/{name}" for name in KEPT}
    (place / "stdout").unlink()
    assert holdfast.json("verify", "r", "--deep", code=0)["artifacts"] == len(KEPT)
    (place / "attempt-2" / "stdout").unlink()
    holdfast("verify", "r", code=1)


@pytest.mark.parametrize(("stage", "own"), [("score", set()), ("capture", {"diff.patch", "check-1.txt"})])
def test_an_attempt_from_a_stage_on_cites_the_files_that_it_keeps(holdfast, tmp_path, stage, own):
    """Experiments 15."""
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, WORKS, workspace={"checks": ["echo checked"], "keep": "always"})
    holdfast("run", eval_, "--run-dir", "r", code=0)
    holdfast("resume", "r", "--from", stage, code=0)
    assert cited(holdfast) == (KEPT - own) | {f"attempt-2/{name}" for name in own}
    holdfast("verify", "r", "--deep", code=0)


def test_experiments_5_a_trial_that_was_killed_while_it_was_scored_cites_its_files(holdfast, tmp_path):
    """No stage runs in the session that finishes it."""
    make_template(tmp_path)
    (tmp_path / "score.py").write_text(
        "import time\nfrom pathlib import Path\n"
        "async def slow(trial, answer):\n"
        f"    Path({str(tmp_path / 'scoring')!r}).touch()\n"
        f"    while not Path({str(tmp_path / 'go')!r}).exists():\n        time.sleep(0.02)\n"
        "    return 1.0\n"
    )
    eval_ = agent_eval(tmp_path, WORKS, workspace={"checks": ["echo checked"]}, scorers=["score.py:slow"])
    started = holdfast.start("run", eval_, "--run-dir", "r")
    until((tmp_path / "scoring").exists, "it is scored")
    started.kill()
    (tmp_path / "go").touch()
    holdfast("resume", "r", code=0)
    assert cited(holdfast) == KEPT


def test_the_files_of_an_agent_that_has_failed_are_on_record(holdfast, tmp_path):
    make_template(tmp_path)
    holdfast("run", agent_eval(tmp_path, "print('no'); sys.exit(3)"), "--run-dir", "r")
    assert cited(holdfast) == {"stdout", "stderr", "prompt.txt", "replay.sh"}
    (place,) = (tmp_path / "r" / "artifacts").iterdir()
    holdfast("verify", "r", code=0)
    (place / "stdout").write_text("yes")
    assert f"{place.name}/stdout" in holdfast.json("verify", "r", code=1)["damage"][0]["where"]


def template_copy(holdfast, run):
    saved = holdfast.records(run.name, "session")[0]["inputs"]["workspaces/t"]
    return run / "inputs" / saved["digest"]


@pytest.mark.parametrize("verb", ["repair", "resume"])
@pytest.mark.parametrize("becomes", ["missing", "damaged"])
def test_recovery_48_the_copy_of_a_template_is_made_again_from_its_original(holdfast, tmp_path, verb, becomes):
    place = worked(holdfast, tmp_path, samples=1)
    copy = template_copy(holdfast, tmp_path / "r")
    was = copy.read_bytes()
    if becomes == "missing":
        copy.unlink()
    else:
        copy.write_bytes(was[:700])
    holdfast("verify", "r", code=1)
    if verb == "repair":
        told = holdfast.json("repair", "r", code=0)
        assert copy.name in told["changes"][0]
        assert bool(told["backup"]) is (becomes == "damaged")
    else:
        holdfast("resume", "r", "--redo", "status=valid", code=0)
        assert (place / "attempt-2" / "diff.patch").read_bytes() == (place / "diff.patch").read_bytes()
    assert copy.read_bytes() == was
    holdfast("verify", "r", code=0)


def test_recovery_48_a_copy_whose_original_has_changed_is_named(holdfast, tmp_path):
    """Not "nothing to repair"."""
    worked(holdfast, tmp_path)
    copy = template_copy(holdfast, tmp_path / "r")
    copy.write_bytes(b"damaged")
    (tmp_path / "template" / "main.py").write_text("print('two')\n")
    told = holdfast.json("repair", "r", code=1)
    assert copy.name in told["missing"][0] and "workspaces/t" in told["missing"][0]
    assert copy.read_bytes() == b"damaged"
    assert "nothing to repair" not in holdfast("repair", "r", code=1).out.lower()


def test_a_fork_has_the_files_of_the_trials_that_it_keeps(holdfast, tmp_path):
    """It can be shown, verified and repaired without the run that it was made of."""
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, WORKS, samples=2, workspace={"checks": ["echo checked"]})
    holdfast("run", eval_, "--run-dir", "r", code=0)
    holdfast("fork", "r", "--run-dir", "f", code=0)
    kept = {path.relative_to(tmp_path / "r") for path in (tmp_path / "r" / "artifacts").rglob("*") if path.is_file()}
    assert kept == {
        path.relative_to(tmp_path / "f") for path in (tmp_path / "f" / "artifacts").rglob("*") if path.is_file()
    }
    shutil.rmtree(tmp_path / "r")
    place = min((tmp_path / "f" / "artifacts").iterdir())
    assert holdfast.json("verify", "f", "--deep", code=0)["artifacts"] == 2 * len(KEPT)
    shutil.rmtree(tmp_path / "f" / "journal")
    assert holdfast.json("repair", "f", code=0)["after"] == 2
    holdfast("verify", "f", "--deep", code=0)
    (place / "diff.patch").unlink()
    holdfast("verify", "f", code=1)


@pytest.mark.parametrize("kind", ["path", "repo"])
def test_experiments_3_the_replay_script_works_after_the_workspace_was_removed(holdfast, tmp_path, kind):
    make_repository(tmp_path) if kind == "repo" else make_template(tmp_path)
    eval_ = agent_eval(
        tmp_path,
        "print(Path('main.py').read_text(), Path('set-up').exists(), Path(sys.argv[1]).read_text())",
        workspace={kind: "template", "setup": "touch set-up"},
    )
    holdfast("run", eval_, "--run-dir", "r", code=0)
    (script,) = (tmp_path / "r" / "artifacts").glob("*/replay.sh")
    assert not (tmp_path / "r" / "workspaces" / script.parent.name).exists()
    again = subprocess.run([script], capture_output=True, text=True, check=False)
    assert (again.returncode, again.stdout) == (0, (script.parent / "stdout").read_text()), again.stderr
    template_copy(holdfast, tmp_path / "r").unlink()
    shutil.rmtree(tmp_path / "r" / "workspaces" / script.parent.name)
    gone = subprocess.run([script], capture_output=True, text=True, check=False)
    assert gone.returncode == 1 and "template of a workspace" in gone.stderr
    assert not (tmp_path / "r" / "workspaces" / script.parent.name).exists()


def test_a_fork_syncs_its_files_once_for_all_trials(holdfast, tmp_path):
    """By the writes to disk that forking takes for one trial and for five."""
    make_template(tmp_path)
    counts = []
    for number in (1, 5):
        run = f"r{number}"
        holdfast("run", agent_eval(tmp_path, WORKS, samples=number), "--run-dir", run, code=0)
        fs = CountingSyncs()
        with closing(RunReader(tmp_path / run)) as reader:
            files = ForkFiles(reader.layout, reader.run.hex())
            for key in list(reader.fold.keys()):
                files.keep(key, is_whole=True)
        (tmp_path / f"f{number}" / "artifacts").mkdir(parents=True)
        files.copy(fs, Layout(tmp_path / f"f{number}"), "ab")
        assert len(list((tmp_path / f"f{number}").glob("artifacts/*/result.json"))) == number
        counts.append(fs.syncs)
    assert counts[0] == counts[1]


class CountingSyncs(RealFileSystem):
    """Counts how often a file or a directory is synced by itself."""

    def __init__(self) -> None:
        self.syncs = 0

    def sync_directory(self, path):
        self.syncs += 1
        super().sync_directory(path)


def test_experiments_3_a_replay_whose_setup_failed_starts_from_a_new_workspace(holdfast, tmp_path):
    make_template(tmp_path)
    setup = f"test -e {tmp_path / 'may'} && touch set-up"
    (tmp_path / "may").touch()
    eval_ = agent_eval(tmp_path, "print(Path('set-up').exists())", workspace={"setup": setup})
    holdfast("run", eval_, "--run-dir", "r", code=0)
    (script,) = (tmp_path / "r" / "artifacts").glob("*/replay.sh")
    (tmp_path / "may").unlink()
    for _ in range(2):
        failed = subprocess.run([script], capture_output=True, text=True, check=False)
        assert (failed.returncode, failed.stdout) == (1, "")
    (tmp_path / "may").touch()
    for _ in range(2):
        assert subprocess.run([script], capture_output=True, text=True, check=True).stdout == "True\n"


def test_experiments_3_the_replay_script_of_a_fork_works_in_the_fork(holdfast, tmp_path):
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, "print(os.getcwd(), Path(sys.argv[1]).read_text())")
    holdfast("run", eval_, "--run-dir", "r", code=0)
    holdfast("fork", "r", "--run-dir", "f", code=0)
    shutil.rmtree(tmp_path / "r")
    (script,) = (tmp_path / "f" / "artifacts").glob("*/replay.sh")
    again = subprocess.run(
        [script.name],
        cwd=script.parent,
        env={**os.environ, "PATH": f".:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert again.stdout == f"{tmp_path / 'f' / 'workspaces' / script.parent.name / 'work'} Write w0.\n"
