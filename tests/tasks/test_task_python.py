"""Tasks in Python: made by functions, loaded from files, every mistake one sentence."""

import inspect
import subprocess
import sys
import textwrap

import pytest
from dataset_files import open_rows, write_jsonl

from holdfast.errors import ConfigurationError
from holdfast.spec import DatasetSpec
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.exact import exact
from holdfast.tasks.solver import generate
from holdfast.tasks.source.digest import source_digest
from holdfast.tasks.task import Task, task
from holdfast.tasks.task_reference import load_use, task_names

SAMPLES = [Sample("1 + 1?", target="2")]

TASKS = """
    from holdfast.tasks.sample import Sample
    from holdfast.tasks.scorers.exact import exact
    from holdfast.tasks.solver import generate
    from holdfast.tasks.task import Task, task

    @task
    def sums(n: int = 1, hard: bool = False, words: list[str] = ("a",), scale: float | None = None, plain=5) -> Task:
        samples = [Sample(f"{i} + {i}?", target=str(2 * i)) for i in range(n)]
        return Task(samples=samples, solver=generate(), scorers=exact())

    @task
    def needy(size: int) -> Task:
        return Task(samples=[Sample("x", target="y")] * size, solver=generate(), scorers=exact())

    ready = Task(samples=[Sample("x", target="y")], solver=generate(), scorers=exact(), name="ready")

    def plain_function():
        return None

    @task
    def empty_handed():
        return 5

    @task
    def broken(n: int = 0) -> Task:
        return Task(samples=[Sample("x")], solver=generate(), scorers=exact(), epochs=1 // n)
"""


@pytest.fixture
def tasks(tmp_path):
    (tmp_path / "tasks.py").write_text(textwrap.dedent(TASKS))
    return tmp_path


def written(tmp_path, text, name="code.py"):
    (tmp_path / name).write_text(textwrap.dedent(text))
    return tmp_path


def refusal(reference, base, args=None):
    before = list(sys.path)
    with pytest.raises(ConfigurationError) as caught:
        load_use(reference, base, args)
    assert sys.path == before
    message = str(caught.value)
    assert "\n" not in message and "Traceback" not in message
    return message


def test_a_decorated_function_is_called_like_any_other():
    """The task has the function's name and remembers its arguments."""

    @task
    def capitals(n: int = 3) -> Task:
        return Task(samples=SAMPLES * n, solver=generate(), scorers=exact())

    assert (capitals(2).name, capitals(2).args, len(capitals(2).samples)) == ("capitals", {"n": 2}, 2)
    assert capitals().args == {"n": 3}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, {"n": 1, "hard": False, "scale": None, "plain": 5}),
        ({"n": "5"}, {"n": 5}),
        ({"n": 5, "hard": "true"}, {"n": 5, "hard": True}),
        ({"words": '["x", "y"]'}, {"words": ["x", "y"]}),
        ({"words": ["x"]}, {"words": ["x"]}),
        ({"scale": "0.5"}, {"scale": 0.5}),
        ({"scale": 2}, {"scale": 2.0}),
        ({"plain": "7"}, {"plain": 7}),
    ],
)
def test_arguments_are_fitted_to_the_annotations(tasks, given, expected):
    """Text from a command line becomes what the function asks for; defaults are recorded with them."""
    made = load_use("tasks.py:sums", tasks, given)
    assert {name: made.args[name] for name in expected} == expected
    assert all(type(made.args[name]) is type(value) for name, value in expected.items())


@pytest.mark.parametrize(
    ("name", "given", "said"),
    [
        ("sums", {"m": 5}, ["'m'", "it takes hard, n", "'sums'"]),
        ("sums", {"hrad": True}, ["Did you mean 'hard'?"]),
        ("sums", {"n": "five"}, ["'n'", "'five'", "int"]),
        ("sums", {"n": 1.5}, ["'n'", "int"]),
        ("sums", {"words": "x"}, ["'words'"]),
        ("needy", {}, ["needs the argument 'size'"]),
        ("ready", {"n": 1}, ["takes no argument 'n'"]),
        ("empty_handed", {}, ["returned int", "return a Task"]),
        ("broken", {"n": 0}, ["ZeroDivisionError", "tasks.py line 27"]),
        ("plain_function", {}, ["is a function, not a task", "@task"]),
        ("sms", {}, ["no task 'sms'", "Did you mean 'sums'?"]),
    ],
)
def test_a_task_that_cannot_be_made_is_one_sentence(tasks, name, given, said):
    """Unknown names, arguments that do not fit and errors inside are told without a traceback."""
    message = refusal(f"tasks.py:{name}", tasks, given)
    for part in said:
        assert part in message


