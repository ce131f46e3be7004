"""Compares our reading, recovering and writing of logs with the real Inspect, and fails where they differ.

The evals that are killed are Inspect's own, with a slow model in their process. `--seed` repeats a campaign, and
`--only` runs one part of it.
"""

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from rig import environment, install_model  # noqa: E402 - it lies beside this file

PARTS = ("import", "export", "shapes", "crashes")


def main() -> int:
    given = argparse.ArgumentParser()
    given.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    given.add_argument("--kills", type=int, default=10)
    given.add_argument("--only", choices=PARTS)
    chosen = given.parse_args()
    print(f"seed {chosen.seed}")
    faults: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        plugin = install_model(place)
        sys.path.insert(0, str(plugin))
        env = environment(place / "own", plugin)
        os.environ.update({name: env[name] for name in ("XDG_DATA_HOME", "HOME")})
        for part in [chosen.only] if chosen.only else PARTS:
            faults += _run(part, place / part, plugin, env, chosen)
    for fault in faults:
        print(f"FAULT {fault}")
    print(f"{len(faults)} faults")
    return 1 if faults else 0


def _run(part: str, place: Path, plugin: Path, env: dict[str, str], chosen: argparse.Namespace) -> list[str]:
    # Inspect is loaded once its environment is set.
    if part == "import":
        from imported import compare_import

        return compare_import(place)
    if part == "export":
        from exported import compare_export

        return compare_export(place, env)
    if part == "shapes":
        from shapes import compare_shapes

        return compare_shapes(chosen.seed)
    from crashes import run_crashes

    return run_crashes(place, plugin, chosen.seed, chosen.kills)


if __name__ == "__main__":
    sys.exit(main())
