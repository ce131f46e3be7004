"""A notebook's process: a task is evaluated, something is done in the process, and it is evaluated again on its run.

As a program: `living_process.py PLAN` carries out one plan and prints what became of it. As a module it draws plans:
a value that is mutated in place or bound anew, files that are edited with and without a reload, a memo that fills up.
"""

# ruff: noqa: E402, E501 - a program as well as a module: it has to find its neighbours first
from __future__ import annotations

import asyncio
import importlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from drawn_program import HARMFUL, NEUTRAL, Draw
from drawn_task import HEAD, draw_program, with_imports
from drawn_values import value
from gate_campaign import Case, Finding, Verdict, judge, make_case, write_files
from observed_task import Trial

POUR = """
def _pour(old, new):
    if type(old) is not type(new):
        return False
    if isinstance(old, dict):
        old.clear(); old.update(new)
    elif isinstance(old, (list, bytearray)):
        old[:] = new
    elif isinstance(old, set):
        old.clear(); old.update(new)
    elif hasattr(old, '__dict__') and not isinstance(old, type) and not callable(old):
        vars(old).update(vars(new))
    else:
        return False
    return True
"""


# ---- inside the process


def carry_out(plan: dict[str, Any]) -> dict[str, Any]:
    """The steps of a plan, in this process."""
    holdfast = importlib.import_module("holdfast")
    os.chdir(plan["directory"])
    sys.path.insert(0, plan["directory"])
    sys.dont_write_bytecode = True
    found: dict[str, Any] = {"asked": [], "verdicts": []}
    module = importlib.import_module("task")
    for step, given in plan["steps"]:
        if step == "evaluate":
            task = getattr(module, plan["name"])
            try:
                holdfast.evaluate(task, models=["scripted/echo"], run=given, progress=False)
                found["verdicts"].append([0, ""])
            except holdfast.ResumeAborted as error:
                found["verdicts"].append([3, f"{error} {getattr(error, 'hint', '')}"])
        elif step == "observe":
            log: list[Any] = []
            asyncio.run(module.the_solver(Trial(holdfast.Sample("one"), log)))
            found["asked"].append(json.dumps(log, default=repr))
        elif step == "files":
            for name, text in given.items():
                Path(name).write_text(text)
        elif step == "load":
            own = [
                name
                for name, one in sys.modules.items()
                if str(getattr(one, "__file__", "")).startswith(plan["directory"])
            ]
            for name in own:
                del sys.modules[name]
            importlib.invalidate_caches()
            module = importlib.import_module("task")
        else:
            exec(given, module.__dict__)
    return found


# ---- plans


