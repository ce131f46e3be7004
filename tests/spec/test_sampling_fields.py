"""`sampling` of a task: what may stand there, what each strategy needs, and what resolving makes of it."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from schema_values import MINIMAL

from holdfast.errors import ConfigurationError
from holdfast.spec import EvalSpec, plain_data, resolve, typed_eval
from holdfast.spec.override import override

MODELS = {name: {"provider": "scripted", "model": "echo"} for name in ("small", "large", "strict")}
JUDGE = {"judge": {"model": "strict", "criterion": "It is polite."}}


def document(sampling: Any, **keys: Any) -> dict[str, Any]:
    made = copy.deepcopy({**MINIMAL, "models": MODELS, **keys})
    made["tasks"]["ask"]["sampling"] = sampling
    return made


def resolved(sampling: Any, **keys: Any) -> EvalSpec:
    return resolve(typed_eval(document(sampling, **keys), "eval.yaml"), "eval.yaml")


def refusal(sampling: Any, **keys: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        resolved(sampling, **keys)
    return str(caught.value)


@pytest.mark.parametrize("name", ["loop_budget", "concurrency_budget", "budget.calls", "budget.tokens"])
@pytest.mark.parametrize(("value", "shown"), [(0, "0"), (-1, "-1"), (1.5, "1.5"), (True, "true"), ("two", '"two"')])
def test_sampling_14_a_budget_that_is_no_count_is_refused(name, value, shown):
    """0, -1, 1.5 and true are no budgets, in a file as in a constructor."""
    block, _, key = name.rpartition(".")
    given = {block: {key: value}} if block else {key: value}
    message = refusal({"strategy": "repair", **given})
    assert f"tasks.ask.sampling.{name} is {shown}; allowed: a whole number from 1 up to" in message


@pytest.mark.parametrize("name", ["cost", "time"])
@pytest.mark.parametrize("value", [0, -1, True, "much"])
def test_sampling_14_an_amount_that_is_none_is_refused(name, value):
    """Caps on cost and time are numbers above 0."""
    message = refusal({"strategy": "repair", "budget": {name: value}})
    assert f"tasks.ask.sampling.budget.{name} is " in message and "allowed: a number above 0" in message


@pytest.mark.parametrize(
    ("sampling", "said"),
    [
        ({"strategy": "repiar"}, 'tasks.ask.sampling.strategy is "repiar"; allowed: one of rejection, repair,'),
        ({"loop_budget": 2}, "tasks.ask.sampling.strategy is missing; allowed: one of rejection"),
        ({}, "tasks.ask.sampling.strategy is missing; allowed: one of rejection"),
        ({"strategy": None}, "tasks.ask.sampling.strategy is missing; allowed: one of rejection"),
        (
            {"strategy": "escalate", "loop_budget": 2, "escalate_to": ["large"]},
            "eval.yaml: tasks.ask.sampling.loop_budget is 2; the strategy escalate needs 3 or more: the next model is",
        ),
        (
            {"strategy": "escalate", "escalate_to": ["large"]},
            "sampling.loop_budget is 1; the strategy escalate needs 3",
        ),
        ({"strategy": "repair", "lop_budget": 2}, "sampling.lop_budget is not a known key; did you mean loop_budget?"),
        (
            {"strategy": "repair", "selection": "last"},
            'selection is "last"; allowed: one of first, deterministic, best',
        ),
        ({"strategy": "vote", "vote": "loudest"}, 'vote is "loudest"; allowed: one of majority, similarity'),
        ("repair", 'tasks.ask.sampling is "repair"; allowed: a map'),
        ({"strategy": "repair", "requirements": {"regex": "a"}}, "requirements is a map; allowed: a list"),
        ({"strategy": "repair", "short_circuit": 1}, "short_circuit is 1; allowed: true or false"),
        ({"strategy": "vote", "extract": "(a"}, 'extract is "(a", which is not a valid regular expression'),
        (
            {"strategy": "repair", "requirements": [{"regex": "a", "length": 3}]},
            "requirements[0] must have exactly one",
        ),
        ({"strategy": "best_of_n", "scorer": {}}, "sampling.scorer must have exactly one name"),
    ],
)
def test_sampling_31_a_mistake_is_named_with_its_place(sampling, said):
    """Unknown keys, wrong types and unknown names, each in a sentence that says what is allowed."""
    assert said in refusal(sampling)


def test_sampling_31_null_is_no_sampling():
    """As everywhere in an eval file, `null` says that the key is left out."""
    assert resolved(None).tasks["ask"].sampling is None


@pytest.mark.parametrize(
    ("strategy", "field", "value", "owner"),
    [
        ("repair", "vote", "majority", "vote"),
        ("rejection", "extract", "a", "vote"),
        ("vote", "scorer", JUDGE, "best_of_n"),
        ("multi_turn", "escalate_to", ["large"], "escalate"),
    ],
)
def test_sampling_31_a_field_without_a_use_is_refused(strategy, field, value, owner):
    """Nobody is left to believe that a field has an effect which the strategy ignores."""
    assert f"tasks.ask.sampling.{field} is for the strategy {owner}; {strategy} has no use for it" in refusal(
        {"strategy": strategy, field: value}
    )


def test_sampling_20_a_cap_on_cost_needs_prices():
    """Without a price of every model that is asked it would never be reached."""
    text = refusal({"strategy": "repair", "budget": {"cost": 1.0}, "requirements": [JUDGE]})
    assert "tasks.ask.sampling.budget.cost needs a price of every model that is asked" in text
    assert "models.strict has none" in text


@pytest.mark.parametrize(("strategy", "selection"), [("best_of_n", "first"), ("vote", "best")])
def test_sampling_31_a_selection_without_a_use_is_refused(strategy, selection):
    """A vote and a best of n choose by themselves."""
    message = refusal(
        {"strategy": strategy, "selection": selection, **({"scorer": JUDGE} if strategy != "vote" else {})}
    )
    assert f'tasks.ask.sampling.selection is "{selection}"; {strategy} has no use for it' in message


@pytest.mark.parametrize(
    ("strategy", "field", "given"),
    [
        ("best_of_n", "scorer", {}),
        ("best_of_n", "scorer", {"scorer": None}),
        ("escalate", "escalate_to", {}),
        ("escalate", "escalate_to", {"escalate_to": None}),
        ("escalate", "escalate_to", {"escalate_to": []}),
    ],
)
def test_sampling_31_what_a_strategy_needs_is_asked_for(strategy, field, given):
    """A best of n without a scorer, or an escalation to nobody, is refused before anything is asked."""
    message = refusal({"strategy": strategy, **given})
    assert f"tasks.ask.sampling.{field} is missing; the strategy {strategy} needs it" in message


def test_limits_28_models_that_only_judge_or_take_over_are_not_under_test():
    """Without `models`, a task asks every model that is nobody's judge; one that names a judge asks it."""
    spec = resolved({"strategy": "escalate", "loop_budget": 3, "escalate_to": ["large"], "requirements": [JUDGE]})
    assert spec.tasks["ask"].models == ["small"]
    spec = resolved({"strategy": "best_of_n", "scorer": JUDGE})
    assert spec.tasks["ask"].models == ["large", "small"]
    made = document({"strategy": "best_of_n", "scorer": JUDGE})
    made["tasks"]["ask"]["models"] = ["strict"]
    assert resolve(typed_eval(made)).tasks["ask"].models == ["strict"]


