"""`to_pandas` and `to_polars`: one complete row for each trial or step, flat columns, one type each."""

from __future__ import annotations

import sys

import pytest

from holdfast import Run, Sample, Task, UsageError, evaluate, exact, includes

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")

BELL = "\x1b[31m<b>\x00"
USAGE = ["input_tokens", "output_tokens", "cached_input_tokens", "reasoning_tokens"]


async def solve(trial):
    first = await trial.generate(trial.sample.input)
    with trial.scope("draft"):
        await trial.generate("again")
    await trial.step("count", len, "abc")
    if trial.sample.metadata.get("breaks"):
        raise ValueError("broken")
    return first


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    samples = [
        Sample("a", target="a", id="one", metadata={"level": 1, "tags": ["x", "y"], "mixed": 1}),
        Sample(BELL, target=3, id="two", metadata={"level": 2.5, "mixed": "text"}),
        Sample("c", target=["c", "d"], id="three", metadata={"level": 3, "breaks": True}),
    ]
    task = Task(name="t", samples=samples, solver=solve, scorers=[exact(), includes()], axes={"tone": ["kind", "rude"]})
    models = {"m": {"provider": "scripted", "model": "echo", "price": {"input": 1, "output": 1}}}
    with evaluate(task, models, run=tmp_path_factory.mktemp("frames") / "r", max_retries=0) as made:
        yield made


def test_a_row_for_each_trial_with_every_column(run):
    """Scores, axes and metadata have a column for every name."""
    frame = run.to_pandas()
    assert list(frame.columns) == [
        *["trial", "task", "model", "sample", "epoch", "axis.tone", "state", "reason", "input", "target"],
        *["metadata.level", "metadata.mixed", "metadata.tags", "metadata.breaks", "answer"],
        *["score.exact", "score.includes", "attempt", "attempts", *USAGE],
        *["cost", "seconds", "transcript", "error_kind", "error"],
    ]
    assert len(frame) == frame["trial"].nunique() == 6
    assert frame.groupby("axis.tone")["score.exact"].mean().to_dict() == {"kind": 0.5, "rude": 0.5}
    assert frame["cost"].notna().all() and (frame["input_tokens"] > 0).all()


def test_every_column_has_one_type(run):
    """Numbers are numbers; what is no plain value, or not of one type, is JSON text."""
    frame = run.to_pandas().set_index("sample")
    types = {name: str(kind) for name, kind in frame.dtypes.items()}
    assert types["metadata.level"] == types["score.exact"] == types["seconds"] == "float64"
    assert types["epoch"] == types["output_tokens"] == "int64"
    assert (types["metadata.breaks"], types["target"], types["metadata.mixed"]) == ("boolean", "string", "string")
    assert frame.loc["one", "metadata.tags"].unique().tolist() == ['["x","y"]']
    assert frame.loc["two", "target"].unique().tolist() == ["3"]
    assert frame.loc["three", "target"].unique().tolist() == ['["c","d"]']
    assert frame.loc["two", "input"].unique().tolist() == [BELL]


def test_an_error_is_text_and_what_is_missing_is_missing(run):
    """A failed trial has a row like every other."""
    failed = run.to_pandas("status=failed")
    assert failed["error"].tolist() == ["broken"] * 2
    assert failed["error_kind"].tolist() == ["ValueError"] * 2
    assert failed["score.exact"].isna().all() and failed["answer"].isna().all()
    assert run.to_pandas("status=valid")["error"].isna().all()


def test_a_selection_without_a_trial_has_the_same_columns(run):
    """A notebook cell works on whatever was selected."""
    nothing = run.to_pandas("status=blocked")
    assert len(nothing) == 0
    assert {"axis.tone", "score.exact", "score.includes"} <= set(nothing.columns)
    assert run.to_polars("status=blocked").schema["score.exact"] == polars.Float64


def test_a_row_for_each_step(run):
    """With the trial it belongs to, its scope, what was asked and what came back."""
    frame = run.to_pandas(rows="steps")
    assert len(frame) == 6 * 3 == len(list(run.steps()))
    assert set(frame["trial"]) == set(run.to_pandas()["trial"])
    of_one = frame[(frame["sample"] == "one") & (frame["axis.tone"] == "kind")]
    assert of_one["kind"].tolist() == ["call", "call", "step"]
    assert of_one["scope"].tolist() == ["", "draft", ""]
    assert of_one["request"].tolist() == ["user: a", "user: again", '["abc"]']
    assert of_one["reply"].tolist() == ["a", "again", "3"]
    assert of_one["called_model"].tolist()[:2] == ["m", "m"] and of_one["called_model"].isna().tolist()[2]
    assert str(frame["input_tokens"].dtype) == "int64"


@pytest.mark.parametrize("rows", ["trials", "steps"])
def test_polars_has_the_same(run, rows):
    """The same columns, the same values."""
    ours, theirs = run.to_polars(rows=rows), run.to_pandas(rows=rows)
    assert ours.columns == list(theirs.columns)
    plain = theirs.astype(object).where(theirs.notna(), None)
    assert ours.rows() == [tuple(row) for row in plain.itertuples(index=False)]


def test_an_unknown_kind_of_rows_and_a_wrong_expression_are_told(run):
    """One sentence each."""
    with pytest.raises(UsageError, match='Give rows="trials" or rows="steps"'):
        run.to_pandas(rows="step")
    with pytest.raises(UsageError, match="where"):
        run.to_polars("status==")


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_without_the_package_the_error_says_how_to_install_it(run, monkeypatch, library):
    """And no other exception is shown above it."""
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UsageError, match=f"pip install {library}") as caught:
        getattr(run, f"to_{library}")()
    assert caught.value.__suppress_context__


def test_importing_holdfast_imports_neither(run):
    """They are loaded when a frame is made."""
    assert "pandas" not in vars(sys.modules["holdfast.api.frames"])
    assert isinstance(run, Run)
