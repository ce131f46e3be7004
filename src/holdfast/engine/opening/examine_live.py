"""Looking at a run through the gate while another session may be working on it.

Between two reads the other session may have recorded a change and written `config.yaml` anew. What looks like tampering
is then only news: the run is looked at again, or said to be held.
"""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.engine.opening.resume_plan import Examiner, ResumePlan
from holdfast.errors import ResumeAborted
from holdfast.run.core.reader import RunReader
from holdfast.spec import EvalSpec
from holdfast.storage.leases.local import find_holder, run_held
from holdfast.tasks import Task


def examine_beside_session(
    reader: RunReader, offered: EvalSpec | None = None, tasks: Mapping[str, Task] | None = None
) -> ResumePlan:
    """What a resume would go on with; writes nothing into the run.

    Raises:
        ResumeAborted: the run may not go on with what is offered.
        RunHeld: another session executes it, and what it does cannot be told from a change.
    """
    while True:
        count = len(reader.sessions)
        try:
            return Examiner(reader, offered, tasks).examine()
        except ResumeAborted:
            if (holder := find_holder(reader.fs, reader.layout.root)) is not None:
                raise run_held(reader.layout.root, holder) from None
            reader.refresh()
            if len(reader.sessions) == count:
                raise
