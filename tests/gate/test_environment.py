"""Resume 73: no environment variable that Holdfast reads changes what the gate decides.

The variables are found in the source, so that one which is read tomorrow is tried tomorrow.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

import holdfast as package
from durable import snapshot
from evals import http_eval, write_eval
from holdfast.models.anthropic.service import SERVICE
from holdfast.models.openai.presets import PRESETS

SOURCE = Path(package.__file__).parent
NAMED_BY_THE_EVAL = {"variable", "service.base_url_env", "service.api_key_env"}
"""Where the name comes from the eval or from a preset: the presets' are tried, and those of `api_key_env`."""
BY_LIBRARIES = {
    *("HOME", "TMPDIR", "PYTHONHASHSEED", "LANG", "TZ"),
    *(f"{scheme}_PROXY" for scheme in ("HTTP", "HTTPS", "ALL", "NO")),
    *(f"{scheme}_proxy" for scheme in ("http", "https", "all", "no")),
}
"""What the standard library reads for us."""
HOSTILE = ("1", "/nonexistent/place", "http://user:secret-password-1@127.0.0.1:9/v1", "accept")


def is_environment(node):
    """Whether an expression is the environment, or an argument that stands for it."""
    return ast.unparse(node) in {"os.environ", "environment"}


def is_lookup(node):
    """Whether it asks if the environment has a name."""
    asks = isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn)
    return asks and is_environment(node.comparators[0])


