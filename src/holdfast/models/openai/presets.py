"""Services that speak the OpenAI chat protocol, by name: address, variable of the key, quirks.

A preset is data; `open_preset` in `provider.py` makes a provider of it. Anything a model states itself comes first.
"""

import msgspec


class Preset(msgspec.Struct, frozen=True):
    """What a named service needs beyond the plain protocol."""

    description: str
    base_url: str = ""
    api_key_env: str = ""
    base_url_env: str = ""
    """The variable by which the service's own library is given another address."""
    base_url_example: str = ""
    base_path: str = ""
    """Added to a base_url that ends after its host."""
    key_header: str = "Authorization"
    max_tokens_field: str = "max_tokens"


PRESETS = {
    "openai": Preset(
        "OpenAI, and with base_url any server that speaks its chat protocol",
        base_url="https://api.openai.com/v1",
        api_key_env="OPENAI_API_KEY",
        base_url_env="OPENAI_BASE_URL",
        # The newer models there refuse the older name; the older ones take both.
        max_tokens_field="max_completion_tokens",
    ),
    "azure": Preset(
        "Azure OpenAI; the model is the name of the deployment",
        api_key_env="AZURE_OPENAI_API_KEY",
        base_url_env="AZURE_OPENAI_ENDPOINT",
        base_url_example="https://RESOURCE.openai.azure.com/openai/v1",
        base_path="/openai/v1",
        key_header="api-key",
        max_tokens_field="max_completion_tokens",
    ),
    "gemini": Preset(
        "Google Gemini through its OpenAI-compatible address",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        api_key_env="GEMINI_API_KEY",
    ),
    "groq": Preset(
        "Groq",
        base_url="https://api.groq.com/openai/v1",
        api_key_env="GROQ_API_KEY",
        base_url_env="GROQ_BASE_URL",
        base_path="/openai/v1",
    ),
    "ollama": Preset("An Ollama server", base_url="http://127.0.0.1:11434/v1"),
    "openrouter": Preset("OpenRouter", base_url="https://openrouter.ai/api/v1", api_key_env="OPENROUTER_API_KEY"),
    "together": Preset(
        "Together AI",
        base_url="https://api.together.xyz/v1",
        api_key_env="TOGETHER_API_KEY",
        base_url_env="TOGETHER_BASE_URL",
    ),
    "vllm": Preset("A vLLM server", base_url="http://127.0.0.1:8000/v1"),
}
