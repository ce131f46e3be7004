"""One seed of the campaign against the gate: a task, a change, what the change does, and what the gate says to it.

python tests/campaign/gate_campaign.py harmful 17 --keep DIR    # one seed, its files in DIR/before and DIR/after
python tests/campaign/gate_campaign.py neutral 0 500            # many, in two processes
"""

# ruff: noqa: E402, E501 - a program as well as a module: it has to find its neighbours first
from __future__ import annotations

import argparse
import base64
import collections
import concurrent.futures
import functools
import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

import zstandard
from drawn_program import FROM_OUTSIDE, HARMFUL, NEUTRAL, DrawnProgram
from drawn_task import KEY_NAMES, TASK, draw_program
from neutral_changes import TEXT_CHANGES, WHOLE_CHANGES, change_text

from observed import Zygote

OBSERVER = Path(__file__).with_name("observed_task.py")
TRIES = 40
LIKE_A_KEY = "a literal like a key"
REFUSED, ACCEPTED = 3, 0


class Verdict(NamedTuple):
    """What the gate said."""

    code: int
    said: str


Gate = Callable[["Case", "Bench"], Verdict]


@dataclass
class Case:
    """A task before and after one change, in directories of its own."""

    kind: str
    seed: int
    what: str
    names: tuple[tuple[str, ...], ...]
    before: DrawnProgram
    after: DrawnProgram
    place: Path
    hash_seeds: tuple[str, str] = ("0", "0")
    is_moved: bool = False
    works_elsewhere: bool = False
    """Whether the resume is started in another directory than the run was."""
    has_env_file: bool = False
    """Whether keys are in a file `.env` instead of the environment."""

    @property
    def run(self) -> Path:
        return self.place / "run"

    @property
    def first(self) -> Path:
        return self.place / "before"

    @property
    def second(self) -> Path:
        return self.place / ("elsewhere ü" if self.is_moved else "before")


@dataclass
class Finding:
    """What became of a case; `problem` is empty where the gate did what it has to."""

    case: Case
    verdict: Verdict
    problem: str = ""

    def __str__(self) -> str:
        said = "\n      ".join(self.verdict.said.strip().splitlines()[:12])
        return f"{self.case.kind} seed {self.case.seed} ({self.case.what}): {self.problem}; names {self.case.names}\n      {said}"


@dataclass
class Bench:
    """A process that forks the program, so that a seed costs milliseconds."""

    zygote: Zygote = field(default_factory=Zygote)

    def run(self, *words: object, directory: Path, environment: dict[str, str], hash_seed: str = "0") -> Verdict:
        if hash_seed != "0":  # a hash seed is chosen when a program starts
            done = subprocess.run(
                [sys.executable, "-m", "holdfast", *map(str, words)],
                cwd=directory,
                env={**os.environ, **environment, "PYTHONHASHSEED": hash_seed},
                capture_output=True,
                text=True,
                check=False,
                timeout=120,
            )
            return Verdict(done.returncode, done.stderr)
        ended = self.zygote.start(words, directory, environment).wait()
        return Verdict(ended.code, ended.err)


# ---- cases


def write_files(directory: Path, files: dict[str, str]) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    for name, text in files.items():
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))


