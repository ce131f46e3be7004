"""The Messages API: one `send` is exactly one HTTP request."""

from __future__ import annotations

from holdfast.models.anthropic.options import AnthropicOptions
from holdfast.models.anthropic.refused_settings import advise_settings
from holdfast.models.anthropic.reply_format import decode_message
from holdfast.models.anthropic.request_format import MessagesEncoder, check_generation_settings
from holdfast.models.anthropic.service import SERVICE
from holdfast.models.finish_reasons import missing_reason
from holdfast.models.http.connection import HttpAnswer, HttpConnection
from holdfast.models.http.endpoint import Endpoint, model_name, resolve_address, resolve_endpoint
from holdfast.models.http.error_responses import from_status
from holdfast.models.message import Reply, Request
from holdfast.models.provider import read_options
from holdfast.spec import ModelSpec


class AnthropicProvider:
    """A connection pool to one endpoint; opened on the first `send`, in the loop that makes it."""

    takes_seed = False

    def __init__(self, endpoint: Endpoint, options: AnthropicOptions) -> None:
        self._endpoint, self._connection = endpoint, HttpConnection(endpoint)
        self.takes_response_schema = options.takes_response_schema
        self._encoder = MessagesEncoder(endpoint.name, endpoint.model, options)
        self._gives_reasons = False
        """Whether its replies say why they end: one that does not was then broken off."""

    @property
    def address(self) -> str:
        """Where the model is reached, wherever that is set."""
        return self._endpoint.address

    async def send(self, request: Request) -> Reply:
        """Ask once. A reply comes back whole, or a ModelError says why there is none."""
        answer = await self._connection.post(self._encoder.encode(request))
        if answer.is_success:
            return self._read_reply(answer)
        raise from_status(self._endpoint, answer.status, answer.headers, answer.body, answer.charset, advise_settings)

    def _read_reply(self, answer: HttpAnswer) -> Reply:
        reply = decode_message(self._endpoint.name, answer)
        if not reply.finish and self._gives_reasons:
            raise missing_reason(self._endpoint.name, reply, answer.status)
        self._gives_reasons = bool(reply.finish)
        return reply

    async def close(self) -> None:
        """End every connection. Closing twice is harmless."""
        await self._connection.close()


def open_anthropic(spec: ModelSpec) -> AnthropicProvider:
    """Claude, and with base_url any server that speaks the Messages API."""
    name = model_name(spec)
    options = read_options(f"Model {name}", spec.args, AnthropicOptions)
    check_generation_settings(name, spec.generation)
    address = resolve_address(spec, SERVICE)
    return AnthropicProvider(resolve_endpoint(spec, SERVICE, address, options.max_reply_bytes), options)
