"""What a task asks and how it scores, found out without the product: the task is executed with a trial made here.

As a program: `observed_task.py DIRECTORY FILE NAME` prints one JSON object with the prompts, answers and scores.
`holdfast` is a stand-in here, so that nothing of the product takes part in the judgement.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import importlib.util
import inspect
import json
import os
import sys
import types
from typing import Any


@dataclasses.dataclass
class Sample:
    input: Any
    target: Any = None
    id: Any = None
    choices: Any = None
    metadata: Any = dataclasses.field(default_factory=dict)
    scoring: Any = dataclasses.field(default_factory=dict)


@dataclasses.dataclass
class Score:
    value: Any
    answer: Any = None
    explanation: str = ""
    metadata: Any = None


@dataclasses.dataclass
class Said:
    """A reply, and an answer."""

    text: str
    value: Any = None


@dataclasses.dataclass
class Message:
    role: str
    content: Any


class Task:
    def __init__(self, **given: Any) -> None:
        self.given = given


def scorer(function: Any = None, **options: Any) -> Any:
    return function if function is not None else (lambda found: found)


def task(function: Any) -> Any:
    return function


class Trial:
    """Writes down what it is asked; its model answers with the question."""

    def __init__(self, sample: Sample, log: list[Any]) -> None:
        self.sample, self.log = sample, log
        self.epoch, self.seed, self.model, self.axes, self.messages = 1, 7, "m", {}, []

    async def generate(self, prompt: Any, **parameters: Any) -> Said:
        self.log.append(["generate", prompt, sorted(parameters.items())])
        return Said(json.dumps(prompt, default=repr) if not isinstance(prompt, str) else prompt)

    async def step(self, name: str, function: Any, *given: Any, **named: Any) -> Any:
        found = function(*given, **named)
        found = await found if inspect.isawaitable(found) else found
        self.log.append(["step", name, found])
        return found

    @contextlib.contextmanager
    def scope(self, name: str) -> Any:
        self.log.append(["scope", name])
        yield self


def stand_in() -> types.ModuleType:
    module = types.ModuleType("holdfast")
    for thing in (Message, Sample, Score, Task, scorer, task):
        setattr(module, thing.__name__, thing)
    module.Answer = Said  # type: ignore[attr-defined]
    return module


async def observe(made: Task) -> dict[str, Any]:
    """Prompts, answers and scores of every sample."""
    seen: list[Any] = []
    scorers = made.given["scorers"]
    for sample in made.given["samples"]:
        log: list[Any] = []
        answer = await made.given["solver"](Trial(sample, log))
        text = answer if isinstance(answer, str) else answer.text
        scores = []
        for judge in scorers if isinstance(scorers, list | tuple) else [scorers]:
            found = judge(Said(text), sample)
            found = await found if inspect.isawaitable(found) else found
            scores.append(found.value if isinstance(found, Score) else found)
        seen.append({"asked": log, "answer": text, "scores": scores})
    return {"seen": seen}


def main(directory: str, file: str, name: str) -> None:
    os.chdir(directory)
    sys.path.insert(0, directory)
    sys.modules["holdfast"] = stand_in()
    sys.dont_write_bytecode = True
    spec = importlib.util.spec_from_file_location("drawn_task_file", os.path.join(directory, file))  # noqa: PTH118
    module = importlib.util.module_from_spec(spec)
    sys.modules["drawn_task_file"] = module
    spec.loader.exec_module(module)
    found = getattr(module, name)
    made = found if isinstance(found, Task) else found()
    print("OBSERVED " + json.dumps(asyncio.run(observe(made)), default=repr))


if __name__ == "__main__":
    main(*sys.argv[1:])
