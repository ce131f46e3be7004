"""What a solver sees of the trial it is running."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Protocol, overload

from holdfast.models.message import Message, Reply
from holdfast.tasks.answer import Answer, AnswerSource
from holdfast.tasks.sample import Sample

if TYPE_CHECKING:
    from uuid import UUID

OnInterrupted = Literal["again", "fail"]
OnToolError = Literal["report", "fail"]
Prompt = str | Message | Sequence[Message]
ResponseSchema = dict[str, Any] | None
Tools = Sequence[Callable[..., Any]]
"""Functions that a model may call, plain or made with `@tool`."""


class Sampled(Protocol):
    """What a sampling came to: the chosen candidate, all the others, and why it ended."""

    success: bool
    """Whether the chosen candidate meets every requirement."""
    stop_reason: str

    @property
    def text(self) -> str:
        """The chosen text; raises ValueError where no candidate was chosen."""

    @property
    def reply(self) -> Reply:
        """The chosen reply; raises ValueError where no candidate was chosen."""

    @property
    def chosen(self) -> Any: ...
    @property
    def candidates(self) -> list[Any]: ...
    def as_answer(self) -> Answer: ...


class Trial(Protocol):
    """One trial; everything that it does through this object is durable."""

    @property
    def sample(self) -> Sample: ...
    @property
    def epoch(self) -> int: ...
    @property
    def seed(self) -> int:
        """A seed of this trial's own, the same in every session."""

    @property
    def model(self) -> str:
        """The name of the model under test."""

    @property
    def axes(self) -> Mapping[str, str]:
        """The value on each axis of the task's grid."""

    @property
    def chosen(self) -> Mapping[str, str]:
        """The value that was chosen for each axis value of the trial that depends on others."""

    @property
    def args(self) -> Mapping[str, Any]:
        """The arguments of the task, and those that the trial's axis values give instead."""

    @property
    def axis_files(self) -> Mapping[str, str]:
        """The files of the trial's axis values: by the path in its workspace, where the run's copy of each is."""

    @property
    def messages(self) -> tuple[Message, ...]:
        """The conversation so far, as the asyncio task that asks sees it."""

    # One call of the model; replayed where its reply is on record, and never paid twice.
    #
    # With a strategy or with requirements it is one sampling of the model: its candidates and its choice are durable
    # as well, and the conversation continues from the chosen one. Without a strategy, one candidate is drawn.
    # Validators get the `validation_context`, or the sample if none is given.
    #
    # `response_schema` is a JSON Schema that the reply has to fit. Where the provider does not send one, the reply is
    # any text: whoever reads it has to cope with that.
    #
    # `tools` are functions that the model may call. A reply may then have `tool_calls`, which `call_tools` carries out.
    @overload
    async def generate(
        self,
        prompt: Prompt,
        *,
        strategy: Any,
        requirements: Sequence[Any] = (),
        validation_context: Any = None,
        response_schema: ResponseSchema = None,
        **generation: Any,
    ) -> Sampled: ...
    @overload
    async def generate(
        self,
        prompt: Prompt,
        *,
        requirements: Sequence[Any],
        validation_context: Any = None,
        response_schema: ResponseSchema = None,
        **generation: Any,
    ) -> Sampled: ...
    @overload
    async def generate(
        self, prompt: Prompt, *, response_schema: ResponseSchema = None, tools: Tools = (), **generation: Any
    ) -> Reply: ...
    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        on_interrupted: OnInterrupted = "again",
        **kwargs: Any,
    ) -> Any:
        """One durable action; what it returned or raised is recorded, and returned or raised again when replayed.

        `on_interrupted` says what becomes of a step that was killed half-way: it runs again, or the attempt fails.
        """

    async def call_tools(
        self, reply: Reply, tools: Tools, *, parallel: bool = True, on_error: OnToolError = "report"
    ) -> list[Message]:
        """Carries out the tool calls of a reply, each as a durable step; a message with the result of each, in order.

        Wrong arguments, and what a tool raises, are results too, which the model reads; with `on_error="fail"`, what a
        tool raises is raised here. Continue with `trial.generate([*trial.messages, *results], tools=tools)`.
        """

    def reach_limit(self, name: str) -> NoReturn:
        """Ends the trial as limited by `name`, for a bound that the solver sets itself."""

    async def now(self) -> dt.datetime:
        """The time, in UTC; recorded, and the same when replayed."""

    async def random(self) -> float:
        """A random number from 0 up to 1; recorded, and the same when replayed."""

    async def uuid(self) -> UUID:
        """A random UUID; recorded, and the same when replayed."""

    def scope(self, name: str) -> TrialScope:
        """A named place inside the trial: `with trial.scope("draft"):`, or `await trial.scope("draft").generate(…)`.

        What is asked in it is found again by its name, whatever else the solver does. Names nest with a slash.
        """


