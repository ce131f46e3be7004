"""What every provider does, as tests: subclass this, say how a scene is played, and let pytest collect the subclass.

    class TestShout(ProviderContract):
        @contextlib.asynccontextmanager
        async def playing(self, scene):
            provider = open_shout(...)
            yield provider
            await provider.close()

A provider over HTTP has a subclass of `HttpProviderContract`, which has a server of its own and checks more. Neither
needs anything but an assertion-friendly test runner; every check runs in an event loop of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar, TypeVar

import msgspec

from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.models.errors import ModelError, PassingError, RateLimited, Rejected
from holdfast.models.message import Message, Reply, Request, Usage
from holdfast.models.provider import Provider
from holdfast.testing.provider_scene import (
    QUESTION,
    RESPONSE_SCHEMA,
    TOOL_CALL,
    TOOL_RESULT,
    ContractBroken,
    Scene,
    broken,
    check,
    picture_question,
)

Found = TypeVar("Found")
_SECONDS = 60.0
_PASSING = (500, 502, 503, 504, 529)


class ProviderContract:
    """The checks of any provider. A subclass overrides `playing`, `open_with_options` and what differs."""

    calls_tools: ClassVar[bool] = True
    """Whether its model can call tools."""

    def playing(self, scene: Scene) -> contextlib.AbstractAsyncContextManager[Provider]:
        """A provider whose model does what the scene says; it is closed at the end."""
        raise NotImplementedError

    def open_with_options(self, args: dict[str, Any]) -> Provider:
        """The provider, opened with these `args`; the contract gives one that does not exist."""
        raise NotImplementedError

    # Replies.

    def test_a_plain_reply(self) -> None:
        """The text is the model's, and the reply can be recorded as it is."""
        reply = self.ask(Scene())
        check(reply.text == "Paris", f"the text of the reply is {reply.text!r}; the model said 'Paris'.")
        again = msgspec.json.decode(msgspec.json.encode(reply), type=Reply)
        check(again == reply, "the reply is not the same after it was recorded and read.")

    def test_usage_is_counted_or_unknown(self) -> None:
        """Whole numbers of tokens, or None; never a guess."""
        usage = self.ask(Scene()).usage
        check(usage is None or isinstance(usage, Usage), f"usage is {usage!r}, neither a Usage nor None.")
        counts = () if usage is None else (usage.input_tokens, usage.output_tokens)
        check(
            all(type(count) is int and count >= 0 for count in counts),
            f"usage has counts that are not numbers of tokens: {usage}.",
        )

    def test_a_finish_reason_has_its_usual_spelling(self) -> None:
        """`stop` and `length`, whatever the server calls them."""
        for reason in ("stop", "length"):
            finish = self.ask(Scene(finish=reason)).finish
            check(finish == reason, f"finish is {finish!r} where the reply ended by {reason!r}.")

    def test_the_served_name_is_reported(self) -> None:
        """`Reply.model` is what the server says, which a resumed session compares."""
        name = self.ask(Scene(model="served-model-2")).model
        check(name == "served-model-2", f"Reply.model is {name!r}; the server reports 'served-model-2'.")

    def test_tool_calls_make_a_round_trip(self) -> None:
        """A call comes back with its id, name and arguments, and a request with its result can be sent."""
        if not self.calls_tools:
            return
        reply = self.ask(Scene(text="", finish="tool_calls", tool_calls=(TOOL_CALL,)))
        (call,) = reply.tool_calls or broken("the reply of a model that calls a tool has no tool_calls.")
        check(
            (call.id, call.name, msgspec.json.decode(call.arguments))
            == (TOOL_CALL.id, TOOL_CALL.name, msgspec.json.decode(TOOL_CALL.arguments)),
            f"the call came back as {call}.",
        )
        result = Message("tool", TOOL_RESULT, tool_call_id=call.id)
        request = Request((*QUESTION.messages, reply.message, result), QUESTION.generation)
        check(self.ask(Scene(), request).text == "Paris", "a conversation with the result of a tool has no reply.")

    def test_a_response_schema_is_declared_and_taken(self) -> None:
        """`takes_response_schema` is a boolean, and a request with a schema has a reply either way."""

        async def go(provider: Provider) -> Reply:
            takes = getattr(provider, "takes_response_schema", False)
            check(isinstance(takes, bool), f"takes_response_schema is {takes!r}, not a boolean.")
            return await provider.send(Request(QUESTION.messages, QUESTION.generation, RESPONSE_SCHEMA))

        check(self.play(Scene(), go).text == "Paris", "a request with a response_schema has no reply.")

    def test_an_image_is_taken_or_refused(self) -> None:
        """A message with an image has a reply, or an error that says what is wrong."""
        try:
            self.ask(Scene(), picture_question())
        except (ModelError, ConfigurationError) as error:
            check("image" in error.message.lower(), f"an image is refused without naming it: {error.message}")

    # Errors.

    def test_a_rate_limit_is_waited_out(self) -> None:
        """429 is RateLimited, with the wait that the server asks for."""
        error = self.failure(Scene(status=429, retry_after=7.0))
        check(isinstance(error, RateLimited), f"429 is {type(error).__name__}, not RateLimited.")
        check(getattr(error, "retry_after", None) == 7.0, "the wait that the server asks for is lost.")

    def test_an_outage_may_pass(self) -> None:
        """5xx is an error that a retry may cure."""
        for status in _PASSING:
            error = self.failure(Scene(status=status))
            check(isinstance(error, PassingError), f"{status} is {type(error).__name__}, not a PassingError.")

    def test_a_refused_key_closes_the_model(self) -> None:
        """401 is Rejected, with its status: the model is then disabled for the session."""
        error = self.failure(Scene(status=401))
        check(isinstance(error, Rejected), f"401 is {type(error).__name__}, not Rejected.")
        check(error.status == 401, f"the status of a refused key is {error.status}, not 401.")

    def test_a_refused_request_is_not_retried(self) -> None:
        """400 is Rejected, and has the words of the server."""
        error = self.failure(Scene(status=400, message="contract says no"))
        check(isinstance(error, Rejected), f"400 is {type(error).__name__}, not Rejected.")
        check("contract says no" in f"{error.message} {error.detail}", "the server's words are lost.")

    # Opening and closing.

    def test_an_unknown_option_is_refused(self) -> None:
        """By name, when the model is opened."""
        try:
            self.open_with_options({"no_such_option": 1})
        except ConfigurationError as error:
            check("no_such_option" in str(error), f"the refusal does not name the option: {error}")
        else:
            broken("an unknown option is accepted.")

    def test_closing_twice_is_harmless(self) -> None:
        """Before the first request, and after the last."""

        async def go(provider: Provider) -> None:
            await provider.send(QUESTION)
            await provider.close()
            await provider.close()

        self.play(Scene(), go)
        self.play(Scene(), _close_only)

    def test_many_requests_at_once(self) -> None:
        """Twenty of them, each with its own reply, in one event loop."""

        async def go(provider: Provider) -> list[Reply]:
            return await asyncio.gather(*(provider.send(QUESTION) for _ in range(20)))

        texts = [reply.text for reply in self.play(Scene(), go)]
        check(texts == ["Paris"] * 20, f"twenty requests at once have the replies {texts}.")

    # What subclasses use.

    def play(self, scene: Scene, act: Callable[[Provider], Awaitable[Found]]) -> Found:
        """Does something with a provider whose model does what the scene says."""

        async def go() -> Found:
            async with self.playing(scene) as provider:
                return await act(provider)

        return asyncio.run(asyncio.wait_for(go(), _SECONDS))

    def ask(self, scene: Scene, request: Request = QUESTION) -> Reply:
        """The reply to one request."""
        return self.play(scene, lambda provider: provider.send(request))

    def failure(self, scene: Scene, request: Request = QUESTION) -> ModelError:
        """The error that one request ends with."""
        try:
            reply = self.ask(scene, request)
        except ModelError as error:
            return error
        except HoldfastError as error:
            problem = f"{type(error).__name__} is not a ModelError: {error}"
        else:
            problem = f"a model that fails with {scene.status} has the reply {reply.content!r}."
        raise ContractBroken(problem)


async def _close_only(provider: Provider) -> None:
    await provider.close()
