"""The usual solver: a prompt made from the sample, one call of the model, its reply as the answer.

The messages are the system text, the worked examples and the prompt, in that order. Several prompts are variants: the
axis "prompt" of the grid says which one a trial asks with.
"""

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec

from holdfast.errors import ConfigurationError, ToolCallReply
from holdfast.models.message import Message, Reply
from holdfast.spec import Generation, Shot
from holdfast.suggestions import did_you_mean, listing
from holdfast.tasks.choices import fields_on_axes, prompt_text
from holdfast.tasks.prompt import as_messages
from holdfast.tasks.sample import Sample
from holdfast.tasks.template import Template
from holdfast.tasks.trial_interface import Trial

AXIS = "prompt"
SCHEMA = "response_schema"
"""The parameter of a call beside those of its generation: a JSON Schema that the reply has to fit."""
TOOLS = "tools"
"""The parameter of a call that offers the model tools."""
REVISION = 1
"""Raised whenever the same prompt and sample give other messages than before."""

_NO_TOOLS = (
    "A task without a solver of its own runs no tools: offer the model none, or let them run with tools: [file.py:name]"
    " or agent(tools=[…]), or write a solver (docs/solvers.md in Holdfast's repository)."
)

Prompts = str | Sequence[str] | Mapping[str, str]


class Generate(msgspec.Struct, frozen=True, kw_only=True):
    """Asks once; what it asks is fixed by the sample and the axis alone."""

    is_sampled: ClassVar[bool] = False
    """Whether it draws several replies and chooses among them, as a subclass does."""

    prompts: dict[str, Template]
    system: Template | None = None
    shots: tuple[Shot, ...] = ()
    shot_template: Template | None = None
    generation: dict[str, Any] = msgspec.field(default_factory=dict)

    async def __call__(self, trial: Trial) -> Reply:
        reply: Reply = await trial.generate(self.messages(trial.sample, trial.axes), **self.generation)
        if reply.tool_calls:
            _refuse_tool_calls(reply)
        return reply

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that it asks beside the one under test: none, unless a subclass does."""
        return ()

    @property
    def has_cost_cap(self) -> bool:
        """Whether the price of a model decides how many replies a subclass asks for."""
        return False

    def draw_identity(self) -> dict[str, Any] | None:
        """What decides which reply is the answer, where a subclass asks for several."""
        return None

    def tool_identity(self) -> dict[str, Any] | None:
        """What a loop of calls depends on, where a subclass offers the model tools."""
        return None

    def own_settings(self) -> dict[str, Any]:
        """What answers depend on beside prompts and draws, by name, where a subclass does more than ask."""
        return {}

    @property
    def own_parts(self) -> tuple[object, ...]:
        """The person's own code that a subclass draws and checks with, or offers as tools."""
        return ()

    @property
    def variants(self) -> list[str]:
        """The values on the axis; none where there is only one prompt without a name."""
        return [] if list(self.prompts) == [""] else list(self.prompts)

    @property
    def templates(self) -> tuple[Template, ...]:
        """Every text that is made from the fields of a sample."""
        return (*self.prompts.values(), *([self.system] if self.system is not None else []))

    @property
    def stand_in(self) -> Template | None:
        """What the input of a sample is when no text asks for it: the first prompt."""
        return None if any(text.names("input") for text in self.templates) else next(iter(self.prompts.values()))

    def messages(self, sample: Sample, axes: Mapping[str, str], place: str = "the sample") -> tuple[Message, ...]:
        """Everything that is sent for a sample."""
        template = self._variant(axes)
        system = self.system.render(fields_on_axes(sample, axes), place) if self.system else None
        if isinstance(sample.input, list):
            return as_messages((*self._example_turns(), *_continued(sample.input, template, place)), system)
        text = prompt_text(template, sample, place, axes)
        if not self.shots:
            return as_messages((Message("user", text),), system)
        return as_messages((*self._example_turns(), Message("user", self._example_text() + text)), system)

    def question(self, sample: Sample, axes: Mapping[str, str]) -> Any:
        """What is asked about a sample in a variant of the prompt, without system text and examples."""
        template = self._variant(axes)
        if isinstance(sample.input, list):
            return list(_continued(sample.input, template, "the sample"))
        return prompt_text(template, sample, "the sample", axes)

    def identity(self, sample: Sample, axes: Mapping[str, str]) -> dict[str, Any]:
        """What a trial's answer depends on here: what is asked, and how."""
        messages = msgspec.to_builtins(self.messages(sample, axes))
        own = {"solver": "generate", "revision": REVISION, "messages": messages, "generation": self.generation}
        further = {"sampling": self.draw_identity(), "tools": self.tool_identity()}
        return own | {name: value for name, value in further.items() if value is not None}

    def check(self, sample: Sample, place: str) -> None:
        """Raise if any of the prompts cannot be made from the sample."""
        for variant in self.prompts:
            self.messages(sample, {AXIS: variant}, place)

    def _variant(self, axes: Mapping[str, str]) -> Template:
        name = axes.get(AXIS, "") if len(self.prompts) > 1 or "" not in self.prompts else ""
        if name not in self.prompts:
            raise ConfigurationError(
                f"There is no prompt variant {name!r}; there are {listing(self.prompts)}.",
                hint=did_you_mean(name, self.prompts),
            )
        return self.prompts[name]

    def _example_turns(self) -> list[Message]:
        if self.shot_template is not None:
            return []
        pairs = [(Message("user", shot.input), Message("assistant", shot.output)) for shot in self.shots]
        return [message for pair in pairs for message in pair]

    def _example_text(self) -> str:
        if self.shot_template is None:
            return ""
        shown = [self.shot_template.render(msgspec.structs.asdict(shot), "an example") for shot in self.shots]
        return "".join(f"{text}\n\n" for text in shown)