class TrialScope(Protocol):
    """A named place inside a trial; one branch of the solver may use it at a time."""

    def __enter__(self) -> None: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...
    @overload
    async def generate(
        self,
        prompt: Prompt,
        *,
        strategy: Any,
        requirements: Sequence[Any] = (),
        validation_context: Any = None,
        response_schema: ResponseSchema = None,
        **generation: Any,
    ) -> Sampled: ...
    @overload
    async def generate(
        self,
        prompt: Prompt,
        *,
        requirements: Sequence[Any],
        validation_context: Any = None,
        response_schema: ResponseSchema = None,
        **generation: Any,
    ) -> Sampled: ...
    @overload
    async def generate(
        self, prompt: Prompt, *, response_schema: ResponseSchema = None, tools: Tools = (), **generation: Any
    ) -> Reply: ...
    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        on_interrupted: OnInterrupted = "again",
        **kwargs: Any,
    ) -> Any: ...
    async def call_tools(
        self, reply: Reply, tools: Tools, *, parallel: bool = True, on_error: OnToolError = "report"
    ) -> list[Message]: ...
    async def now(self) -> dt.datetime: ...
    async def random(self) -> float: ...
    async def uuid(self) -> UUID: ...


class ScoreScope(Protocol):
    """Passed to a scorer with a parameter `scope`: everything that it does through this object is durable."""

    @property
    def question(self) -> str:
        """What the model under test was asked: the prompt of the task or, with a solver of one's own, the input."""

    @property
    def sample_key(self) -> str:
        """The id of the sample or, where it has none, the digest that stands for it."""

    @property
    def epoch(self) -> int:
        """Which repetition of the sample is scored, from 1."""

    @property
    def axes(self) -> Mapping[str, str]:
        """The value on each axis of the task's grid."""

    async def generate(
        self,
        prompt: Prompt,
        *,
        model: str = "",
        response_schema: ResponseSchema = None,
        tools: Tools = (),
        **generation: Any,
    ) -> Reply:
        """One call of a model as a judge: of one of the eval's, or of the one under test if none is named.

        A text continues the conversation with the model under test; a call of a named one is a conversation of its own.
        """

    async def step(
        self,
        name: str,
        function: Callable[..., Any],
        /,
        *args: Any,
        on_interrupted: OnInterrupted = "again",
        **kwargs: Any,
    ) -> Any:
        """As `Trial.step`."""

    async def call_tools(
        self, reply: Reply, tools: Tools, *, parallel: bool = True, on_error: OnToolError = "report"
    ) -> list[Message]:
        """As `Trial.call_tools`."""

    async def now(self) -> dt.datetime: ...
    async def random(self) -> float: ...
    async def uuid(self) -> UUID: ...

    def scope(self, name: str) -> TrialScope:
        """As `Trial.scope`."""


Solver = Callable[[Trial], Awaitable[Answer | AnswerSource | Reply | str]]
