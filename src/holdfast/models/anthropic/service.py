"""The service as data: the list of providers reads it without loading what speaks to it."""

from holdfast.models.http.service import Service

SERVICE = Service(
    description="Claude, and with base_url any server that speaks the Messages API",
    route="/messages",
    version_path="/v1",
    base_url="https://api.anthropic.com",
    api_key_env="ANTHROPIC_API_KEY",
    base_url_env="ANTHROPIC_BASE_URL",
    key_header="x-api-key",
    headers={"anthropic-version": "2023-06-01"},
)