def in_process(plan: dict[str, Any], place: Path, environment: dict[str, str] | None = None) -> dict[str, Any]:
    (place / "plan.json").write_text(json.dumps(plan))
    done = subprocess.run(
        [sys.executable, __file__, str(place / "plan.json")],
        env={**os.environ, **(environment or {})},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    lines = [line for line in done.stdout.splitlines() if line.startswith("DONE ")]
    if not lines:
        raise RuntimeError(f"the process failed:\n{done.stderr[-2000:]}")
    return json.loads(lines[0].removeprefix("DONE "))


def check_mutation(seed: int, place: Path) -> Finding | None:
    """A value of the module is changed in the living process; None where nothing that is asked has changed."""
    texts = [_valued(seed, flip) for flip in (None, 0)]
    root, before = texts[0]
    lines = [next(line for line in text.splitlines() if line.startswith(f"{root} = ")) for _, text in texts]
    bind = lines[1].replace(f"{root} = ", "_new = ", 1)
    if lines[0] == lines[1]:
        return None
    how = random.Random(seed).choice(["bound", "poured"])
    change = f"{bind}\n{root} = _new" if how == "bound" else f"{POUR}\n{bind}\n_pour({root}, _new)"
    shutil.rmtree(place / "before", ignore_errors=True)
    write_files(place / "before", {"task.py": before})
    steps = [["evaluate", "run"], ["observe", ""], ["cell", change], ["observe", ""], ["evaluate", "run"]]
    done = in_process({"directory": str(place / "before"), "name": "task", "steps": steps}, place)
    if done["asked"][0] == done["asked"][1]:
        return None
    case = Case(
        HARMFUL,
        seed,
        f"{how} in a living process: {lines[0]} -> {lines[1]}",
        ((root,), ("kernel", "restart")),
        None,
        None,
        place,
    )  # type: ignore[arg-type]
    verdict = Verdict(*done["verdicts"][1])
    return Finding(case, verdict, judge(case, verdict))


def _valued(seed: int, flip: int | None) -> tuple[str, str]:
    """A module with one value in a name."""
    d = Draw(f"living {seed}", flip)
    d.reads_files = False
    root = d.name("ROOT")
    with d.within(root):
        made = value(d, d.pick([0, 1, 1, 2]))
    d.add(f"{root} = {made.expression}")
    d.add(
        f"async def the_solver(trial):\n    x = trial.sample.input\n    return (await trial.generate(x + {made.read(root)})).text\n"
        "def the_scorer(answer, sample):\n    return 1.0\n"
        "task = Task(name='t', samples=[Sample('one', id='s1')], solver=the_solver, scorers=the_scorer)\n"
    )
    return root, with_imports("\n".join(d.top), HEAD)


def check_use(seed: int, place: Path) -> Finding:
    """The same task evaluated three times in one process, and once for another run: nothing has changed."""
    program = draw_program(f"living use {seed}")
    write_files(place / "before", program.files)
    steps = [["evaluate", "run"], ["evaluate", "run"], ["evaluate", "other"], ["evaluate", "run"]]
    plan = {"directory": str(place / "before"), "name": program.entry["name"], "steps": steps}
    done = in_process(plan, place, program.environment)
    case = Case(NEUTRAL, seed, "used in a living process", (), program, program, place)
    verdict = Verdict(max(code for code, _ in done["verdicts"]), " ".join(said for _, said in done["verdicts"]))
    return Finding(case, verdict, judge(case, verdict))


def check_stale(seed: int, place: Path) -> Finding:
    """Files edited under a process that keeps the old code: what it evaluates is the old code, and is recorded so."""
    case = make_case(HARMFUL, seed, place)
    case.what = f"edited and not loaded: {case.what}"
    python = {name: text for name, text in case.after.files.items() if name.endswith(".py")}
    write_files(place / "before", case.before.files)
    steps = [["evaluate", "run"], ["files", python], ["evaluate", "run"], ["evaluate", "fresh"]]
    plan = {"directory": str(place / "before"), "name": case.before.entry["name"], "steps": steps}
    done = in_process(plan, place, case.before.environment)
    if any(code for code, _ in done["verdicts"]):
        return Finding(case, Verdict(3, str(done)), "code that was not loaded again was taken for changed")
    write_files(place / "eval", {**case.after.files})
    shutil.move(place / "before" / "fresh", place / "eval" / "fresh")
    again = {"directory": str(place / "eval"), "name": case.after.entry["name"], "steps": [["evaluate", "fresh"]]}
    verdict = Verdict(*in_process(again, place, case.after.environment)["verdicts"][0])
    return Finding(case, verdict, judge(case, verdict))


def check_reload(seed: int, place: Path) -> Finding:
    """Files edited and loaded again in the same process."""
    case = make_case(HARMFUL, seed, place)
    case.what = f"edited and loaded again: {case.what}"
    write_files(place / "before", case.before.files)
    steps = [
        ["evaluate", "run"],
        ["files", case.after.files],
        ["cell", _environment(case)],
        ["load", ""],
        ["evaluate", "run"],
    ]
    plan = {"directory": str(place / "before"), "name": case.before.entry["name"], "steps": steps}
    verdict = Verdict(*in_process(plan, place, case.before.environment)["verdicts"][1])
    return Finding(case, verdict, judge(case, verdict))


def _environment(case: Case) -> str:
    return f"import os\nos.environ.update({case.after.environment!r})"


def main() -> None:
    import tempfile  # noqa: PLC0415

    if sys.argv[1].endswith(".json"):
        print("DONE " + json.dumps(carry_out(json.loads(Path(sys.argv[1]).read_text()))))
        return
    check = {"mutation": check_mutation, "use": check_use, "stale": check_stale, "reload": check_reload}[sys.argv[1]]
    first, count = int(sys.argv[2]), int(sys.argv[3])
    done = wrong = 0
    for seed in range(first, first + count):
        with tempfile.TemporaryDirectory() as place:
            try:
                finding = check(seed, Path(place).resolve())
            except RuntimeError as error:
                print(f"seed {seed}: {error}")
                wrong += 1
                continue
        done += finding is not None
        if finding is not None and finding.problem:
            wrong += 1
            print(finding)
    print(f"{sys.argv[1]}: {done} cases, {wrong} wrong")


if __name__ == "__main__":
    main()
