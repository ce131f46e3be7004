"""A trial that knows where its run is: what agents need of it beside what every solver does."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from holdfast.tasks.trial_interface import Trial
from holdfast.tasks.workspaces.workspace_template import PackedTemplate


class PlacedTrial(Trial, Protocol):
    """A trial with its key and its place."""

    @property
    def key(self) -> str: ...
    @property
    def attempt(self) -> int: ...
    @property
    def model_name(self) -> str:
        """The name of the model at its provider."""

    @property
    def axis_copies(self) -> Mapping[str, PackedTemplate]:
        """The files of its axis values, as the run keeps them; what comes later is laid over what comes before."""

    def cite_artifacts(self, files: Mapping[str, str]) -> None:
        """The end of the attempt will cite these files in `artifacts/<trial>`, each by the digest of its content."""

    def note_cut_answer(self, text: str) -> None:
        """Warns that an answer of the model is not whole, and has the report say so."""

    @property
    def run_root(self) -> Path:
        """The directory of the run on this machine."""
