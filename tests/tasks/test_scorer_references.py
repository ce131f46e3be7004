"""Scorers and solvers of one's own, named in an eval file: functions, factories, objects, and every mistake."""

from __future__ import annotations

import textwrap

import pytest

from holdfast.errors import ConfigurationError
from holdfast.spec import DatasetSpec, TaskSpec, typed_eval
from holdfast.spec.resolved_eval import resolve
from holdfast.tasks.answer import Answer
from holdfast.tasks.from_spec import build_task
from holdfast.tasks.sample import Sample
from holdfast.tasks.scorers.registry import build_scorer
from holdfast.tasks.task_code import code_of
from holdfast.tasks.task_reference import load_solver

SCORERS = """
    from holdfast import Answer, Sample, Score, exact, scorer, generate, task, Task

    LIMIT = 3

    def strict(answer, sample):
        return answer.text == sample.target

    async def later(answer, sample):
        return answer.text == sample.target

    def near(answer: Answer, sample: Sample, threshold: float = 1.0) -> Score:
        return Score(len(answer.text) >= threshold, explanation=type(threshold).__name__)

    def scoped(answer, sample, scope, threshold: int = 1):
        return scope is None and threshold == 2

    @scorer(needs_target=True)
    def decorated(answer, sample, factor: int = 1):
        return float(factor)

    @scorer(name="own name")
    def renamed(answer, sample):
        return True

    def make(word: str = "yes", times: int = 1):
        def judge(answer, sample):
            return answer.text == word * times
        return judge

    def folded():
        return exact(ignore_case=True)

    ready = exact(ignore_case=True)

    class Length:
        name = "length"
        def __init__(self, most: int = 5):
            self.most = most
        def __call__(self, answer, sample):
            return len(answer.text) <= self.most
        def identity(self):
            return {"most": self.most}
        def check(self, sample, place):
            if sample.target is None:
                raise ValueError(place)

    measured = Length(2)

    def needy(answer: Answer, sample: Sample, limit: int):
        return len(answer.text) < limit

    def number(answer):
        return 1

    def wrong():
        return 5

    def broken(word: str = ""):
        raise KeyError("no")

    async def solve(trial):
        return await trial.generate("x")

    ask = generate("{input}?")

    def plain_solver(trial):
        return 1

    @task
    def t():
        return None
"""
SAMPLE = Sample("q", target="yes")


@pytest.fixture
def base(tmp_path):
    (tmp_path / "my.py").write_text(textwrap.dedent(SCORERS))
    return tmp_path


def score(built, text):
    return built(Answer(text), SAMPLE)


def built(base, function, **arguments):
    reference = f"my.py:{function}"
    return build_scorer({reference: arguments} if arguments else reference, "tasks.t.scorers", base)


def refusal(base, given):
    with pytest.raises(ConfigurationError) as caught:
        build_scorer(given, "tasks.t.scorers", base)
    message = str(caught.value)
    assert message.startswith("tasks.t.scorers: ") and "Traceback" not in message
    return message.removeprefix("tasks.t.scorers: ")


@pytest.mark.parametrize(
    ("name", "arguments", "called", "right", "wrong"),
    [
        ("strict", {}, "strict", "yes", "no"),
        ("near", {"threshold": 3}, "near", "yes", "no"),
        ("needy", {"limit": 4}, "needy", "yes", "long"),
        ("scoped", {"threshold": 2}, "scoped", "yes", None),
        ("strict", {"name": "second"}, "second", "yes", "no"),
        ("decorated", {"factor": 0}, "decorated", None, "no"),
        ("renamed", {}, "own name", "yes", None),
        ("make", {}, "make", "yes", "no"),
        ("make", {"word": "no", "times": 2}, "make", "nono", "no"),
        ("folded", {}, "folded", "YES", "no"),
        ("folded", {"name": "other"}, "other", "YES", "no"),
        ("exact", {"ignore_case": True}, "exact", "YES", "no"),
        ("ready", {}, "ready", "YES", "no"),
        ("Length", {"most": 3}, "length", "yes", "long"),
        ("measured", {}, "length", "no", "yes"),
    ],
)
def test_a_reference_names_a_function_a_factory_or_a_scorer(base, name, arguments, called, right, wrong):
    """Each is called after its name in the file, unless it is given or has a name of its own."""
    scorer = built(base, name, **arguments)
    assert scorer.name == called
    assert right is None or score(scorer, right).value in (True, 1.0)
    assert wrong is None or score(scorer, wrong).value in (False, 0.0)


