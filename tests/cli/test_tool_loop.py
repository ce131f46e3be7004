"""Row 20 of steps, end to end: a tool loop against a real server, killed with -9 in every turn, and what is shown."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from evals import python_eval
from program import until

TURNS = 4
ODD = {"id": "b", "type": "function", "index": 0, "function": {"name": "sum", "arguments": {"of": [1, 2]}}}
"""A call that is not quite of the usual shape."""
HOSTILE = "\x1b[31mred\x07 \u202eevil"

LOOPING = """
import json, os, signal, time
from pathlib import Path
from holdfast import Message, Sample, Task, exact, task

HERE = Path(__file__).parent
TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]

def look(name, arguments):
    with (HERE / "ran").open("a") as log:
        log.write(name + arguments + "\\n")
    if (HERE / "kill").exists():
        (HERE / "kill").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    return {"degrees": 21}

async def solve(trial):
    reply = await trial.generate("Where?", extra_body={"tools": TOOLS})
    while reply.tool_calls:
        results = []
        for call in reply.tool_calls:
            found = await trial.step(call.name, look, call.name, call.arguments)
            results.append(Message("tool", json.dumps(found), tool_call_id=call.id))
        reply = await trial.generate([*trial.messages, *results], extra_body={"tools": TOOLS})
    return reply

@task
def t():
    return Task(samples=[Sample("x", target="Here.")], solver=solve, scorers=exact())
"""

KNOWING_NOTHING = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    return (await trial.generate(trial.sample.input)).text

@task
def t():
    return Task(samples=[Sample(f"x{n}", target="") for n in range(3)], solver=solve, scorers=exact())
"""


