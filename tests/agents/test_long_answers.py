"""Experiments 19: the text that is scored is all of what an agent has said or done, or the run says that it is not."""

from __future__ import annotations

import json
import sys

import pytest

from agents.agent_evals import agent_eval

WHOLE = {
    "message": ("print('done\\n' + 'x\\n' * 150_000)", {}),
    "file": ("Path(sys.argv[2]).write_text('done\\n' + 'x\\n' * 150_000)", {}),
    "diff": ("Path('f').write_text('x\\n' * 150_000 + 'done')", {"answer": "diff"}),
}


@pytest.mark.parametrize("case", WHOLE)
def test_a_long_answer_is_scored_as_a_whole(holdfast, tmp_path, case):
    """Its first word and its last one."""
    script, agent = WHOLE[case]
    command = [sys.executable, str(tmp_path / "agent.py"), "{prompt_file}", "{output}"]
    eval_ = agent_eval(tmp_path, script, agent={"command": command, **agent})
    holdfast("run", eval_, "--run-dir", "r", code=0)
    (row,) = holdfast.json("show", "r", code=0)["trials"]
    assert row["scores"]["includes"] == 1
    assert "not whole" not in holdfast("report", "r", code=0).out


CUT = {
    "message": ("print('x ' * 3000)", {"limits": {"output": 1000}}),
    "diff": ("Path('f').write_text('x\\n' * 3000 + 'done')", {"answer": "diff", "limits": {"output": 1000}}),
    "files": ("[Path(f'f{n:04}').write_text('done') for n in range(2001)]", {"answer": "diff"}),
    "characters": ("print('done ' * 300_000)", {}),
}


@pytest.mark.parametrize("case", CUT)
def test_an_answer_that_is_not_whole_is_never_scored_in_silence(holdfast, tmp_path, case):
    """The session warns, the report says so, and the value of the answer has it."""
    script, agent = CUT[case]
    told = holdfast("run", agent_eval(tmp_path, script, agent=agent), "--run-dir", "r", code=0)
    assert "not whole" in told.err
    assert "some answers of m are not whole" in holdfast("report", "r", code=0).out
    (row,) = holdfast.json("show", "r", code=0)["trials"]
    value = next(
        record["value"]
        for record in map(json.loads, holdfast("cat", "r", code=0).out.splitlines())
        if record["type"] == "answer" and record["trial"] == row["trial"]
    )
    assert value["patch_cut" if agent.get("answer") else "message_cut"] is True


def test_a_cut_that_the_answer_does_not_have_is_not_warned_of(holdfast, tmp_path):
    """The patch is cut, and the message is scored: the value of the answer says it, and no more."""
    told = holdfast("run", agent_eval(tmp_path, "Path('f').write_text('x' * 2**21); print('done')"), code=0)
    assert "not whole" not in told.err + told.out
