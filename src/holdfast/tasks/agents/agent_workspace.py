"""The workspace of one attempt: made, completed by the setup command, and made again where it was used.

A preparation that fails leaves nothing: no directory, no process.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

from holdfast.digests import json_digest
from holdfast.errors import HoldfastError
from holdfast.models.redaction import known_secrets, redact
from holdfast.processes.completion import completed, in_thread
from holdfast.processes.program import Program, ProgramEnd, ProgramLimits, run_program
from holdfast.spec import AgentSpec, WorkspaceSpec
from holdfast.tasks.agents.artifacts import read_own_file
from holdfast.tasks.agents.command_line import agent_environment
from holdfast.tasks.agents.placed_trial import PlacedTrial
from holdfast.tasks.agents.sandbox import Confinement, sandbox_named
from holdfast.tasks.workspaces.capture import write_base
from holdfast.tasks.workspaces.checkout import TemplateFile, check_out
from holdfast.tasks.workspaces.storage_errors import check_disk, storage_errors, storage_failure
from holdfast.tasks.workspaces.trial_directory import REPOSITORIES, WORKSPACES, TrialDirectory
from holdfast.tasks.workspaces.workspace_template import PackedTemplate

SHOWN = 2000
_SHELL_SECONDS = 1800.0


class SetupFailed(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """The setup command of a workspace has failed."""

    kind = "task"


class AgentWorkspace:
    """The workspace of one attempt, and the commands that run in it."""

    def __init__(
        self, trial: PlacedTrial, agent: AgentSpec, workspace: WorkspaceSpec, template: PackedTemplate
    ) -> None:
        self.agent, self.spec, self.template = agent, workspace, template
        self.attempt = trial.attempt
        self.run: Path = trial.run_root
        self.directory = TrialDirectory(self.run, trial.key)
        self.file = TemplateFile(self.run, template.digest)
        self._axis_files = trial.axis_copies
        self.overlays = [TemplateFile(self.run, packed.digest) for packed in self._axis_files.values()]

    async def prepare(self) -> dict[str, Any]:
        """Makes the workspace anew.

        Raises:
            SetupFailed: its setup command has failed.
            ConfigurationError: git has failed.
            StorageFailure: the disk is full, or fails.
        """
        with storage_errors(self.directory.root):
            return await self._prepare()

    async def _prepare(self) -> dict[str, Any]:
        directory = self.directory
        try:
            await in_thread(directory.make)
            await in_thread(check_out, self.file, directory, self.overlays)
            if self.spec.setup:
                await self._set_up(self.spec.setup)
            state = await in_thread(write_base, directory)
            directory.set_ready(self.identity, self.attempt)
        except BaseException:
            await completed(in_thread(directory.remove))
            raise
        found = {"template": self.template.identity, "files": len(state.entries)}
        own = {path: packed.identity for path, packed in self._axis_files.items()}
        return {**found, "axis_files": own} if own else found

    @property
    def identity(self) -> str:
        """That of everything that the workspace is made from: the template, and the files of axis values."""
        own = [[path, packed.identity] for path, packed in self._axis_files.items()]
        return json_digest([self.template.identity, own]) if own else self.template.identity

    @property
    def templates(self) -> list[str]:
        """The digests of the files that it is made from: the template, and what is laid over it."""
        return [self.template.digest, *(packed.digest for packed in self._axis_files.values())]

    async def ensure_fresh(self) -> None:
        """Makes it anew, unless it is as it was prepared."""
        if not self.directory.is_fresh(self.identity, self.attempt):
            await self.prepare()

    async def _set_up(self, command: str) -> None:
        end = await self.run_shell(command, "setup")
        if end.exit_code != 0:
            await in_thread(check_disk, self.directory.state)
            said = self.output_tail("setup", "stderr") or self.output_tail("setup", "stdout")
            raise SetupFailed(f"The setup command of the workspace {end.text}: {said[-SHOWN:]}".rstrip(": "))

    async def run_shell(self, command: str, name: str) -> ProgramEnd:
        """Runs a shell command in the workspace, as the agent is run; its outputs are in `state/<name>`."""
        state = self.directory.state / name
        state.mkdir(exist_ok=True)
        program = self.program(["/bin/sh", "-c", command], state)
        try:
            end = await asyncio.wait_for(run_program(program), _SHELL_SECONDS)
        except TimeoutError:
            return ProgramEnd(cause="limit time", seconds=_SHELL_SECONDS)
        return self.with_outputs(end, state)

    def with_outputs(self, end: ProgramEnd, state: Path) -> ProgramEnd:
        """The end of a program whose outputs are in `state`.

        Raises:
            StorageFailure: not all of what it printed could be written.
        """
        if end.unwritten:
            raise storage_failure(state, end.unwritten)
        return end

    def program(self, command: list[str], state: Path, tree: Path | None = None) -> Program:
        """A command as a program: in the workspace, in its sandbox, with its limits."""
        directory, limits = self.directory, self.agent.limits
        confinement = Confinement(
            (directory.workspace, directory.home, directory.temporary),
            directory.workspace,
            self.agent.network,
            hidden=self.run.absolute(),
            readable=(directory.prompt, self.run.absolute() / WORKSPACES / REPOSITORIES),
        )
        env = agent_environment(self.agent.env, directory)
        return Program(
            command=sandbox_named(self.agent.sandbox).wrap(command, confinement),
            cwd=directory.workspace,
            env=env,
            state=state,
            limits=ProgramLimits(
                limits.output, limits.processes, limits.memory or 0, limits.cpu or 0, limits.file_size or 0
            ),
            grace=self.agent.grace,
            needles=known_secrets.pairs,
            tree=tree,
        )

    def output_tail(self, name: str, stream: str) -> str:
        """The end of what a shell command has printed."""
        data = read_own_file(self.directory.state / name / stream, self.agent.limits.output + 4096)
        return redact(data.decode("utf-8", "replace").strip())
