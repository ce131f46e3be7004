"""Opening a model: where it is, whose key it gets, and what is said when something is missing."""

import asyncio

import pytest
from chat_server import QUESTION, answering, ask_once, chat_server, completion

from holdfast.errors import ConfigurationError
from holdfast.models import Request, open_provider
from holdfast.models.env_file import names_from_file, read_env_file
from holdfast.models.openai.endpoint import OpenAIOptions, resolve_chat
from holdfast.models.openai.presets import PRESETS
from holdfast.spec import Generation, ModelSpec, Timeouts

KEY = "sk-test-0123456789abcdef"


def endpoint(provider: str, environment: dict[str, str] | None = None, **fields):
    spec = ModelSpec(provider=provider, model="tiny", **fields)
    return resolve_chat(spec, PRESETS[provider], OpenAIOptions(), environment or {})[0]


def token_field(provider: str, environment: dict[str, str], **fields) -> str:
    spec = ModelSpec(provider=provider, model="tiny", **fields)
    return resolve_chat(spec, PRESETS[provider], OpenAIOptions(), environment)[1].max_tokens_field


def test_the_key_is_read_from_the_variable_that_is_named(monkeypatch):
    """The Authorization header holds the value of the named variable, without stray white space."""
    monkeypatch.setenv("MY_KEY", f" {KEY}\n")

    async def go():
        async with chat_server(answering(completion())) as seen:
            await ask_once(seen.spec(api_key_env="MY_KEY"))
            return seen.headers[0]["Authorization"]

    assert asyncio.run(go()) == f"Bearer {KEY}"


def test_the_key_is_read_when_the_model_is_opened(monkeypatch):
    """A variable that changes later changes nothing for a model that is open."""
    monkeypatch.setenv("MY_KEY", KEY)

    async def go():
        async with chat_server(answering(completion())) as seen:
            provider = open_provider(seen.spec(api_key_env="MY_KEY"))
            monkeypatch.setenv("MY_KEY", "another-key-altogether")
            await provider.send(QUESTION)
            await provider.close()
            return seen.headers[0]["Authorization"]

    assert asyncio.run(go()) == f"Bearer {KEY}"


@pytest.mark.parametrize("value", [None, "", "  \n"])
def test_a_missing_key_is_named_by_its_variable(monkeypatch, value):
    """A variable that is not set, or empty, is an error at opening that names it."""
    monkeypatch.delenv("MY_KEY", raising=False)
    if value is not None:
        monkeypatch.setenv("MY_KEY", value)
    with pytest.raises(ConfigurationError, match=r"openai/tiny needs a key.*MY_KEY.*export MY_KEY="):
        open_provider(ModelSpec(provider="openai", model="tiny", api_key_env="MY_KEY"))


def test_a_key_that_no_header_can_carry_is_refused_without_showing_it():
    """A damaged key is an error at opening; its value stays out of the message."""
    with pytest.raises(ConfigurationError, match="the key in MY_KEY") as caught:
        endpoint("openai", {"MY_KEY": "sk-broken\nkey-0123456789"}, api_key_env="MY_KEY")
    assert "sk-broken" not in str(caught.value)


def test_the_key_of_a_service_goes_to_that_service_only():
    """With another base_url, the default key is not sent: it was not meant for that server."""
    environment = {"OPENAI_API_KEY": KEY}
    assert endpoint("openai", environment).headers == {"Authorization": f"Bearer {KEY}"}
    assert endpoint("openai", environment, base_url="http://127.0.0.1:9/v1").headers == {}
    named = endpoint("openai", environment, base_url="http://127.0.0.1:9/v1", api_key_env="OPENAI_API_KEY")
    assert named.headers == {"Authorization": f"Bearer {KEY}"}


@pytest.mark.parametrize(
    ("provider", "environment", "url", "header"),
    [
        ("openai", {"OPENAI_API_KEY": KEY}, "https://api.openai.com/v1", f"Bearer {KEY}"),
        ("openrouter", {"OPENROUTER_API_KEY": KEY}, "https://openrouter.ai/api/v1", f"Bearer {KEY}"),
        ("together", {"TOGETHER_API_KEY": KEY}, "https://api.together.xyz/v1", f"Bearer {KEY}"),
        ("groq", {"GROQ_API_KEY": KEY}, "https://api.groq.com/openai/v1", f"Bearer {KEY}"),
        ("gemini", {"GEMINI_API_KEY": KEY}, "https://generativelanguage.googleapis.com/v1beta/openai", f"Bearer {KEY}"),
        ("ollama", {}, "http://127.0.0.1:11434/v1", None),
        ("vllm", {}, "http://127.0.0.1:8000/v1", None),
    ],
)
def test_a_preset_knows_its_address_and_its_key(provider, environment, url, header):
    """Naming the service is enough; the error of a missing key names the service's own variable."""
    found = endpoint(provider, environment)
    assert found.url == f"{url}/chat/completions"
    assert found.headers.get("Authorization") == header
    for variable in environment:
        with pytest.raises(ConfigurationError, match=variable):
            endpoint(provider, {})


