"""Services that speak the OpenAI chat protocol, by name: address, variable of the key, quirks.

A preset is data; `open_preset` in `provider.py` makes a provider of it. Anything a model states itself comes first.
"""

from holdfast.models.http.service import Service


class Preset(Service, frozen=True, kw_only=True):
    """What a named service needs beyond the plain protocol."""

    route: str = "/chat/completions"
    max_tokens_field: str = "max_tokens"


PRESETS = {
    "openai": Preset(
        description="OpenAI, and with base_url any server that speaks its chat protocol",
        base_url="https://api.openai.com/v1",
        api_key_env="OPENAI_API_KEY",
        base_url_env="OPENAI_BASE_URL",
        # The newer models there refuse the older name; the older ones take both.
        max_tokens_field="max_completion_tokens",
    ),
    "azure": Preset(
        description="Azure OpenAI; the model is the name of the deployment",
        api_key_env="AZURE_OPENAI_API_KEY",
        base_url_env="AZURE_OPENAI_ENDPOINT",
        base_url_example="https://RESOURCE.openai.azure.com/openai/v1",
        base_path="/openai/v1",
        key_header="api-key",
        max_tokens_field="max_completion_tokens",
    ),
    "gemini": Preset(
        description="Google Gemini through its OpenAI-compatible address",
        base_url="https://generativelanguage.googleapis.com/v1beta/openai",
        api_key_env="GEMINI_API_KEY",
    ),
    "groq": Preset(
        description="Groq",
        base_url="https://api.groq.com/openai/v1",
        api_key_env="GROQ_API_KEY",
        base_url_env="GROQ_BASE_URL",
        base_path="/openai/v1",
    ),
    "ollama": Preset(description="An Ollama server", base_url="http://127.0.0.1:11434/v1"),
    "openrouter": Preset(
        description="OpenRouter", base_url="https://openrouter.ai/api/v1", api_key_env="OPENROUTER_API_KEY"
    ),
    "together": Preset(
        description="Together AI",
        base_url="https://api.together.xyz/v1",
        api_key_env="TOGETHER_API_KEY",
        base_url_env="TOGETHER_BASE_URL",
    ),
    "vllm": Preset(description="A vLLM server", base_url="http://127.0.0.1:8000/v1"),
}
