"""`python -m bench.first_call RUN`: resumes a run as the program does, and stops where a model is first asked.

Prints all CPU seconds of the process until then: starting Python, loading the program, opening the run, finding what is
owed. The run's model has to be a scripted one.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from holdfast.cli import main


async def _stop(*_: object) -> None:
    used = time.process_time()
    print(json.dumps({"cpu": used, "peak_mb": _peak_mb()}), flush=True)
    os._exit(0)


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


if __name__ == "__main__":
    from holdfast.models.scripted.provider import ScriptedProvider

    ScriptedProvider.send = _stop  # type: ignore[assignment, method-assign]
    with Path(os.devnull).open("w", encoding="utf-8") as sys.stderr:
        main(["resume", sys.argv[1]])
