"""A model that has never replied: what to check is said at once, and again after Ctrl-C, with the key to change."""

from __future__ import annotations

import signal
import socket

import pytest

from evals import http_eval
from program import until

SET = "Resume with another base_url: holdfast resume r --set models.m.base_url=URL\n"


def nowhere() -> str:
    """An address at which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}/v1"


ADDRESSES = {
    "a page": (None, "an HTML page", "Check base_url: this looks like a website"),
    "nobody": (nowhere, "cannot be reached at 127.0.0.1:", "Check that the server runs, and base_url."),
    "no host": (lambda: "http://no-such-host.invalid/v1", "no-such-host.invalid does not resolve", "Check base_url."),
}


@pytest.mark.parametrize("name", ADDRESSES)
def test_what_to_check_is_said_at_once_and_after_ctrl_c(holdfast, server, tmp_path, name):
    """Nothing is on record of a wait that a signal has ended, and still its cause and the way out are named."""
    address, cause, hint = ADDRESSES[name]
    server.behave(broken="html")
    eval_file = http_eval(tmp_path, server.base_url if address is None else address(), 2)
    started = holdfast.start("run", eval_file, "--run-dir", "r")
    until(lambda: "m: retrying for up to 1h" in started.told(), "a try has failed")
    line = next(line for line in started.told().splitlines() if "retrying" in line)
    assert cause in line and hint in line
    started.send(signal.SIGINT)
    ended = started.wait()
    assert ended.code == 130
    assert "  no reply yet: openai/counting " in ended.out and cause in ended.out and hint in ended.out
    # The server may come back, so that a plain resume is named first.
    assert f"Resume with: holdfast resume r\n{SET}" in ended.out


def test_what_was_given_up_may_be_resumed_with_another_address(holdfast, tmp_path):
    """After retry_deadline the error is on record: `status` names the key too, and nothing was refused."""
    ended = holdfast("run", http_eval(tmp_path, nowhere(), 2, retry_deadline=0.01), "--run-dir", "r", code=1)
    assert "2 got no reply: openai/counting cannot be reached" in ended.out and "refused: " not in ended.out
    assert f"Resume with: holdfast resume r\n{SET}" in ended.out


def test_a_model_that_has_replied_is_not_called_silent(holdfast, server, tmp_path):
    """Its address is right: after an outage and Ctrl-C, no other one is advised."""
    server.behave(refuse_status=503, refuse_times=10**9, refuse_only=["q2"])
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 2, concurrency_limit=1), "--run-dir", "r")
    until(lambda: "m: retrying" in started.told(), "a try has failed")
    started.send(signal.SIGINT)
    ended = started.wait()
    assert "Resume with: holdfast resume r" in ended.out and "base_url" not in ended.out


def test_without_a_grace_period_no_call_is_said_to_be_waited_for(holdfast, server, tmp_path):
    """`grace_period: 0` stops at the first Ctrl-C, and the message says so."""
    server.behave(hold=True)
    started = holdfast.start("run", http_eval(tmp_path, server.base_url, 3, grace_period=0), "--run-dir", "r")
    server.wait_for(in_flight=3)
    started.send(signal.SIGINT)
    ended = started.wait()
    assert "Ctrl-C: stopping without 3 in-flight calls (grace_period is 0)" in ended.err
    assert "waiting for" not in ended.err and "again" not in ended.err
    server.behave()