def test_a_task_that_is_ready_needs_no_function(tasks):
    """A Task at the level of the module can be used as it is."""
    assert load_use("tasks.py:ready", tasks).name == "ready"


def test_a_file_with_one_task_needs_no_name(tmp_path):
    """The only task of a file is meant; imported ones are not its own."""
    text = """
        from holdfast.tasks.sample import Sample
        from holdfast.tasks.solver import generate
        from holdfast.tasks.task import Task, task

        @task
        def other():
            return Task(samples=[Sample("x")], solver=generate(), scorers="exact")
    """
    written(tmp_path, text, "others.py")
    own = text.replace("other()", "only()").replace("@task", "from others import other\n        @task")
    assert load_use("code.py", written(tmp_path, own)).name == "only"


def test_a_file_with_several_tasks_asks_for_a_name(tasks, tmp_path):
    """With several, or none, the refusal says what there is."""
    assert "defines 5 tasks: broken, empty_handed, needy, ready, sums" in refusal("tasks.py", tasks)
    assert "defines no task" in refusal("code.py", written(tmp_path, "x = 1"))


def test_every_task_of_a_file_can_be_asked_for(tasks, tmp_path):
    """A file stands for all of its tasks, in the order they are defined; a named one for itself."""
    found = ["tasks.py:sums", "tasks.py:needy", "tasks.py:ready", "tasks.py:empty_handed", "tasks.py:broken"]
    assert task_names("tasks.py", tasks) == found
    assert task_names("tasks.py:sums", tasks) == ["tasks.py:sums"]
    with pytest.raises(ConfigurationError, match=r"code\.py defines no task"):
        task_names("code.py", written(tmp_path, "x = 1"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def solve(:\n    pass", ["code.py", "line 1", "invalid syntax"]),
        ("x = 1\n\nraise ValueError('no\\nkey')", ["code.py raised ValueError: no key", "line 3"]),
        ("import no_such_module_at_all", ["No module named 'no_such_module_at_all'", "code.py line 1"]),
        ("from helper import x", ["ZeroDivisionError", "helper.py line 2"]),
        ("import torn", ["torn.py line 1"]),
        ("import sys\nsys.exit('bye')", ["SystemExit: bye", "code.py line 2"]),
        ("def f(): return f()\nf()", ["RecursionError", "code.py line 1"]),
        ("x = '\0'", ["code.py"]),
    ],
)
def test_a_file_that_does_not_import_is_one_sentence(tmp_path, text, said):
    """Whatever goes wrong inside, the file and the line are named, and nothing is left behind."""
    written(tmp_path, "x = 1\ny = 1 / 0", "helper.py")
    written(tmp_path, "def (", "torn.py")
    before = set(sys.modules)
    message = refusal("code.py:solve", written(tmp_path, text))
    for part in said:
        assert part in message
    assert not any(name.startswith("holdfast_task_") for name in set(sys.modules) - before)


@pytest.mark.parametrize(
    ("reference", "said"),
    [
        ("missing.py:x", "missing.py does not exist"),
        ("no_such_package.module:x", "There is no module 'no_such_package'"),
        ("json.no_such_part:x", "There is no module 'json.no_such_part'"),
        ("json:dumps", "not a task"),
        ("no_such_task", "There is no task 'no_such_task'"),
        (".:x", "module"),
        ("", "There is no task"),
    ],
)
def test_a_reference_that_leads_nowhere_is_one_sentence(tmp_path, reference, said):
    """Files, modules and names that are not there are named."""
    assert said in refusal(reference, tmp_path)


def test_a_module_beside_the_eval_file_is_found_by_its_dotted_name(tmp_path):
    """Packages next to the eval file need no installing."""
    package = tmp_path / "some_tasks"
    package.mkdir()
    (package / "__init__.py").write_text("")
    written(package, TASKS, "arithmetic.py")
    before = list(sys.path)
    assert len(load_use("some_tasks.arithmetic:sums", tmp_path, {"n": 3}).samples) == 3
    assert sys.path == before


def test_files_beside_the_task_can_be_imported_then_and_later(tmp_path):
    """Neighbours are in reach while the file loads and when its functions run."""
    written(tmp_path, "VALUE = 'early'", "early_neighbour.py")
    written(tmp_path, "VALUE = 'late'", "late_neighbour.py")
    text = """
        import early_neighbour
        from holdfast.tasks.sample import Sample
        from holdfast.tasks.scorers.exact import exact
        from holdfast.tasks.solver import generate
        from holdfast.tasks.task import Task, task

        @task
        def both():
            import late_neighbour
            samples = [Sample(early_neighbour.VALUE), Sample(late_neighbour.VALUE)]
            return Task(samples=samples, solver=generate(), scorers=exact())
    """
    before = list(sys.path)
    made = load_use("code.py:both", written(tmp_path, text))
    assert [sample.input for sample in made.samples] == ["early", "late"]
    assert sys.path == before


def test_neighbours_of_the_same_name_are_not_confused(tmp_path):
    """Two directories with a module of one name each get their own."""
    text = """
        import common_name
        from holdfast.tasks.sample import Sample
        from holdfast.tasks.scorers.exact import exact
        from holdfast.tasks.solver import generate
        from holdfast.tasks.task import Task, task

        @task
        def one():
            return Task(samples=[Sample(common_name.VALUE)], solver=generate(), scorers=exact())
    """
    found = []
    for name in ("first", "second"):
        home = tmp_path / name
        home.mkdir()
        written(home, f"VALUE = {name!r}", "common_name.py")
        found.append(load_use("code.py", written(home, text)).samples[0].input)
    assert found == ["first", "second"]


def test_an_edited_file_is_loaded_again_and_an_unchanged_one_is_not(tmp_path):
    """What runs is what the file says now."""
    text = """
        from holdfast.tasks.sample import Sample
        from holdfast.tasks.scorers.exact import exact
        from holdfast.tasks.task import Task, task

        async def solve(trial):
            return "one"

        @task
        def only():
            return Task(samples=[Sample("x")], solver=solve, scorers=exact())
    """
    base = written(tmp_path, text)
    first, again = load_use("code.py", base).solver, load_use("code.py", base).solver
    recorded = source_digest(first)
    assert first is again
    written(tmp_path, text.replace('"one"', '"two"'))
    assert source_digest(load_use("code.py", base).solver) != recorded


def test_the_digest_is_of_the_code_that_runs_and_not_of_a_later_edit(tmp_path):
    """A file that is edited while a session runs changes nothing for that session."""
    text = """
        from holdfast.tasks.task import Task, task

        async def solve(trial):
            return 1

        @task
        def only():
            return Task(samples=[], solver=solve, scorers="exact")
    """
    base = written(tmp_path, text)
    solve = load_use("code.py", base).solver
    recorded = source_digest(solve)
    written(tmp_path, "\n\n" + text.replace("return 1", "return 2"))
    assert source_digest(solve) == recorded


def test_a_dataset_path_starts_at_the_file_that_defines_the_task(tmp_path):
    """A task finds its dataset wherever it is used from."""
    home = tmp_path / "tasks"
    home.mkdir()
    write_jsonl(home / "rows.jsonl", [{"question": "x", "target": "y"}])
    text = """
        from holdfast.spec import DatasetSpec
        from holdfast.tasks.scorers.exact import exact
        from holdfast.tasks.solver import generate
        from holdfast.tasks.task import Task, task

        @task
        def filed():
            dataset = DatasetSpec(path="rows.jsonl", fields={"input": "question"})
            return Task(dataset=dataset, solver=generate(), scorers=exact())
    """
    written(home, text)
    made = load_use("tasks/code.py:filed", tmp_path)
    assert made.dataset.path == str(home / "rows.jsonl")
    assert made.bind(open_rows(home / "rows.jsonl"))[0].input == "x"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"samples": None}, "samples or a dataset"),
        ({"dataset": "x.jsonl"}, "exactly one"),
        ({"solver": generate}, "'generate'"),
        ({"solver": "generate"}, "'str'"),
        ({"solver": lambda _trial: "x"}, "async"),
        ({"scorers": exact}, r"exact()"),
        ({"scorers": None}, "NoneType"),
        ({"epochs": 0}, "0 epochs"),
        ({"epochs": "2"}, "'2' epochs"),
        ({"samples": None, "dataset": [Sample("x")]}, "samples=[...]"),
    ],
)
def test_a_task_that_makes_no_sense_is_refused_when_it_is_made(arguments, said):
    """Mistakes in a task's parts are told where the task is made."""
    with pytest.raises(ConfigurationError) as caught:
        Task(**{"samples": SAMPLES, "solver": generate(), "scorers": exact(), **arguments})
    assert said in str(caught.value)


