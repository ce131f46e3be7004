"""One item of a dataset, as solvers and scorers see it."""

from typing import Any

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.message import Message

RESERVED = frozenset({"input", "target", "id", "choices", "metadata", "scoring"})

_BYTES = (bytes, bytearray)


class Sample(msgspec.Struct, frozen=True, repr_omit_defaults=True):
    """One item of a dataset: its input, its target and its metadata."""

    input: str | list[Message]
    target: Any = None
    """A text, a number, a list of acceptable ones, or any JSON value that the task's own scorer understands."""

    id: str | None = None
    choices: list[str] | None = None
    metadata: dict[str, Any] = msgspec.field(default_factory=dict)
    scoring: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    """Arguments for this sample alone, by the name of the scorer that takes them."""

    def __post_init__(self) -> None:
        """Bytes would be asked and compared as base64.

        Raises:
            ConfigurationError: the input or the target is bytes.
        """
        asked: object = self.input
        if isinstance(asked, _BYTES) or isinstance(self.target, _BYTES):
            part, value = ("input", asked) if isinstance(asked, _BYTES) else ("target", self.target)
            raise ConfigurationError(
                f"The {part} of a sample is {type(value).__name__}.", hint='Give text, as in data.decode("utf-8").'
            )

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
