"""One item of a dataset, as solvers and scorers see it."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast.models.message import Message

RESERVED = frozenset({"input", "target", "id", "choices", "metadata", "scoring"})


class Sample(msgspec.Struct, frozen=True):
    """What is asked, what is expected, and whatever else the dataset says about it."""

    input: str | list[Message]
    target: Any = None
    """A text, a number, a list of acceptable ones, or any JSON value that the task's own scorer understands."""

    id: str | None = None
    choices: list[str] | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    scoring: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Arguments for this sample alone, by the name of the scorer that takes them."""

    def fields(self) -> dict[str, Any]:
        """What a template may name: the metadata by its keys, and the parts of the sample itself."""
        fields = {"metadata": self.metadata, **self.metadata, "input": self.input}
        if self.target is not None:
            fields["target"] = self.target
        if self.id is not None:
            fields["id"] = self.id
        if self.choices is not None:
            fields["choices"] = self.choices
        return fields
