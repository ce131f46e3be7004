"""Our `model_graded` on the same replies."""

from pathlib import Path

from inspect_judged import GRADE_PATTERN

from holdfast import Sample, Task, evaluate, model_graded


def our_grades(cases: list[str] | list[list[str]], place: Path) -> list[float | None]:
    """For each case, the score of its judge, or of its panel; None where it is unscored."""
    panels = [[case] if isinstance(case, str) else case for case in cases]
    names = [f"judge-{number}" for number in range(len(panels[0]))]

    async def solve(trial):
        return trial.sample.id

    scorer = model_graded(
        models=names,
        name="grade",
        partial=True,
        combine="majority" if len(names) > 1 else "mean",
        grade_pattern=GRADE_PATTERN,
        instructions="End with GRADE: C, GRADE: P or GRADE: I.",
    )
    samples = [Sample(f"question {number}", target="x", id=f"[case {number}]") for number in range(len(cases))]
    task = Task(name="t", samples=samples, solver=solve, scorers=scorer)
    models = {
        name: {"provider": "scripted", "model": name, "args": _script([panel[judge] for panel in panels])}
        for judge, name in enumerate(names)
    }
    models["m"] = "scripted/echo"
    with evaluate(task, models=models, run=place / f"ours-{len(names)}", progress=False) as run:
        found = {row.sample: row.scores["grade"] for row in run.trials()}
    return [found[sample.id] for sample in samples]


def _script(replies):
    """A judge that knows an answer by its number; asked once more, it still gives no grade."""
    rules = [{"contains": f"[case {number}]", "reply": reply} for number, reply in enumerate(replies)]
    return {"rules": rules, "default": "nothing"}