def test_azure_has_its_own_header_and_address():
    """Azure's endpoint comes from base_url or its variable; a bare host gets the path it needs."""
    environment = {"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://me.openai.azure.com/"}
    found = endpoint("azure", environment)
    assert found.url == "https://me.openai.azure.com/openai/v1/chat/completions"
    assert found.headers == {"api-key": KEY}
    assert token_field("azure", environment) == "max_completion_tokens"
    with pytest.raises(ConfigurationError, match=r"azure/tiny has no base_url.*RESOURCE"):
        endpoint("azure", {"AZURE_OPENAI_API_KEY": KEY})


@pytest.mark.parametrize(
    ("provider", "variable", "key", "path"),
    [
        ("openai", "OPENAI_BASE_URL", "OPENAI_API_KEY", "/v1"),
        ("groq", "GROQ_BASE_URL", "GROQ_API_KEY", "/openai/v1"),
        ("together", "TOGETHER_BASE_URL", "TOGETHER_API_KEY", "/v1"),
    ],
)
def test_the_environment_names_another_address(provider, variable, key, path):
    """As for the service's own library: with its key if there is one; what the eval says comes first."""
    given = "https://me.example" if provider == "groq" else f"https://me.example{path}/"
    found = endpoint(provider, {variable: given, key: KEY})
    assert found.url == f"https://me.example{path}/chat/completions"
    assert (found.headers, found.key_variable) == ({"Authorization": f"Bearer {KEY}"}, key)
    assert endpoint(provider, {variable: given}).headers == {}
    assert endpoint(provider, {variable: "", key: KEY}).url.startswith(PRESETS[provider].base_url)
    spec = ModelSpec(provider=provider, model="tiny", base_url="http://127.0.0.1:9/v1")
    said, _ = resolve_chat(spec, PRESETS[provider], OpenAIOptions(), {variable: given, key: KEY})
    assert said.url.startswith("http://127.0.0.1:9/v1") and said.headers == {}


def test_a_file_does_not_send_the_key_of_the_environment_elsewhere(tmp_path, request):
    """An address in `.env` gets the key that is in it as well, and no other."""
    request.addfinalizer(names_from_file.clear)
    (tmp_path / ".env").write_text("OPENAI_BASE_URL=https://me.example/v1\n")
    environment = {"OPENAI_API_KEY": KEY}
    read_env_file(tmp_path, environment)
    with pytest.raises(ConfigurationError, match=r"OPENAI_BASE_URL is set in a file \.env, and OPENAI_API_KEY is not"):
        endpoint("openai", environment)
    (tmp_path / ".env").write_text(f"OPENAI_BASE_URL=https://me.example/v1\nOPENAI_API_KEY={KEY}\n")
    environment = {}
    read_env_file(tmp_path, environment)
    assert endpoint("openai", environment).headers == {"Authorization": f"Bearer {KEY}"}


def test_azure_takes_a_dated_api():
    """A deployment's address and the version of the API are put together."""
    spec = ModelSpec(provider="azure", model="tiny", base_url="https://me.openai.azure.com/openai/deployments/tiny")
    options = OpenAIOptions(api_version="2024-10-21")
    found, _ = resolve_chat(spec, PRESETS["azure"], options, {"AZURE_OPENAI_API_KEY": KEY})
    assert found.url.endswith("/openai/deployments/tiny/chat/completions?api-version=2024-10-21")


def test_a_preset_is_opened_by_its_name():
    """Every preset opens through open_provider and speaks the protocol."""

    async def go():
        async with chat_server(answering(completion("hello"))) as seen:
            replies = []
            for name in PRESETS:
                spec = ModelSpec(provider=name, model="tiny", base_url=seen.base_url, api_key_env="MY_KEY")
                replies.append((await ask_once(spec)).text)
            return replies

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MY_KEY", KEY)
        assert asyncio.run(go()) == ["hello"] * len(PRESETS)


def test_the_limit_of_tokens_has_the_name_the_server_knows():
    """OpenAI itself takes the newer name, other servers the older one, and an option overrules both."""
    environment = {"OPENAI_API_KEY": KEY}
    assert token_field("openai", environment) == "max_completion_tokens"
    assert token_field("openai", environment, base_url="http://127.0.0.1:9/v1") == "max_tokens"

    async def go():
        async with chat_server(answering(completion())) as seen:
            spec = seen.spec(args={"max_tokens_field": "max_new_tokens"})
            await ask_once(spec, Request(QUESTION.messages, Generation(max_tokens=3)))
            return seen.body

    assert asyncio.run(go())["max_new_tokens"] == 3


