"""What every provider over HTTP does, beyond what all do: checked against a real server on this machine.

class TestShout(HttpProviderContract):
    provider = "shout"
    opener = staticmethod(open_shout)

    def reply_body(self, scene):
        return {"said": scene.text, "why": scene.finish, "tokens": [scene.usage.input_tokens, ...], ...}
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import traceback
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any, ClassVar

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.errors import ModelError, PassingError
from holdfast.models.message import Message, Reply, Request
from holdfast.models.provider import Opener, Provider
from holdfast.spec import ModelSpec
from holdfast.testing.hostile_answers import no_replies, wrong_types
from holdfast.testing.provider_contract import ProviderContract
from holdfast.testing.provider_scene import (
    IMAGE_DATA,
    QUESTION,
    RESPONSE_SCHEMA,
    SCHEMA_MARK,
    TOOL_CALL,
    TOOL_RESULT,
    Scene,
    broken,
    check,
    picture_question,
)
from holdfast.testing.wire_server import WireAnswer, WireServer, wire_server

KEY_VARIABLE = "HOLDFAST_CONTRACT_KEY"
_KEY = "sk-contract-0123456789abcdef"
_SECONDS = 30.0
_LONG = 50 * 2**20


class HttpProviderContract(ProviderContract):
    """The checks of a provider over HTTP. A subclass has `provider`, `opener` and `reply_body`."""

    provider: ClassVar[str]
    opener: ClassVar[Opener]
    sends_key: ClassVar[bool] = True
    """Whether it sends the key that `api_key_env` names."""
    model: ClassVar[str] = "tiny"

    def reply_body(self, scene: Scene) -> Any:
        """The JSON of a successful answer: the text, finish, usage, model and tool calls of the scene."""
        raise NotImplementedError

    def error_body(self, scene: Scene) -> Any:
        """The JSON of an answer with an error."""
        return {"error": {"message": scene.message, "type": "contract_error"}}

    def open_at(self, base_url: str, **fields: Any) -> Provider:
        """The provider at an address; `fields` are further ones of the model's entry in an eval."""
        return type(self).opener(ModelSpec(provider=self.provider, model=self.model, base_url=base_url, **fields))

    def open_with_options(self, args: dict[str, Any]) -> Provider:
        return self.open_at("http://127.0.0.1:9/v1", args=args)

    @contextlib.asynccontextmanager
    async def playing(self, scene: Scene) -> AsyncIterator[Provider]:
        async with self.serving(self._answer(scene)) as (provider, _):
            yield provider

    @contextlib.asynccontextmanager
    async def serving(self, answer: WireAnswer) -> AsyncIterator[tuple[Provider, WireServer]]:
        """A provider and the server that it speaks to, which answers like this."""
        async with wire_server(answer) as server:
            with _key_in_environment():
                fields = {"api_key_env": KEY_VARIABLE} if self.sends_key else {}
                provider = self.open_at(server.base_url, **fields)
            try:
                yield provider, server
            finally:
                await provider.close()

    def _answer(self, scene: Scene) -> WireAnswer:
        is_reply = scene.status < 400
        wait = {} if scene.retry_after is None else {"Retry-After": f"{scene.retry_after:g}"}
        body = self.reply_body(scene) if is_reply else self.error_body(scene)
        return WireAnswer(msgspec.json.encode(body), scene.status, wait)

    # What is sent.

    def test_usage_is_what_the_server_counts(self) -> None:
        """Both sums, as they are."""
        usage = self.ask(Scene()).usage
        check(usage is not None and usage == Scene().usage, f"usage is {usage}; the server counts {Scene().usage}.")

    def test_one_request_is_sent_once(self) -> None:
        """Nothing is retried in a provider: whether to, the engine decides."""
        for status in (200, 429, 500, 503):
            count = len(self._sent(QUESTION, Scene(status=status)))
            check(count == 1, f"{count} requests were sent for one that is answered with {status}.")

    def test_the_conversation_is_sent_whole(self) -> None:
        """Every message, the calls of tools and their results."""
        request = Request(
            (
                Message("system", "contract system text"),
                Message("user", "contract first question"),
                Message("assistant", "contract first answer"),
                Message("user", "contract second question"),
                Message("assistant", "", tool_calls=(TOOL_CALL,)),
                Message("tool", TOOL_RESULT, tool_call_id=TOOL_CALL.id),
            )
        )
        texts = [message.text for message in request.messages if message.text]
        marks = [*texts, TOOL_CALL.id, TOOL_CALL.name] if self.calls_tools else texts[:4]
        asked = request if self.calls_tools else Request(request.messages[:4])
        self._check_sent(asked, marks)

    def test_a_schema_is_sent_if_it_is_declared(self) -> None:
        """A provider that says that it takes schemas sends them."""

        async def go() -> bool:
            async with self.serving(self._answer(Scene())) as (provider, _):
                return bool(getattr(provider, "takes_response_schema", False))

        if asyncio.run(go()):
            self._check_sent(Request(QUESTION.messages, QUESTION.generation, RESPONSE_SCHEMA), [SCHEMA_MARK])

    def test_an_image_is_sent_or_refused(self) -> None:
        """Its data is in the request, or an error names it; it is never left out."""
        try:
            self._check_sent(picture_question(), [IMAGE_DATA])
        except (ModelError, ConfigurationError) as error:
            check("image" in error.message.lower(), f"an image is refused without naming it: {error.message}")

    # Hostile answers.

    def test_what_is_no_reply_may_pass(self) -> None:
        """An answer that cannot be read is an outage: a retry may get a better one."""
        for name, answer in no_replies(self._answer(Scene()).body):
            error = self._ending(answer)
            check(isinstance(error, PassingError), f"{name} is {type(error).__name__}, not a PassingError.")

    def test_wrong_types_never_crash(self) -> None:
        """Whatever stands in a field: a reply that can be recorded, or a ModelError."""
        called = Scene(tool_calls=(TOOL_CALL,)) if self.calls_tools else Scene()
        for name, body in wrong_types(self._answer(called).body):
            ending = self._ending(WireAnswer(body))
            is_known = isinstance(ending, Reply | ModelError)
            check(is_known, f"with {name}, send() raises {type(ending).__name__}: {ending}")
            if isinstance(ending, Reply):
                msgspec.convert(msgspec.to_builtins(ending), Reply)

    def test_null_bytes_in_a_text_are_kept(self) -> None:
        """They are part of what the model said."""
        reply = self.ask(Scene(text="a\x00b"))
        check(reply.text == "a\x00b", f"the text is {reply.text!r}; the model said 'a\\x00b'.")

    def test_a_reply_of_fifty_megabytes(self) -> None:
        """It comes whole, or a ModelError says why it does not."""
        ending = self._ending(self._answer(Scene(text="x" * _LONG)))
        is_whole = isinstance(ending, Reply) and len(ending.text) == _LONG
        check(is_whole or isinstance(ending, ModelError), "a reply of 50 MB is neither whole nor a ModelError.")

    def test_a_server_that_is_not_there_may_come_back(self) -> None:
        """A refused connection is an outage."""

        async def go() -> Reply:
            with _key_in_environment():
                provider = self.open_at("http://127.0.0.1:9/v1")
            try:
                return await provider.send(QUESTION)
            finally:
                await provider.close()

        error = _ending_of(go)
        check(isinstance(error, PassingError), f"no connection is {type(error).__name__}, not a PassingError.")

    # Keys and connections.

    def test_a_key_is_in_no_error_and_no_reply(self) -> None:
        """Also where the server repeats it; not in the message, its cause or its traceback."""
        if not self.sends_key:
            return
        for status in (400, 401, 429, 500):
            error = self.failure(Scene(status=status, message=f"Incorrect key {_KEY} given"))
            shown = [*traceback.format_exception(error), error.hint, error.detail]
            check(_KEY not in "".join(shown), f"the error for {status} shows the key.")
        check(_KEY not in repr(self.ask(Scene(text=f"I know {_KEY}."))), "a reply holds the key.")

    def test_a_cancelled_request_leaves_nothing_open(self) -> None:
        """The server sees the connection close at once, and no task is left behind."""

        async def go() -> None:
            async with self.serving(WireAnswer(is_held=True)) as (provider, server):
                before = asyncio.all_tasks()
                sending = asyncio.create_task(provider.send(QUESTION))
                await server.arrived.wait()
                sending.cancel()
                ended = await asyncio.gather(sending, return_exceptions=True)
                check(isinstance(ended[0], asyncio.CancelledError), f"a cancelled send() ends with {ended[0]!r}.")
                await server.left.wait()
                await provider.close()
                own = {task for task in asyncio.all_tasks() - before if not task.done() and not _is_of_server(task)}
                check(not own, f"after a cancelled request these tasks still run: {own}.")

        try:
            asyncio.run(asyncio.wait_for(go(), _SECONDS))
        except TimeoutError:
            broken(f"{_SECONDS:g} s after a request was cancelled, its connection is still open.")

    def _sent(self, request: Request, scene: Scene) -> list[bytes]:
        """The bodies of what was sent for a request, whatever became of it."""

        async def go() -> list[bytes]:
            async with self.serving(self._answer(scene)) as (provider, server):
                expected = (ModelError,) if scene.status >= 400 else ()
                with contextlib.suppress(*expected):
                    await provider.send(request)
                return server.bodies

        return asyncio.run(go())

    def _check_sent(self, request: Request, marks: list[str]) -> None:
        body = b"".join(self._sent(request, Scene())).decode("utf-8", "replace")
        missing = [mark for mark in marks if mark not in body]
        check(not missing, f"the request that was sent lacks {missing}.")

    def _ending(self, answer: WireAnswer) -> object:
        """What one request comes to with this answer: the reply, or whatever was raised."""

        async def go() -> Reply:
            async with self.serving(answer) as (provider, _):
                return await provider.send(QUESTION)

        return _ending_of(go)


def _ending_of(go: Callable[[], Coroutine[Any, Any, Reply]]) -> object:
    async def gathered() -> object:
        found: list[object] = list(await asyncio.gather(go(), return_exceptions=True))
        return found[0]

    return asyncio.run(asyncio.wait_for(gathered(), 2 * _SECONDS))


def _is_of_server(task: asyncio.Task[Any]) -> bool:
    return "aiohttp.web" in repr(task.get_coro()) or "RequestHandler" in repr(task.get_coro())


@contextlib.contextmanager
def _key_in_environment() -> Iterator[None]:
    before = os.environ.get(KEY_VARIABLE)
    os.environ[KEY_VARIABLE] = _KEY
    try:
        yield
    finally:
        os.environ.pop(KEY_VARIABLE)
        if before is not None:
            os.environ[KEY_VARIABLE] = before