def test_the_former_keywords_are_accepted():
    """`solve` and `score` name the solver and the scorers, alone or beside the names of today."""
    usual = Task(samples=SAMPLES, solver=generate("{input}!"), scorers=[exact(), "includes"])
    for given in (
        {"solve": generate("{input}!"), "score": [exact(), "includes"]},
        {"solver": generate("{input}!"), "score": [exact(), "includes"]},
        {"solve": generate("{input}!"), "scorers": [exact(), "includes"]},
    ):
        assert Task(samples=SAMPLES, **given) == usual


@pytest.mark.parametrize(("former", "present"), [("solve", "solver"), ("score", "scorers")])
def test_both_spellings_of_one_keyword_are_refused(former, present):
    """Which of the two would count is not left to chance, also where they are equal."""
    given = {"solver": generate(), "scorers": exact()}
    with pytest.raises(ConfigurationError, match=f"both {present} and {former}.* Keep {present}"):
        Task(samples=SAMPLES, **given, **{former: given[present]})


def test_a_keyword_that_is_unknown_or_missing_is_refused():
    """A slip in a keyword is a TypeError, as for any call."""
    with pytest.raises(TypeError, match=r"unexpected keyword argument 'scorer'\. Did you mean 'scorers'\?"):
        Task(samples=SAMPLES, solver=generate(), scorers=exact(), scorer=exact())
    with pytest.raises(TypeError, match="missing the argument 'scorers'"):
        Task(samples=SAMPLES, solver=generate())


