"""A solver that has a command work on the task in a workspace: prepare, solve and capture are durable stages.

The workspace is made (prepare), the agent works in it (solve), and what it has changed is taken from it, with the
results of the task's checks (capture). The answer is the agent's final message, the patch, or both; its value has all
that is known of the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, cast

import msgspec

from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.models.command.provider import CURRENT_AGENT_CALL
from holdfast.models.errors import ModelError
from holdfast.models.message import Reply
from holdfast.models.redaction import redact
from holdfast.processes.completion import in_thread
from holdfast.processes.program import ProgramEnd
from holdfast.spec import AgentSpec, WorkspaceSpec
from holdfast.spec.whole_numbers import convert_arguments
from holdfast.storage.operating_system import names_processes
from holdfast.tasks.agents.agent_run import AGENT, WORKSPACE, AgentRun
from holdfast.tasks.agents.agent_workspace import SHOWN, AgentWorkspace
from holdfast.tasks.agents.artifacts import LONGEST_TEXT, TrialArtifacts, cited_files
from holdfast.tasks.agents.command_check import check_commands, check_program, command_warnings
from holdfast.tasks.agents.placed_trial import PlacedTrial
from holdfast.tasks.agents.rate_limit_waits import forget_waits
from holdfast.tasks.agents.sandbox import sandbox_named
from holdfast.tasks.answer import Answer
from holdfast.tasks.sample import Sample
from holdfast.tasks.solver import Generate, Prompts, generate
from holdfast.tasks.stages import Stage, WorkLost
from holdfast.tasks.trial_interface import Trial
from holdfast.tasks.workspaces.capture import capture_value, capture_workspace
from holdfast.tasks.workspaces.git_command import git_command
from holdfast.tasks.workspaces.left_files import WorkspaceChange
from holdfast.tasks.workspaces.storage_errors import check_disk, storage_errors
from holdfast.tasks.workspaces.trial_directory import TrialDirectory, UsedWorkspace, remove_unfinished
from holdfast.tasks.workspaces.workspace_template import PackedTemplate, WorkspaceTemplate

REVISION = 1
"""Raised whenever the same task gives an agent another workspace, another prompt or another answer."""
_CUT = {
    "message": "The final message of an agent is longer than what is kept of it, so its answer is not whole.",
    "diff": "The patch of an agent's changes is not whole (patch_cut), so its answer is not whole either.",
}
_KEPT_ALWAYS, _LOST = "unfinished", "lost"
_AGAIN = "To have the agent work again, which is paid for again: `holdfast resume RUN --from prepare --where trial={}`."


class AgentFailed(HoldfastError):  # noqa: N818 - reads as a sentence where it is raised
    """The agent has worked, and has not done its work."""

    kind = "task"


class WorkspaceChanged(ModelError):  # noqa: N818 - as above
    """The workspace of a trial is not the one that its agent has left: it is elsewhere, of other work, or was changed.

    As an error of the infrastructure it leaves the trial unfinished. So a resume looks once more, and never pays for
    another agent by itself.
    """

    kind = "workspace"


class CommandAgent(Generate, frozen=True, kw_only=True):
    """Has a command work on every sample, in a workspace of its own."""

    agent: AgentSpec
    workspace: WorkspaceSpec = WorkspaceSpec()
    packed: PackedTemplate | None = None
    """The template in its file; None as long as no run has it."""

    @property
    def stages(self) -> tuple[Stage, ...]:
        return (Stage("prepare", self._prepare), Stage("solve", self._solve), Stage("capture", self._capture))

    async def __call__(self, trial: Trial) -> Reply:
        """Never called: its stages are run."""
        raise NotImplementedError

    # What it is.

    @property
    def template(self) -> WorkspaceTemplate:
        """Where its workspaces come from."""
        own = self.workspace
        return WorkspaceTemplate(own.path or "", own.repo or "", own.commit or "HEAD", own.files)

    def own_settings(self) -> dict[str, Any]:
        """What its answers depend on beside the prompt."""
        agent = self.agent
        workspace = {"setup": self.workspace.setup, "checks": self.workspace.checks}
        return {
            AGENT: {
                "revision": REVISION,
                "command": agent.command,
                "resume_command": agent.resume_command,
                "wrap": agent.wrap,
                "sandbox": [agent.sandbox, agent.network],
                "output": [agent.output, agent.answer, agent.exit_codes],
                "limits": msgspec.to_builtins(agent.limits),
            },
            "workspace": {**workspace, "template": self.packed.identity if self.packed else ""},
        }

    def identity(self, sample: Sample, axes: Mapping[str, str]) -> dict[str, Any]:
        return {**super().identity(sample, axes), "solver": "command_agent", **self.own_settings()}

    def check_tools(self) -> None:
        """Raises ConfigurationError where something that it needs is missing on this machine."""
        if not names_processes():
            raise ConfigurationError(
                "Agents cannot be run on this system: it does not say which processes one has started, so they could"
                " not be ended with it.",
                hint="Run this eval on Linux.",
            )
        check_commands(self.agent)
        git_command()
        sandbox_named(self.agent.sandbox).check()

    def warnings(self) -> list[str]:
        """What looks like a mistake in its commands, and may be meant."""
        return list(command_warnings(self.agent))

    def check_program(self) -> None:
        """Raises ConfigurationError where its program is missing on this machine."""
        check_program(self.agent)

    def start_session(self, run: Path) -> None:
        """Before the first trial of a session: what a killed one has left is ended and removed."""
        forget_waits()
        remove_unfinished(run)

    # Its stages.

    def _place(self, trial: Trial) -> AgentWorkspace:
        if self.packed is None:
            raise ConfigurationError("The template of the workspace is not in the run.")
        return AgentWorkspace(cast("PlacedTrial", trial), self.agent, self.workspace, self.packed)

    async def _prepare(self, trial: Trial, outcomes: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - as every stage
        return await self._place(trial).prepare()

    async def _solve(self, trial: Trial, outcomes: Mapping[str, Any]) -> dict[str, Any]:  # noqa: ARG002 - as above
        messages = self.messages(trial.sample, trial.axes)
        prompt = "\n\n".join(message.text for message in messages)
        run = AgentRun(cast("PlacedTrial", trial), self._place(trial), prompt)
        token = CURRENT_AGENT_CALL.set(run)
        try:
            reply = await trial.generate(messages)
        finally:
            CURRENT_AGENT_CALL.reset(token)
        told = dict(reply.other.get(AGENT, {}))
        # Also those of an agent that has failed.
        cast("PlacedTrial", trial).cite_artifacts(self.cited_artifacts({"solve": told}))
        if failed := told.get("failed"):
            raise AgentFailed(failed)
        return {"message": reply.content, **told}

    async def _capture(self, trial: Trial, outcomes: Mapping[str, Any]) -> dict[str, Any]:
        """What the agent has changed is on record before a check can change the workspace."""
        place = self._place(trial)
        used = msgspec.convert(outcomes["solve"].get(WORKSPACE), UsedWorkspace | None)
        _check_workspace(place, used)
        artifacts = TrialArtifacts(place.run, cast("PlacedTrial", trial).key, place.attempt)
        found = await trial.step("changes", partial(self._changes, place, artifacts, used))
        if lost := found.get(_LOST):
            raise WorkLost(f"The workspace {place.directory.workspace} cannot be captured: {lost}.")
        checks = [
            await trial.step(f"check-{number}", partial(self._check, place, artifacts, number, command))
            for number, command in enumerate(self.workspace.checks, 1)
        ]
        return {**found, "checks": checks}

    async def _changes(
        self, place: AgentWorkspace, artifacts: TrialArtifacts, used: UsedWorkspace | None
    ) -> dict[str, Any]:
        return await in_thread(self._captured, place, artifacts, used)

    def _captured(self, place: AgentWorkspace, artifacts: TrialArtifacts, used: UsedWorkspace | None) -> dict[str, Any]:
        with storage_errors(place.directory.root):
            return self._taken(place, artifacts, used)

    def _taken(self, place: AgentWorkspace, artifacts: TrialArtifacts, used: UsedWorkspace | None) -> dict[str, Any]:
        # An attempt that keeps the work of an earlier one finds what the checks of that one have made as well.
        if used is not None and used.attempt == place.attempt and (change := place.directory.change_since(used)):
            if not change.is_lost:
                raise _changed_workspace(place.directory, change)
            return {_LOST: change.text}
        found = capture_workspace(place.directory, place.file, place.overlays, self.agent.limits.output)
        # The file keeps every byte; the text is for reading.
        raw = redact(found.patch.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
        patch = raw.decode("utf-8", "replace")
        kept = artifacts.keep("diff.patch", raw)
        value = {**capture_value(found), "diff": patch[:LONGEST_TEXT], "diff_file": kept}
        return {**value, "patch_cut": True} if len(patch) > LONGEST_TEXT else value

    async def _check(
        self, place: AgentWorkspace, artifacts: TrialArtifacts, number: int, command: str
    ) -> dict[str, Any]:
        name = f"check-{number}"
        if not place.directory.workspace.is_dir() or place.directory.workspace.is_symlink():
            return {"command": command, "exit_code": None, "ended": "could not be run: the workspace is gone"}
        with storage_errors(place.directory.root):
            end: ProgramEnd = await place.run_shell(command, name)
            if end.exit_code != 0:
                await in_thread(check_disk, place.directory.state)
            printed, kept = await in_thread(_kept_output, place, artifacts, name)
        return {
            "command": command,
            "exit_code": end.exit_code,
            "ended": end.text,
            "output": printed[-SHOWN:],
            "file": kept,
        }

    def answer(self, trial: Trial, outcomes: Mapping[str, Any]) -> Answer:
        """The answer, from the outcomes of all stages."""
        solved, captured = outcomes["solve"], outcomes["capture"]
        texts = {
            "message": solved["message"],
            "diff": captured["diff"],
            "both": "\n\n".join(filter(None, (solved["message"], captured["diff"]))),
        }
        known = {name: value for name, value in solved.items() if name != WORKSPACE}
        cut = {"message": solved.get("message_cut"), "diff": captured.get("patch_cut")}
        if missing := [name for name in cut if cut[name] and self.agent.answer in {name, "both"}]:
            cast("PlacedTrial", trial).note_cut_answer(_CUT[missing[0]])
        return Answer(texts[self.agent.answer], value={**captured, **known})

    def cited_artifacts(self, outcomes: Mapping[str, Any]) -> dict[str, str]:
        """The files in the run that the outcomes of stages name."""
        solved, captured = outcomes.get("solve", {}), outcomes.get("capture", {})
        checks = [check.get("file") for check in captured.get("checks", ())]
        return cited_files(*solved.get("outputs", {}).values(), captured.get("diff_file"), *checks)

    async def clean_up(self, trial: Trial, status: str) -> None:
        """Removes the workspace of a trial that has ended, or keeps it."""
        kept = {"never": set[str](), "failed": {"failed"}}.get(self.workspace.keep)
        if status == _KEPT_ALWAYS or kept is None or status in kept:
            return
        placed = cast("PlacedTrial", trial)
        await in_thread(TrialDirectory(placed.run_root, placed.key).remove)


def _check_workspace(place: AgentWorkspace, used: UsedWorkspace | None) -> None:
    """Raises WorkLost if the workspace is gone, and WorkspaceChanged if it is not the one the agent has worked in."""
    ready, where = place.directory.ready(), place.directory.workspace
    hint = f"Resume the run on the machine that has it. {_AGAIN.format(place.directory.root.name)}"
    if ready is None:
        text = (
            f"The workspace {where}, in which the agent has worked, is gone: the agent or somebody else has deleted it"
            " or what is noted beside it, or the run was copied without it."
        )
        raise WorkLost(text) if used is not None and used.place == str(where) else WorkspaceChanged(text, hint=hint)
    if used is not None and (ready.attempt, ready.place) != (used.attempt, used.place):
        raise WorkspaceChanged(
            f"The workspace {where} is that of attempt {ready.attempt} in {ready.place}; the agent has worked in that"
            f" of attempt {used.attempt} in {used.place}.",
            hint=hint,
        )


def _changed_workspace(directory: TrialDirectory, change: WorkspaceChange) -> WorkspaceChanged:
    key = directory.root.name
    ways = f"Undo the changes and resume. To capture it as it is now: `--from capture --where trial={key}`. "
    return WorkspaceChanged(
        f"The workspace {directory.workspace} was not captured: {change.text}.",
        hint=(ways if change.can_be_captured else "") + _AGAIN.format(key),
    )


def _kept_output(place: AgentWorkspace, artifacts: TrialArtifacts, name: str) -> tuple[str, dict[str, Any]]:
    printed = "\n".join(filter(None, (place.output_tail(name, "stdout"), place.output_tail(name, "stderr"))))
    return printed, artifacts.keep(f"{name}.txt", printed.encode("utf-8", "replace"))


def command_agent(
    command: list[str] | str,
    prompt: Prompts = "{input}",
    *,
    workspace: WorkspaceSpec | Mapping[str, Any] | None = None,
    **options: Any,
) -> CommandAgent:
    """A solver that has a command work on each sample, in a copy of the workspace.

    `options` are the other fields of `agent` in an eval file, such as `output`, `env` and `sandbox`.

    Raises:
        ConfigurationError: an option is unknown or wrong.
    """
    try:
        agent = convert_arguments({"command": command, **options}, AgentSpec)
        given = (
            workspace
            if isinstance(workspace, WorkspaceSpec)
            else convert_arguments(dict(workspace or {}), WorkspaceSpec)
        )
    except msgspec.ValidationError as error:
        raise ConfigurationError(f"An option of command_agent() is wrong: {error}.") from None
    return agent_solver(generate(prompt), agent, _absolute(given))


def _absolute(workspace: WorkspaceSpec) -> WorkspaceSpec:
    repo = workspace.repo
    return msgspec.structs.replace(
        workspace,
        path=str(Path(workspace.path).absolute()) if workspace.path else None,
        repo=str(Path(repo).absolute()) if repo and "://" not in repo else repo,
        files={place: str(Path(source).absolute()) for place, source in workspace.files.items()},
    )


def agent_solver(prompts: Generate, agent: AgentSpec, workspace: WorkspaceSpec | None) -> CommandAgent:
    """An agent that is asked with these prompts."""
    return CommandAgent(
        prompts=prompts.prompts, system=prompts.system, agent=agent, workspace=workspace or WorkspaceSpec()
    )