def test_limits_28_a_judge_of_one_task_is_under_test_in_no_other():
    """It is the eval's judge, whichever task names it."""
    made = document({"strategy": "repair", "requirements": [JUDGE]})
    made["tasks"]["other"] = {"dataset": "rows"}
    assert resolve(typed_eval(made)).tasks["other"].models == ["large", "small"]


def test_an_eval_of_judges_alone_is_asked_which_model_is_under_test():
    """Where every model judges or takes over, nothing is guessed."""
    models = {"strict": MODELS["strict"]}
    tasks = {**MINIMAL["tasks"], "other": {"dataset": "rows"}}
    message = refusal({"strategy": "repair", "requirements": [JUDGE]}, models=models, tasks=tasks)
    for task in tasks:
        assert f"tasks.{task}.models is missing, and every model is a judge or one to escalate to" in message


@pytest.mark.parametrize(
    ("sampling", "place"),
    [
        ({"strategy": "escalate", "loop_budget": 3, "escalate_to": ["small", "lagre"]}, "escalate_to[1]"),
        (
            {"strategy": "repair", "requirements": ["python", {"judge": {"model": "lagre"}}]},
            "requirements[1].judge.model",
        ),
        ({"strategy": "best_of_n", "scorer": {"judge": {"model": "lagre"}}}, "scorer.judge.model"),
    ],
)
def test_a_model_that_the_eval_does_not_have_is_named_with_the_nearest(sampling, place):
    """A mistyped judge is found before anything is written."""
    assert refusal(sampling) == (
        f'eval.yaml: tasks.ask.sampling.{place} is "lagre", which is not a model of the eval; did you mean large?'
    )