def observe(directory: Path, program: DrawnProgram) -> Any:
    """What the program asks and how it scores, or None with the reason where it cannot be executed."""
    entry = program.entry
    done = subprocess.run(
        [sys.executable, str(OBSERVER), str(directory), str(entry["file"]), str(entry["name"])],
        env={**os.environ, **program.environment, "PYTHONHASHSEED": "0"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("OBSERVED ")]
    return json.loads(lines[0].removeprefix("OBSERVED ")) if lines else done.stderr


def make_case(kind: str, seed: int, place: Path) -> Case:
    """The case of a seed: the first drawn change that the observer finds to be of its kind."""
    rng = random.Random(f"{kind} {seed}")
    for attempt in range(TRIES):
        key = f"{kind} {seed} {attempt}"
        before = draw_program(key)
        write_files(place / "before", before.files)
        seen = observe(place / "before", before)
        if isinstance(seen, str):  # shapes that do not go together, such as the source of what `exec` made
            continue
        for _ in range(3):
            case = _changed(kind, seed, key, before, place, rng)
            if case is None:
                break
            write_files(place / "after", case.after.files)
            now = observe(place / "after", case.after)
            if not isinstance(now, str) and (now != seen) == (kind == HARMFUL) and not is_in_sight(case):
                return case
    raise RuntimeError(f"no {kind} change in {TRIES} tasks of seed {seed}")


SEARCHED = (
    "globals()[",
    "sys.modules[__name__], 'style_",
    "getattr(ME_",
    "eval('style_",
    "vars(",
    "getattr(settings_",
    "__dict__[",
)
TOLD = ("__doc__", "getdoc", "__annotations__", "get_type_hints", "signature(", "getsource(")


def is_in_sight(case: Case) -> bool:
    """Whether the task itself looks at what a neutral change touches: a module that it searches by a computed name is
    used whole, and where it reads docstrings, annotations or source of whatever it is given, they are no decoration.
    """
    if case.kind == HARMFUL:
        return False
    text = "".join(case.before.files.values())
    unused = any(word in case.what for word in ("added", "unused", "module-level"))
    words = any(word in case.what for word in ("docstring", "annotat", "comment", "renamed", "reformatted"))
    return (unused and any(word in text for word in SEARCHED)) or (words and any(word in text for word in TOLD))


def _changed(kind: str, seed: int, key: str, before: DrawnProgram, place: Path, rng: random.Random) -> Case | None:
    spots = [number for number, spot in enumerate(before.spots) if spot.kind == kind]
    if kind == HARMFUL:
        if not spots:
            return None
        number = rng.choice(spots)
        spot, after = before.spots[number], draw_program(key, number)
        what = spot.what
        if rng.random() < 0.25:  # hidden among changes that alter nothing
            harmless = rng.choice(sorted(TEXT_CHANGES))
            after.files, what = change_text(after.files, harmless, rng), f"{what}, and {harmless}"
        return Case(kind, seed, what, spot.names, before, after, place)
    choice = rng.choice(["spot", "spot", "text", "text", "whole"])
    if choice == "spot" and spots:
        number = rng.choice(spots)
        return Case(kind, seed, before.spots[number].what, (), before, draw_program(key, number), place)
    if choice == "whole":
        return _whole(kind, seed, key, before, place, rng.choice(WHOLE_CHANGES))
    name = rng.choice(sorted(TEXT_CHANGES))
    after = draw_program(key)
    after.files = change_text(after.files, name, rng)
    return Case(kind, seed, name, (), before, after, place)


def _whole(kind: str, seed: int, key: str, before: DrawnProgram, place: Path, what: str) -> Case:
    after = draw_program(key, keys="two" if what == "rotated keys" else "one")
    case = Case(kind, seed, what, (), before, after, place, is_moved=what == "another directory")
    case.has_env_file = seed % 2 == 0
    if what == "another hash seed":
        case.hash_seeds = ("1", "77")
    # A task that keeps the working directory holds another value there.
    case.works_elsewhere = what == "another working directory" and "cwd()" not in before.files[TASK]
    if what == "another variable":
        after.environment["CAMPAIGN_UNRELATED"] = "1"
    if what == "another file":
        after.files["added_neighbour.py"] = "WORD = 5\n"
    return case


# ---- the gate


def installed(case: Case, program: DrawnProgram, directory: Path) -> dict[str, str]:
    """Writes the program's files; the environment that is left to be set."""
    write_files(directory, program.files)
    if not case.has_env_file:
        return program.environment
    keys = {name: value for name, value in program.environment.items() if is_secret(name)}
    (directory / ".env").write_text("".join(f"{name}={value}\n" for name, value in keys.items()))
    return {name: value for name, value in program.environment.items() if name not in keys}


def real_gate(case: Case, bench: Bench) -> Verdict:
    """The program: a run of the task as it was, then a resume with the task as it is."""
    environment = installed(case, case.before, case.first)
    shutil.rmtree(case.run, ignore_errors=True)
    words = ("run", "eval.yaml", "--run-dir", case.run)
    ran = bench.run(*words, directory=case.first, environment=environment, hash_seed=case.hash_seeds[0])
    if ran.code != 0:
        raise RuntimeError(f"seed {case.seed}: the run itself failed: {ran}")
    if case.second != case.first:
        shutil.rmtree(case.first)
    environment = installed(case, case.after, case.second)
    given = case.is_moved or (case.seed % 3 == 0 and not case.works_elsewhere)
    words = ("resume", case.run, *(["--config", "eval.yaml"] if given else []))
    where = case.place if case.works_elsewhere else case.second
    return bench.run(*words, directory=where, environment=environment, hash_seed=case.hash_seeds[1])


def accepts_everything(case: Case, bench: Bench) -> Verdict:
    return Verdict(ACCEPTED, "")


def refuses_everything(case: Case, bench: Bench) -> Verdict:
    return Verdict(REFUSED, "Resume aborted: something has changed")


def judge(case: Case, verdict: Verdict) -> str:
    """What is wrong with the verdict; empty if nothing is."""
    if verdict.code not in {ACCEPTED, REFUSED}:
        return f"the program ended with {verdict.code}"
    if case.kind != HARMFUL:
        return "" if verdict.code == ACCEPTED else "a neutral change was refused"
    if verdict.code == ACCEPTED:
        return "" if _is_named_as_opaque(case, verdict) else "a harmful change was accepted"
    missing = [group for group in case.names if not any(name in verdict.said for name in group)]
    return f"the message names none of {missing}" if missing else ""


def _is_named_as_opaque(case: Case, verdict: Verdict) -> bool:
    """Resume 57: of a value that cannot be compared, the statements count; where those are the same, it is named.
    What has the form of a key never counts: neither it nor a digest of it is kept.
    """
    lines = [line for line in verdict.said.splitlines() if "cannot be compared" in line]
    return (FROM_OUTSIDE in case.what or LIKE_A_KEY in case.what) and any(
        name in line for line in lines for group in case.names for name in group
    )


def check_seed(kind: str, seed: int, place: Path, bench: Bench, gate: Gate = real_gate) -> Finding:
    case = make_case(kind, seed, place)
    verdict = gate(case, bench)
    problem = judge(case, verdict)
    leaked = sorted(find_secrets(case)) if gate is real_gate else []
    return Finding(case, verdict, problem or (f"keys in the run: {leaked}" if leaked else ""))


# ---- keys


def is_secret(name: str) -> bool:
    return name in KEY_NAMES


def check_keys(seed: int, place: Path, bench: Bench) -> Finding:
    """A task that holds keys in every way it can think of: none of them is in any byte of its run."""
    program = draw_program(f"keys {seed}", holders=3)
    case = Case("keys", seed, "keys held at import", (), program, program, place, has_env_file=seed % 2 == 0)
    verdict = real_gate(case, bench)
    leaked = sorted(find_secrets(case))
    return Finding(case, verdict, f"keys in the run: {leaked}" if leaked else judge(case, verdict))


def find_secrets(case: Case) -> Iterator[str]:
    """Variables whose value, or a plain digest of it, is in a byte of the run."""
    values = {
        (name, value)
        for program in (case.before, case.after)
        for name, value in program.environment.items()
        if is_secret(name)
    }
    if values:
        content = list(_contents(case.run))
        for name, value in values:
            for form, needle in _forms(value):
                if any(needle in data for data in content):
                    yield f"{name} as {form}"


def _forms(value: str) -> Iterator[tuple[str, bytes]]:
    for text, shape in ((value, ""), (value[::-1], "reversed "), (f"Bearer {value}", "bearer ")):
        data = text.encode()
        yield f"{shape}text", data
        for name in ("sha256", "blake2b", "blake2s", "sha1", "md5", "sha512", "sha3_256"):
            whole = hashlib.new(name, data)
            for size in (8, 10, 12, 16):
                yield f"{shape}{name}", whole.hexdigest()[: size * 2].encode()
                yield f"{shape}{name} bytes", whole.digest()[:size]
        yield f"{shape}base64", base64.b64encode(data).rstrip(b"=")
        yield f"{shape}base64 of user:key", base64.b64encode(b"user:" + data).rstrip(b"=")
        for size in (8, 10, 12, 16, 20, 32):
            yield f"{shape}blake2b of {size}", hashlib.blake2b(data, digest_size=size).hexdigest().encode()


def _contents(run: Path) -> Iterator[bytes]:
    """Every file, as it is and unpacked."""
    for path in sorted(run.rglob("*")):
        if path.is_file():
            data = path.read_bytes()
            yield data
            if path.suffix == ".zst" or data[:4] == b"\x28\xb5\x2f\xfd":
                yield zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()


# ---- many seeds


def _block(kind: str, seeds: list[int], keep: str) -> list[tuple[int, str, str, list[str]]]:
    """What is wrong with these seeds, each in a directory of its own; runs in a process of its own."""
    bench, told = Bench(), []
    try:
        for seed in seeds:
            place = Path(tempfile.mkdtemp(prefix=f"{kind}-{seed}-", dir=keep or None))
            try:
                finding = check_keys(seed, place, bench) if kind == "keys" else check_seed(kind, seed, place, bench)
                told.append((seed, finding.problem, str(finding), [finding.case.what, *finding.case.before.shapes]))
            except (RuntimeError, AssertionError, subprocess.TimeoutExpired) as error:
                told.append((seed, "the campaign failed", f"{kind} seed {seed}: {error}", []))
            shutil.rmtree(place, ignore_errors=True)
    finally:
        bench.zygote.end()
    return told


def run_seeds(kind: str, seeds: list[int], processes: int = 2) -> list[tuple[int, str, str, list[str]]]:
    """Every seed, in blocks that are shared out."""
    blocks = [seeds[at : at + 10] for at in range(0, len(seeds), 10)]
    with concurrent.futures.ProcessPoolExecutor(processes) as pool:
        return [one for block in pool.map(_block, [kind] * len(blocks), blocks, [""] * len(blocks)) for one in block]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=[HARMFUL, NEUTRAL, "keys"])
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int, nargs="?", default=1)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    if given.keep:
        given.keep.mkdir(parents=True, exist_ok=True)
        check = check_keys if given.kind == "keys" else functools.partial(check_seed, given.kind)
        finding = check(given.first, given.keep.resolve(), Bench())
        print(finding, f"\nenvironment: {finding.case.before.environment} -> {finding.case.after.environment}")
        print(f"exit code {finding.verdict.code}; compare {given.keep}/before and {given.keep}/after")
        write_files(given.keep / "before", finding.case.before.files)
        sys.exit(bool(finding.problem))
    told = run_seeds(given.kind, list(range(given.first, given.first + given.count)))
    wrong = [one for one in told if one[1]]
    for _, _, text, shapes in wrong:
        print(f"{text}\n      shapes: {shapes}\n")
    print(collections.Counter(problem.split(" [")[0].split("names none")[0] for _, problem, _, _ in wrong))
    print(
        f"{len(told) - len(wrong)} of {len(told)} {given.kind} seeds as they should be; wrong: {[one[0] for one in wrong]}"
    )
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