@pytest.mark.parametrize(
    ("base_url", "url"),
    [
        ("http://127.0.0.1:9/v1/", "http://127.0.0.1:9/v1/chat/completions"),
        ("http://127.0.0.1:9", "http://127.0.0.1:9/chat/completions"),
        ("http://127.0.0.1:9/v1/chat/completions", "http://127.0.0.1:9/v1/chat/completions"),
        ("https://gateway.test/v1?tenant=a", "https://gateway.test/v1/chat/completions?tenant=a"),
    ],
)
def test_an_address_may_be_written_in_several_ways(base_url, url):
    """A final slash, the whole route and a query are understood."""
    assert endpoint("openai", base_url=base_url).url == url


@pytest.mark.parametrize(
    "base_url",
    ["127.0.0.1:8000/v1", "ftp://host/v1", "http://", "localhost", "http://[::1", "http://h:x/", "http://a..b/v1"],
)
def test_an_address_that_is_none_is_refused(base_url):
    """A base_url that cannot be one is an error at opening."""
    with pytest.raises(ConfigurationError, match="base_url"):
        endpoint("openai", base_url=base_url)


def test_a_proxy_that_is_no_address_is_refused():
    """A proxy that cannot be one is an error at opening."""
    with pytest.raises(ConfigurationError, match="proxy is not an http or https address"):
        endpoint("openai", base_url="http://127.0.0.1:9/v1", proxy="proxy.test:3128")


@pytest.mark.parametrize(
    "fields",
    [
        {"base_url": "http://user:hunter2hunter2@127.0.0.1:9/v1"},
        {"base_url": "http://127.0.0.1:9/v1?key=hunter2hunter2"},
        {"base_url": "http://127.0.0.1:9/v1", "proxy": "http://user:hunter2hunter2@127.0.0.1:8"},
        {"base_url": "http://127.0.0.1:9/v1", "headers": {"authorization": "Bearer hunter2hunter2"}},
        {"base_url": "http://127.0.0.1:9/v1", "headers": {"X-Api-Key": "hunter2hunter2"}},
        {"base_url": "http://127.0.0.1:9/v1", "headers": {"X-Title": "hunter2hunter2\r\nX-Evil: 1"}},
    ],
)
def test_a_secret_in_the_configuration_is_refused_without_showing_it(fields):
    """Keys and passwords belong in variables; a literal one is refused and not repeated."""
    with pytest.raises(ConfigurationError) as caught:
        endpoint("openai", **fields)
    assert "hunter2hunter2" not in str(caught.value)


def test_the_environments_proxy_is_used_for_distant_servers_only(monkeypatch):
    """HTTPS_PROXY is honoured, NO_PROXY too, and a server on this machine is reached directly."""
    monkeypatch.setenv("https_proxy", "http://proxy.test:3128")
    monkeypatch.setenv("http_proxy", "http://proxy.test:3128")
    monkeypatch.setenv("no_proxy", "inside.test")
    assert endpoint("openai", base_url="https://outside.test/v1").proxy == "http://proxy.test:3128"
    assert endpoint("openai", base_url="https://inside.test/v1").proxy is None
    assert endpoint("openai", base_url="http://127.0.0.1:9/v1").proxy is None
    assert endpoint("openai", base_url="http://localhost:9/v1", proxy="http://p.test:1").proxy == "http://p.test:1"


def test_timeouts_come_from_the_configuration():
    """What the model states is used; the rest has generous defaults."""
    found = endpoint("openai", base_url="http://127.0.0.1:9/v1", timeouts=Timeouts(read=5.0))
    assert found.read_seconds == 5.0
    assert found.connect_seconds >= 10
    assert found.total_seconds >= 600


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({"max_reply_byte": 1}, "no option 'max_reply_byte'.*Did you mean 'max_reply_bytes'"),
        ({"zzz": 1}, "no option 'zzz'.*There are: api_version"),
        ({"max_reply_bytes": "many"}, "not valid: Expected `int`"),
    ],
)
def test_an_unknown_option_is_refused_with_the_nearest(args, words):
    """A mistyped option is an error at opening, with the name that was probably meant."""
    with pytest.raises(ConfigurationError, match=words):
        open_provider(ModelSpec(provider="openai", model="tiny", base_url="http://127.0.0.1:9/v1", args=args))


@pytest.mark.parametrize(
    ("name", "words"),
    [("opanai", "Did you mean 'openai'"), ("zzz", "There are: anthropic, azure, command, gemini"), ("", "There are:")],
)
def test_an_unknown_provider_is_refused_with_the_nearest(name, words):
    """A mistyped provider is an error that leads to the right one."""
    with pytest.raises(ConfigurationError, match=words):
        open_provider(ModelSpec(provider=name, model="tiny"))