def test_arguments_are_converted_by_annotations(base):
    """A threshold of 2 is a float where the function says so."""
    assert score(built(base, "near", threshold=2), "yes").explanation == "float"


def test_a_module_is_named_with_dots(base):
    """`package.module:name` is found from the directory of the eval file."""
    (base / "checks_pkg").mkdir()
    (base / "checks_pkg" / "rules.py").write_text("def strict(answer, sample):\n    return True\n")
    assert build_scorer("checks_pkg.rules:strict", "s", base).name == "strict"


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("gone.py:strict", ["The file gone.py does not exist", "The path is "]),
        ("my.py:strickt", ["my.py has no scorer 'strickt'; it has Length, ask, broken", "Did you mean 'strict'?"]),
        ("my.py", ["'my.py' names no scorer", "file.py:name"]),
        ("no_such.module:strict", ["There is no module 'no_such'"]),
        ("my.py:LIMIT", ["my.py:LIMIT is int, not a scorer", "def strict(answer, sample)"]),
        ("my.py:number", ["my.py:number needs the argument 'answer'", "def strict(answer, sample)"]),
        ("my.py:needy", ["my.py:needy needs the argument 'limit'", "{my.py:needy: {limit: ...}}"]),
        ({"my.py:near": {"name": "a", "treshold": 1}}, ["takes no argument 'treshold'; it takes threshold."]),
        ("my.py:wrong", ["my.py:wrong returned int, not a scorer"]),
        ("my.py:broken", ["my.py:broken raised KeyError: 'no' (in my.py line "]),
        ({"my.py:near": {"treshold": 1}}, ["takes no argument 'treshold'", "Did you mean 'threshold'?"]),
        ({"my.py:near": {"threshold": "high"}}, ["the argument 'threshold' cannot be 'high'"]),
        ({"my.py:near": {"sample": 1}}, ["my.py:near gets 'sample' from the trial"]),
        ({"my.py:make": {"wrd": "x"}}, ["takes no argument 'wrd'", "Did you mean 'word'?"]),
        ({"my.py:ready": {"ignore_case": True}}, ["is a scorer already", "'ignore_case'"]),
        ({"my.py:measured": {"name": "x"}}, ["has the name 'length', which cannot be changed here"]),
        ("strict", ["there is no scorer 'strict'; there are checks, choice, exact", "file.py:name"]),
    ],
)
def test_a_mistake_is_named_with_the_way_out(base, given, words):
    """Nothing is guessed: the file, the name and the argument are in the message."""
    message = refusal(base, given)
    assert all(word in message for word in words), message


def test_a_file_that_raises_is_named_with_its_line(base):
    """The line is the one in the person's own file."""
    (base / "raises.py").write_text("import json\n\njson.loads('{')\n")
    assert "raises.py raised JSONDecodeError" in refusal(base, "raises.py:x")
    assert "(in raises.py line 3)" in refusal(base, "raises.py:x")
    (base / "syntax.py").write_text("def strict(answer, sample)\n    pass\n")
    assert "syntax.py is not valid Python: syntax.py line 1" in refusal(base, "syntax.py:strict")


def task_of(base, **entry):
    (base / "rows.jsonl").write_text('{"q": "1 + 1", "answer": "2", "input": "raw"}\n')
    spec = TaskSpec(dataset="d", target="{answer}", **entry)
    return build_task("t", spec, DatasetSpec(path=str(base / "rows.jsonl")), base)


def test_two_scorers_of_one_name_are_refused(base):
    """Their scores could not be told apart; `name` gives one of them another."""
    with pytest.raises(ConfigurationError, match=r"tasks\.t\.scorers: Two scorers are called 'strict'"):
        task_of(base, scorers=["my.py:strict", {"my.py:make": {"name": "strict"}}])
    made = task_of(base, scorers=["my.py:make", {"my.py:make": {"word": "no", "name": "second"}}])
    assert [scorer.name for scorer in made.scorers] == ["make", "second"]


