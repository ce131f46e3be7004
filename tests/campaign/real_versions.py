"""Neighbouring versions of real files: each wrapped by a task that calls one function, the gate's verdict compared with
that of a traced call.

    python tests/campaign/real_versions.py DIRECTORY [PAIRS]    # downloads the versions into DIRECTORY, and compares
"""

# ruff: noqa: E402 - a program as well as a module: it has to find its neighbours first
from __future__ import annotations

import ast
import collections
import concurrent.futures
import importlib.machinery
import itertools
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from gate_campaign import Bench, Verdict, write_files

PACKAGE = "inspect_evals"
VERSIONS = tuple(f"0.{minor}.0" for minor in range(4, 22))
TRACER = Path(__file__).with_name("traced_call.py")
MISSING = Path(__file__).with_name("missing_packages.py")
PER_FILE = 2
SMALL = 200_000
ACTING = ("subprocess", "shutil", "remove", "unlink", "requests", "urllib", "write", "mkdir", "os.system", "download")
ACTING += ("socket", "environ", "execute", "rmdir", "rmtree", "sleep", "input(", "rename", "'w'")
"""A function that mentions one of these may do something to the machine, and is not called."""
TEXTS = ("The answer is (B). x = 42\n\\boxed{17}\n```python\nprint(1)\n```", "a")
BY_TYPE: dict[str, list[Any]] = {
    "str": list(TEXTS),
    "int": [3],
    "float": [0.5],
    "bool": [True],
    "list": [["a", "b"]],
    "List": [["a", "b"]],
    "dict": [{"question": "q", "answer": "A", "choices": ["x", "y"], "id": 1}],
    "Dict": [{"question": "q", "answer": "A", "choices": ["x", "y"], "id": 1}],
    "Any": list(TEXTS),
    "tuple": [["a", "b"]],
}


class VersionPair(NamedTuple):
    """A function in a file of two neighbouring versions, and arguments that it can be called with."""

    old: str
    new: str
    file: str
    function: str
    arguments: str

    @property
    def module(self) -> str:
        return self.file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class Comparison(NamedTuple):
    pair: VersionPair
    outcome: str
    """`both refuse`, `both accept`, `over-strict: mentioned`, `over-strict`, `hole` or `skipped`."""
    detail: str


# ---- fetching


def fetch(directory: Path) -> str:
    """Downloads the versions; what went wrong, or nothing."""
    directory.mkdir(parents=True, exist_ok=True)
    for version in VERSIONS:
        if (directory / version).is_dir():
            continue
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(directory / "wheels")]
        done = subprocess.run(
            [*command, f"{PACKAGE}=={version}"], capture_output=True, text=True, check=False, timeout=600
        )
        wheels = list((directory / "wheels").glob(f"{PACKAGE}-{version}-*.whl"))
        if done.returncode or not wheels:
            return f"{PACKAGE} {version} cannot be fetched: {done.stderr.strip().splitlines()[-1:]}"
        _unpack(wheels[0], directory / version)
        wheels[0].unlink()
    return ""


def _unpack(wheel: Path, target: Path) -> None:
    """The Python files, and small files that they may read."""
    part = target.with_name(f"{target.name}.part")
    with zipfile.ZipFile(wheel) as packed:
        small = [one.filename for one in packed.infolist() if one.filename.endswith(".py") or one.file_size < SMALL]
        packed.extractall(part, [name for name in small if name.startswith(f"{PACKAGE}/")])
    part.rename(target)


