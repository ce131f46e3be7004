"""The tree to compare with: another checkout, or a revision of this one, unpacked."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from bench.names import module_of

TURN = Path(__file__).resolve().with_name("turn.py")
_PARTS = ("src", "bench")


class CompareError(Exception):
    """Two trees that cannot be compared, and why."""


class Tree:
    """Sources with their own benchmarks. Each turn is a fresh process that knows this tree only."""

    def __init__(self, label: str, path: Path) -> None:
        self.label, self.path = label, path.resolve()
        self._compile()

    def _compile(self) -> None:
        """Before the first turn, which would otherwise pay for all."""
        command = [sys.executable, "-m", "compileall", "-q", *_PARTS]
        done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True, cwd=self.path)
        if done.returncode:
            raise CompareError(f"The modules of {self.label} cannot be compiled: {done.stdout.strip()}")

    def has(self, name: str) -> bool:
        return self.path.joinpath(*module_of(name).split(".")).with_suffix(".py").is_file()

    def turn(self, name: str, rounds: int, size: str, directory: Path | None) -> bytes:
        """What one turn of the benchmark prints."""
        with tempfile.TemporaryDirectory(prefix="holdfast-bench-", dir=directory) as place:
            words = [self.path, module_of(name), place, rounds, size]
            command = [sys.executable, "-P", str(TURN), *map(str, words)]
            environment = self._environment(place)
            done = subprocess.run(command, check=False, stdout=subprocess.PIPE, cwd=self.path, env=environment)
        if done.returncode:
            raise CompareError(f"The benchmark {name} failed in {self.label}, with exit code {done.returncode}.")
        return done.stdout

    def _environment(self, place: str) -> dict[str, str]:
        """This tree comes before what is installed; the caches of the user are nobody's advantage."""
        own = {"PYTHONPATH": os.pathsep.join([str(self.path / "src"), str(self.path)]), "XDG_CACHE_HOME": place}
        return {key: word for key, word in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | own


def base_tree(base: str, root: Path, into: Path) -> Tree:
    """The tree that `base` names: a directory, or a revision of the checkout at `root`, which is unpacked to `into`."""
    if _is_tree(Path(base)):
        return Tree(base, Path(base))
    commit = _commit(base, root)
    packed = into / "base.zip"
    done = _git(root, "archive", "--format=zip", f"--output={packed}", commit, *_PARTS)
    if done.returncode:
        raise CompareError(f"{base} has no benchmarks of its own to run: {done.stderr.strip()}.")
    shutil.unpack_archive(packed, into / "base")
    return Tree(base if base.startswith(commit[:7]) else f"{base} ({commit[:7]})", into / "base")


def _is_tree(path: Path) -> bool:
    return (path / "src" / "holdfast").is_dir() and (path / "bench").is_dir()


def _commit(base: str, root: Path) -> str:
    found = _git(root, "rev-parse", "--verify", "--quiet", f"{base}^{{commit}}")
    if found.returncode == 1:
        raise CompareError(f"{base} is no revision of this checkout, and no directory with src/holdfast and bench.")
    if found.returncode:
        hint = "Name the directory of another checkout instead of a revision."
        raise CompareError(f"git finds no revisions here: {found.stderr.strip()}. {hint}")
    return found.stdout.strip()


def _git(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["git", *words], check=False, cwd=root, capture_output=True, text=True)
    except FileNotFoundError as error:
        raise CompareError("git is not installed: name the directory of another checkout.") from error
