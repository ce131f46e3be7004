"""What can be known to be wrong with the commands of an agent, or to look so, before one is started."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

from holdfast.errors import ConfigurationError
from holdfast.spec import AgentSpec
from holdfast.tasks.agents.command_line import PLACEHOLDERS

_SESSION = "session"
_LIKE_PLACEHOLDER = re.compile(r"(?<![$\{\w])\{([A-Za-z_]\w*)\}(?!\})")
"""What is written like a placeholder; `${name}` is a variable of the shell."""


def check_commands(agent: AgentSpec) -> None:
    """Raises ConfigurationError where a command is empty, or holds a placeholder that nothing fills in."""
    _check_command(agent.command, "agent.command", [name for name in PLACEHOLDERS if name != _SESSION])
    if agent.resume_command is not None:
        _check_command(agent.resume_command, "agent.resume_command", PLACEHOLDERS)
    if not agent.exit_codes:
        raise ConfigurationError(
            "agent.exit_codes is empty: no agent could do its work.", hint="Give the exit codes of success, or [0]."
        )
    for name in agent.env:
        if "=" in name or "\0" in name:
            raise ConfigurationError(
                f"agent.env: {name!r} is not the name of a variable.",
                hint="Give names alone; the values come from the environment of holdfast.",
            )


def check_program(agent: AgentSpec) -> None:
    """Raises ConfigurationError where the program of an agent is not on this machine."""
    first, field = (agent.wrap, "agent.wrap") if agent.wrap else (agent.command, "agent.command")
    if not isinstance(first, str):
        # A command that is wrapped may exist only where the wrapper takes it.
        _check_program(first[0], field)


def command_warnings(agent: AgentSpec) -> Iterator[str]:
    """What looks like a mistake in the commands of an agent, and may be meant."""
    known = ", ".join(f"{{{name}}}" for name in PLACEHOLDERS)
    for field in ("command", "resume_command", "wrap"):
        command = getattr(agent, field) or []
        text = command if isinstance(command, str) else " ".join(command)
        for name in dict.fromkeys(_LIKE_PLACEHOLDER.findall(text)):
            if name not in PLACEHOLDERS:
                yield f"agent.{field} has {{{name}}}, which nothing fills in: it stays as it is. Known: {known}."
    for name in agent.env:
        if name not in os.environ:
            yield f"agent.env names {name}, which is not set here: the agent does not get it. Set it, or remove it."


def _check_command(command: Sequence[str] | str, field: str, known: Sequence[str]) -> None:
    words = [command] if isinstance(command, str) else list(command)
    if not words or not words[0].strip():
        raise ConfigurationError(f"{field} is empty.", hint="Give the program and its arguments.")
    if any("\0" in word for word in words):
        raise ConfigurationError(f"{field} holds a NUL character, which no argument can.", hint="Remove it.")
    if isinstance(command, str):
        # The shell has braces of its own.
        return
    for word in words:
        _check_placeholders(word, field, known)


def _check_placeholders(word: str, field: str, known: Sequence[str]) -> None:
    """Only a word that is a placeholder and nothing else is checked: others may be code or JSON."""
    found = word.removeprefix("{").removesuffix("}")
    is_whole = word == f"{{{found}}}"
    if not word.startswith("{") or found not in PLACEHOLDERS or (is_whole and found in known):
        return
    names = ", ".join(f"{{{name}}}" for name in known)
    raise ConfigurationError(f"{field}: nothing fills in {word!r}.", hint=f"The placeholders are {names}.")


def _check_program(program: str, field: str) -> None:
    if "{" in program or ("/" in program and not os.path.isabs(program)):  # noqa: PTH117 - a text, not a path yet
        # It is in the workspace.
        return
    if shutil.which(program) is not None:
        return
    path = Path(program)
    state = "is not on the PATH"
    if "/" in program:
        state = "is a directory" if path.is_dir() else "is not executable" if path.exists() else "does not exist"
    raise ConfigurationError(f"{field}: the program {program} {state}.", hint="Check its name, or install it.")
