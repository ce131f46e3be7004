"""Recovery 13 to 19 on an experiment whose agents have worked: results, backups and the configuration."""

from __future__ import annotations

import json
import shutil
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from agents.agent_evals import agent_eval, make_template
from holdfast.run.core.layout import Layout
from holdfast.run.core.result_file import RESULT
from holdfast.run.core.run_id import find_run_id
from holdfast.run.fold.run_scan import RunScan
from holdfast.run.remote.recover_without_steps import copy_without_steps
from holdfast.storage import RealFileSystem

EXAMPLE = Path(__file__).parents[2] / "examples" / "experiment"
TRIALS = 12


@pytest.fixture(scope="module")
def finished(tmp_path_factory, zygote):
    """A finished run of the example experiment; its agents log that they were started."""
    from program import Program  # noqa: PLC0415 - one for the module

    place = tmp_path_factory.mktemp("experiment")
    shutil.copytree(EXAMPLE, place / "experiment")
    subprocess.run(["sh", "experiment/make_repository.sh"], cwd=place, check=True, capture_output=True)
    agent = place / "experiment" / "agent.py"
    agent.write_text(agent.read_text() + f"open({str(place / 'log')!r}, 'a').write('x')\n")
    Program(place, zygote)("run", "experiment/eval.yaml", "--run-dir", "r", code=0)
    return place


@pytest.fixture
def run(finished, holdfast, tmp_path):
    """A copy of that run; the sources are where they were."""
    shutil.copytree(finished / "r", tmp_path / "r")
    (finished / "log").write_text("")
    return tmp_path / "r"


def judged(holdfast):
    report = holdfast.json("report", "r", code=0)
    return report["complete"], report["tasks"]["fix"]["agent"]["by_axis"], report["usage"]


def test_recovery_13_an_experiment_without_its_journal_is_repaired(holdfast, run):
    """Recovery 13, 17, 18: 12 of 12 by tier, with the same scores; a second repair changes nothing."""
    before = judged(holdfast)
    shutil.rmtree(run / "journal")
    told = holdfast.json("repair", "r", code=0)
    assert (told["before"], told["after"], told["difference"]) == (0, TRIALS, TRIALS)
    tiers = {group["value"]: group["after"] for group in told["groups"] if group["by"] == "axis tier"}
    assert tiers == {"T0": 4, "T1": 4, "T2": 4}
    complete, by_axis, _ = judged(holdfast)
    assert (complete, scores(by_axis)) == (True, scores(before[1]))
    again = holdfast.json("repair", "r", code=0)
    assert (again["difference"], again["changes"]) == (0, [])
    holdfast("verify", "r", code=0)


def scores(by_axis):
    """By axis and value, the figures that do not depend on recorded calls."""
    return {
        (axis, value): {name: (one["pass_rate"], one["median"]) for name, one in figures["scores"].items()}
        for axis, values in by_axis["axes"].items()
        for value, figures in values.items()
    }


def test_recovery_15_a_spoiled_result_is_listed_and_only_its_agent_works_again(holdfast, run, finished):
    """It is neither passed nor failed; a resume runs that trial alone."""
    file = min(run.glob(f"artifacts/*/{RESULT}"))
    file.write_bytes(file.read_bytes()[:80])
    shutil.rmtree(run / "journal")
    told = holdfast.json("repair", "r", code=1)
    assert (told["after"], len(told["faults"])) == (TRIALS - 1, 1)
    assert file.parent.name in json.dumps(told["faults"])
    assert holdfast.json("status", "r")["failed"] == 0
    holdfast("resume", "r", code=0)
    assert (finished / "log").read_text() == "x"
    assert holdfast.json("status", "r")["valid"] == TRIALS


