"""docs/eval-file.md: its lists are those of the program, and its examples can be loaded."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from holdfast.models.catalogue import BUILT_IN as PROVIDERS
from holdfast.reference.eval_page import BEGIN, END, with_reference
from holdfast.sampling.requirements.registry import BUILT_IN as REQUIREMENTS
from holdfast.spec import EvalSpec, resolve, schema_places, typed_eval
from holdfast.spec.loading.yaml_document import read_document
from holdfast.tasks.from_spec import build_task
from holdfast.tasks.scorers.registry import BUILT_IN as SCORERS

PAGE = (Path(__file__).parents[2] / "docs" / "eval-file.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"^```yaml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
AROUND = {"models": {"m": "scripted/echo"}, "datasets": {"capitals": "capitals.csv"}}
"""What an example leaves out that is about something else."""


def loaded(text: str) -> EvalSpec:
    data = {**AROUND, **read_document(text, "an example")}
    data.setdefault("tasks", {"t": {"dataset": next(iter(data["datasets"])), "scorers": ["exact"]}})
    return resolve(typed_eval(data))


def test_the_lists_are_those_of_the_program():
    """Write them again with `python -m holdfast.reference.eval_page docs/eval-file.md`."""
    assert BEGIN in PAGE
    assert END in PAGE
    assert with_reference(PAGE) == PAGE


def test_nothing_is_left_out():
    """Every key of every block, every scorer, requirement and provider is on the page."""
    for place in schema_places(EvalSpec):
        assert f"| `{place.field.name}` |" in PAGE, place.path
    for kind, names in (("Scorer", SCORERS), ("Requirement", REQUIREMENTS)):
        assert all(f"### {kind} `{name}`" in PAGE for name in names)
    assert all(f"`{name}`" in PAGE for name in PROVIDERS)


def test_links_within_the_page_lead_somewhere():
    """A link to a section has the anchor that its heading gets: small letters, without signs."""
    headings = re.findall(r"^#+ (.*)$", PAGE, re.MULTILINE)
    anchors = {re.sub(r"[^\w-]", "", heading.lower().replace(" ", "-")) for heading in headings}
    assert set(re.findall(r"\]\(#([^)]*)\)", PAGE)) <= anchors


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_an_example_can_be_loaded(number):
    """Each is an eval, or the keys of one that it is about."""
    spec = loaded(EXAMPLES[number])
    for name, task in spec.tasks.items():
        if task.dataset is not None:
            build_task(name, task, spec.datasets[task.dataset])


def test_the_prompt_of_a_multiple_choice_task_is_as_shown():
    """What the page says that `choices` does to a prompt is what it does."""
    (example,) = [text for text in EXAMPLES if "choices:" in text]
    shown = re.search(r"^  ```text\n(.*?)^  ```", PAGE, re.MULTILINE | re.DOTALL)
    spec = loaded(example)
    task = build_task("quiz", spec.tasks["quiz"], spec.datasets["capitals"])
    row = {"country": "France", "capital": "Paris", "wrong_1": "Lyon", "wrong_2": "Nice"}
    sample = task.columns.sample(row, "the row")
    (message,) = task.solver.messages(sample, {})
    assert message.text == "\n".join(line.removeprefix("  ") for line in shown[1].splitlines())
    (scorer,) = task.scorers
    for target in ("A", "Paris", 0):
        assert scorer.judge("(A)", type(sample)(sample.input, target, choices=sample.choices)).value is True
