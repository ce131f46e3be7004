"""Messages, usage and fingerprints: plain values that mean the same in every process."""

import subprocess
import sys
from hashlib import blake2b

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.engine.trials.conversation import Conversation
from holdfast.models import Message, Reply, Request, Usage, fingerprint
from holdfast.spec import Generation

ASKED = Request(
    (Message("system", "Be brief."), Message("user", "Capital of France?", name="ann")),
    Generation(temperature=0.0, max_tokens=8, extra_body={"b": 1, "a": [2]}),
)


def test_usage_adds_up():
    """Adding two usages adds each of their counts."""
    assert Usage(1, 2, 3, 4) + Usage(10, 20, 30, 40) == Usage(11, 22, 33, 44)


def test_values_survive_the_journals_encoding():
    """Requests and replies are the same after encoding and decoding."""
    reply = Reply("Paris", "stop", Usage(1, 2), "m", "id", {"content": [{"logprob": -0.5}]}, "hm")
    for value in (ASKED, reply):
        assert msgspec.json.decode(msgspec.json.encode(value), type=type(value)) == value


def test_a_fingerprint_depends_on_everything_that_is_asked():
    """A change to any message or parameter changes it; the order of keys does not."""
    same = Request(ASKED.messages, Generation(temperature=0.0, max_tokens=8, extra_body={"a": [2], "b": 1}))
    assert fingerprint(same) == fingerprint(ASKED)
    others = [
        Request(ASKED.messages[::-1], ASKED.generation),
        Request(ASKED.messages[:1], ASKED.generation),
        Request((ASKED.messages[0], Message("user", "Capital of France?")), ASKED.generation),
        Request(ASKED.messages),
        Request(ASKED.messages, Generation(temperature=0.0, max_tokens=9, extra_body={"b": 1, "a": [2]})),
        Request(ASKED.messages, Generation(temperature=0.0, max_tokens=8, seed=0, extra_body={"b": 1, "a": [2]})),
    ]
    assert len({fingerprint(request) for request in [ASKED, *others]}) == 7


def test_a_fingerprint_is_the_digest_of_the_request_in_json():
    """So whoever has the messages can work it out, and a run of an earlier version has the same ones."""
    encoded = b'{"messages":%b,"generation":%b}' % tuple(
        msgspec.json.encode(part, order="deterministic") for part in (ASKED.messages, ASKED.generation)
    )
    assert fingerprint(ASKED) == blake2b(encoded, digest_size=16).digest()
    asked = msgspec.structs.replace(ASKED, response_schema={"type": "object"})
    encoded = msgspec.json.encode(asked, order="deterministic")
    assert fingerprint(asked) == blake2b(encoded, digest_size=16).digest()


@given(st.data())
def test_a_fingerprint_is_the_same_however_a_conversation_came_about(data):
    """Turn by turn or at once; continued, begun anew, or with messages in between that are not its own."""
    texts = st.text(st.characters(codec=None, categories=None), max_size=4)
    messages = tuple(data.draw(st.lists(st.builds(Message, st.sampled_from(["user", "assistant"]), texts), max_size=6)))
    before = tuple(data.draw(st.sampled_from([messages[: len(messages) // 2], messages, messages[::-1]])))
    known = Conversation().hash_with(before)
    hash_ = Conversation(before, "", known).hash_with(messages)
    whole = fingerprint(Request(messages, ASKED.generation))
    if hash_ is None:
        with pytest.raises(UnicodeEncodeError):
            "".join(message.text for message in messages).encode()
    else:
        assert hash_.fingerprint(ASKED.generation) == whole


def test_a_fingerprint_takes_any_text():
    """Text that UTF-8 cannot carry has a fingerprint too."""
    assert len(fingerprint(Request((Message("user", "a\ud800"),)))) == 16


def test_importing_models_loads_nothing_heavy():
    """The package can be imported without an HTTP library or a model engine."""
    code = "import sys, holdfast.models; print(sorted({'aiohttp', 'yaml', 'rich', 'xllamacpp'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("role", ["usr", "", "User", "human"])
def test_a_message_with_an_unknown_role_is_refused(role):
    """A mistyped role is found where it is written, and not by a server in the middle of a run."""
    with pytest.raises(
        ValueError, match=r"A message has the role .*\. Use one of: system, developer, user, assistant, tool\."
    ):
        Message(role, "x")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"role": role, "content": "x"}, Message)
