"""Rows 65 to 70, 84 and 85: members that are renamed, replaced, unused or added, and values spelled out."""

from __future__ import annotations

import copy
import unicodedata

import pytest
from gate_world import MODEL, TASK, make_rows

from holdfast import ResumeAborted, Sample, Task, evaluate, exact, generate
from holdfast.run.fold.reader import RunReader

OTHER = {"provider": "scripted", "model": "other", "args": {"default": "x"}}
PRICED = {**MODEL, "price": {"input": 1, "output": 2}, "generation": {"max_tokens": 10}}


def several(world):
    """Two tasks, two models, and prompt variants."""
    world.data["models"]["k"] = {**OTHER, "base_url": "http://127.0.0.1:1"}
    world.data["tasks"]["u"] = {**TASK, "prompt": {"plain": "U {question}", "loud": "{question}!"}}


def rename(members, old, new, **changes):
    members[new] = {**members.pop(old), **changes}


RENAMED = {
    "a task": (lambda world: rename(world.data["tasks"], "t", "v"), ["tasks.t (identity): t → v"]),
    "a task that also grows": (
        lambda world: rename(world.data["tasks"], "t", "v", epochs=2, concurrency_limit=3),
        ["tasks.t (identity): t → v"],
    ),
    "a task with other scorers": (
        lambda world: rename(world.data["tasks"], "t", "v", scorers=["includes"]),
        ["tasks.t (identity): t → v"],
    ),
    "a task in another case": (lambda world: rename(world.data["tasks"], "t", "T"), ["tasks.t (identity): t → T"]),
    "both tasks": (
        lambda world: (rename(world.data["tasks"], "t", "v"), rename(world.data["tasks"], "u", "w")),
        ["tasks.t (identity): t → v", "tasks.u (identity): u → w"],
    ),
    "a task and its dataset": (
        lambda world: (
            world.data["datasets"].update(copied={"path": "rows.jsonl"}),
            rename(world.data["tasks"], "t", "v", dataset="copied"),
        ),
        ["tasks.t (identity): t → v"],
    ),
    "a model": (lambda world: rename(world.data["models"], "m", "n"), ["models.m (identity): m → n"]),
    "a model with a new address and limit": (
        lambda world: rename(world.data["models"], "k", "far", base_url="http://127.0.0.1:2", concurrency_limit=2),
        ["models.k (identity): k → far"],
    ),
    "a task and a model": (
        lambda world: (rename(world.data["models"], "m", "n"), rename(world.data["tasks"], "t", "v")),
        ["models.m (identity): m → n", "tasks.t (identity): t → v"],
    ),
    "a prompt variant": (
        lambda world: world.data["tasks"]["u"].update(prompt={"simple": "U {question}", "loud": "{question}!"}),
        ["tasks.u.prompt.plain (identity): plain → simple"],
    ),
    "a scorer": (
        lambda world: world.task.update(scorers=[{"exact": {"name": "strict"}}]),
        ["tasks.t.scorers.exact (scoring): exact → strict"],
    ),
    "a sample": (lambda world: world.rows[1].update(id="x2"), ["samples → ids renamed: s2 → x2"]),
    "all samples": (
        lambda world: [row.update(id=row["id"].upper()) for row in world.rows],
        ["ids renamed: s1 → S1, s2 → S2, s3 → S3, s4 → S4"],
    ),
    "a sample whose target is edited": (
        lambda world: world.rows[1].update(id="x2", answer="another"),
        ["ids renamed: s2 → x2"],
    ),
}


@pytest.mark.parametrize("name", RENAMED)
def test_resume_68_renamed(world, name):
    """Resume 68: what has only another name is refused, naming both, whatever else changes; nothing is run again."""
    several(world)
    world.begin()
    change, expected = RENAMED[name]
    change(world)
    said = world.refused()
    for line in expected:
        assert line in said
    assert "holdfast fork r --config" in said and said.index("holdfast resume r") < said.index("holdfast fork r ")


