"""What agents say of their work: experiments 3 and 7; tokens, sessions and errors of structured outputs."""

from __future__ import annotations

import datetime as dt
import json
from zoneinfo import ZoneInfo

import pytest

from agents.agent_evals import agent_eval
from holdfast.errors import ConfigurationError
from holdfast.models.message import Usage
from holdfast.tasks.agents import command_agent
from holdfast.tasks.agents.agent_output import read_output
from holdfast.tasks.agents.reset_time import reset_time

BERLIN = ZoneInfo("Europe/Berlin")
NOW = dt.datetime(2026, 11, 18, 14, 30, tzinfo=BERLIN).timestamp()


def lines(*events):
    return "".join(json.dumps(event) + "\n" for event in events).encode()


def test_the_result_of_claude_code():
    found = read_output(
        lines(
            {
                "type": "result",
                "subtype": "success",
                "is_error": False,
                "result": "Fixed.",
                "session_id": "0c1",
                "total_cost_usd": 0.31,
                "usage": {
                    "input_tokens": 4,
                    "cache_creation_input_tokens": 100,
                    "cache_read_input_tokens": 1000,
                    "output_tokens": 50,
                },
                "modelUsage": {"claude-x": {"inputTokens": 4}},
            }
        ),
        "json",
        NOW,
    )
    assert (found.text, found.session, found.cost, found.model) == ("Fixed.", "0c1", 0.31, "claude-x")
    assert found.usage == Usage(1104, 50, 1000)
    assert (found.error, found.limited_until) == ("", None)


def test_a_stream_that_did_not_come_to_its_end_has_what_its_messages_took():
    message = {
        "id": "m1",
        "model": "c",
        "usage": {"input_tokens": 5, "output_tokens": 2},
        "content": [{"type": "text", "text": "a"}],
    }
    other = {**message, "id": "m2", "content": [{"type": "text", "text": "b"}]}
    data = lines(
        {"type": "system", "subtype": "init", "session_id": "s", "model": "c"},
        {"type": "assistant", "message": message},
        {"type": "assistant", "message": message},
        {"type": "assistant", "message": other},
    )
    found = read_output(data + b'{"type": "assis', "stream-json", NOW)
    assert (found.session, found.text, found.usage) == ("s", "b", Usage(10, 4))


def test_the_events_of_codex():
    data = lines(
        {"type": "thread.started", "thread_id": "t-1"},
        {"type": "item.completed", "item": {"type": "reasoning", "text": "hm"}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": {"input_tokens": 100, "cached_input_tokens": 60, "output_tokens": 9}},
    )
    found = read_output(data, "stream-json", NOW)
    assert (found.text, found.session, found.usage) == ("Done.", "t-1", Usage(100, 9, 60))
    assert found.error == ""


def test_an_error_that_the_agent_got_over_is_none():
    data = lines(
        {"type": "error", "message": "stream error: 429; retrying"},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": {"input_tokens": 1, "output_tokens": 1}},
    )
    found = read_output(data, "stream-json", NOW)
    assert (found.error, found.limited_until, found.text) == ("", None, "Done.")


@pytest.mark.parametrize(
    ("event", "hour"),
    [
        ({"type": "result", "is_error": True, "result": "Limit reached. It resets at 4pm (Europe/Berlin)"}, 16.0),
        ({"type": "result", "is_error": True, "result": f"Claude AI usage limit reached|{int(NOW) + 3600}"}, 15.5),
        ({"type": "result", "is_error": True, "api_error_status": 429, "result": "no", "resetsAt": NOW + 1800}, 15.0),
        ({"type": "error", "error": {"type": "rate_limit_error", "message": "slow down", "retry_after": 1800}}, 15.0),
        (
            {
                "type": "turn.failed",
                "error": {"message": "You've hit your usage limit. Try again in 1 hour 30 minutes."},
            },
            16.0,
        ),
        ({"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": int(NOW) + 1800}}, 15.0),
    ],
)
def test_a_rate_limit_in_an_error_has_the_time_at_which_it_ends(event, hour):
    """Experiments 7."""
    until = read_output(lines(event), "stream-json", NOW).limited_until
    assert until is not None
    here = dt.datetime.fromtimestamp(until, BERLIN)
    assert here.hour + here.minute / 60 == hour


