"""Checking which model replies at an address: a resume must not mix in another model's replies.

The address of a model may change between sessions. Servers report the model of a reply; if a server at a new address
reports another name than the recorded replies have, it is another model.
"""

from __future__ import annotations

from holdfast.models.errors import Rejected
from holdfast.models.message import Reply
from holdfast.run.core.codec import decode
from holdfast.run.core.records import SessionRecord, StepRecord
from holdfast.run.fold.reader import RunReader
from holdfast.spec import EvalSpec, ModelSpec
from holdfast.spec.loading.error_messages import key_path


class UnexpectedModel(Rejected):
    """The server at a new address says that it is another model than the one whose replies are recorded."""

    def __init__(self, name: str, spec: ModelSpec, expected: str, reply: Reply) -> None:
        super().__init__(
            f"The server at {spec.base_url} reports the model {reply.model!r}; the replies on record are from "
            f"{expected!r}.",
            hint=f"Give the address of that one with --set {key_path('models', name)}.base_url=URL; "
            "to use the other one, start a new run.",
        )
        self.usage = reply.usage


def expected_names(reader: RunReader, spec: EvalSpec) -> dict[str, str]:
    """For each model reached at another address than when it last replied: which model it said it was then.

    The journal is read only if an address has ever changed.
    """
    addresses = {session.number: _addresses(session) for session in reader.sessions}
    now = {name: model.base_url for name, model in spec.models.items()}
    moved = {name for name in now if any(found.get(name, now[name]) != now[name] for found in addresses.values())}
    last: dict[str, tuple[str, str | None]] = {}
    for ident, line in reader.stream([], "step") if moved else ():
        if not isinstance(step := decode(line), StepRecord):
            continue
        if step.model in moved and not step.source and isinstance(step.result, dict) and step.result.get("model"):
            last[step.model] = str(step.result["model"]), addresses.get(ident.session, {}).get(step.model)
    return {name: replied for name, (replied, address) in last.items() if address != now[name]}


def _addresses(session: SessionRecord) -> dict[str, str | None]:
    models = session.config.get("models", {})
    return {str(name): model.get("base_url") for name, model in models.items() if isinstance(model, dict)}
