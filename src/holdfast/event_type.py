"""What every event is, whoever emits it."""

from __future__ import annotations

import msgspec


class Event(msgspec.Struct, frozen=True, gc=False, tag_field="type", tag=True):
    """Something that has happened in a session. As JSON it has its class as `type`."""
