"""What a judge says is a verdict in the form that was asked for, or none: nothing is guessed."""

from __future__ import annotations

import json

import pytest

from holdfast.tasks.judges.grades import ChoiceGrades, PairGrades, ScaleGrades
from holdfast.tasks.judges.model_graded import ModelGraded
from holdfast.tasks.judges.rubric import Criterion, RubricGrades
from holdfast.tasks.judges.verdict import NoVerdict, graded_in

CHOICES = ChoiceGrades({"C": 1.0, "P": 0.5, "I": 0.0})
SCALE = ScaleGrades(1.0, 5.0)
RUBRIC = RubricGrades({"facts": Criterion("Right."), "tone": Criterion("Polite.", 3.0, may_be_na=True)}, CHOICES)


def rubric_reply(**grades):
    return json.dumps({"explanation": "so", "criteria": {name: {"grade": grade} for name, grade in grades.items()}})


@pytest.mark.parametrize(
    ("grading", "text", "value", "grade"),
    [
        (CHOICES, '{"explanation": "so", "grade": "C"}', 1.0, "C"),
        (CHOICES, ' {"grade": "P"}\n', 0.5, "P"),
        (CHOICES, 'I think so.\n```json\n{"explanation": "so", "grade": "I"}\n```\nDone.', 0.0, "I"),
        (CHOICES, '{"grade": "C", "confidence": 0.4}', 1.0, "C"),
        (SCALE, '{"explanation": "so", "score": 4}', 4.0, "4"),
        (SCALE, '{"score": 2.5}', 2.5, "2.5"),
        (PairGrades(answer_is_first=True), '{"winner": "A"}', 1.0, "A"),
        (PairGrades(answer_is_first=False), '{"winner": "A"}', 0.0, "A"),
        (PairGrades(answer_is_first=False), '{"winner": "tie"}', 0.5, "tie"),
    ],
)
def test_limits_24_25_a_verdict_is_json_alone_or_in_one_fenced_block(grading, text, value, grade):
    """Grades have the values that they are given; partial credit counts as such."""
    found = graded_in(text, grading)
    assert (found.value, found.grade) == (value, grade)


@pytest.mark.parametrize(
    ("grading", "text", "why"),
    [
        (CHOICES, "downgrade: A", "not valid JSON"),
        (CHOICES, 'My verdict: {"grade": "C"}', "not valid JSON"),
        (CHOICES, '{"grade": "C"} {"grade": "I"}', "not valid JSON"),
        (CHOICES, '```json\n{"grade": "C"}\n```\n```json\n{"grade": "I"}\n```', "not valid JSON"),
        (CHOICES, '{"grade": "I", "grade": "C"}', "the key 'grade' is given twice"),
        (SCALE, f'{{"score": 1{"0" * 400}}}', "score is"),
        (SCALE, f'{{"score": 1{"0" * 5000}}}', ""),
        (CHOICES, '{"grade": "c"}', "grade is 'c', and not one of"),
        (CHOICES, '{"grade": "A"}', "not one of"),
        (CHOICES, '{"grade": ["C"]}', "not one of"),
        (CHOICES, '{"grade": 1}', "not one of"),
        (CHOICES, '{"explanation": "C"}', 'it has no "grade"'),
        (CHOICES, '{"grade": "C", "explanation": 5}', "explanation is not a text"),
        (CHOICES, '["C"]', "not a JSON object"),
        (CHOICES, "{}" + " " * 100_000, "more than 100,000 characters"),
        (CHOICES, "\0" * 40, "not valid JSON"),
        (CHOICES, "[" * 50_000, "not valid JSON"),
        (SCALE, '{"score": true}', "score is True"),
        (SCALE, '{"score": NaN}', "NaN is not a JSON value"),
        (SCALE, '{"score": "4"}', "score is '4'"),
        (SCALE, '{"score": 5.01}', "from 1 (worst) to 5 (best)"),
        (SCALE, '{"score": 1e999}', ""),
        (SCALE, '{"score": null}', "score is None"),
        (PairGrades(), '{"winner": "C"}', "winner is 'C'"),
        (PairGrades(), '{"winner": ["A"]}', "winner is"),
        (RUBRIC, rubric_reply(facts="C"), "the criterion tone is missing"),
        (RUBRIC, rubric_reply(facts="N/A", tone="C"), "of the criterion facts, grade is 'N/A'"),
        (RUBRIC, rubric_reply(facts="C", tone="C", style="C"), "criteria has 'style'"),
        (RUBRIC, '{"criteria": {"facts": "C", "tone": {"grade": "C"}}}', "facts is not an object"),
        (RUBRIC, '{"criteria": ["C"]}', "criteria is not an object"),
    ],
)
def test_limits_24_experiments_13_anything_else_is_no_verdict(grading, text, why):
    """Prose, other grades, numbers out of range, truth values, missing criteria: each is named."""
    with pytest.raises(NoVerdict) as raised:
        graded_in(text, grading)
    assert why in str(raised.value)


@pytest.mark.parametrize(
    ("grades", "value"),
    [({"facts": "C", "tone": "I"}, 0.25), ({"facts": "I", "tone": "P"}, 0.375), ({"facts": "P", "tone": "N/A"}, 0.5)],
)
def test_limits_25_a_rubric_is_the_weighted_mean_of_what_applies(grades, value):
    """Criteria are kept with their grades; one that does not apply counts for nothing."""
    found = graded_in(rubric_reply(**grades), RUBRIC)
    assert found.value == value
    assert {name: one["grade"] for name, one in found.metadata["criteria"].items()} == grades


def test_limits_25_a_rubric_of_which_nothing_applies_gives_no_score():
    """All N/A is not 0."""
    rubric = RubricGrades({"tone": Criterion("Polite.", may_be_na=True)}, CHOICES)
    assert graded_in(rubric_reply(tone="N/A"), rubric).value is None


def test_limits_25_a_rubric_may_be_scored_on_a_scale():
    """Then N/A is null."""
    rubric = RubricGrades({"facts": Criterion("Right."), "tone": Criterion("Polite.", may_be_na=True)}, SCALE)
    said = {"criteria": {"facts": {"score": 4}, "tone": {"score": None}}}
    assert graded_in(json.dumps(said), rubric).value == 4.0
    with pytest.raises(NoVerdict):
        graded_in(json.dumps({"criteria": {"facts": {"score": None}, "tone": {"score": 1}}}), rubric)


@pytest.mark.parametrize("grading", [CHOICES, SCALE, PairGrades(), RUBRIC])
def test_limits_24_the_schema_of_a_verdict_spells_out_every_part(grading):
    """As services with structured output want it: all parts required, nothing else allowed."""
    schemas = [grading.schema()]
    while schemas:
        schema = schemas.pop()
        if schema.get("type") == "object":
            assert schema["required"] == list(schema["properties"])
            assert schema["additionalProperties"] is False
            schemas += schema["properties"].values()
    assert next(iter(grading.schema()["properties"])) == "explanation"


@pytest.mark.parametrize(
    ("arguments", "lowest_pass"),
    [({}, 0.5), ({"partial": True}, 0.5), ({"scale": (1, 5)}, 3.0), ({"choices": {"A": 2, "B": 0}}, 1.0)],
)
def test_limits_25_a_pass_is_the_upper_half_by_default(arguments, lowest_pass):
    """The middle between the lowest and the highest score that a judge can give."""
    assert ModelGraded.build({"model": "j", **arguments}, "here").panel().pass_at == lowest_pass