def test_resume_68_names_that_differ_in_their_unicode_form(world):
    """Resume 68: two spellings of the same letters are two names, and a rename all the same."""
    composed, decomposed = (unicodedata.normalize(form, "modèle") for form in ("NFC", "NFD"))
    world.data["models"] = {composed: MODEL}
    world.begin()
    world.data["models"] = {decomposed: MODEL}
    assert f"models.{composed} (identity): {composed} → {decomposed}" in world.refused()


def test_resume_68_ids_given_to_rows_without(world):
    """Resume 68: rows that get ids are the same rows under other names."""
    world.rows = make_rows(3, ids=False)
    world.run()
    world.rows = make_rows(3)
    said = world.refused()
    assert "ids renamed: " in said and "→ s1" in said


DIFFERENT = {
    "tasks": (
        lambda world: world.data.update(tasks={"z": {**TASK, "prompt": "Z {question}"}}),
        "tasks (identity): t → z",
    ),
    "models": (lambda world: world.data.update(models={"z": OTHER}), "models (identity): m → z"),
    "samples": (
        lambda world: world.write_rows(
            [{**row, "id": f"z{row['id']}", "question": f"z{row['id']}"} for row in world.rows]
        ),
        "tasks.t.dataset (identity): 4 samples → all of them replaced by 4 others",
    ),
}


@pytest.mark.parametrize("kind", DIFFERENT)
def test_resume_68_a_different_eval(world, kind):
    """Resume 68: where nothing of a kind is left and others come instead, it is a different eval."""
    world.run()
    change, expected = DIFFERENT[kind]
    change(world)
    said = world.refused()
    assert expected in said and "this is a different eval" in said and "holdfast fork r --config" in said


def test_resume_68_swapped_names(world):
    """Resume 68: two models that change places are two edited models."""
    world.data["models"]["k"] = OTHER
    world.begin()
    world.data["models"] = {"m": OTHER, "k": MODEL}
    said = world.refused()
    assert "models.m.model (identity): echo → other" in said and "models.k.model (identity): other → echo" in said


def test_resume_68_a_twin_beside_its_twin_is_growth(world):
    """Resume 68: a second name for the same model is an addition while the first stays, and may stay when it goes."""
    world.run()
    world.data["models"]["twin"] = MODEL
    world.resume(code=0)
    world.check_complete(8)
    del world.data["models"]["m"]
    assert "models.m: given → left out; existing results are kept" in world.resume(code=0).err
    world.data["models"] = {"m": MODEL, "twin": MODEL}
    world.resume(code=0)
    world.check_complete(8)


def test_resume_68_another_task_beside_one_that_is_left_out(world):
    """Resume 68: a task that asks something else is no rename: one is kept, the other is run."""
    several(world)
    del world.data["models"]["k"]
    world.run()
    world.data["tasks"]["v"] = {**world.data["tasks"].pop("t"), "prompt": "V {question}"}
    world.resume(code=0)
    world.check_complete(16)


def capitals(name, *, prompt="{input}", ids=("i", "f")):
    samples = [Sample(city, id=key, target=city) for key, city in zip(ids, ("Rome", "Paris"), strict=True)]
    return Task(samples=samples, solver=generate(prompt), scorers=exact(), name=name)


def test_resume_68_in_python(world):
    """Resume 68: `evaluate` passes the same gate: a renamed task, model or sample is refused by name."""
    evaluate([capitals("a"), capitals("b", prompt="B {input}")], {"m": MODEL}, run="r", progress=False).close()
    for tasks, models, words in (
        ([capitals("c"), capitals("b", prompt="B {input}")], {"m": MODEL}, r"tasks\.a \(identity\): a → c"),
        ([capitals("a"), capitals("b", prompt="B {input}")], {"n": MODEL}, r"models\.m \(identity\): m → n"),
        ([capitals("a", ids=("i", "x")), capitals("b", prompt="B {input}")], {"m": MODEL}, r"ids renamed: f → x"),
    ):
        with pytest.raises(ResumeAborted, match=words) as caught:
            evaluate(tasks, models, run="r", progress=False)
        assert "evaluate(tasks, models, run='r')" in str(caught.value)


