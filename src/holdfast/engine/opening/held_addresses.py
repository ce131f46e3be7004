"""New addresses of models, which are saved once the model there has answered.

A session record is written before the first call. If it said where a model is reached now, an address at which another
model answers would be in the run for good. So the record keeps the old one; the new one is used, and is recorded when a
reply from there is accepted, or when the session ends and nobody was refused.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import msgspec

from holdfast.run.core.config_file import write_config
from holdfast.run.core.records import AppliedRecord, Change, with_applied
from holdfast.run.drift.gate import Decision
from holdfast.run.drift.served_names import names_on_record
from holdfast.run.fold.reader import RunReader
from holdfast.run.session.session import RunSession
from holdfast.spec import Drift, EvalSpec, ModelSpec, plain_data
from holdfast.spec.loading.error_messages import key_path
from holdfast.spec.schema.introspect import schema_fields

_ADDRESS = ("base_url", "proxy")
_LOCATION = tuple(field.attribute for field in schema_fields(ModelSpec).values() if field.drift is Drift.LOCATION)


class HeldAddresses:
    """The eval of a session, in which some models keep their old addresses until the new ones are confirmed."""

    def __init__(self, decision: Decision, saved: EvalSpec, reader: RunReader) -> None:
        """Held are those of models whose replies can be compared with names on record; others are saved at once."""
        self._spec, self._changes, models = decision.spec, decision.changes, decision.spec.models
        moved = [name for name, old in saved.models.items() if name in models and _has_moved(old, models[name])]
        compared = names_on_record(reader).comparable if moved else ()
        self._held = {name: saved.models[name] for name in moved if name in compared}

    def __contains__(self, model: str) -> bool:
        return model in self._held

    def waiting(self) -> list[str]:
        """The models whose addresses are not confirmed."""
        return list(self._held)

    def config(self) -> dict[str, Any]:
        """The configuration as it may be saved now."""
        models = {name: self._saved_now(name, model) for name, model in self._spec.models.items()}
        return plain_data(msgspec.structs.replace(self._spec, models=models), explicit=True)

    def _saved_now(self, name: str, model: ModelSpec) -> ModelSpec:
        if name not in self._held:
            return model
        return msgspec.structs.replace(model, **{field: getattr(self._held[name], field) for field in _LOCATION})

    def changes(self) -> list[Change]:
        """The changes that may be saved now."""
        held = {path for name in self._held for path in _location_paths(name)}
        return [change for change in self._changes if not _is_below(change.path, held)]

    def unsaved(self) -> tuple[str, ...]:
        """The addresses that are not saved yet, as they are given."""
        given = (getattr(self._spec.models[name], field) for name in self._held for field in _ADDRESS)
        return tuple({text for address in given if address for text in (address, address.rstrip("/"))})

    def confirm(self, models: Collection[str]) -> AppliedRecord:
        """The record that saves the addresses of these models."""
        paths = {path for name in models for path in _location_paths(name)}
        for name in models:
            self._held.pop(name, None)
        return AppliedRecord(config=self.config(), changes=[one for one in self._changes if _is_below(one.path, paths)])


class AddressBook:
    """Saves the addresses of a session's models as they are confirmed."""

    def __init__(self, session: RunSession, held: HeldAddresses | None) -> None:
        self._session, self._held = session, held
        self._applied: list[tuple[int, AppliedRecord]] = []

    def holds(self, model: str) -> bool:
        """Whether the address of a model waits to be saved."""
        return self._held is not None and model in self._held

    async def save(self, model: str) -> None:
        """Saves the new address of a model, if it has one: in the journal, and then in config.yaml."""
        await self._save([model] if self.holds(model) else [])

    async def save_rest(self) -> None:
        """Saves the addresses at which nobody has answered, and nobody was refused."""
        await self._save(self._held.waiting() if self._held is not None else [])

    async def _save(self, models: list[str]) -> None:
        if not models or self._held is None:
            return
        session, record = self._session, self._held.confirm(models)
        self._applied.append((session.number, record))
        await session.sink.keep(record)
        try:
            write_config(session.reader.fs, session.held.config, with_applied(session.reader.sessions, self._applied))
        except OSError as error:
            # The file is derived: the next session writes it.
            session.derived.note(session.layout.config.name, error)


def _has_moved(old: ModelSpec, new: ModelSpec) -> bool:
    return any(getattr(old, field) != getattr(new, field) for field in _ADDRESS)


def _location_paths(model: str) -> list[str]:
    return [f"{key_path('models', model)}.{field}" for field in _LOCATION]


def _is_below(path: str, places: Collection[str]) -> bool:
    return any(path == place or path.startswith(f"{place}.") for place in places)