@pytest.mark.parametrize(
    "event",
    [
        {"type": "result", "is_error": False, "result": "usage limit reached; resets at 4pm (Europe/Berlin); 429"},
        {"type": "rate_limit_event", "rate_limit_info": {"status": "allowed_warning", "resetsAt": int(NOW) + 1800}},
        {"type": "item.completed", "item": {"type": "agent_message", "text": "too many requests 429"}},
        {"type": "result", "is_error": True, "result": "the file does not exist"},
        {"type": "user", "message": {"content": "rate limit"}},
    ],
)
def test_what_merely_mentions_limits_is_not_one(event):
    """Experiments 7."""
    assert read_output(lines(event), "stream-json", NOW).limited_until is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[1, 2]",
        b"\xff\xfe",
        b'{"type": "result", "usage": {"input_tokens": -1}}',
        b"[" * 5000,
        b'{"usage": {"input_tokens": 1e99}}',
    ],
)
@pytest.mark.parametrize("kind", ["text", "json", "stream-json"])
def test_any_bytes_can_be_read(data, kind):
    found = read_output(data, kind, NOW)
    assert found.usage in {None, Usage()}


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("resets at 4pm (Europe/Berlin)", (18, 16, 0)),
        ("resets 4:15pm (Europe/Berlin)", (18, 16, 15)),
        ("limit resets at 9am (Europe/Berlin)", (19, 9, 0)),
        ("resets at 12am (Europe/Berlin)", (19, 0, 0)),
        ("resets at 16:00 (UTC)", (18, 17, 0)),
        ("resets at 10am (America/New_York)", (18, 16, 0)),
        ("resets Nov 20, 5pm (Europe/Berlin)", (20, 17, 0)),
        ("2026-11-18T15:00:00+01:00", (18, 15, 0)),
        ("try again in 90s", (18, 14, 31)),
        ("Please try again in 2h5m", (18, 16, 35)),
        ("resets 3pm PST", (19, 0, 0)),
        ("resets 3pm tomorrow (Europe/Berlin)", (19, 15, 0)),
        ("resets tomorrow at 3pm (Europe/Berlin)", (19, 15, 0)),
        ("limit resets in 1 week", (25, 14, 30)),
        ("try again in 2 seconds", (18, 14, 31)),
    ],
)
def test_times_in_words(said, expected):
    """Experiments 7: also in another zone, and on the next day."""
    found = reset_time(said, NOW)
    assert found is not None
    here = dt.datetime.fromtimestamp(found, BERLIN)
    assert (here.day, here.hour, here.minute) == expected


def test_a_time_that_has_just_passed_is_not_that_of_tomorrow():
    found = reset_time("resets at 2:25pm (Europe/Berlin)", NOW)
    assert found is not None
    assert found - NOW <= 60


@pytest.mark.parametrize(
    "said",
    [
        "",
        "soon",
        "resets at 99pm (Europe/Berlin)",
        "resets at 4pm (Nowhere/Atlantis)",
        None,
        True,
        -5,
        1e300,
        "resets Feb 31, 5pm (UTC)",
        "resets 3pm XYZ",
        "try again in 2 weeks",
        "try again in 2 months",
        "resets in 3 blinks",
    ],
)
def test_what_is_no_time_is_none(said):
    assert reset_time(said, NOW) is None


def test_agents_are_refused_where_processes_cannot_be_named(monkeypatch):
    monkeypatch.setattr(command_agent, "names_processes", lambda: False)
    with pytest.raises(ConfigurationError, match="cannot be run on this system"):
        command_agent.command_agent(["true"]).check_tools()


@pytest.mark.parametrize("status", [500, 503, 529, 429])
def test_experiments_8_the_status_in_the_text_of_an_error_counts(status):
    """An outage or a rate limit that only the text of a reported error names is no failure of the agent."""
    said = f'API Error: {status} {{"type":"error","error":{{"message":"Overloaded"}}}}'
    found = read_output(json.dumps({"type": "result", "is_error": True, "result": said}).encode(), "json", 0.0)
    assert found.status == status
    assert (found.is_outage, found.limited_until is not None) == (status >= 500, status == 429)


def test_an_answer_that_speaks_of_an_api_error_is_an_answer():
    found = read_output(b'{"type":"result","is_error":false,"result":"API Error: 500 is fixed"}', "json", 0.0)
    assert (found.error, found.status, found.text) == ("", None, "API Error: 500 is fixed")


@pytest.mark.parametrize("subtype", ["error_max_turns", "error_during_execution"])
def test_a_result_that_was_cut_off_is_an_error(subtype):
    found = read_output(json.dumps({"type": "result", "subtype": subtype, "is_error": False}).encode(), "json", 0.0)
    assert found.error == subtype


def test_output_that_is_not_the_json_that_was_asked_for_is_an_error():
    assert read_output(b'{"result": "cut o', "json", 0.0).error == "the output is not valid JSON"
    assert read_output(b"", "json", 0.0).error == ""


@pytest.mark.parametrize("count", [10**30, 10**13, -1, 1.5, "12", True, [3]])
@pytest.mark.parametrize("key", ["input_tokens", "cache_read_input_tokens"])
def test_tokens_that_cannot_be_meant_are_unknown_and_not_none(count, key):
    """Neither 0 nor a guess: what else it says of them is no basis for an exact cost either."""
    usage = {"input_tokens": 4, "output_tokens": 5, key: count}
    found = read_output(lines({"type": "result", "result": "done", "usage": usage}), "json", NOW)
    assert (found.text, found.error, found.usage) == ("done", "", None)
    assert "tokens are unknown" in found.odd_usage
    found = read_output(lines({"type": "turn.completed", "usage": usage}), "stream-json", NOW)
    assert bool(found.odd_usage) is (key == "input_tokens")


def test_experiments_19_a_cost_of_odd_tokens_is_a_lower_bound(holdfast, tmp_path):
    """The session warns, and the report does not give an exact cost."""
    script = "print(json.dumps({'result': 'done', 'usage': {'input_tokens': 10**30, 'output_tokens': 5}}))"
    model = {"provider": "command", "model": "tiny", "price": {"input": 1, "output": 1}}
    eval_ = agent_eval(tmp_path, script, agent={"output": "json"}, models={"m": model})
    assert "its tokens are unknown" in holdfast("run", eval_, "--run-dir", "r", code=0).err
    assert holdfast.json("report", "r", code=0)["usage_is_partial"] is True