FILE_TASK = """
from holdfast import Sample, Task, exact, task

async def solve(trial):
    return await trial.generate(trial.sample.input)

@task
def {name}(n: int = 3, loud: bool = False):
    samples = [Sample(f"q{{i}}", id=f"s{{i}}", target=f"q{{i}}") for i in range(n)]
    return Task(samples=samples, solver=solve, scorers=exact())
"""


def test_resume_68_a_task_in_a_file(world):
    """Resume 68: a task in Python is known by the code behind it, and not by its name."""
    code = world.directory / "tk.py"
    code.write_text(FILE_TASK.format(name="first"))
    world.data["tasks"] = {"first": {"use": "tk.py:first"}, "t": dict(TASK)}
    world.run()
    code.write_text(FILE_TASK.format(name="second"))
    world.data["tasks"] = {"second": {"use": "tk.py:second"}, "t": dict(TASK)}
    said = world.refused()
    assert "tasks.first (identity): first → second" in said


# Values that are spelled out.

EXPLICIT = {
    "scorer arguments": lambda world: world.task.update(
        scorers=[{"exact": {"ignore_case": False, "ignore_punctuation": False, "name": "exact"}}]
    ),
    "scorer arguments as null": lambda world: world.task.update(scorers=[{"exact": None}]),
    "dataset format": lambda world: world.data["datasets"]["rows"].update(format="jsonl"),
    "dataset fields": lambda world: world.data["datasets"]["rows"].update(fields={"id": "id"}),
    "idle operations": lambda world: world.data["datasets"]["rows"].update(
        operations=[{"slice": {"start": 0}}, {"repeat": {"times": 1}}]
    ),
    "empty operations": lambda world: world.data["datasets"]["rows"].update(operations=[], fields={}, format=None),
    "task arguments": lambda world: world.data["tasks"]["p"].update(args={"n": 3, "loud": False}),
    "some task arguments": lambda world: world.data["tasks"]["p"].update(args={"n": 3}),
    "options of a provider": lambda world: world.model.update(args={"replies": {}, "rules": [], "latency": 0}),
    "arguments of a scorer in a file": lambda world: world.task.update(
        scorers=["exact", {"checks.py:near": {"limit": 0.5}}]
    ),
    "empty blocks": lambda world: (
        world.task.update(limits={}, runner={}, few_shot=[], choices=None),
        world.model.update(generation={}, rate_limit=None, timeouts={}, headers={}),
    ),
}


@pytest.mark.parametrize("name", EXPLICIT)
def test_resume_69_explicit_defaults(world, name):
    """Resume 69: a default that is spelled out is no change, wherever it stands: no entry, and no file is touched."""
    (world.directory / "tk.py").write_text(FILE_TASK.format(name="p"))
    (world.directory / "checks.py").write_text("def near(answer, sample, limit=0.5):\n    return limit\n")
    world.data["tasks"]["p"] = {"use": "tk.py:p"}
    world.task["scorers"] = ["exact", "checks.py:near"]
    world.run()
    before = world.everything()
    EXPLICIT[name](world)
    if name.startswith("scorer arguments"):
        world.task["scorers"].append("checks.py:near")
    assert world("diff", "r", world.write(), code=0).out == "No difference.\n"
    world.resume(code=0)
    assert world.everything() == before
    # And the other way: what was spelled out may be left out.
    spelled = copy.deepcopy(world.data)
    world("run", world.write(), "--run-dir", "spelled", code=0)
    world.data = spelled
    for owner in (world.data["tasks"]["p"], world.model):
        owner.pop("args", None)
    assert world("diff", "spelled", world.write(), code=0).out == "No difference.\n"


@pytest.mark.parametrize("is_saved", [True, False])
def test_resume_69_templates_that_are_spelled_out(world, is_saved):
    """Resume 69: `{input}` is what is asked without a prompt, and `{target}` is the target without a template."""
    columns = {"input": "question", "target": "answer"}
    world.data["datasets"]["rows"]["fields"] = {**world.data["datasets"]["rows"].get("fields", {}), **columns}
    spelled = {"prompt": "{input}", "target": "{target}"}
    world.task.pop("prompt", None), world.task.pop("target", None)
    world.task.update(spelled if is_saved else {})
    world.run()
    before = world.everything()
    for part, usual in spelled.items():
        world.task.pop(part) if is_saved else world.task.update({part: usual})
        assert world("diff", "r", world.write(), code=0).out == "No difference.\n"
    world.resume(code=0)
    assert world.everything() == before
    world.task["prompt"] = "{input} "
    assert "tasks.t.prompt (identity)" in world.refused()


