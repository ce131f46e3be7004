"""Runs every case on one side, and prints what each has shown as JSON."""

import asyncio
import importlib
import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

from rig import CASES, Listed

CASES_IN = Path(__file__).parent / "cases"
HANGS_AFTER = 20.0


def observe(case: Listed) -> Any:
    """What the case shows; an exception that leaves it is shown too."""
    try:
        shown = asyncio.run(_within_bounds(case))
    except TimeoutError:
        return "hangs"
    except Exception as error:  # noqa: BLE001 - one case that breaks must not hide the others
        return f"raised {type(error).__name__}: {error}"
    return json.loads(json.dumps(shown, default=repr))


async def _within_bounds(case: Listed) -> Any:
    async with asyncio.timeout(HANGS_AFTER):  # in the case's own task: cases count the tasks that are left
        return await case.run()


def main() -> None:
    """Prints {name: shown} for the cases named, or all."""
    logging.getLogger("mellea").setLevel(logging.WARNING)
    warnings.simplefilter("ignore")  # a coroutine that a side leaves behind is shown by its case
    for path in sorted(CASES_IN.glob("*.py")):
        importlib.import_module(f"cases.{path.stem}")
    wanted = set(sys.argv[1:]) or {case.name for case in CASES}
    shown = {case.name: observe(case) for case in CASES if case.name in wanted}
    sys.stdout.write(json.dumps(shown) + "\n")


if __name__ == "__main__":
    main()
