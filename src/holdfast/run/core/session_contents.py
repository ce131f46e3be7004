"""What the record of a session holds: decided by the caller who opens it, completed by this process and moment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.journal import SegmentId, SegmentPin
from holdfast.models.environment_keys import know_environment_keys
from holdfast.models.redaction import known_secrets
from holdfast.run.core.provenance import environment, utc_timestamp
from holdfast.run.core.records import Change, Input, PlanEntry, SessionRecord, TaskCode
from holdfast.version import __version__


@dataclass(frozen=True, kw_only=True)
class SessionContents:
    """What the caller who opens a session decides about its record; the fields are those of `SessionRecord`."""

    name: str
    config: dict[str, Any]
    inputs: dict[str, Input] = field(default_factory=dict)
    planned: int = 0
    plan: list[PlanEntry] = field(default_factory=list)
    code: dict[str, TaskCode] = field(default_factory=dict)
    packages: dict[str, str] = field(default_factory=dict)
    source: str = ""
    serving: str = ""
    lost: list[SegmentId] = field(default_factory=list)
    damaged: list[SegmentPin] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    mark: int = 0
    weights: dict[str, str] = field(default_factory=dict)
    takes_seed: dict[str, bool] = field(default_factory=dict)
    unsaved: tuple[str, ...] = ()
    """Texts that may stand in the command line and are not to be saved."""

    @classmethod
    def carried_over(cls, last: SessionRecord) -> SessionContents:
        """What the next session has in common with this one, if nothing is changed."""
        return cls(
            name=last.name,
            config=last.config,
            inputs=last.inputs,
            planned=last.planned,
            plan=last.plan,
            code=last.code,
            source=last.source,
            serving=last.serving,
            weights=last.weights,
            takes_seed=last.takes_seed,
        )

    def with_inputs(self, copied: Mapping[str, Input]) -> SessionContents:
        """The same with further inputs, which are in the run already."""
        return replace(self, inputs={**self.inputs, **copied})


def session_record(run: str, number: int, pins: list[SegmentPin], contents: SessionContents) -> SessionRecord:
    """The record of a session of this process, now."""
    return SessionRecord(
        number=number,
        run=run,
        name=contents.name,
        at=utc_timestamp(),
        version=__version__,
        config=contents.config,
        inputs=contents.inputs,
        environment=environment(str(contents.config.get("directory", "."))),
        packages=contents.packages,
        invocation=_invocation(contents.config, contents.unsaved),
        source=contents.source,
        planned=contents.planned,
        plan=contents.plan,
        code=contents.code,
        serving=contents.serving,
        pins=pins,
        lost=contents.lost,
        damaged=contents.damaged,
        changes=contents.changes,
        mark=contents.mark,
        weights=contents.weights,
        takes_seed=contents.takes_seed,
    )


def _invocation(config: Mapping[str, Any], unsaved: Sequence[str]) -> list[str]:
    """The command line, without what it may hold of keys and of other texts; bytes that are no text become escapes."""
    know_environment_keys()
    models = config.get("models")
    for model in models.values() if isinstance(models, Mapping) else ():
        variable = model.get("api_key_env") if isinstance(model, Mapping) else None
        if isinstance(variable, str):
            # A resumed session opens its models later.
            known_secrets.remember(variable, os.environ.get(variable, ""))
    words = [known_secrets.redact(word.encode(errors="backslashreplace").decode()) for word in sys.argv]
    for text in sorted(unsaved, key=len, reverse=True):
        words = [word.replace(text, "[address]") for word in words]
    return words