def test_resume_69_a_sampling_spelled_out(world):
    """Resume 69: also in the requirements of a sampling."""
    world.task["sampling"] = {"strategy": "repair", "requirements": [{"regex": "^q"}]}
    world.run()
    world.task["sampling"] = {
        "strategy": "repair",
        "requirements": [{"regex": {"pattern": "^q", "full": False}}],
        "concurrency_budget": 1,
    }
    told = world("diff", "r", world.write())
    assert (told.code, told.out) == (0, "No difference.\n"), told


def test_resume_69_another_value_is_still_refused(world):
    """Resume 69: only the default is nothing; any other value is a change."""
    world.run()
    world.task["scorers"] = [{"exact": {"ignore_case": True}}]
    assert 'tasks.t.scorers.exact (scoring): {} → {"ignore_case":true}' in world.refused()
    world.task["scorers"] = ["exact"]
    world.data["datasets"]["rows"]["operations"] = [{"slice": {"num": 4}}]
    assert "datasets.rows.operations (identity)" in world.refused()


def test_a_dataset_that_moved_to_a_name_without_an_ending(world):
    """The format that has to be spelled out for the new name is the one that it was."""
    world.run()
    (world.directory / "rows.txt").write_bytes((world.directory / "rows.jsonl").read_bytes())
    world.data["datasets"]["rows"] = {"path": "rows.txt", "format": "jsonl"}
    told = world.resume(code=0)
    assert "datasets.rows.format: unset → jsonl" in told.err and len(world.entries) == 2
    world.check_complete(4)


# What no trial uses.


def test_resume_70_unused_members(world):
    """Resume 70: a model or a dataset that no trial uses may be edited in every field, and be used afterwards."""
    world.data["models"]["spare"] = OTHER
    world.data["datasets"]["spare"] = "nothing.jsonl"
    world.task["models"] = ["m"]
    world.run()
    world.data["models"]["spare"] = {**MODEL, "generation": {"temperature": 1}}
    world.data["datasets"]["spare"] = {"path": "rows.jsonl", "operations": [{"slice": {"num": 2}}]}
    world.resume(code=0)
    assert world.entries[:2] == ["models.spare.model: other → echo", "models.spare.generation.temperature: unset → 1.0"]
    world.task["models"] = ["m", "spare"]
    world.resume(code=0)
    world.check_complete(8)
    world.data["models"]["spare"] = OTHER
    assert "models.spare.model (identity): echo → other" in world.refused()


def test_resume_70_renaming_what_no_trial_uses(world):
    """Resume 70: an unused model may have any name."""
    world.data["models"]["spare"] = OTHER
    world.task["models"] = ["m"]
    world.run()
    world.data["models"]["other"] = world.data["models"].pop("spare")
    world.resume(code=0)
    world.check_complete(4)


ASKING = """
async def judged(answer, sample, scope):
    return (await scope.generate("Is it right?", model="judge")).text == "Is it right?"
"""


def test_resume_70_a_model_that_only_a_scorer_asks_is_used(world):
    """Resume 70: a judge that code names is in no list of models, and trials use it all the same."""
    (world.directory / "judging.py").write_text(ASKING)
    world.data["models"]["judge"] = MODEL
    world.task.update(models=["m"], scorers=["judging.py:judged"])
    world.run()
    world.data["models"]["judge"] = OTHER
    assert "models.judge.model (identity): echo → other" in world.refused()


