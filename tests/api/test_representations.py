"""What a REPL and a notebook show: short, useful, and harmless whatever the text in it."""

from __future__ import annotations

import re

import pytest

from durable import commit
from holdfast import Answer, Message, Reply, Run, Sample, Score, Task, Usage, evaluate, exact, generate, task
from holdfast.errors import ConfigurationError
from holdfast.run import SessionContents, create_run
from holdfast.run.core.records import AnswerRecord

HOSTILE = "<script>alert(1)&\"'"
ESCAPE = "\x1b[31m"


@task
def letters(n: int = 2) -> Task:
    """A task."""
    return Task(samples=[Sample(x, target=x) for x in "abcdef"[:n]], solver=generate(), scorers=exact(), epochs=2)


@pytest.fixture
def run(tmp_path):
    with evaluate(letters(), ["scripted/echo"], run=tmp_path / "r") as made:
        yield made


def test_a_run_says_where_it_is_and_how_far(run):
    """Its place, its state, the counts and the scores."""
    assert repr(run) == (f"<Run {run.place!r}: complete, 4 of 4 trials finished; letters, scripted/echo, exact: 1.000>")


def test_a_closed_run_can_still_be_shown(run):
    """A representation never raises."""
    run.close()
    assert repr(run) == f"<Run {run.place!r}: closed>"


def test_a_report_and_a_trial_are_one_line(run):
    """The long text of a report is what print() gives."""
    assert repr(run.report()).startswith("<Report 'letters': complete, 4 of 4 trials finished; letters, scripted/echo")
    shown = repr(next(run.trials()))
    assert re.fullmatch(r"<TrialResult \w+ letters/\w+ scripted/echo epoch 1 valid exact=1.0 answer='a'>", shown)


def test_tasks_are_shown_without_their_samples():
    """A million samples are a number."""
    assert repr(letters(5)) == "<Task 'letters': 5 samples, solver=Generate, scorers=[exact], epochs=2>"
    assert repr(letters) == "<task letters(n=2)>"
    by_path = Task(name="p", dataset="rows.csv", solver=generate(), scorers=exact(), axes={"tone": ["a"]})
    assert repr(by_path) == "<Task 'p': dataset='rows.csv', solver=Generate, scorers=[exact], axes=['tone']>"
    lazy = Task(name="g", samples=iter([]), solver=generate(), scorers=exact())
    assert "'g': samples," in repr(lazy)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (Message("user", "hi"), "Message(role='user', content='hi')"),
        (
            Reply("hi", "stop", Usage(1, 2)),
            "Reply(content='hi', finish='stop', usage=Usage(input_tokens=1, output_tokens=2))",
        ),
        (Sample("q", target="a"), "Sample(input='q', target='a')"),
        (Answer("a"), "Answer(text='a')"),
        (Score(1.0), "Score(value=1.0)"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_are_shown_without_their_defaults(value, shown):
    """What is there is shown in full: a solver may put it into a prompt."""
    assert repr(value) == shown


def test_html_has_the_table_of_scores(run):
    """A notebook shows it for a run and for its report."""
    shown = run._repr_html_()
    cells = re.findall(r"<td>(.*?)</td>", shown)
    assert cells[:4] == ["letters", "scripted/echo", "exact accuracy", "1.000"]
    assert "4 of 4 trials valid" in shown and str(run.path) in shown
    assert run.report()._repr_html_() in shown


def test_hostile_text_is_harmless(tmp_path):
    """Names and answers from anywhere are escaped in HTML, and spelled as Python does elsewhere."""
    made = Task(name=f"t{HOSTILE}", samples=[Sample("a", target=HOSTILE)], solver=generate(HOSTILE), scorers=exact())
    models = {f"m{HOSTILE}": {"provider": "scripted", "model": "x", "args": {"default": (HOSTILE + ESCAPE) * 50}}}
    with evaluate(made, models, run=tmp_path / "r", name=f"n{HOSTILE}") as run:
        shown = run._repr_html_()
        assert "<script" not in shown and "\x1b" not in shown and "&lt;script&gt;" in shown
        assert set(re.findall(r"</?(\w+)", shown)) <= {"b", "code", "div", "table", "tbody", "td", "th", "thead", "tr"}
        for text in (repr(run), repr(run.report()), repr(next(run.trials()))):
            assert "\x1b" not in text and "\n" not in text and len(text) < 1000


def test_without_a_session_record_the_plan_is_none(tmp_path):
    """As the command line has null: what is not known is not 0."""
    session = create_run(tmp_path / "r", SessionContents(name="n", config={}))
    commit(session, AnswerRecord(trial="0" * 20, attempt=1, text="x"))
    session.close("completed")
    with Run.open(tmp_path / "r") as run:
        counts = run.counts
        assert (run.planned, counts.planned, counts.not_started, counts.remaining) == (None, None, None, None)
        assert (counts.remaining_by_reason, counts.finished, run.is_complete) == (None, 0, False)
        assert "the number of planned trials is unknown" in repr(run)


@pytest.mark.parametrize(
    "given", [{"input": b"abc"}, {"input": "a", "target": bytearray(b"a")}], ids=["input", "target"]
)
def test_bytes_in_a_sample_are_refused(given):
    """They would be asked as base64 without a word."""
    with pytest.raises(ConfigurationError, match=r"is byte.*decode"):
        Sample(**given)
