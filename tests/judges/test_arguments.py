"""The arguments of `model_graded`: what is refused, what its slots are called, and what is part of their identity."""

from __future__ import annotations

import pytest

from holdfast import ConfigurationError, Sample, Task, exact, generate, model_graded
from holdfast.tasks.judges.model_graded import ModelGraded
from holdfast.tasks.judges.panels import panels_of, shown_names, with_saved_judges
from holdfast.tasks.scorers.registry import as_scorers, build_scorer, scorer_effect


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "has no judge"),
        ({"models": []}, "has no judge"),
        ({"model": "a", "models": ["b"]}, "both a model and models"),
        ({"models": ["a", "a"]}, "the judge 'a' twice"),
        ({"model": " "}, "empty name"),
        ({"model": "a", "modle": "a"}, "takes no argument 'modle'"),
        (
            {"model": "a", "combine": "median"},
            "combine of the scorer model_graded is 'median'; allowed: majority, mean",
        ),
        ({"models": "a"}, "models of the scorer model_graded is text; allowed: a list or nothing"),
        ({"models": ["a", 1]}, "models of the scorer model_graded has a whole number in it where text is needed"),
        ({"model": "a", "choices": {1: 1, 2: 0}}, "has a whole number as a key; put the key in quotes"),
        ({"model": "a", "choices": {"C": 1}}, "two or more grades"),
        ({"model": "a", "choices": {"C": float("nan"), "I": 0}}, "the value nan"),
        ({"model": "a", "choices": {"C": 1, "I": 0}, "scale": [1, 5]}, "choices and also scale"),
        ({"model": "a", "choices": {"C": 1, "I": 0}, "partial": True}, "partial"),
        ({"model": "a", "scale": [5, 1]}, "scale of the scorer model_graded is [5, 1]"),
        (
            {"model": "a", "scale": [0, 1e308]},
            "scale of the scorer model_graded is [0, 1e+308]. Give bounds from -1e+100",
        ),
        ({"model": "a", "choices": {"C": 1e155, "I": 0}}, "the value 1e+155"),
        ({"model": "a", "rubric": {"x": {"text": "T", "weight": 1e300}}}, "the weight 1e+300"),
        ({"model": "a", "scale": [1]}, "scale of the scorer model_graded has 1 in its list; it needs 2"),
        ({"model": "a", "rubric": {}}, "no criterion"),
        ({"model": "a", "rubric": {"x": {"text": "T", "weight": 0}}}, "the weight 0"),
        ({"model": "a", "rubric": {"x": {"text": "T", "wieght": 1}}}, "an entry with the unknown key 'wieght'"),
        ({"model": "a", "rubric": {"x": {"weight": 1}}}, "rubric of the scorer model_graded has an entry without text"),
        ({"model": "a", "rubric": {"x": "T"}, "criterion": "C"}, "a criterion and also a rubric"),
        ({"model": "a", "pairwise": True, "scale": [1, 5]}, "pairwise and also scale"),
        ({"model": "a", "pairwise": {"run": "s3://b/r"}}, "pairwise of the scorer model_graded has the run 's3://b/r'"),
        ({"model": "a", "pairwise": {"model": "m"}}, "pairwise of the scorer model_graded has an entry without run"),
        (
            {"model": "a", "pairwise": "r"},
            "pairwise of the scorer model_graded is text; allowed: true or false or a map",
        ),
        ({"model": "a", "pairwise": {"run": "r"}, "rubric": {"x": "T"}}, "pairwise and also rubric"),
        ({"model": "a", "pass_at": 2}, "pass_at of the scorer model_graded is 2"),
        ({"model": "a", "pass_at": 0}, "from 0 to 1"),
        ({"model": "a", "criterion": ""}, "criterion of the scorer model_graded is empty"),
        ({"model": "a", "template": "Judge {answr}."}, "names the field 'answr'"),
        ({"model": "a", "template": "Judge it."}, "does not name {answer}"),
        ({"model": "a", "template": "{answer} {"}, "single '{'"),
        ({"model": "a", "pairwise": True, "template": "{answer} {target}"}, "there are"),
        ({"model": "a", "grade_pattern": "GRADE: ([CI])"}, "needs instructions or a template"),
        ({"model": "a", "grade_pattern": "GRADE", "instructions": "x"}, "has no group"),
        ({"model": "a", "grade_pattern": "(", "instructions": "x"}, "not a valid regular expression"),
        ({"model": "a", "grade_pattern": "(x)", "instructions": "x", "rubric": {"x": "T"}}, "a rubric and also"),
        ({"model": "a", "name": "a/b"}, "neither / nor @"),
        ({"model": "a", "name": "a@b"}, "neither / nor @"),
    ],
)
def test_wrong_arguments_are_refused_by_their_place(arguments, why):
    """Each sentence names the argument, and begins with where it stands."""
    with pytest.raises(ConfigurationError) as raised:
        as_scorers([build_scorer({"model_graded": arguments}, "tasks.t.scorers")])
    assert why in str(raised.value)
    assert str(raised.value).startswith("tasks.t.scorers") or "neither" in why
    # Words of the validator mean nothing to whoever writes an eval file.
    assert not {"Expected", "Invalid", "Object"} & set(str(raised.value).split())
    assert "`$" not in str(raised.value)


