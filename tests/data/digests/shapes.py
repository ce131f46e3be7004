"""Code of the kinds that people write, for the golden digests: whatever is in SHAPES has one."""

from __future__ import annotations

import enum
import functools
import re
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import neighbour
from neighbour import PROMPTS, Style, greet

import holdfast
from holdfast import Answer, Message, Sample, Score, Task, choice, exact, generate, includes, numeric, regex, scorer
from holdfast.models.message import Usage
from holdfast.tasks.template import Template

HERE = Path(__file__).parent
LIMIT = 3
WORD = re.compile(r"[A-Z][a-z]+", re.IGNORECASE)
LONG = re.compile("|".join(f"word{number}" for number in range(100)))


async def plain(trial):
    return await trial.generate(f"{PROMPTS['first']} {trial.sample.input}")


async def with_helpers(trial):
    reply = await trial.generate(greet(trial.sample.input))
    return Answer(reply.text[:LIMIT]) if WORD.match(reply.text) else neighbour.fallback(reply)


async def with_holdfast(trial):
    messages = [holdfast.Message("user", "one"), Message("user", "two")]
    return (await trial.generate(messages)).text or Usage()


def closing_over(*held, default=None):
    async def solve(trial, extra=default):
        return held, extra, await trial.generate("go")

    return solve


class Colour(enum.Enum):
    RED = 1
    BLUE = "blue"


@dataclass
class Settings:
    name: str = "plain"
    colour: Colour = Colour.RED
    words: list[str] = field(default_factory=lambda: ["a", "b"])


class Record(msgspec.Struct):
    text: str
    style: type = Style


class Agent:
    def __init__(self, style, tools):
        self.style, self.tools = style, tools

    async def __call__(self, trial):
        return await trial.generate(self.style.name)

    async def solve(self, trial):
        return await trial.generate(str(self.tools))


@scorer
def short(answer, sample):
    return len(answer.text) < LIMIT


@scorer(name="by words", needs_target=True)
async def by_words(answer, sample):
    return Score(float(exact()(answer, sample).value), explanation=str(WORD.findall(answer.text)))


def build():
    return Task(samples=[Sample("Say {a}", target="b")], solve=generate("Q: {input}"), score=[exact(), short])


SHAPES = {
    "a function": plain,
    "helpers of two files": with_helpers,
    "names of holdfast": with_holdfast,
    "closes over plain values": closing_over(1, 2.5, "text", b"bytes", None, True, (1, 2), {"b": 1, "a": [2]}),
    "closes over sets": closing_over({"b", "a"}, frozenset({3, 1})),
    "closes over classes in a set": closing_over({Settings, Agent, Style}),
    "closes over functions in a map": closing_over({"a": greet, "b": plain}),
    "closes over classes as keys": closing_over({Settings: 1, Agent: 2}),
    "closes over enums": closing_over(Colour.RED, Colour.BLUE),
    "closes over a pattern": closing_over(WORD),
    "closes over scorers": closing_over(exact(), includes(), regex("a+"), numeric(), choice(), short),
    "closes over a solver": closing_over(generate("Q: {input}", temperature=0.5)),
    "closes over messages": closing_over(Message("user", "hi"), Sample("x", target="y"), Answer("z"), Score(1.0)),
    "closes over a template": closing_over(Template.parse("a {b}")),
    "closes over holdfast's functions": closing_over(exact, generate, scorer, holdfast.evaluate, holdfast.Run),
    "closes over modules": closing_over(holdfast, neighbour, re),
    "a default of holdfast": closing_over(default=exact(ignore_case=True)),
    "a data class": closing_over(Settings("named")),
    "a struct": closing_over(Record("text")),
    "a callable object": Agent(Style("polite"), [greet, exact()]),
    "a bound method": Agent(Style("rude"), {"tool": greet}).solve,
    "a partial": functools.partial(plain, extra=regex("x")),
    "a scorer": short,
    "an async scorer that asks a built-in": by_words,
    "a task's function": holdfast.task(build),
    "closes over a long pattern": closing_over(LONG),
    "closes over a task": closing_over(build()),
    "an error": closing_over(holdfast.ModelError, holdfast.UsageError),
}
PLACED = {
    "closes over its directory": closing_over(HERE, str(HERE / "data.txt"), __file__),
    "closes over its module's name": closing_over(__name__),
}