def missing_packages(directory: Path) -> str:
    """The stand-ins' module for what any version imports and this environment does not have."""
    names: set[str] = set()
    for path in (path for version in VERSIONS for path in (directory / version / PACKAGE).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Import):
                names |= {one.name.split(".")[0] for one in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
                names.add(node.module.split(".")[0])
    absent = sorted(names - set(sys.stdlib_module_names) - {PACKAGE})
    absent = [name for name in absent if importlib.machinery.PathFinder.find_spec(name) is None]
    return MISSING.read_text().replace(
        "PACKAGES: tuple[str, ...] = ()", f"PACKAGES: tuple[str, ...] = {tuple(absent)!r}"
    )


# ---- pairs


def changed_files(old: Path, new: Path) -> list[str]:
    names = {str(path.relative_to(old)) for path in old.rglob("*.py")}
    both = sorted(name for name in names if (new / name).is_file())
    return [name for name in both if (old / name).read_bytes() != (new / name).read_bytes()]


def functions_of(path: Path) -> dict[str, ast.FunctionDef]:
    tree = ast.parse(path.read_text("utf-8"))
    plain = [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    return {node.name: node for node in plain if not any(word in ast.unparse(node) for word in ACTING)}


def argument_lists(function: ast.FunctionDef) -> list[list[Any]]:
    """A few lists of simple arguments that may fit; none where a parameter is of another kind."""
    given = function.args
    needed = given.args[: len(given.args) - len(given.defaults)]
    if given.posonlyargs or any(default is None for default in given.kw_defaults):
        return []
    choices = []
    for one in needed:
        shown = ast.unparse(one.annotation).strip("'\"") if one.annotation else "str"
        fitting = BY_TYPE.get(shown.split("[")[0].split("|")[0].strip().removeprefix("Optional"))
        if fitting is None:
            return []
        choices.append(fitting)
    return [list(one) for one in itertools.islice(itertools.product(*choices), 2)]


def find_candidates(directory: Path) -> list[VersionPair]:
    """Functions of changed files: of each file some that have changed themselves, then some that have not."""
    files = [
        (old, new, file)
        for old, new in itertools.pairwise(VERSIONS)
        for file in changed_files(directory / old, directory / new)
    ]
    random.Random(14).shuffle(files)
    return [pair for one in files for pair in _of_file(directory, *one)]


def _of_file(directory: Path, old: str, new: str, file: str) -> list[VersionPair]:
    before, after = (functions_of(directory / version / file) for version in (old, new))
    common = sorted(set(before) & set(after))
    changed = [name for name in common if ast.dump(before[name]) != ast.dump(after[name])]
    chosen = [*changed[:3], *[name for name in common if name not in changed][:2]]
    return [
        VersionPair(old, new, file, name, json.dumps(one)) for name in chosen for one in argument_lists(before[name])
    ]


# ---- one pair


def traced(root: Path, pair: VersionPair) -> Any:
    """What the call reaches in this version, or None where it cannot be made."""
    try:
        done = subprocess.run(
            [sys.executable, str(TRACER), str(root), pair.module, pair.function, pair.arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
            cwd=root,
            env={**os.environ, "PYTHONHASHSEED": "0"},
        )
    except subprocess.TimeoutExpired:
        return None
    lines = [line for line in done.stdout.splitlines() if line.startswith("TRACED ")]
    return json.loads(lines[0].removeprefix("TRACED ")) if lines else None


TASK = """\
import json

import missing_packages

missing_packages.install()

from holdfast import Sample, Task
from {module} import {function}

ARGUMENTS = json.loads({arguments!r})


async def solve(trial):
    found = repr({function}(*ARGUMENTS))[:100]
    return (await trial.generate(found + trial.sample.input)).text


def judge(answer, sample):
    return 1.0


task = Task(samples=[Sample("x", id="s")], solver=solve, scorers=judge)
"""
EVAL = {
    "name": "real",
    "models": {"m": {"provider": "scripted", "model": "echo"}},
    "tasks": {"t": {"use": "task.py:task"}},
}


def compare(pair: VersionPair, directory: Path, stubs: str, place: Path, bench: Bench) -> Comparison:
    """The gate's verdict on a pair beside the expected one."""
    roots = [directory / pair.old, directory / pair.new]
    reached = [traced(root, pair) for root in roots]
    if None in reached:
        return Comparison(pair, "skipped", "cannot be called")
    before, after = reached
    differs = sorted(
        name for name in {*before["items"], *after["items"]} if before["items"].get(name) != after["items"].get(name)
    )
    verdict = _ask_gate(pair, roots, reached, stubs, place, bench)
    if verdict.code not in {0, 3}:
        return Comparison(pair, "skipped", f"the program ended with {verdict.code}: {verdict.said[-300:]}")
    refused = verdict.code == 3
    if refused == bool(differs):
        return Comparison(pair, "both refuse" if refused else "both accept", " ".join(differs))
    if not refused:
        return Comparison(pair, "hole", f"{differs} differ; result {before['result']!r} -> {after['result']!r}")
    names = {*before["mentioned"], *after["mentioned"]}
    mentioned = sorted(name for name in names if before["mentioned"].get(name) != after["mentioned"].get(name))
    said = "; ".join(line.strip() for line in verdict.said.splitlines() if "(identity)" in line or "(scoring)" in line)
    return Comparison(pair, "over-strict: mentioned" if mentioned else "over-strict", f"{mentioned} | {said}")


def _ask_gate(
    pair: VersionPair, roots: list[Path], reached: list[Any], stubs: str, place: Path, bench: Bench
) -> Verdict:
    task = TASK.format(module=pair.module, function=pair.function, arguments=pair.arguments)
    shared = {"task.py": task, "eval.yaml": json.dumps(EVAL), "missing_packages.py": stubs}
    verdict = Verdict(-1, "")
    shutil.rmtree(place / "run", ignore_errors=True)
    for root in roots:
        names = {name for found in reached for name in found["files"] if (root / name).is_file()}
        files = {name: (root / name).read_text("utf-8") for name in names}
        write_files(place / "eval", {**files, **shared})
        verb = (
            ("resume", place / "run") if (place / "run").exists() else ("run", "eval.yaml", "--run-dir", place / "run")
        )
        verdict = bench.run(*verb, directory=place / "eval", environment={})
        if verb[0] == "run" and verdict.code:
            return Verdict(70, verdict.said)
    return verdict


# ---- many pairs


def compare_all(directory: Path, wanted: int) -> list[Comparison]:
    """Comparisons until this many pairs of files have one each, at most two functions a file."""
    stubs = missing_packages(directory)
    for version in VERSIONS:
        (directory / version / "missing_packages.py").write_text(stubs)
    left = find_candidates(directory)
    done: list[Comparison] = []
    taken: collections.Counter[tuple[str, str]] = collections.Counter()
    benches = [Bench(), Bench()]
    free: queue.SimpleQueue[Bench] = queue.SimpleQueue()
    for bench in benches:
        free.put(bench)
    with concurrent.futures.ThreadPoolExecutor(len(benches)) as pool:
        while left and len(taken) < wanted:
            batch, left = left[:20], left[20:]
            batch = [pair for pair in batch if taken[pair.old, pair.file] < PER_FILE]
            for one in pool.map(lambda pair: _compare_on(free, pair, directory, stubs), batch):
                if one.outcome != "skipped":
                    taken[one.pair.old, one.pair.file] += 1
                done.append(one)
    for bench in benches:
        bench.zygote.end()
    return done


def _compare_on(free: queue.SimpleQueue[Bench], pair: VersionPair, directory: Path, stubs: str) -> Comparison:
    bench = free.get()
    try:
        with tempfile.TemporaryDirectory() as place:
            return compare(pair, directory, stubs, Path(place), bench)
    finally:
        free.put(bench)


def main() -> None:
    directory = Path(sys.argv[1]).resolve()
    problem = fetch(directory)
    if problem:
        sys.exit(problem)
    done = compare_all(directory, int(sys.argv[2]) if len(sys.argv) > 2 else 100)
    for one in done:
        if one.outcome not in {"skipped", "both refuse", "both accept"}:
            print(f"{one.outcome}: {one.pair}\n    {one.detail}")
    counts = collections.Counter(one.outcome for one in done)
    files = {(one.pair.old, one.pair.file) for one in done if one.outcome != "skipped"}
    print(f"{len(files)} pairs of files: {dict(counts)}")


if __name__ == "__main__":
    main()