@pytest.mark.parametrize("ids", [True, False])
def test_resume_70_a_column_that_nothing_uses(world, ids):
    """Resume 70: a column that no prompt, filter, choice or scorer looks at may change, with ids and without."""
    world.rows = [{**row, "note": "a"} for row in make_rows(4, ids=ids)]
    world.run()
    before = world.everything()
    world.rows = [{**row, "note": "b"} for row in world.rows]
    world.resume(code=0)
    world("resume", "r", code=0)
    assert world.everything() == before
    world.rows.append({**world.rows[0], "question": "q9", "answer": "q9", **({"id": "s9"} if ids else {})})
    world.resume(code=0)
    assert world.entries == ["tasks.t.dataset: 4 samples → 5 samples"]
    world.check_complete(5)
    world.rows[0]["question"] = "another"
    assert "(identity)" in world.refused()


USED = {
    "by the prompt": lambda world: world.task.update(prompt="{question} ({note})"),
    "by the system text": lambda world: world.task.update(system="{note}"),
    "by a filter": lambda world: world.data["datasets"]["rows"].update(
        operations=[{"filter": {"field": "note", "matches": "."}}]
    ),
    "by a choice": lambda world: world.task.update(choices=["{note}", "other"], scorers=["exact"]),
    "by a scorer of one's own": lambda world: world.task.update(scorers=["own.py:own"]),
    "by a solver of one's own": lambda world: world.task.update(solver="own.py:solve", prompt=None),
}


@pytest.mark.parametrize("how", USED)
def test_resume_70_a_column_that_something_uses(world, how):
    """Resume 70: what a trial depends on may not change, and code may depend on any column."""
    own = "def own(answer, sample):\n    return True\n\nasync def solve(trial):\n    return await trial.generate('x')\n"
    (world.directory / "own.py").write_text(own)
    world.rows = [{**row, "input": row["question"], "note": "a"} for row in make_rows(2)]
    USED[how](world)
    world.run()
    world.rows = [{**row, "note": "b"} for row in world.rows]
    assert "the input was edited in: s1, s2" in world.refused()


def test_fork_keeps_trials_whose_unused_columns_changed(world):
    """The answers are the same; a scorer of one's own looks again."""
    world.rows = [{**row, "note": "a"} for row in make_rows(3)]
    world.run()
    world.rows = [{**row, "note": "b"} for row in world.rows]
    told = world.json("fork", "r", "--config", world.write(), "--run-dir", "f", code=0)
    assert (told["taken"], told["rescored"]) == (3, 0)


# Price, patience, durability, titles.


def test_resume_65_a_price_is_added_and_corrected(world):
    """Resume 65: status and report work costs out again from the tokens on record."""
    world.run()
    assert world.status()["cost"] is None
    for price, cost in (({"input": 5e5, "output": 0}, 2.0), ({"input": 1e6, "output": 5e5}, 6.0)):
        world.model["price"] = price
        world.resume(code=0)
        assert world.status()["cost"] == cost and world.report()["tasks"]["t"]["m"]["cost"] == cost
    assert [entry.partition(":")[0] for entry in world.entries] == [
        "models.m.price",
        "models.m.price.input",
        "models.m.price.output",
    ]


def test_resume_65_a_price_under_a_limit_of_cost(world):
    """Resume 65: where a limit of cost decides how trials end, a price is part of what is asked."""
    world.model["price"] = {"input": 1, "output": 1}
    world.task["limits"] = {"cost": 5}
    world.run()
    world.model["price"] = {"input": 2, "output": 1}
    assert "models.m.price.input (identity): 1.0 → 2.0" in world.refused()


@pytest.mark.parametrize("block", ["top", "runner", "task"])
def test_resume_67_retry_deadline(world, block):
    """Resume 67: how long to keep trying may change, with an entry."""
    world.begin()
    owner = {"top": world.data, "runner": world.data.setdefault("runner", {}), "task": world.task}[block]
    owner["retry_deadline"] = 7200
    world.resume(code=0)
    path = "tasks.t.runner" if block == "task" else "runner"
    assert world.entries == [f"{path}.retry_deadline: 3600.0 → 7200.0"]


def test_resume_67_retry_deadline_by_set_reaches_the_tasks(world):
    """Resume 67: tasks that have it from the run have it again when the run's is changed."""
    world.begin()
    world("resume", "r", "--set", "retry_deadline=2h", code=0)
    assert world.entries == ["runner.retry_deadline: 3600.0 → 7200.0"]
    assert world.body["tasks"]["t"]["runner"]["retry_deadline"] == 7200