def test_recovery_16_a_result_that_contradicts_the_journal_is_a_conflict(holdfast, run):
    """The journal wins; nothing is changed."""
    before = judged(holdfast)
    one, other = sorted(run.glob(f"artifacts/*/{RESULT}"))[:2]
    one.write_bytes(other.read_bytes())
    told = holdfast.json("repair", "r", code=1)
    assert told["difference"] == 0 and len(told["conflicts"]) + len(told["faults"]) == 1
    assert judged(holdfast) == before


def test_recovery_18_a_damaged_journal_is_kept_beside_the_repaired_one(holdfast, run):
    """Byte for byte."""
    (segment,) = sorted((run / "journal").glob("*.zst"))[-1:]
    damaged = segment.read_bytes()[:200] + b"\0" * 40
    segment.write_bytes(damaged)
    told = holdfast.json("repair", "r")
    assert told["after"] == TRIALS
    assert (run / told["backup"] / "journal" / segment.name).read_bytes() == damaged
    holdfast("verify", "r", code=0)


def test_recovery_19_a_lost_configuration_is_rebuilt_from_the_journal(holdfast, run):
    (config,) = run.glob("config.*")
    was = config.read_bytes()
    config.unlink()
    holdfast.json("repair", "r", code=0)
    assert config.read_bytes() == was
    holdfast("resume", "r", code=0)


@pytest.mark.parametrize("becomes", ["gone", "changed"])
def test_recovery_13_the_copy_of_the_template_is_found_without_its_original(holdfast, tmp_path, becomes):
    """Once the template is as it was, the run is resumed."""
    template = make_template(tmp_path)
    eval_ = agent_eval(tmp_path, "print('done')", samples=2)
    holdfast("run", eval_, "--run-dir", "r", code=0)
    shutil.copytree(template, tmp_path / "kept")
    shutil.rmtree(tmp_path / "r" / "journal")
    shutil.rmtree(min((tmp_path / "r" / "artifacts").iterdir()))
    if becomes == "gone":
        shutil.rmtree(template)
    else:
        (template / "main.py").write_text("other\n")
    holdfast("repair", "r", code=0)
    assert holdfast("resume", "r").code == (0 if becomes == "gone" else 3)
    shutil.copytree(tmp_path / "kept", template, dirs_exist_ok=True)
    holdfast("resume", "r", code=0)
    assert holdfast.json("status", "r")["valid"] == 2


def test_recovery_35_a_result_of_another_run_is_refused_and_named(holdfast, tmp_path):
    """Both runs have planned the same trials: their keys are the same."""
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, "print('done')", samples=2)
    holdfast("run", eval_, "--run-dir", "other", code=0)
    holdfast("run", eval_, "--run-dir", "r", "--until", "prepare")
    holdfast("resume", "r", "--where", "sample=s0")
    files = {path.parent.name: path for path in (tmp_path / "other").glob(f"artifacts/*/{RESULT}")}
    (missing,) = files.keys() - {path.name for path in (tmp_path / "r" / "artifacts").iterdir()}
    (tmp_path / "r" / "artifacts" / missing).mkdir()
    shutil.copy(files[missing], tmp_path / "r" / "artifacts" / missing / RESULT)
    told = holdfast.json("repair", "r", code=1)
    assert told["difference"] == 0 and "another run" in told["faults"][0]["reason"]
    assert "another run" in json.dumps(holdfast.json("verify", "r", "--deep", code=1)["damage"])


def test_recovery_35_without_a_journal_the_run_is_the_one_that_most_files_name(holdfast, tmp_path):
    """A result of another run is refused; the next repair knows the id that the files have."""
    make_template(tmp_path)
    eval_ = agent_eval(tmp_path, "print('done')", samples=3)
    for run in ("r", "other"):
        holdfast("run", eval_, "--run-dir", run, code=0)
    own = min((tmp_path / "r").glob(f"artifacts/*/{RESULT}"))
    kept = own.read_bytes()
    shutil.copy(tmp_path / "other" / "artifacts" / own.parent.name / RESULT, own)
    shutil.rmtree(tmp_path / "r" / "journal")
    told = holdfast.json("repair", "r", code=1)
    assert (told["after"], told["sound"], len(told["faults"])) == (2, 2, 1)
    assert [group["after"] for group in told["groups"] if group["by"] == "task"] == [2]
    own.write_bytes(kept)
    assert holdfast.json("repair", "r", code=0)["after"] == 3


