"""Agents over real servers: the shapes of both APIs, kills at every frame, and what is refused or shown."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from evals import write_eval

TOOLS = """
from pathlib import Path
from holdfast import tool

RAN = Path(__file__).parent / "ran"

def note(name):
    with RAN.open("a") as log:
        log.write(name + "\\n")

def first(word: str) -> str:
    "The first tool."
    note("first")
    return word.upper()

async def second(word: str, times: int = 2) -> list[str]:
    note("second")
    return [word] * times

@tool(on_interrupted="again")
def third(word: str):
    note("third")
    raise ValueError(word)
"""
CALLS = [("first", {"word": "a"}), ("second", {"word": "b", "times": 3}), ("third", {"word": "c"})]
RESULTS = ["A", '["b","b","b"]', "Error: ValueError: c"]


class ToolServer:
    """A server of both APIs: it calls three tools at once, and then answers."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.calls_for_ever = False
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                server.bodies.append(body)
                raw = json.dumps(server.answer(self.path, body)).encode()
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def turns(self) -> Counter[int]:
        """How often each turn was asked for."""
        return Counter(sum(one["role"] == "assistant" for one in body["messages"]) for body in self.bodies)

    def answer(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        calls = CALLS if turn == 0 or self.calls_for_ever else []
        if path.endswith("/messages"):
            blocks = [
                {"type": "tool_use", "id": f"toolu_{n}", "name": one[0], "input": one[1]} for n, one in enumerate(calls)
            ]
            said = [{"type": "text", "text": "Let me see." if calls else "Here."}, *blocks]
            stop = "tool_use" if calls else "end_turn"
            return {
                "id": "msg_1",
                "type": "message",
                "role": "assistant",
                "model": "m-1",
                "content": said,
                "stop_reason": stop,
                "usage": {"input_tokens": 3, "output_tokens": 2},
            }
        made = [
            {"id": f"call_{n}", "type": "function", "function": {"name": one[0], "arguments": json.dumps(one[1])}}
            for n, one in enumerate(calls)
        ]
        message = {"role": "assistant", "content": None if calls else "Here.", **({"tool_calls": made} if made else {})}
        choice = {"message": message, "finish_reason": "tool_calls" if calls else "stop"}
        return {"model": "m-1", "choices": [choice], "usage": {"prompt_tokens": 3, "completion_tokens": 2}}

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def tool_server():
    server = ToolServer()
    yield server
    server.close()


def agent_eval(directory, server: ToolServer, provider: str = "openai", **task: Any):
    """An eval whose prompt is asked with three tools."""
    (directory / "tools.py").write_text(TOOLS)
    (directory / "rows.jsonl").write_text('{"id": "s1", "question": "Where?", "answer": "Here."}\n')
    declared = {"dataset": "rows", "prompt": "{question}", "target": "{answer}", "scorers": ["exact"]}
    named = {"tools": ["tools.py:first", "tools.py:second", "tools.py:third"]}
    url = server.address + ("/v1" if provider == "openai" else "")
    data = {
        "models": {"m": {"provider": provider, "model": "m-1", "base_url": url, "api_key_env": "TOOL_KEY"}},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {"t": {**declared, **named, **task}},
    }
    return write_eval(directory, data)


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("TOOL_KEY", "a-key-of-no-server")


def test_the_requests_are_those_of_the_chat_api(holdfast, tool_server, tmp_path):
    """The assistant's message with its calls, and a message of the role `tool` for each result."""
    holdfast("run", agent_eval(tmp_path, tool_server), "--run-dir", "r", code=0, TOOL_KEY="a-key-of-no-server")
    first, second = tool_server.bodies
    assert [one["function"]["name"] for one in first["tools"]] == ["first", "second", "third"]
    assert first["tools"][0] == {
        "type": "function",
        "function": {
            "name": "first",
            "description": "The first tool.",
            "parameters": {
                "type": "object",
                "properties": {"word": {"type": "string"}},
                "required": ["word"],
                "additionalProperties": False,
            },
        },
    }
    user, assistant, *told = second["messages"]
    assert (user["role"], assistant["content"]) == ("user", None)
    assert [one["id"] for one in assistant["tool_calls"]] == ["call_0", "call_1", "call_2"]
    assert told == [
        {"role": "tool", "content": text, "tool_call_id": f"call_{place}"} for place, text in enumerate(RESULTS)
    ]
    assert holdfast.json("report", "r")["tasks"]["t"]["m"]["metrics"]["exact"]["accuracy"]["value"] == 1.0
    shown = holdfast("show", "r", "t/s1#1", code=0).out
    for words in ("first", "Error: ValueError: c", "Here."):
        assert words in shown
    assert holdfast("verify", "r", "--replay", "t/s1#1", code=0)
    assert len(tool_server.bodies) == 2


def test_the_requests_are_those_of_the_messages_api(holdfast, tool_server, tmp_path):
    """Tools with an `input_schema`, and the results together in one message of the user, as blocks."""
    eval_file = agent_eval(tmp_path, tool_server, "anthropic")
    holdfast("run", eval_file, "--run-dir", "r", code=0, TOOL_KEY="a-key-of-no-server")
    first, second = tool_server.bodies
    assert [sorted(one) for one in first["tools"]] == [
        ["description", "input_schema", "name"],
        ["input_schema", "name"],
        ["input_schema", "name"],
    ]
    _, assistant, told = second["messages"]
    assert [block["type"] for block in assistant["content"]] == ["text", *["tool_use"] * 3]
    assert told == {
        "role": "user",
        "content": [
            {"type": "tool_result", "tool_use_id": f"toolu_{place}", "content": text}
            for place, text in enumerate(RESULTS)
        ],
    }


def test_experiments_5_killed_at_every_frame_nothing_is_paid_twice_and_no_finished_tool_runs_again(
    holdfast, tool_server, tmp_path
):
    """Before each frame is written and after each is synced: what the journal has at the kill is not done again, what
    it does not have is done once more at the most, and the run ends as one that nobody killed.
    """
    eval_file, ran = agent_eval(tmp_path, tool_server), tmp_path / "ran"
    kills = Counter()
    for point in ("frame.before-write", "frame.synced"):
        for number in range(1, 40):
            run = f"{point}-{number}"
            tool_server.bodies.clear()
            ran.unlink(missing_ok=True)
            command = ("run", eval_file, "--run-dir", run, "--or-resume")
            crashing = {"HOLDFAST_CRASH_AT": f"{point}:{number}", "TOOL_KEY": "a-key-of-no-server"}
            if holdfast(*command, **crashing).code != -signal.SIGKILL:
                break
            kills[point] += 1
            has_run = (tmp_path / run).exists()
            steps = holdfast.records(run, "step") if has_run else []
            kept = Counter(step["name"] for step in steps)
            asked, done = tool_server.turns(), Counter(ran.read_text().split() if ran.exists() else [])
            holdfast(*command, code=0, TOOL_KEY="a-key-of-no-server")
            for name, _ in CALLS:
                again = Counter(ran.read_text().split())[name]
                assert again == (1 if kept[name] else done[name] + 1), (run, name)
            for turn in range(2):
                in_all = tool_server.turns()[turn]
                assert in_all == (1 if kept["generate"] > turn else asked[turn] + 1), (run, turn)
            assert [one["content"] for one in tool_server.bodies[-1]["messages"] if one["role"] == "tool"] in (
                [],
                RESULTS,
            )
            assert holdfast.json("status", run)["state"] == "complete"
    print(dict(kills))
    # The reply, three results, the second reply and the end, at least; how many share a frame is a matter of timing.
    assert min(kills.values()) >= 5


def test_a_tool_that_may_not_run_twice_fails_the_attempt_after_a_kill(holdfast, tool_server, tmp_path):
    """Steps 7, for `@tool(on_interrupted="fail")`: it is named, and does not run again."""
    eval_file = agent_eval(tmp_path, tool_server)
    killing = TOOLS.replace('"again"', '"fail"').replace(
        'note("third")', 'note("third"); import os, signal; os.kill(os.getpid(), signal.SIGKILL)'
    )
    (tmp_path / "tools.py").write_text(killing)
    command = ("run", eval_file, "--run-dir", "r", "--or-resume")
    assert holdfast(*command, TOOL_KEY="a-key-of-no-server").code == -signal.SIGKILL
    ended = holdfast(*command, code=1, TOOL_KEY="a-key-of-no-server")
    assert "'third' was interrupted half-way" in ended.err + ended.out
    assert Counter((tmp_path / "ran").read_text().split())["third"] == 1
    assert tool_server.turns() == {0: 1}


@pytest.mark.parametrize(("task", "limit", "calls"), [({}, "turns", 10), ({"max_iterations": 3}, "iterations", 3)])
def test_a_loop_without_an_answer_ends_as_limited(holdfast, tool_server, tmp_path, task, limit, calls):
    """After ten turns, or as many calls as `max_iterations` says; `status` gives the reason."""
    tool_server.calls_for_ever = True
    eval_file = agent_eval(tmp_path, tool_server, **task)
    planned = holdfast("run", eval_file, "--dry-run", code=0, TOOL_KEY="a-key-of-no-server")
    assert f"up to {calls} calls" in planned.out + planned.err
    holdfast("run", eval_file, "--run-dir", "r", code=0, TOOL_KEY="a-key-of-no-server")
    assert len(tool_server.bodies) == calls
    (end,) = holdfast.records("r", "trial")
    assert (end["status"], end["limit"], end["calls"]) == ("limited", limit, calls)


EDITS = {
    "the code": ("return word.upper()", "return word.lower()"),
    "a helper": ('log.write(name + "\\n")', "log.write(name)"),
    "the description": ("The first tool.", "The very first tool."),
    "a parameter": ("times: int = 2", "times: int = 3"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_resume_an_edited_tool_is_refused_by_name(holdfast, tool_server, tmp_path, edit):
    """Resume 62: its code, what it reaches, and what the model reads of it; nothing is asked."""
    tool_server.calls_for_ever = True
    eval_file = agent_eval(tmp_path, tool_server)
    crash = {"HOLDFAST_CRASH_AT": "frame.synced:4", "TOOL_KEY": "a-key-of-no-server"}
    assert holdfast("run", eval_file, "--run-dir", "r", **crash).code == -signal.SIGKILL
    made = len(tool_server.bodies)
    (tmp_path / "tools.py").write_text(TOOLS.replace(*EDITS[edit]))
    ended = holdfast("resume", "r", code=3, TOOL_KEY="a-key-of-no-server")
    assert "tasks.t.tools (identity)" in ended.err
    assert len(tool_server.bodies) == made
    (tmp_path / "tools.py").write_text(TOOLS + "\n# a comment\n")
    holdfast("resume", "r", code=0, TOOL_KEY="a-key-of-no-server")


@pytest.mark.parametrize(
    ("task", "words"),
    [
        ({"tools": ["tools.py:nowhere"]}, "tasks.t.tools: tools.py has no tool 'nowhere'"),
        ({"tools": ["tools.py"]}, "write it as file.py:name"),
        ({"tools": ["tools.py:RAN"]}, "cannot be a tool"),
        ({"tools": ["tools.py:note"]}, "The parameter 'name' of the tool 'note' has no type"),
        ({"solver": "tools.py:second"}, "has solver and also tools"),
        ({"sampling": {"strategy": "best_of_n"}}, "has sampling and also tools"),
        ({"max_iterations": 0}, "max_iterations"),
    ],
)
def test_what_is_wrong_with_tools_is_found_before_anything_is_asked(holdfast, tool_server, tmp_path, task, words):
    eval_file = agent_eval(tmp_path, tool_server, **task)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=2, TOOL_KEY="a-key-of-no-server")
    assert words in ended.err
    assert tool_server.bodies == [] and not (tmp_path / "r").exists()
