"""One call of an agent: its command is run to its end, and what it says and how it ended becomes a reply.

An agent that has done its work is not started again, also if the runner was killed before it could record that. An
agent that was ended by a signal, or ended in vain without having done anything, is started again in a new
workspace, so often as the task says; then the call has failed, and the trial stays unfinished. A rate limit is waited
for, and the agent continues: with its own session where it has one and the workspace is as it was left, otherwise from
the beginning.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from holdfast.models.errors import ModelError, RateLimited, excerpt
from holdfast.models.message import UNKNOWN_USAGE, Reply, Request, Usage
from holdfast.models.redaction import redact
from holdfast.processes.completion import in_thread
from holdfast.processes.program import LOST, ProgramEnd, run_program
from holdfast.processes.supervisor_main import tree_digest
from holdfast.tasks.agents.agent_output import TEXT, AgentOutput, read_output
from holdfast.tasks.agents.agent_workspace import AgentWorkspace
from holdfast.tasks.agents.artifacts import LONGEST_TEXT, TrialArtifacts, read_own_file
from holdfast.tasks.agents.command_line import FreshWorkspace, filled, replay_script
from holdfast.tasks.agents.placed_trial import PlacedTrial
from holdfast.tasks.agents.rate_limit_waits import set_wait, wait_until
from holdfast.tasks.workspaces.capture import read_base
from holdfast.tasks.workspaces.storage_errors import check_disk, storage_errors
from holdfast.tasks.workspaces.tree_state import TreeReplaced, read_tree
from holdfast.terminal.text import quantity

AGENT = "agent"
"""Under this name a reply has what is recorded of the agent beside its message."""
WORKSPACE = "workspace"
"""Under this name that has the workspace in which the agent has worked."""
_LIMITED = "rate_limited"
_ENDED = "ended.json"
_NOT_STARTED = {126, 127}


class AgentGaveUp(ModelError):  # noqa: N818 - reads as a sentence where it is raised
    """The agent could not work, as often as it was started."""

    kind = "agent"


class _Said(NamedTuple):
    """The final message of an agent."""

    text: str
    is_cut: bool = False
    """Whether it is known not to be all of it."""


class AgentRun:
    """Runs the agent of one attempt, as a call of its model."""

    def __init__(self, trial: PlacedTrial, workspace: AgentWorkspace, prompt: str) -> None:
        self._trial, self._workspace, self._prompt = trial, workspace, prompt
        self._agent, self._directory = workspace.agent, workspace.directory
        self._artifacts = TrialArtifacts(workspace.run, trial.key, trial.attempt)
        self._spent: Usage | None = None
        """By runs that came to nothing, or to a rate limit."""
        self._odd_usage = ""

    @property
    def wait_until(self) -> float:
        return wait_until(self._workspace.run, self._trial.model)

    async def __call__(self, request: Request) -> Reply:  # noqa: ARG002 - the command gets the same prompt
        """Raises:
        RateLimited: its account may not be used for a while.
        ModelError: it could not work.
        StorageFailure: the disk is full, or fails.
        """
        with storage_errors(self._directory.root):
            return await self._call()

    async def _call(self) -> Reply:
        if (unrecorded := await in_thread(self._unrecorded_end)) is not None:
            end, output = unrecorded
        if unrecorded is not None and not await self._why_in_vain(end, output):
            self._directory.prompt.unlink(missing_ok=True)
            self._spend(output)
            return await in_thread(self._reply, end, output, self._filled(self._agent.command))
        for _ in range(self._agent.tries):
            command = await self._command()
            end, output = await self._run(command)
            self._spend(output)
            if output.limited_until is not None and not self._is_done(end, output):
                raise await self._limited(output, output.limited_until)
            why = await self._why_in_vain(end, output)
            if not why:
                return await in_thread(self._reply, end, output, command)
        error = AgentGaveUp(f"The agent {why}; it was started {quantity(self._agent.tries, 'time')}.")
        error.usage = self._spent
        raise error

    def _spend(self, output: AgentOutput) -> None:
        self._odd_usage = self._odd_usage or output.odd_usage
        if (usage := output.usage) is not None:
            self._spent = usage if self._spent is None else self._spent + usage

    # The command.

    async def _command(self) -> list[str]:
        """The command to run now, in a workspace that is fit for it."""
        session = await in_thread(self._session_to_resume)
        if not session:
            await self._workspace.ensure_fresh()
        given = self._agent.resume_command if session and self._agent.resume_command else self._agent.command
        await in_thread(self._write_prompt)
        return self._filled(given, session)

    def _filled(self, given: list[str] | str, session: str = "") -> list[str]:
        values = {
            "prompt": self._prompt,
            "prompt_file": str(self._directory.prompt),
            "workspace": str(self._directory.workspace),
            "model": self._trial.model_name,
            "session": session,
            "output": str(self._output_file),
        }
        return [*filled(self._agent.wrap, values), *filled(given, values)]

    def _write_prompt(self) -> None:
        self._directory.prompt.unlink(missing_ok=True)
        fd = os.open(self._directory.prompt, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with open(fd, "w", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - a descriptor
            file.write(self._prompt)

    @property
    def _output_file(self) -> Path:
        return self._directory.temporary / "output"

    def _session_to_resume(self) -> str:
        """The session of an agent that a kill or a rate limit has ended, if its workspace is as it left it."""
        state, end = self._directory.state, self._last_end()
        if self._agent.resume_command is None or end is None:
            return ""
        if end.cause not in {"runner", "ended"} and not (state / _LIMITED).exists():
            return ""
        return read_output(read_own_file(state / "stdout", self._most), self._agent.output, time.time()).session

    def _unrecorded_end(self) -> tuple[ProgramEnd, AgentOutput] | None:
        """How an agent has ended that had done its work when the runner was killed; None in every other case."""
        end = self._last_end()
        if end is None or end.cause or end.unwritten or (self._directory.state / _LIMITED).exists():
            return None
        data = read_own_file(self._directory.state / "stdout", self._most)
        output = read_output(data, self._agent.output, time.time())
        return (end, output) if self._is_done(end, output) and output.limited_until is None else None

    def _last_end(self) -> ProgramEnd | None:
        """How the last agent of this attempt has ended; None if that is unknown, or its workspace was changed since."""
        ready, workspace = self._directory.ready(), str(self._directory.workspace)
        if ready is None or not ready.used or (ready.attempt, ready.place) != (self._workspace.attempt, workspace):
            return None
        try:
            end = msgspec.json.decode((self._directory.state / _ENDED).read_bytes(), type=ProgramEnd)
        except (OSError, msgspec.MsgspecError):
            return None
        return end if end.tree and end.tree == tree_digest(workspace) else None

    @property
    def _most(self) -> int:
        return self._agent.limits.output + 4096

    async def _run(self, command: list[str]) -> tuple[ProgramEnd, AgentOutput]:
        self._directory.set_used()
        (self._directory.state / _LIMITED).unlink(missing_ok=True)
        self._output_file.unlink(missing_ok=True)
        program = self._workspace.program(command, self._directory.state, self._directory.workspace)
        try:
            end = await run_program(program)
        finally:
            self._directory.prompt.unlink(missing_ok=True)
        self._workspace.with_outputs(end, program.state)
        if end.exit_code not in self._agent.exit_codes:
            await in_thread(check_disk, program.state)
        return end, await in_thread(self._read_output, program.stdout)

    def _read_output(self, path: Path) -> AgentOutput:
        return read_output(read_own_file(path, self._most), self._agent.output, time.time())

    # Its end.

    def _is_done(self, end: ProgramEnd, output: AgentOutput) -> bool:
        """Whether it has ended as one that has done its work."""
        return end.exit_code in self._agent.exit_codes and not output.error

    async def _limited(self, output: AgentOutput, until: float) -> RateLimited:
        """Takes note of a rate limit, for this and every other trial of the model."""
        (self._directory.state / _LIMITED).touch()
        reason = excerpt(output.error, 200)
        await in_thread(set_wait, self._workspace.run, self._trial.model, until, reason)
        return RateLimited(f"The agent's account has reached a limit: {reason}", retry_after=until - time.time())

    async def _why_in_vain(self, end: ProgramEnd, output: AgentOutput) -> str:
        """Why the agent has to be started again, in words; empty if it need not."""
        if end.cause.startswith("limit "):
            return ""
        if end.signal or end.cause == LOST:
            return end.text
        if output.error and output.is_outage:
            return f"was stopped by its service: {excerpt(output.error, 200)}"
        if end.exit_code in _NOT_STARTED or any(end.bytes.values()) or output.error or self._said(end, output).text:
            return ""
        return "" if await in_thread(self._has_changed) else f"{end.text} without having done anything"

    def _has_changed(self) -> bool:
        with contextlib.suppress(OSError, TreeReplaced):
            base = read_base(self._directory)
            after = read_tree(self._directory.workspace, base)
            same = base.entries.keys() == after.entries.keys()
            return not same or any(not entry.is_same(base.entries[path]) for path, entry in after.entries.items())
        return True

    def _reply(self, end: ProgramEnd, output: AgentOutput, command: list[str]) -> Reply:
        said = self._said(end, output)
        message = redact(said.text)[-LONGEST_TEXT:]
        files = self._keep_files(command)
        told: dict[str, Any] = {"ended": msgspec.to_builtins(end), "outputs": files, "session": output.session}
        if said.is_cut or len(said.text) > LONGEST_TEXT:
            told["message_cut"] = True
        if failed := self._failure(end, output):
            told["failed"] = failed
        if output.cost is not None:
            told["reported_cost"] = output.cost
        told["ended"].pop("tree", None)
        # On disk before the reply is: what is captured after a power loss is what the agent has left.
        if (used := self._directory.used()) is not None:
            told[WORKSPACE] = msgspec.to_builtins(used)
        return Reply(
            content=message,
            finish="stop",
            usage=self._spent,
            model=output.model,
            id=output.session,
            other={AGENT: told},
            warnings={UNKNOWN_USAGE: self._odd_usage} if self._odd_usage else {},
        )

    def _said(self, end: ProgramEnd, output: AgentOutput) -> _Said:
        """Its final message: from its structured output, from the file that it was given for it, or all it printed."""
        most = 4 * LONGEST_TEXT
        data = read_own_file(self._output_file, most + 1)
        own = data[:most].decode("utf-8", "replace").strip()
        if output.is_structured and self._agent.output != TEXT and output.text:
            return _Said(output.text)
        if own:
            return _Said(own, len(data) > most)
        return _Said(output.text, not output.is_structured and "stdout" in end.cut)

    def _failure(self, end: ProgramEnd, output: AgentOutput) -> str:
        """Why the attempt has failed, if it has: the agent reports an error, or ended as none does that is done."""
        if output.error:
            return f"The agent reports an error: {excerpt(output.error)}"
        if end.exit_code in self._agent.exit_codes and not end.cause.startswith("limit "):
            return ""
        said = read_own_file(self._directory.state / "stderr", self._most).decode("utf-8", "replace").strip()
        return f"The agent {end.text}. {excerpt(said[-500:])}".rstrip()

    def _keep_files(self, command: list[str]) -> dict[str, Any]:
        """Keeps its outputs in the run, with the prompt and the script that runs it once more."""
        state = self._directory.state
        kept = {
            name: self._artifacts.keep(name, read_own_file(state / name, self._most)) for name in ("stdout", "stderr")
        }
        workspace = self._workspace
        fresh = FreshWorkspace(workspace.run.absolute(), self._trial.key, workspace.templates, workspace.spec.setup)
        prompt, kept_prompt = str(self._directory.prompt), self._artifacts.path("prompt.txt")
        again = [argument.replace(prompt, str(kept_prompt)) for argument in command]
        depth = len(kept_prompt.relative_to(fresh.run).parts) - 1
        script = replay_script(again, self._agent.env, self._directory, fresh, depth)
        kept["prompt"] = self._artifacts.keep("prompt.txt", redact(self._prompt).encode("utf-8", "surrogateescape"))
        kept["replay"] = self._artifacts.keep(
            "replay.sh", redact(script).encode("utf-8", "surrogateescape"), executable=True
        )
        return kept
