"""What a fork keeps of agents' work, and which of their failures are equal."""

from __future__ import annotations

import yaml

from agents.agent_evals import agent_eval, make_template
from holdfast.run.core.records import Failure
from holdfast.tasks.source.failure_text import error_identity


def test_experiments_16_a_fork_of_an_unchanged_agent_run_keeps_every_trial(holdfast, tmp_path):
    """A changed prompt of one axis value costs the trials of that value alone."""
    make_template(tmp_path)
    axes = {"tier": {"T0": None, "T1": {"prompt": "quick"}}}
    eval_ = agent_eval(tmp_path, "print('done')\nPath('x').write_text('x')", samples=2, task={"axes": axes})
    told = holdfast("run", eval_, "--run-dir", "r", code=0)
    assert "--reuse" not in told.out + told.err
    assert holdfast.json("fork", "r", "--run-dir", "same", code=0)["taken"] == 4
    data = yaml.safe_load(eval_.read_text())
    data["tasks"]["t"]["axes"]["tier"]["T1"]["prompt"] = "slow"
    eval_.write_text(yaml.safe_dump(data))
    assert holdfast.json("fork", "r", "--config", eval_, "--run-dir", "other", code=0)["taken"] == 2


def test_other_files_in_the_template_keep_no_trial(holdfast, tmp_path):
    template = make_template(tmp_path)
    eval_ = agent_eval(tmp_path, "print('done')\nPath('x').write_text('x')")
    holdfast("run", eval_, "--run-dir", "r", code=0)
    (template / "main.py").write_text("other\n")
    assert holdfast.json("fork", "r", "--run-dir", "f", code=0)["taken"] == 0


def test_failures_without_a_line_of_ones_own_are_equal_by_their_message():
    trace = 'Traceback\n  File "/usr/lib/python3/site-packages/holdfast/x.py", line 3, in f\n'
    one, other = (Failure("AgentFailed", f"exit code {code}", traceback=trace) for code in (7, 8))
    assert error_identity(one) != error_identity(other)


def test_experiments_8_an_agent_that_ends_well_and_has_done_nothing_is_not_judged(holdfast, tmp_path):
    """It is started again as often as `tries` says; then the trial is unfinished."""
    make_template(tmp_path)
    log = tmp_path / "log"
    eval_ = agent_eval(tmp_path, f"open({str(log)!r}, 'a').write('x')", agent={"tries": 2})
    holdfast("run", eval_, "--run-dir", "r")
    status = holdfast.json("status", "r")
    assert (status["valid"], status["failed"]) == (0, 0)
    assert len(log.read_text()) >= 2


def test_a_patch_of_a_file_that_is_not_utf_8_keeps_its_bytes(holdfast, tmp_path):
    make_template(tmp_path)
    holdfast(
        "run", agent_eval(tmp_path, "Path('l').write_bytes(b'caf\\xe9\\n')\nprint('done')"), "--run-dir", "r", code=0
    )
    (patch,) = (tmp_path / "r" / "artifacts").rglob("diff.patch")
    assert b"+caf\xe9\n" in patch.read_bytes()