def generate(
    prompt: Prompts = "{input}",
    *,
    system: str | None = None,
    few_shot: Sequence[Shot | tuple[str, str]] = (),
    few_shot_template: str | None = None,
    **generation: Any,
) -> Generate:
    """A solver that calls the model once. Several prompts, in a list or by name, are variants.

    Raises:
        ConfigurationError: a template or a generation parameter is wrong.
    """
    check_generation(generation)
    return Generate(
        prompts=_prompts(prompt),
        system=None if system is None else Template.parse(system, "system text"),
        shots=tuple(shot if isinstance(shot, Shot) else Shot(*shot) for shot in few_shot),
        shot_template=None if few_shot_template is None else Template.parse(few_shot_template, "few-shot template"),
        generation=generation,
    )


def _refuse_tool_calls(reply: Reply) -> None:
    """Refuses a reply that calls tools instead of answering, in the words of someone who has written no solver."""
    try:
        _ = reply.text
    except ToolCallReply as error:
        raise ToolCallReply(error.message, hint=_NO_TOOLS) from None


def check_generation(given: dict[str, Any]) -> None:
    """Looks at the parameters of one call.

    Raises:
        ConfigurationError: one of them is unknown, or its value is out of range.
    """
    known = (*Generation.__struct_encode_fields__, SCHEMA)
    for name in given:
        if name == TOOLS:
            raise ConfigurationError("generate() runs no tools.", hint="Use agent(tools=[...]), which does.")
        if name not in known:
            raise ConfigurationError(
                f"generate() takes no parameter {name!r}; it takes {listing(known)}.", hint=did_you_mean(name, known)
            )
    generation, schema = split_schema(given)
    try:
        msgspec.convert(generation, Generation)
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"A parameter of generate() is wrong: {error}.") from None
    if schema is not None:
        _check_schema(schema)


def split_schema(given: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """The parameters of one call that say how its reply is drawn, and the schema that the reply has to fit, if any."""
    generation = dict(given)
    return generation, generation.pop(SCHEMA, None)


def _check_schema(schema: object) -> None:
    """Raises ConfigurationError if it cannot be the JSON Schema of a reply; whether it is a valid one, servers say."""
    hint = f'As in {SCHEMA}={{"type": "object", "properties": {{...}}, "required": [...]}}.'
    if not isinstance(schema, dict) or not all(isinstance(name, str) for name in schema):
        raise ConfigurationError(
            f"{SCHEMA} is a {type(schema).__name__}; it has to be a JSON Schema, a dict.", hint=hint
        )
    try:
        msgspec.json.encode(schema)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise ConfigurationError(f"{SCHEMA} cannot be sent as JSON: {error}.", hint=hint) from None


def _prompts(given: Prompts) -> dict[str, Template]:
    if isinstance(given, str):
        return {"": Template.parse(given, "prompt")}
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        named = {str(number): text for number, text in enumerate(given, start=1)}
    if not named or "" in named:
        raise ConfigurationError("A task needs a prompt.", hint="Give a text, a list of texts or texts by name.")
    return {name: Template.parse(text, f"prompt {name!r}") for name, text in named.items()}


def _continued(messages: list[Message], template: Template, place: str) -> list[Message]:
    """The conversation that the sample brings along; a prompt has no place in it."""
    if template.text != "{input}":
        raise ConfigurationError(
            f"The input of {place} is a list of messages, which the {template.where} cannot be made from.",
            hint="Leave the prompt out, or give the input as a text.",
        )
    return messages
