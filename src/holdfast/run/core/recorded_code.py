"""The code of a session as it is on record: a tree that has not changed is recorded once."""

from collections.abc import Sequence

import msgspec

from holdfast.run.core.records import SessionRecord, TaskCode


def recorded_code(sessions: Sequence[SessionRecord]) -> dict[str, TaskCode]:
    """The code of the last session, with the trees that an earlier session has recorded."""
    if not sessions:
        return {}
    by_number = {session.number: session for session in sessions}
    found = {}
    for name, code in sessions[-1].code.items():
        holder = by_number.get(code.tree_session)
        earlier = holder.code.get(name) if holder is not None else None
        tree = code.tree or (earlier.tree if earlier is not None else None)
        found[name] = msgspec.structs.replace(code, tree=tree)
    return found