class ToolServer:
    """A chat server that calls two tools in each of its first turns, and then says where."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.held_turn = -1
        """The turn whose reply is kept back until the server is told to go on."""
        self.go_on = threading.Event()
        self.message: dict[str, Any] | None = None
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                server.bodies.append(body)
                raw = json.dumps(server.answer(json.loads(body))).encode()
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Length", str(len(raw)))
                    self.end_headers()
                    self.wfile.write(raw)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        turn = sum(message["role"] == "assistant" for message in body["messages"])
        if turn == self.held_turn:
            self.go_on.wait(120)
        message = self.message or {"role": "assistant", "content": "Here."}
        if self.message is None and turn < TURNS:
            usual = {"name": "look", "arguments": f'{{"turn": {turn}, "at":  "É"}}'}
            calls = [{"id": f"call_{turn}", "type": "function", "function": usual}, ODD]
            message = {"role": "assistant", "content": None, "tool_calls": calls, "reasoning_content": "hm"}
        finish = "tool_calls" if message.get("tool_calls") else "stop"
        return {"model": "m-1", "choices": [{"message": message, "finish_reason": finish}]}

    def close(self) -> None:
        self.go_on.set()
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def tool_server():
    server = ToolServer()
    yield server
    server.close()


def raw_messages(body: bytes) -> bytes:
    """The bytes of the messages in a request."""
    return body.partition(b'"messages":')[2].partition(b',"tools":')[0]


def test_killed_in_every_turn_nothing_is_bought_again_and_the_calls_go_back_byte_for_byte(
    holdfast, tool_server, tmp_path
):
    """Killed while a tool runs and while a reply is awaited, in each turn: only requests in flight are made again, and
    the last request is that of a run that nobody killed.
    """
    eval_file = python_eval(tmp_path, tool_server.base_url, LOOPING)
    command = ("run", eval_file, "--run-dir", "r", "--or-resume")
    in_flight = 0
    for turn in range(TURNS):
        (tmp_path / "kill").touch()
        assert holdfast.start(*command).wait().code == -signal.SIGKILL
        before, tool_server.held_turn = len(tool_server.bodies), turn + 1
        tool_server.go_on.clear()
        process = holdfast.start(*command)
        until(lambda seen=before: len(tool_server.bodies) > seen, "the request of the next turn")
        process.send(signal.SIGKILL)
        assert process.wait().code == -signal.SIGKILL
        in_flight += 1
        tool_server.held_turn = -1
        tool_server.go_on.set()
    holdfast(*command, code=0)
    asked = list(tool_server.bodies)
    assert len(asked) == 1 + TURNS + in_flight
    assert len(set(asked)) == 1 + TURNS
    assert holdfast.json("status", "r")["state"] == "complete"
    # A tool that was killed half-way runs again; one that has returned does not.
    ran = (tmp_path / "ran").read_text().splitlines()
    assert len(ran) == 2 * TURNS + TURNS
    tool_server.bodies.clear()
    holdfast("run", eval_file, "--run-dir", "undisturbed", code=0)
    assert [raw_messages(body) for body in tool_server.bodies] == [*dict.fromkeys(map(raw_messages, asked))]
    last = json.loads(asked[-1])["messages"]
    assert [message["role"] for message in last] == ["user", *["assistant", "tool", "tool"] * TURNS]
    assert [message["tool_calls"][1] for message in last if message["role"] == "assistant"] == [ODD] * TURNS
    assert b'"arguments":"{\\"turn\\": 3, \\"at\\":  \\"\xc3\x89\\"}"' in asked[-1]


def test_reuse_and_fork_take_replies_with_tool_calls_over(holdfast, tool_server, tmp_path):
    """Another run that asks the same pays for nothing."""
    eval_file = python_eval(tmp_path, tool_server.base_url, LOOPING)
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    made = len(tool_server.bodies)
    holdfast("run", eval_file, "--run-dir", "again", "--reuse", "r", code=0)
    assert len(tool_server.bodies) == made
    replies = [
        [step["result"] for step in holdfast.records(run, "step") if step["name"] == "generate"]
        for run in ("r", "again")
    ]
    assert replies[0] == replies[1] and len(replies[0]) == 1 + TURNS
    holdfast("fork", "r", "--run-dir", "forked", code=0)
    assert len(tool_server.bodies) == made
    assert holdfast.json("report", "forked")["coverage"]["valid"] == 1


def test_solver_that_knows_nothing_of_tools_gets_no_empty_answer(holdfast, tool_server, tmp_path):
    """The trials fail at once, in a sentence that names the tools; an empty target is not matched by an empty text."""
    eval_file = python_eval(tmp_path, tool_server.base_url, KNOWING_NOTHING, max_retries=3)
    ended = holdfast("run", eval_file, "--run-dir", "r", code=1)
    assert len(tool_server.bodies) == 3
    assert "The reply calls 'look', 'sum' and holds no text." in ended.err
    report = holdfast.json("report", "r")
    assert (report["coverage"]["failed"], report["coverage"]["valid"]) == (3, 0)
    assert report["tasks"]["t"]["m"]["metrics"] == {}
    assert holdfast.json("verify", "r", code=0)["ok"]


def test_arguments_of_50_mb_are_kept(holdfast, tool_server, tmp_path):
    """A huge call is data: kept whole beside the journal, and proven by verify."""
    function = {"name": "look", "arguments": "x" * 50_000_000}
    tool_server.message = {"content": None, "tool_calls": [{"id": "a", "type": "function", "function": function}]}
    holdfast(
        "run", python_eval(tmp_path, tool_server.base_url, KNOWING_NOTHING), "--run-dir", "r", "--limit", 1, code=1
    )
    assert holdfast.json("verify", "r", code=0)["ok"]
    assert sum(path.stat().st_size for path in (tmp_path / "r/blobs").iterdir()) > 50_000_000


def test_transcript_shows_calls_parts_and_refusals_harmlessly(holdfast, tool_server, tmp_path):
    """`show` prints what a reply holds, without anything that acts on a terminal; --json and cat have it whole."""
    call = {"id": HOSTILE, "type": "function", "function": {"name": f"look{HOSTILE}", "arguments": f'{{"{HOSTILE}"}}'}}
    parts = [
        {"type": "text", "text": f"words {HOSTILE}"},
        {"type": "image_url", "image_url": {"url": f"data:{HOSTILE}"}},
        {"type": f"hologram{HOSTILE}", "planes": "p" * 1000},
    ]
    tool_server.message = {
        "content": parts,
        "tool_calls": [call, {"odd": HOSTILE}],
        "refusal": f"no {HOSTILE}",
        "citations": [HOSTILE],
    }
    eval_file = python_eval(tmp_path, tool_server.base_url, KNOWING_NOTHING)
    holdfast("run", eval_file, "--run-dir", "r", "--limit", 1, code=0)
    key = holdfast.json("show", "r")["trials"][0]["trial"]
    shown, whole = holdfast("show", "r", key, code=0).out, holdfast("show", "r", key, "--json", code=0).out
    for words in (
        "words red",
        "image: data:red",
        "hologramred",
        "calls lookred evil(",
        "calls: {",
        "refusal: no red",
        "other: ",
    ):
        assert words in shown, words
    assert "p" * 300 not in shown
    for text in (shown, whole):
        assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", text) == []
    (step,) = [record for record in json.loads(whole)["records"] if record["type"] == "step"]
    assert step["result"]["tool_calls"][0] == {"id": HOSTILE, **call["function"]}
    assert step["result"]["tool_calls"][1]["raw"] == {"odd": HOSTILE}
    assert step["result"]["parts"][2] == {"type": "raw", "value": parts[2]}
    assert step["result"]["other"] == {"citations": [HOSTILE]}
    assert [record["result"] for record in holdfast.records("r", "step")] == [step["result"]]