def test_resume_67_durability(world):
    """Resume 67: durability may become stricter, with an entry, and not laxer."""
    world.begin()
    world.data["durability"] = "remote"
    world.resume(code=0)
    assert world.entries == ["runner.durability: local → remote"]
    world.data["durability"] = "local"
    assert "runner.durability (recorded): remote → local" in world.refused()


def test_resume_66_titles_by_set(world):
    """Resume 66: name, description and tags are applied where they are shown."""
    world.run()
    words = ("--set", "name=another", "--set", "description=What it is.", "--set", "tags=[a, b]")
    world("resume", "r", *words, code=0)
    assert world.entries == ["name: gate → another", "description: unset → What it is.", 'tags: [] → ["a","b"]']
    assert {name: world.body[name] for name in ("name", "description", "tags")} == {
        "name": "another",
        "description": "What it is.",
        "tags": ["a", "b"],
    }
    assert world.status()["name"] == "another"
    world.check_complete(4)
    # A file that has other ones is not compared.
    before = world.everything()
    world.resume(code=0)
    assert world.everything() == before


@pytest.mark.parametrize(
    "setting", ["concurrency_limit=256", "epochs=1", "name=gate", "models.m.generation={}", "tasks.t.scorers=[exact]"]
)
def test_resume_66_a_set_that_changes_nothing_says_so(world, setting):
    """Resume 66: whoever sets what is set already reads it, also beside a setting that changes something."""
    world.run()
    before = world.everything()
    path = setting.partition("=")[0]
    said = f"note: --set {path} changes nothing: it has that value already."
    assert said in world("resume", "r", "--set", setting, code=0).err
    assert world.everything() == before
    told = world("resume", "r", "--set", setting, "--set", "grace_period=3", code=0).err
    assert said in told and told.count("changes nothing") == 1 and "runner.grace_period: 30.0 → 3.0" in told


# Growth.


def test_resume_84_growth_of_everything_at_once(world):
    """Resume 84: epochs, models and samples: how many trials, and at most how much, before anything is called."""
    world.data["models"] = {"m": PRICED}
    world.run()
    world.data["models"]["n"] = PRICED
    world.task.update(epochs=2, scorers=["exact", "includes"])
    world.rows = make_rows(5)
    dry = world("run", world.write(), "--run-dir", "r", "--or-resume", "--dry-run", code=0)
    told = world.resume(code=0)
    line = "Added: 16 trials, 20 in all; they cost at most about $"
    for text in (dry.out, told.err):
        assert line in text and "Added: scores of 4 answers by further scorers" in text
        assert "going by the trials so far" in text
    assert told.err.index(line) < told.err.index("trials are finished")
    world.check_complete(20)


def test_resume_84_the_bound_holds(world):
    """Resume 84: what the added trials cost is not more than what was said."""
    world.data["models"] = {"m": {**PRICED, "price": {"input": 1e6, "output": 1e6}}}
    world.run()
    spent = world.status()["cost"]
    world.task["epochs"] = 3
    growth = world.json("run", world.write(), "--run-dir", "r", "--or-resume", "--dry-run", code=0)["existing"][
        "growth"
    ]
    assert growth["trials"] == 8 and growth["planned"] == 12
    world.resume(code=0)
    assert 0 < world.status()["cost"] - spent <= growth["most_cost"]
    assert growth["likely_cost"] == pytest.approx(world.status()["cost"] - spent)


UNBOUNDED = {
    "no price": (MODEL, "m has no price"),
    "no max_tokens": ({**MODEL, "price": {"input": 1, "output": 1}}, "m has no generation.max_tokens"),
}


@pytest.mark.parametrize("name", UNBOUNDED)
def test_resume_84_what_cannot_be_said(world, name):
    """Resume 84: where there is no upper bound, the reason is named, and no number is made up."""
    model, why = UNBOUNDED[name]
    world.data["models"] = {"m": model}
    world.run()
    world.task["epochs"] = 2
    told = world.resume(code=0).err
    assert f"Added: 4 trials, 8 in all; their maximum cost is unknown: {why}" in told


