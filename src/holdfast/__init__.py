"""Holdfast runs evaluations of language models and never loses a finished result."""

from __future__ import annotations

from holdfast.version import __version__

# Not that of `typing`, which takes longer to load than all of this: until it is loaded, Ctrl-C shows a traceback.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from holdfast.analysis.report import Report
    from holdfast.api.evaluate import evaluate, evaluate_async
    from holdfast.api.fork import fork
    from holdfast.api.model_set import ModelSet
    from holdfast.api.reading.result_files import write_result
    from holdfast.api.rescore import rescore, rescore_async
    from holdfast.api.run import Run
    from holdfast.api.sample import sample
    from holdfast.errors import (
        ConfigurationError,
        HoldfastError,
        NotARun,
        ReplyWithoutText,
        ResumeAborted,
        RunHeld,
        StepError,
        StepInterrupted,
        StorageFailure,
        ToolCallReply,
        UndecodableReply,
        UsageError,
    )
    from holdfast.models.content import ImagePart, RawPart, TextPart, ToolCall
    from holdfast.models.errors import Blocked, ModelError
    from holdfast.models.message import Message, Reply, Usage
    from holdfast.run.remote.list_runs import list_recoverable
    from holdfast.run.remote.recover import recover, recover_async
    from holdfast.spec import TrialLimits
    from holdfast.tasks.agents.command_agent import command_agent
    from holdfast.tasks.answer import Answer
    from holdfast.tasks.judges.model_graded import model_graded
    from holdfast.tasks.sample import Sample
    from holdfast.tasks.score import Score
    from holdfast.tasks.scorers.checks import checks
    from holdfast.tasks.scorers.choice import choice
    from holdfast.tasks.scorers.exact import exact
    from holdfast.tasks.scorers.function import scorer
    from holdfast.tasks.scorers.includes import includes
    from holdfast.tasks.scorers.numeric import numeric
    from holdfast.tasks.scorers.regex import regex
    from holdfast.tasks.solver import generate
    from holdfast.tasks.stages import Stage
    from holdfast.tasks.task import Task, task
    from holdfast.tasks.tools.agent import agent
    from holdfast.tasks.tools.tool import Tool, tool
    from holdfast.tasks.trial_interface import ScoreScope, Trial

# Where each public name is defined; it is loaded when it is first asked for, so that importing costs nothing.
_HOMES = {
    "Answer": "holdfast.tasks.answer",
    "Blocked": "holdfast.models.errors",
    "ConfigurationError": "holdfast.errors",
    "HoldfastError": "holdfast.errors",
    "TrialLimits": "holdfast.spec",
    "ImagePart": "holdfast.models.content",
    "Message": "holdfast.models.message",
    "ModelError": "holdfast.models.errors",
    "ModelSet": "holdfast.api.model_set",
    "NotARun": "holdfast.errors",
    "RawPart": "holdfast.models.content",
    "Reply": "holdfast.models.message",
    "ReplyWithoutText": "holdfast.errors",
    "Report": "holdfast.analysis.report",
    "ResumeAborted": "holdfast.errors",
    "Run": "holdfast.api.run",
    "RunHeld": "holdfast.errors",
    "Sample": "holdfast.tasks.sample",
    "Score": "holdfast.tasks.score",
    "ScoreScope": "holdfast.tasks.trial_interface",
    "StepError": "holdfast.errors",
    "StepInterrupted": "holdfast.errors",
    "StorageFailure": "holdfast.errors",
    "Task": "holdfast.tasks.task",
    "TextPart": "holdfast.models.content",
    "Tool": "holdfast.tasks.tools.tool",
    "ToolCall": "holdfast.models.content",
    "ToolCallReply": "holdfast.errors",
    "UndecodableReply": "holdfast.errors",
    "Trial": "holdfast.tasks.trial_interface",
    "Usage": "holdfast.models.message",
    "UsageError": "holdfast.errors",
    "agent": "holdfast.tasks.tools.agent",
    "checks": "holdfast.tasks.scorers.checks",
    "choice": "holdfast.tasks.scorers.choice",
    "command_agent": "holdfast.tasks.agents.command_agent",
    "evaluate": "holdfast.api.evaluate",
    "evaluate_async": "holdfast.api.evaluate",
    "exact": "holdfast.tasks.scorers.exact",
    "fork": "holdfast.api.fork",
    "generate": "holdfast.tasks.solver",
    "includes": "holdfast.tasks.scorers.includes",
    "list_recoverable": "holdfast.run.remote.list_runs",
    "model_graded": "holdfast.tasks.judges.model_graded",
    "numeric": "holdfast.tasks.scorers.numeric",
    "recover": "holdfast.run.remote.recover",
    "recover_async": "holdfast.run.remote.recover",
    "regex": "holdfast.tasks.scorers.regex",
    "Stage": "holdfast.tasks.stages",
    "rescore": "holdfast.api.rescore",
    "write_result": "holdfast.api.reading.result_files",
    "rescore_async": "holdfast.api.rescore",
    "sample": "holdfast.api.sample",
    "scorer": "holdfast.tasks.scorers.function",
    "task": "holdfast.tasks.task",
    "tool": "holdfast.tasks.tools.tool",
}

# Names that the tasks of earlier runs still import.
_FORMER_NAMES = {"Limits": "TrialLimits"}

__all__ = [
    "Answer",
    "Blocked",
    "ConfigurationError",
    "HoldfastError",
    "ImagePart",
    "Message",
    "ModelError",
    "ModelSet",
    "NotARun",
    "RawPart",
    "Reply",
    "ReplyWithoutText",
    "Report",
    "ResumeAborted",
    "Run",
    "RunHeld",
    "Sample",
    "Score",
    "ScoreScope",
    "Stage",
    "StepError",
    "StepInterrupted",
    "StorageFailure",
    "Task",
    "TextPart",
    "Tool",
    "ToolCall",
    "ToolCallReply",
    "Trial",
    "TrialLimits",
    "UndecodableReply",
    "Usage",
    "UsageError",
    "__version__",
    "agent",
    "checks",
    "choice",
    "command_agent",
    "evaluate",
    "evaluate_async",
    "exact",
    "fork",
    "generate",
    "includes",
    "list_recoverable",
    "model_graded",
    "numeric",
    "recover",
    "recover_async",
    "regex",
    "rescore",
    "rescore_async",
    "sample",
    "scorer",
    "task",
    "tool",
    "write_result",
]


def __getattr__(name: str) -> Any:
    name = _FORMER_NAMES.get(name, name)
    if name not in _HOMES:
        raise AttributeError(f"module 'holdfast' has no attribute {name!r}")
    import importlib  # noqa: PLC0415 - as above

    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
