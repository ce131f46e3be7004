"""Any OpenAI-compatible chat endpoint: one `send` is exactly one HTTP request."""

from __future__ import annotations

from holdfast.models.finish_reasons import missing_reason
from holdfast.models.http.connection import HttpAnswer, HttpConnection
from holdfast.models.http.endpoint import Endpoint
from holdfast.models.http.error_responses import from_status
from holdfast.models.message import Reply, Request
from holdfast.models.openai.chat_format import RequestEncoder, decode_reply
from holdfast.models.openai.endpoint import Dialect, OpenAIOptions, resolve_chat
from holdfast.models.openai.presets import PRESETS, Preset
from holdfast.models.openai.refused_fields import advise_fields
from holdfast.models.provider import read_options
from holdfast.spec import ModelSpec

_PLAIN = Dialect()


class OpenAIProvider:
    """A connection pool to one chat endpoint; opened on the first `send`, in the loop that makes it."""

    takes_seed = True

    def __init__(self, endpoint: Endpoint, dialect: Dialect = _PLAIN) -> None:
        self._endpoint, self._connection = endpoint, HttpConnection(endpoint)
        self.takes_response_schema = dialect.takes_response_schema
        self._encoder = RequestEncoder(endpoint.model, dialect)
        self._gives_reasons = False
        """Whether its replies say why they end: one that does not was then broken off."""

    @property
    def address(self) -> str:
        """Where the model is reached, wherever that is set."""
        return self._endpoint.address

    async def send(self, request: Request) -> Reply:
        """Ask once. A reply comes back whole, or a ModelError says why it is missing."""
        answer = await self._connection.post(self._encoder.encode(request))
        if answer.is_success:
            return self._read_reply(answer)
        raise from_status(self._endpoint, answer.status, answer.headers, answer.body, answer.charset, advise_fields)

    def _read_reply(self, answer: HttpAnswer) -> Reply:
        name = self._endpoint.name
        reply = decode_reply(name, answer.status, answer.body, answer.charset)
        if not reply.finish and self._gives_reasons:
            raise missing_reason(name, reply, answer.status)
        self._gives_reasons = bool(reply.finish)
        return reply

    async def close(self) -> None:
        """End every connection. Closing twice is harmless."""
        await self._connection.close()


def open_openai(spec: ModelSpec) -> OpenAIProvider:
    """OpenAI, and with base_url any server that speaks its chat protocol."""
    return open_with_preset(spec, PRESETS["openai"])


def open_preset(spec: ModelSpec) -> OpenAIProvider:
    """The provider, set up for the service that `spec.provider` names."""
    return open_with_preset(spec, PRESETS[spec.provider])


def open_with_preset(spec: ModelSpec, preset: Preset) -> OpenAIProvider:
    """A provider for a named service; a ConfigurationError where something it needs is missing."""
    options = read_options(f"Model {spec.provider}/{spec.model}", spec.args, OpenAIOptions)
    return OpenAIProvider(*resolve_chat(spec, preset, options))