def test_resume_84_a_task_with_code_of_its_own(world):
    """Resume 84: how often code asks is not known before."""
    (world.directory / "tk.py").write_text(FILE_TASK.format(name="p"))
    world.data["models"] = {"m": PRICED}
    world.run()
    world.data["tasks"]["p"] = {"use": "tk.py:p"}
    told = world.resume(code=0).err
    assert "Added: 3 trials, 7 in all; their maximum cost is unknown: the code of p decides" in told


def test_resume_84_growth_with_where(world):
    """Resume 84: what is added is told, and then what of it is run now."""
    world.data["models"] = {"m": PRICED}
    world.run()
    world.task["epochs"] = 3
    told = world.resume("--where", "epoch=2", code=0).err
    assert "Added: 8 trials, 12 in all" in told and "Running 4 of the 8 remaining trials." in told
    again = world("resume", "r", code=0).err
    assert "Added" not in again
    world.check_complete(12)


def test_resume_84_in_python(world, capfdbinary):
    """Resume 84: `evaluate` says it too, before the first call."""
    evaluate(capitals("a"), {"m": PRICED}, run="r", progress=False).close()
    capfdbinary.readouterr()
    evaluate(capitals("a"), {"m": PRICED, "n": PRICED}, run="r", epochs=2, progress=False).close()
    assert "holdfast: Added: 6 trials, 8 in all; they cost at most about $" in capfdbinary.readouterr().err.decode()


def test_resume_84_no_growth_no_word(world):
    """Resume 84: a resume that adds nothing says nothing of it."""
    world.begin()
    assert "Added" not in world.resume(code=0).err


# What `run` refuses, `resume` refuses too.


def test_resume_85_a_sample_beyond_the_limit(world):
    """Resume 85: an id that the limit leaves out is told apart from one that does not exist, as by `run`."""
    world.task["limit"] = 2
    world.run()
    before = world.everything()
    for ids, words in ((["s4"], "is beyond the limit of 2"), (["nosuch"], "has no sample with the id 'nosuch'")):
        world.task["sample_ids"] = ids
        assert words in world.resume(code=2).err
        assert words in world("run", world.write(), "--run-dir", "new", code=2).err
    world.data["datasets"]["rows"]["operations"] = [{"slice": {"start": 1}}]
    world.task["sample_ids"] = ["s1"]
    assert "is left out by the operations" in world("run", world.write(), "--run-dir", "new", code=2).err
    assert world.everything() == before


def test_resume_85_a_dataset_that_is_not_there(world):
    """Resume 85: a new path where nothing is, is a mistake; a file that is gone from its old path is not."""
    world.run()
    before = world.everything()
    told = world("resume", "r", "--set", "path=nosuch.jsonl", code=2).err
    assert "nosuch.jsonl does not exist" in told and "the copy in the run" in told
    world.data["datasets"]["rows"]["path"] = "nosuch.jsonl"
    assert "nosuch.jsonl does not exist" in world.resume(code=2).err
    assert world.everything() == before
    (world.directory / "rows.jsonl").unlink()
    world("resume", "r", code=0)


def test_resume_85_two_scorers_of_one_name(world):
    """Resume 85: two scorers of one name are refused by `--config` in the words of `run`."""
    world.run()
    before = world.everything()
    world.task["scorers"] = ["exact", "exact"]
    words = "tasks.t.scorers: Two scorers are called 'exact'."
    assert words in world.resume(code=2).err and words in world("run", world.write(), "--run-dir", "n", code=2).err
    assert words in world("resume", "r", "--set", "scorers=[exact, exact]", code=2).err
    assert world.everything() == before


def test_a_session_record_names_what_changed(world):
    """The lineage has every change that was applied, also of unused members."""
    world.data["models"]["spare"] = OTHER
    world.task["models"] = ["m"]
    world.run()
    world.data["models"]["spare"] = MODEL
    world.resume(code=0)
    reader = RunReader(world.run_dir)
    assert [change.path for change in reader.sessions[-1].changes] == ["models.spare.model", "models.spare.args"]
    reader.close()