def test_the_usual_solver_need_not_be_given():
    """One call with the input of the sample, as in an eval file without a solver."""
    task = Task(samples=SAMPLES, scorers=exact())
    assert task.solver == generate()
    assert "solver=Generate" in repr(task)


def test_a_path_is_a_dataset():
    """A task's dataset may be given as a path alone."""
    made = Task(dataset="rows.csv", solver=generate(), scorers=exact())
    assert made.dataset == DatasetSpec(path="rows.csv")


def test_a_function_solver_counts_by_its_source():
    """The identity of a trial follows the solver's code and the task's arguments."""

    async def solve(trial):
        return "x"

    made = Task(samples=SAMPLES, solver=solve, scorers=exact(), args={"n": 1})
    identity = made.solver_identity(SAMPLES[0], {})
    assert identity == {"source": source_digest(solve), "system": None, "args": {"n": 1}}


def test_the_source_of_a_task_is_looked_at_once(monkeypatch):
    """Planning many trials does not read the solver's file for each."""

    async def solve(trial):
        return "x"

    made = Task(samples=SAMPLES, solver=solve, scorers=exact())
    identity = made.solver_identity(SAMPLES[0], {})
    monkeypatch.setattr("holdfast.tasks.source.digest.source_digest", lambda _solve: "read again")
    assert made.solver_identity(SAMPLES[0], {}) == identity


def test_importing_tasks_loads_nothing_heavy():
    """Neither the HTTP client nor YAML nor the terminal library comes with the tasks."""
    program = (
        "import sys, holdfast.tasks\n"
        "print([name for name in ('aiohttp', 'yaml', 'rich', 'click', 'xllamacpp', 'asyncio') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_signature_of_a_task_names_what_it_takes():
    """Help and notebooks list the keywords of a task, with their defaults."""
    parameters = inspect.signature(Task).parameters
    assert list(parameters)[:4] == ["samples", "dataset", "solver", "scorers"]
    assert parameters["epochs"].default == 1
    assert parameters["solver"].default == generate()
    assert parameters["scorers"].default is inspect.Parameter.empty


@pytest.mark.parametrize("axes", [{"k": []}, {"k": [1, 2]}, {"k": "ab"}, {1: ["a"]}, ["k"]])
def test_axes_that_give_no_grid_are_refused_by_name(axes):
    """Before anything is written; the sentence shows how axes are given."""
    with pytest.raises(ConfigurationError) as raised:
        Task(samples=[Sample("q", target="a")], solver=generate(), scorers=exact(), axes=axes, name="grid")
    assert "grid" in str(raised.value) and "axes={" in str(raised.value.hint)