def test_a_field_that_is_nearly_one_gets_a_suggestion():
    with pytest.raises(ConfigurationError, match="Did you mean 'answer'"):
        model_graded(model="a", template="{answr}")


@pytest.mark.parametrize("name", ["a/b", "a@b"])
def test_no_scorer_has_a_name_that_slots_are_made_with(name):
    with pytest.raises(ConfigurationError, match="neither / nor @"):
        as_scorers([exact(name=name)])


def test_a_task_has_a_slot_for_each_judge():
    """With a single judge too, so that another one can be added later."""
    task = Task(
        samples=[Sample("q")],
        solver=generate(),
        scorers=[model_graded(models=["a", "b"], name="q"), exact(), ("x")][:2],
    )
    assert [scorer.name for scorer in task.scorers] == ["q/a", "q/b", "exact"]
    assert panels_of(task.scorers)["q"].slots == ["q/a", "q/b"]
    assert shown_names(task.scorers) == ["q", "q/a", "q/b", "exact"]
    assert shown_names(as_scorers(model_graded(model="a"))) == ["model_graded"]


@pytest.mark.parametrize(
    "scorers",
    [
        [model_graded(model="a"), model_graded(model="b")],
        [model_graded(model="a", name="exact"), exact()],
    ],
)
def test_two_scorers_of_one_name_are_refused(scorers):
    with pytest.raises(ConfigurationError, match="Two scorers are called"):
        as_scorers(scorers)


def test_slots_of_a_task_that_is_changed_stay_what_they_are():
    slots = as_scorers([model_graded(models=["a", "b"])])
    assert as_scorers(slots) == slots


def identities(**arguments):
    return {slot.name: slot.identity() for slot in as_scorers(model_graded(**arguments))}


def test_limits_29_resume_16_other_judges_and_another_combination_are_no_part_of_a_slot():
    """Everything that one verdict depends on is."""
    plain = identities(model="a")["model_graded/a"]
    assert identities(models=["b", "a"], combine="majority", pass_at=0.7)["model_graded/a"] == plain
    for changed in (
        {"criterion": "Polite."},
        {"partial": True},
        {"scale": (0, 1)},
        {"rubric": {"tone": "Polite."}},
        {"pairwise": True},
        {"template": "{answer}"},
        {"instructions": "Be strict."},
    ):
        assert identities(model="a", **changed)["model_graded/a"] != plain
    assert identities(model="b")["model_graded/b"] != plain


@pytest.mark.parametrize(
    "spelled",
    [
        {"models": ["a"]},
        {"model": "a", "choices": {"C": 1, "I": 0}},
        {"model": "a", "choices": {"C": 1.0, "I": 0}, "pass_at": 0.5, "combine": "mean", "partial": False},
        {"model": "a", "name": "model_graded", "rubric": None},
    ],
)
def test_resume_13_explicit_defaults_are_no_change(spelled):
    assert scorer_effect({"model_graded": spelled}) == scorer_effect({"model_graded": {"model": "a"}})


def test_resume_17_a_judge_that_python_code_no_longer_names_is_made_again():
    """By its slot on record, from another judge of the same scorer."""
    saved = as_scorers(model_graded(models=["a", "b"], criterion="Polite."))
    now = as_scorers(model_graded(models=["a"], criterion="Polite."))
    widened = with_saved_judges(now, [slot.name for slot in saved])
    assert [slot.identity() for slot in widened] == [slot.identity() for slot in saved]


def test_a_sample_may_bring_its_own_criterion():
    """And nothing that concerns the judges together."""
    (slot,) = as_scorers(model_graded(model="a"))
    own = slot.of.for_sample(Sample("q", scoring={"model_graded": {"criterion": "Short."}}), "the sample")
    assert (own.criterion, own.judges) == ("Short.", ("a",))
    with pytest.raises(ConfigurationError, match="cannot change the argument 'combine'"):
        slot.check(Sample("q", scoring={"model_graded": {"combine": "majority"}}), "row 1")


@pytest.mark.parametrize("arguments", [{"pairwise": True}, {"template": "{answer} {target}"}])
def test_what_is_compared_with_a_target_needs_one(arguments):
    (slot,) = as_scorers(model_graded(model="a", **arguments))
    with pytest.raises(ConfigurationError, match="needs a target, and row 1 has none"):
        slot.check(Sample("q"), "row 1")
    slot.check(Sample("q", target="a"), "row 1")


def test_every_argument_of_the_factory_is_one_of_the_scorer():
    """Those of Python and of an eval file are the same."""
    import inspect  # noqa: PLC0415

    assert set(inspect.signature(model_graded).parameters) == set(ModelGraded.__struct_fields__)