def names_read(tree):
    """The expressions whose values are looked up in the environment."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args:
            looked_up = node.func.attr in {"get", "pop", "setdefault"} and is_environment(node.func.value)
            if looked_up or ast.unparse(node.func) == "os.getenv":
                yield node.args[0]
        elif isinstance(node, ast.Subscript) and is_environment(node.value):
            yield node.slice
        elif is_lookup(node):
            yield node.left


def variables():
    """Every variable that the source names, and the expressions that are no name."""
    found, others = set(), set()
    for path in SOURCE.rglob("*.py"):
        tree = ast.parse(path.read_text())
        constants = {
            ast.unparse(target): node.value.value
            for node in tree.body
            if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
            for target in node.targets
        }
        for name in names_read(tree):
            value = name.value if isinstance(name, ast.Constant) else constants.get(ast.unparse(name))
            (found if isinstance(value, str) else others).add(value if isinstance(value, str) else ast.unparse(name))
    return found, others


READ, OTHERS = variables()
OF_PRESETS = {
    name for service in (*PRESETS.values(), SERVICE) for name in (service.api_key_env, service.base_url_env) if name
}
EVERY = sorted({*READ, *BY_LIBRARIES, *OF_PRESETS, "OWN_KEY"})


def test_the_source_is_understood():
    """The search finds what is known to be there, and nothing that it cannot name."""
    assert {"XDG_CACHE_HOME", "HOLDFAST_SPOOL", "HOLDFAST_CRASH_AT", "NO_COLOR"} <= READ
    # `name` is what `.env` sets, or what an agent is given; `text` is a value that may be the name of another variable.
    # The environment of another process is read in storage/operating_system.py, as bytes: no variable of this one.
    assert {"name", "text"} == OTHERS - NAMED_BY_THE_EVAL


def verdicts(holdfast, evals, environment):
    """What the gate says of each eval: exit code and every difference; and of a refused resume."""
    found = []
    for path in evals:
        ended = holdfast("diff", "r", path, "--json", **environment)
        found.append((ended.code, json.loads(ended.out or "null")))
    return [*found, holdfast("resume", "r", "--set", "models.m.generation.temperature=1", **environment).code]


ALONE = ["HOLDFAST_CRASH_AT", "_HOLDFAST_COMPLETE", "AZURE_OPENAI_ENDPOINT"]
"""What they do would hide what the others do."""
TOGETHER = [name for name in EVERY if name not in ALONE]


@pytest.mark.parametrize(
    "several", [*([name] for name in ALONE), *(TOGETHER[place::3] for place in range(3))], ids="-".join
)
def test_resume_73_no_variable_changes_the_verdict(holdfast, server, tmp_path, several):
    """Resume 73: unchanged, throughput, location, identity: the same differences and exit codes whatever is set."""
    _set_and_compare(holdfast, server, tmp_path, several)


@pytest.mark.soak
@pytest.mark.parametrize("variable", TOGETHER)
def test_soak_no_variable_alone_changes_the_verdict(holdfast, server, tmp_path, variable):
    """As above, each by itself: two that are wrong may hide each other."""
    _set_and_compare(holdfast, server, tmp_path, [variable])


def _set_and_compare(holdfast, server, tmp_path, several):
    keys = {"AZURE_OPENAI_API_KEY": "azure-key-0123456789", "OWN_KEY": "own-key-0123456789"}
    keys["AZURE_OPENAI_ENDPOINT"] = server.base_url
    azure = {"provider": "azure", "model": "counting", "api_key_env": "OWN_KEY", "base_url": None}
    base = http_eval(tmp_path, server.base_url, 2, model=azure)
    holdfast("run", base, "--run-dir", "r", code=0, **keys)
    data = json.loads(base.read_text())
    evals = [
        base,
        write_eval(tmp_path, {**data, "concurrency_limit": 3}, "fast.yaml"),
        write_eval(tmp_path, {**data, "models": {"m": {**azure, "base_url": "http://127.0.0.1:9/v1"}}}, "moved.yaml"),
        write_eval(tmp_path, {**data, "seed": 5}, "seeded.yaml"),
    ]
    expected, before = verdicts(holdfast, evals, keys), snapshot(tmp_path / "r")
    assert [code for code, _ in expected[:-1]] == [0, 0, 0, 3] and expected[-1] == 3
    for value in HOSTILE if several != ["HOLDFAST_CRASH_AT"] else ("config.before-write", "session.settled"):
        environment = {**keys, **dict.fromkeys(several, value)}
        if several == ["_HOLDFAST_COMPLETE"]:
            # The shell asks for completions: no command is executed at all.
            assert "resum" not in holdfast("resume", "r", **environment).err.lower()
        elif several == ["AZURE_OPENAI_ENDPOINT"] and value.startswith("http"):
            # An address with a password in it is refused before anything else, as in an eval file.
            continue
        else:
            assert verdicts(holdfast, evals, environment) == expected, (several, value)
    assert snapshot(tmp_path / "r") == before
    assert server.state()["received"] == 2


def test_a_password_in_an_address_is_in_no_byte(holdfast, server, tmp_path):
    """An address or a proxy from the environment may hold one: it is refused, or used and written nowhere."""
    password = "pass-word-0123456789"
    azure = {"provider": "azure", "model": "counting", "base_url": None}
    eval_file = http_eval(tmp_path, server.base_url, 2, model=azure)
    keys = {"AZURE_OPENAI_API_KEY": "azure-key-0123456789"}
    at = server.base_url.replace("http://", f"http://user:{password}@")
    ended = holdfast("run", eval_file, "--run-dir", "r", code=2, **keys, AZURE_OPENAI_ENDPOINT=at)
    assert password not in ended.err and not (tmp_path / "r").exists()
    keys |= {"AZURE_OPENAI_ENDPOINT": server.base_url, "HTTP_PROXY": f"http://user:{password}@127.0.0.1:9"}
    holdfast("run", eval_file, "--run-dir", "r", code=0, **keys)
    ended = holdfast("resume", "r", "--set", "tasks.t.epochs=2", code=0, **keys)
    told = ended.out + ended.err + "".join(map(json.dumps, holdfast.records("r")))
    files = b"".join(path.read_bytes() for path in (tmp_path / "r").rglob("*") if path.is_file())
    for secret in (password, keys["AZURE_OPENAI_API_KEY"]):
        assert secret not in told and secret.encode() not in files


PLUG_IN = """
from holdfast.providers import Reply, Usage

class Talkative:
    address = "https://someone:hunter2-hunter2@models.example/v1?api_key=sk-hidden-0123456789#part"

    async def send(self, request):
        return Reply("x", "stop", Usage(1, 1), "talkative")

    async def close(self):
        pass
"""


def test_an_address_of_a_plug_in_is_noted_without_its_password():
    """What a provider says of itself is anybody's text: user, password and query stay out."""
    from holdfast.engine.model_calls.served_model import public_address  # noqa: PLC0415

    scope: dict = {}
    exec(PLUG_IN, scope)
    assert public_address(scope["Talkative"]()) == "https://models.example/v1"
    for odd in (None, 5, b"x", "http://[", "", "no address at all"):
        scope["Talkative"].address = odd
        assert public_address(scope["Talkative"]()) in {"", "no address at all"}