def test_the_code_of_a_scorer_object_is_part_of_its_identity(base):
    """A class of one's own is noticed when its code changes, whatever its identity says."""
    before = code_of(task_of(base, scorers=["my.py:measured"]), "00").tree
    text = (base / "my.py").read_text()
    (base / "my.py").write_text(text.replace("<= self.most", "< self.most"))
    assert code_of(task_of(base, scorers=["my.py:measured"]), "00").tree != before
    (base / "my.py").write_text("# A comment.\n" + text)
    assert code_of(task_of(base, scorers=["my.py:measured"]), "00").tree == before


def test_a_scorer_object_is_asked_as_it_is(base):
    """Its check is its own, and arguments of a sample are its own affair."""
    measured = built(base, "measured")
    with pytest.raises(ValueError, match="row 1"):
        measured.check(Sample("q"), "row 1")
    assert measured(Answer("no"), Sample("q", scoring={"length": {"x": 1}})).value is True


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [("{q}?", "1 + 1?"), ("{input}: {q}", "raw: 1 + 1"), (None, "raw")],
)
def test_the_input_of_a_solver_is_the_rendered_prompt(base, prompt, expected):
    """Without a prompt it is the dataset's input."""
    from dataset_files import open_rows  # noqa: PLC0415 - of these tests

    made = task_of(base, scorers=["exact"], solver="my.py:solve", prompt=prompt, system="Use {braces}.")
    (sample,) = made.bind(open_rows(base / "rows.jsonl"))
    assert (sample.input, sample.target) == (expected, "2")
    assert made.system == "Use {braces}." and made.solver.__name__ == "solve"


def test_the_choices_follow_the_prompt_of_a_solver(base):
    """As they do where no solver is named."""
    from dataset_files import open_rows  # noqa: PLC0415 - of these tests

    made = task_of(base, scorers=["my.py:strict"], solver="my.py:solve", prompt="{q}?", choices=["2", "3"])
    (sample,) = made.bind(open_rows(base / "rows.jsonl"))
    assert sample.input == "1 + 1?\n\nA) 2\nB) 3"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("sovle", "my.py has no solver 'sovle'"),
        ("plain_solver", "my.py:plain_solver is not an async function. A solver is an async function of a trial"),
        ("LIMIT", "my.py:LIMIT is of the type int, not a solver"),
        ("t", "my.py:t is a task, not a solver. Name it with use"),
    ],
)
def test_what_is_not_a_solver_is_refused(base, name, words):
    """The message says what a solver is."""
    with pytest.raises(ConfigurationError) as caught:
        load_solver(f"my.py:{name}", "tasks.t.solver", base)
    assert str(caught.value).startswith(f"tasks.t.solver: {words}")


@pytest.mark.parametrize(
    ("entry", "words"),
    [
        ({"solver": "solve"}, 'tasks.t.solver is "solve"; write it as file.py:name'),
        ({"sampling": {"strategy": "rejection"}}, "has solver and also sampling"),
        ({"few_shot": [{"input": "a", "output": "b"}]}, "has solver and also few_shot"),
        ({"prompt": ["a", "b"]}, "has solver and also several prompts"),
    ],
)
def test_a_solver_excludes_what_it_would_not_see(entry, words):
    """Nobody should believe that it has an effect."""
    task = {"dataset": "d", "solver": "my.py:solve", "scorers": ["exact"], **entry}
    eval_ = {"models": {"m": "scripted/echo"}, "datasets": {"d": "d.csv"}, "tasks": {"t": task}}
    with pytest.raises(ConfigurationError) as caught:
        resolve(typed_eval(eval_))
    assert words in str(caught.value)


def test_a_python_task_brings_its_own_solver():
    """`use` and `solver` exclude each other."""
    eval_ = {"models": {"m": "scripted/echo"}, "tasks": {"t": {"use": "my.py:t", "solver": "my.py:solve"}}}
    with pytest.raises(ConfigurationError, match="has use and also solver"):
        resolve(typed_eval(eval_))


def test_a_name_that_a_package_loads_lazily_is_found(tmp_path):
    """`holdfast:exact` is a factory that exists, although it is not in the namespace of the package yet."""
    scorer = build_scorer({"holdfast:exact": {"ignore_case": True}}, "tasks.t.scorers[0]", tmp_path)
    assert scorer(Answer("PARIS"), Sample("?", target="Paris")).value == 1