def test_a_model_to_escalate_to_is_named_once():
    """The same model twice would be asked twice in a row."""
    message = refusal({"strategy": "escalate", "escalate_to": ["large", "large"]})
    assert 'tasks.ask.sampling.escalate_to[1] is "large" a second time; keep one' in message


FULL = {
    "strategy": "vote",
    "loop_budget": 1,
    "concurrency_budget": 1,
    "selection": "first",
    "requirements": [],
    "budget": {"calls": None, "tokens": None, "cost": None, "time": None},
    "short_circuit": False,
    "vote": "majority",
    "extract": None,
    "scorer": None,
    "escalate_to": None,
}


@pytest.mark.parametrize("name", [name for name in FULL if name != "strategy"])
def test_an_explicit_default_or_null_is_no_difference(name):
    """What is written out, left out or null resolves to the same, in whatever order."""
    without = {key: value for key, value in FULL.items() if key != name}
    backwards = dict(reversed(without.items()))
    assert resolved(FULL) == resolved(without) == resolved(backwards) == resolved({**without, name: None})


def test_a_requirement_without_arguments_is_its_name():
    """`python`, `{python: null}` and `{python: {}}` are one."""
    forms = ["python", {"python": None}, {"python": {}}]
    specs = [resolved({"strategy": "repair", "requirements": [form]}) for form in forms]
    assert specs[0] == specs[1] == specs[2]


def test_resolving_twice_changes_nothing():
    """A saved eval resolves to itself, also where another selection is the default."""
    for keys in ({}, {"deterministic": True}):
        spec = resolved({"strategy": "vote", "concurrency_budget": 3}, **keys)
        assert resolve(typed_eval(plain_data(spec, explicit=True))) == spec


@pytest.mark.parametrize("selection", ["first", "best"])
def test_another_selection_than_deterministic_is_refused_beside_it(selection):
    """Two keys that say the opposite are both named."""
    message = refusal({"strategy": "repair", "selection": selection}, deterministic=True)
    assert "deterministic is true" in message
    assert f'tasks.ask.sampling.selection is "{selection}"; leave one of them out' in message


def test_false_is_as_if_deterministic_were_left_out():
    """Also null."""
    plain = resolved({"strategy": "repair"})
    assert resolved({"strategy": "repair"}, deterministic=False) == plain
    assert resolved({"strategy": "repair"}, deterministic=None) == plain
    assert "deterministic" not in plain_data(plain, explicit=True)


def test_deterministic_is_the_selection_of_all_samplings():
    """Where none is named, it is filled in; where it is named, that is no contradiction."""
    for given in ({}, {"selection": "deterministic"}):
        spec = resolved({"strategy": "repair", **given}, deterministic=True)
        assert spec.tasks["ask"].sampling.selection == "deterministic"


def test_a_seed_of_a_model_is_refused_beside_deterministic():
    """Seeds are derived for every call, so a fixed one for all of them has no place."""
    models = {"small": {**MODELS["small"], "generation": {"seed": 3}}}
    message = refusal(None, deterministic=True, models=models)
    assert (
        "deterministic is true, which gives every call a seed of its own, and models.small.generation.seed" in message
    )


def test_a_bare_name_on_the_command_line_finds_the_sampling_only_where_it_alone_can_be_meant():
    """`--set tokens=` is still a task's limit; `--set loop_budget=` is that of tasks which have a sampling."""
    made = document({"strategy": "repair"})
    made["tasks"]["plain"] = {"dataset": "rows"}
    changed = override(typed_eval(made), {"tokens": 100, "loop_budget": 4})
    assert [task.limits.tokens for task in changed.tasks.values()] == [100, 100]
    assert changed.tasks["plain"].sampling is None
    sampling = changed.tasks["ask"].sampling
    assert (sampling.loop_budget, sampling.budget.tokens) == (4, None)
    by_path = override(typed_eval(made), {"tasks.ask.sampling.budget.tokens": 50})
    assert by_path.tasks["ask"].sampling.budget.tokens == 50


def test_a_bare_name_on_the_command_line_gives_no_task_an_agent_a_workspace_or_an_axis():
    """`--set path=` is a dataset's and `--set prompt=` a task's, though a workspace and an axis have such keys too."""
    made = document({"strategy": "repair"})
    changed = override(typed_eval(made), {"path": "other.jsonl", "prompt": "{input}!", "limits": {"tokens": 5}})
    task = changed.tasks["ask"]
    assert {dataset.path for dataset in changed.datasets.values()} == {"other.jsonl"}
    assert (task.prompt, task.limits.tokens, task.agent, task.workspace, task.axes) == ("{input}!", 5, None, None, {})
