"""A model whose results came from another tool: its replies are on record, and it cannot be asked."""

from __future__ import annotations

from holdfast.models.errors import Rejected
from holdfast.models.message import Reply, Request


class ImportedModel:
    """Stands for the model in an imported run, so that its answers can be scored again."""

    def __init__(self, model: str) -> None:
        self._model = model

    async def send(self, request: Request) -> Reply:  # noqa: ARG002 - no request is answered
        """Refuses every request."""
        raise Rejected(f"{self._model} was asked by another tool; from an imported run it cannot be asked.")

    async def close(self) -> None:
        """Nothing is held."""
