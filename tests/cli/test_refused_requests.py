"""Requests that a server refuses: a plain resume is offered only where it can help, and every command works."""

from __future__ import annotations

import json
import shlex

import pytest

from evals import http_eval

MAX_TOKENS = (
    "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead."
)
SETTING = "models.m.args.max_tokens_field=max_completion_tokens"


def command_after(text, start):
    """The words of the command that a line names, without the name of the program."""
    (line,) = [line for line in text.splitlines() if line.strip().startswith(start)]
    return [shlex.split(part)[1:] for part in line.strip().removeprefix(start).split(", then: ")]


def refused_run(holdfast, server, tmp_path, status, said, times=9, **keys):
    """What a run prints whose requests are all refused, and what `status` says then."""
    server.behave(refuse_status=status, refuse_times=times, said=said)
    eval_file = http_eval(tmp_path, server.base_url, 3, **keys)
    return holdfast("run", eval_file, "--run-dir", "r", code=1).out, holdfast("status", "r").out


def test_a_refused_parameter_is_changed_in_a_fork(holdfast, server, tmp_path):
    """The server's sentences stay together, and the setting is in a command that works."""
    out, status = refused_run(holdfast, server, tmp_path, 400, MAX_TOKENS)
    said = f"openai/counting answered 400 Bad Request: {MAX_TOKENS} Set models.m.args.max_tokens_field:"
    assert f"Stopped: 0 of 3 valid; 3 were refused: {said} max_completion_tokens.\n" in out
    start = "A resume would send the same requests. Change them in a new run: "
    for text in (out, status):
        assert "Resume with" not in text and "retried" not in text
        fork, resume = command_after(text, start)
        assert (fork[0], *fork[2:]) == ("fork", "--set", SETTING, "--run-dir", "NEW") and resume == ["resume", "NEW"]
    holdfast(*fork, code=0)
    server.behave()
    assert "Complete: 3 of 3" in holdfast(*resume, code=0).out
    assert "max_tokens_field: max_completion_tokens" in (tmp_path / "NEW/config.yaml").read_text()


def test_another_refusal_names_a_new_run_and_the_resume_for_a_changed_server(holdfast, server, tmp_path):
    """Nobody knows which of both has to change; either command completes the run."""
    out, status = refused_run(holdfast, server, tmp_path, 400, "This model takes no more than 4 tokens.")
    again = "A resume would send the refused requests again. After changing the eval: "
    resume = "If the server has changed instead: "
    for text in (out, status):
        assert "Resume with" not in text and again in text and resume in text
    server.behave()
    assert "Complete: 3 of 3" in holdfast(*command_after(out, again)[0], "--run-dir", "s", code=0).out
    assert "Complete: 3 of 3" in holdfast(*command_after(out, resume)[0], code=0).out


def test_a_refusal_beside_an_outage_names_both_ways(holdfast, server, tmp_path):
    """What has only got no reply is resumed as it is."""
    server.behave(refuse_status=400, refuse_times=9, said="too long")
    eval_file = http_eval(tmp_path, server.base_url, 2, retry_deadline=0.01)
    data = json.loads(eval_file.read_text())
    data["models"]["dead"] = {**data["models"]["m"], "base_url": "http://127.0.0.1:9/v1"}
    eval_file.write_text(json.dumps(data))
    out = holdfast("run", eval_file, "--run-dir", "r", code=1).out
    assert "Resume with: holdfast resume r\n" in out
    assert "A resume would send the refused requests again." in out


def test_refused_trials_beside_valid_ones_are_counted(holdfast, server, tmp_path):
    """One prompt that the server refuses: the error is in the sentence, once."""
    server.behave(refuse_status=400, refuse_times=9, refuse_only=["q2"], said="too long")
    out = holdfast("run", http_eval(tmp_path, server.base_url, 3), "--run-dir", "r", code=1).out
    assert "2 of 3 valid; 1 was refused: openai/counting answered 400 Bad Request: too long.\n" in out


@pytest.mark.parametrize("status", [404, 405])
def test_a_wrong_address_is_named_and_changed_on_resume(holdfast, server, tmp_path, status):
    """Where the server has nothing, the address that was called is in the message, and so is its key."""
    right, wrong = server.base_url, server.base_url
    if status == 404:
        wrong = right.removesuffix("/v1")
    else:
        server.behave(refuse_status=405, refuse_times=9, said="Method Not Allowed")
    out = holdfast("run", http_eval(tmp_path, wrong, 3, concurrency_limit=1), "--run-dir", "r", code=1).out
    assert f"answered {status} " in out and f" at {wrong}/chat/completions: " in out, out
    assert "Check models.m.base_url, which usually ends in /v1, and the model's name." in out
    for text in (out, holdfast("status", "r").out):
        (command,) = command_after(text, "Resume with another base_url: ")
        assert "Resume with: " not in text and command[-1] == "models.m.base_url=URL"
    server.behave()
    assert "Complete: 3 of 3" in holdfast(*command[:-1], command[-1].replace("URL", right), code=0).out


def test_a_missing_key_names_its_setting(holdfast, server, tmp_path):
    """The variable with the key may be named on resume."""
    out, status = refused_run(holdfast, server, tmp_path, 401, "No key.", concurrency_limit=1)
    for text in (out, status):
        (command,) = command_after(text, "Resume with another api_key_env: ")
        assert "Resume with: " not in text
    server.behave()
    words = [*command[:-1], command[-1].replace("VARIABLE", "SERVICE_KEY")]
    assert "Complete: 3 of 3" in holdfast(*words, code=0, SERVICE_KEY="k" * 20).out


def test_a_key_that_was_refused_may_be_corrected_and_resumed(holdfast, server, tmp_path):
    """The environment is no part of the run: a plain resume is what helps."""
    server.behave(refuse_status=401, refuse_times=9, said="Wrong key.")
    eval_file = http_eval(tmp_path, server.base_url, 3, model={"api_key_env": "SERVICE_KEY"}, concurrency_limit=1)
    out = holdfast("run", eval_file, "--run-dir", "r", code=1, SERVICE_KEY="k" * 20).out
    assert "Resume with: holdfast resume r\n" in out
