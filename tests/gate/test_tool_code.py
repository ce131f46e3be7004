"""The code of tools is part of a task: an edited one is refused, however the agent got it."""

from __future__ import annotations

import pytest
from code_project import code

HEAD = "from holdfast import agent, tool\nimport functools\n"
SHAPES = {
    "a function": "def find(word: str) -> str:\n    return word + 'before'\n",
    "a decorated one": "@tool\ndef find(word: str) -> str:\n    return word + 'before'\n",
    "a bound method": """
class Finder:
    def __init__(self, end):
        self.end = end

    def look(self, word: str) -> str:
        return word + self.end + 'x'

find = Finder('before').look
""",
    "a closure": """
def make(end):
    def look(word: str) -> str:
        return word + end
    return look

find = tool(make('before'), name='find')
""",
    "a partial": """
def look(word: str, end: str) -> str:
    return word + end

find = tool(functools.partial(look, end='before'), name='find', description='d')
""",
    "a helper": """
END = ['before']

def end():
    return END[0]

def find(word: str) -> str:
    return word + end()
""",
}
SOLVING = """
async def solve(trial):
    reply = await trial.generate(trial.sample.input, tools=[find])
    for _ in range(2 if reply.tool_calls else 0):
        await trial.call_tools(reply, [find])
    return reply
"""


@pytest.mark.parametrize("by", ["agent(tools=[find])", "solve"])
@pytest.mark.parametrize("shape", SHAPES)
def test_resume_62_an_edited_tool_is_refused(project, shape, by):
    """Through `agent(tools=…)` and through a solver of one's own: what it is, and what it holds."""
    project.write(tk=code(HEAD + SHAPES[shape] + SOLVING, solver=by))
    project.run()
    assert "cannot be compared" not in project.accepted()
    project.edit("'before'", "'afterwards'")
    said = project.refused()
    assert "afterwards" in said or "has changed" in said
    project.edit("'afterwards'", "'before'")
    project.accepted()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("max_turns=3", "max_turns=4", "tools in tk.py has changed"),
        ("Finds.", "Finds a word.", "tools in tk.py has changed"),
        ("max_iterations=5", "max_iterations=6", "max_iterations in tk.py has changed"),
    ],
)
def test_resume_12_another_loop_is_refused(project, old, new, words):
    """The turns, what the model reads of a tool, and the calls that a trial may make."""
    text = code(
        HEAD + "def find(word: str):\n    'Finds.'\n", solver="agent(tools=[find], max_turns=3), max_iterations=5"
    )
    project.write(tk=text)
    project.run()
    project.edit(old, new)
    assert words in project.refused()


def test_a_description_counts_in_a_solver_of_ones_own(project):
    """The docstring of a tool is sent to the model, so it is no mere comment."""
    project.write(tk=code(HEAD + "def find(word: str):\n    'Finds.'\n" + SOLVING))
    project.run()
    project.edit("Finds.", "Finds a word.")
    project.refused()