def test_recovery_13_unknown_usage_is_still_unknown_after_a_repair(holdfast, tmp_path):
    """An agent without structured output says nothing of its tokens."""
    make_template(tmp_path)
    holdfast("run", agent_eval(tmp_path, "print('done')"), "--run-dir", "r", code=0)
    assert holdfast.json("report", "r")["usage_is_partial"]
    shutil.rmtree(tmp_path / "r" / "journal")
    holdfast("repair", "r", code=0)
    assert holdfast.json("report", "r")["usage_is_partial"]
    assert holdfast.json("repair", "r", code=0)["changes"] == []


@pytest.mark.parametrize("origin", ["repaired", "recovered"])
def test_recovery_35_results_under_earlier_ids_of_a_run_are_its_own_without_a_journal(holdfast, tmp_path, origin):
    """The run was repaired without a journal, or is a copy without steps; then it was resumed."""
    make_template(tmp_path)
    holdfast("run", agent_eval(tmp_path, "print('done')", samples=4), "--run-dir", "r", "--until", "prepare")
    holdfast("resume", "r", "--where", "sample=s0")
    if origin == "recovered":
        layout = Layout(tmp_path / "r")
        with closing(RunScan(layout, find_run_id(RealFileSystem(), layout))) as scan:
            scan.scan_rest()
            copy_without_steps(scan, tmp_path / "copy")
        shutil.rmtree(tmp_path / "r")
        (tmp_path / "copy").rename(tmp_path / "r")
    else:
        shutil.rmtree(tmp_path / "r" / "journal")
        holdfast("repair", "r", code=0)
    for samples, finished in (("sample=s1", 2), ("sample!=s3", 3)):
        holdfast("resume", "r", "--where", samples)
        shutil.rmtree(tmp_path / "r" / "journal")
        told = holdfast.json("repair", "r", code=0)
        assert (told["after"], told["faults"]) == (finished, [])
        holdfast("verify", "r", "--deep", code=0)


def test_recovery_13_a_model_that_nobody_called_leaves_the_usage_known_after_a_repair(holdfast, tmp_path):
    """Only the tokens of judges are not in result files, and this one judges nothing."""
    make_template(tmp_path)
    said = {"type": "result", "result": "done", "usage": {"input_tokens": 3, "output_tokens": 2}}
    models = {
        name: {"provider": "command", "model": name, "price": {"input": 1, "output": 1}} for name in ("m", "idle")
    }
    task = {"models": ["m"]}
    eval_ = agent_eval(tmp_path, f"print({json.dumps(said)!r})", agent={"output": "json"}, models=models, task=task)
    holdfast("run", eval_, "--run-dir", "r", code=0)
    before = holdfast.json("report", "r")
    assert before["cost"] is not None
    shutil.rmtree(tmp_path / "r" / "journal")
    holdfast("repair", "r", code=0)
    after = holdfast.json("report", "r")
    for key in ("cost", "cost_is_lower_bound", "usage_is_partial"):
        assert after[key] == before[key]


def test_recovery_35_a_fork_of_a_repaired_run_is_sound(holdfast, tmp_path):
    """The records of a repair cite the result file, which a fork writes anew."""
    make_template(tmp_path)
    holdfast("run", agent_eval(tmp_path, "print('done')", samples=2), "--run-dir", "r", code=0)
    shutil.rmtree(tmp_path / "r" / "journal")
    holdfast("repair", "r", code=0)
    holdfast("fork", "r", "--run-dir", "f", code=0)
    holdfast("verify", "f", "--deep", code=0)
