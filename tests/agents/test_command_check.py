"""Commands of agents that cannot work are refused before anything is run."""

from __future__ import annotations

import sys

import pytest

from holdfast.errors import ConfigurationError
from holdfast.tasks.agents.command_agent import command_agent
from holdfast.tasks.agents.command_check import check_commands, check_program


def check_both(agent):
    check_commands(agent)
    check_program(agent)


def refused(command, **options):
    agent = command_agent(command, **options).agent
    with pytest.raises(ConfigurationError) as caught:
        check_both(agent)
    return str(caught.value)


@pytest.mark.parametrize(
    ("command", "options", "said"),
    [
        ([], {}, "agent.command is empty"),
        (["/nowhere/agent"], {}, "the program /nowhere/agent does not exist"),
        (["/usr"], {}, "the program /usr is a directory"),
        (["/etc/passwd"], {}, "the program /etc/passwd is not executable"),
        (["no-such-agent"], {}, "the program no-such-agent is not on the PATH"),
        ([sys.executable], {"wrap": ["/nowhere/box"]}, "agent.wrap: the program /nowhere/box does not exist"),
        ([sys.executable, "{session}"], {}, "nothing fills in '{session}'"),
        ([sys.executable, "{prompt"], {}, "nothing fills in '{prompt'"),
        ([sys.executable, "a\0b"], {}, "holds a NUL character"),
        ([sys.executable], {"exit_codes": []}, "agent.exit_codes is empty"),
        ([sys.executable], {"env": ["A=b"]}, "'A=b' is not the name of a variable"),
    ],
)
def test_a_command_that_cannot_work_is_refused(command, options, said):
    assert said in refused(command, **options)


def test_what_may_work_is_not_refused():
    """Code and JSON have braces of their own, and a wrapped command may exist only elsewhere."""
    check_commands(command_agent([sys.executable, "-c", "print({1: 2})", '{"a": "{prompt}"}', "{prompt}"]).agent)
    check_commands(command_agent(["elsewhere"], wrap=["env"], resume_command=["elsewhere", "{session}"]).agent)
    check_commands(command_agent(["./in-the-workspace"]).agent)
    check_commands(command_agent("cat {prompt_file} > {output}").agent)
