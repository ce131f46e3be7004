"""A task in Python with files beside it: run once, edited, and offered to the gate by real processes."""

from __future__ import annotations

import textwrap
from typing import Any

TAIL = """

@task
def t():
    return Task(samples=[Sample("a", id="s1", target="a")], solver=SOLVER, scorers=SCORER)
"""
IMPORTS = "from holdfast import Sample, Task, exact, scorer, task\n"


def code(text: str, solver: str = "solve", scorer: str = "exact()") -> str:
    """A task file around a piece of code."""
    return IMPORTS + textwrap.dedent(text) + TAIL.replace("SOLVER", solver).replace("SCORER", scorer)


class Project:
    """A task file with others beside it, run once; every command is a process of its own."""

    def __init__(self, world: Any, holdfast: Any) -> None:
        self.world, self.holdfast, self.directory = world, holdfast, world.directory

    def write(self, **files: str) -> None:
        for name, text in files.items():
            path = self.directory / name.replace("__", "/")
            path = path if path.suffix else path.with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))

    def call(self, *words: object, code: int, **environment: str) -> Any:
        """The program; Python looks at its own variables when it starts, so they need a process from the beginning."""
        if not any(name.startswith("PYTHON") for name in environment):
            return self.holdfast(*words, code=code, **environment)
        ended = self.holdfast.start(*words, **environment).wait()
        assert ended.code == code, ended
        return ended

    def run(self, *words: str, **environment: str) -> None:
        self.world.data["tasks"], self.world.data["datasets"] = {"t": {"use": "tk.py:t"}}, {}
        self.call("run", self.world.write(), "--run-dir", "r", *words, code=0, **environment)

    def edit(self, old: str, new: str, name: str = "tk.py") -> None:
        path = self.directory / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))

    def refused(self, **environment: str) -> str:
        before = self.world.everything()
        ended = self.call("resume", "r", code=3, **environment)
        assert self.world.everything() == before
        return str(ended.err)

    def accepted(self, **environment: str) -> str:
        return str(self.call("resume", "r", code=0, **environment).err)
