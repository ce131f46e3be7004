"""What a calibration is bound to, and which score is a pass: slots of judges, panels, versions (experiments 26)."""

from __future__ import annotations

from types import SimpleNamespace

import msgspec
import pytest

from holdfast.analysis.calibration.calibration import pass_mark
from holdfast.analysis.calibration.scorer_version import OwnCode, RunVersions, ScorerVersion, version_changes
from holdfast.run.core.records import PlanEntry, SessionRecord, TaskCode


class Panel(msgspec.Struct):
    slots: list[str]
    combine: str = "mean"
    pass_at: float = 0.5


class PanelPlan(PlanEntry, frozen=True):
    panels: dict[str, Panel] = msgspec.field(default_factory=dict)


SLOTS = ["quality/a", "quality/b@judge", "quality/a@3fa2c1d0"]
MODELS = {
    "m": {"provider": "openai", "model": "tested"},
    "a": {"provider": "openai", "model": "judge-a", "generation": {"temperature": 0.0}, "base_url": "http://one"},
    "b@judge": {"provider": "openai", "model": "judge-b"},
}


def versions(*, models=MODELS, digests=("d1", "d2", "d3"), panel=None):
    """The versions of a run with a panel, as its records would have them."""
    panels = {"quality": panel or Panel(SLOTS[:2], pass_at=7.0)}
    plan = [PanelPlan("t", "m", 3, [*SLOTS, "exact"], panels=panels)]
    code = {"t": TaskCode("solve", "generate 1", 3, {**dict(zip(SLOTS, digests, strict=True)), "exact": "e"})}
    session = SessionRecord(number=1, run="r", name="n", at="", version="", config={"models": models}, code=code)
    reader = SimpleNamespace(sessions=[session], fold=SimpleNamespace(plan=plan))
    return RunVersions(reader)  # type: ignore[arg-type] - what it reads of a reader


def test_a_judges_slot_is_bound_to_its_settings_and_its_judge():
    """The name of the judge may hold `@`; the version at the end of a slot's name is no part of it."""
    found = {slot: versions().version("t", slot) for slot in SLOTS}
    assert [list(one.judges) for one in found.values()] == [["a"], ["b@judge"], ["a"]]
    assert found["quality/a"].settings == {"quality/a": "d1"}
    assert list(found["quality/a"].judges["a"]) == ["provider", "model", "generation"]
    assert versions().version("t", "exact") == ScorerVersion({"exact": "e"})


def test_a_panel_is_bound_to_all_of_its_judges():
    found = versions().version("t", "quality")
    assert found.settings == {"quality/a": "d1", "quality/b@judge": "d2"}
    assert sorted(found.judges) == ["a", "b@judge"] and found.panel


@pytest.mark.parametrize(
    ("change", "scorer", "sentences"),
    [
        ({"digests": ("x", "d2", "d3")}, "quality/a", ["the settings of quality/a, such as its rubric"]),
        ({"digests": ("x", "d2", "d3")}, "quality", ["the settings of quality/a, such as its rubric"]),
        ({"digests": ("x", "d2", "d3")}, "quality/b@judge", []),
        ({"digests": ("", "d2", "d3")}, "quality/a", ["quality/a (its version is not on record)"]),
        ({"models": {**MODELS, "a": {**MODELS["a"], "model": "newer"}}}, "quality/a", ["models.a.model"]),
        ({"models": {**MODELS, "a": {**MODELS["a"], "model": "newer"}}}, "quality", ["models.a.model"]),
        ({"models": {**MODELS, "a": {**MODELS["a"], "base_url": "http://two"}}}, "quality", []),
        ({"models": {**MODELS, "a": {"provider": "openai", "model": "judge-a"}}}, "quality", ["models.a.generation"]),
        ({"models": {**MODELS, "m": {"provider": "openai", "model": "other"}}}, "quality", []),
        ({"panel": Panel(SLOTS[:2], "majority", 7.0)}, "quality", ["the judges, or how their verdicts are combined"]),
        ({"panel": Panel(SLOTS[:2], "majority", 7.0)}, "quality/a", []),
    ],
)
def test_what_has_changed_is_named(change, scorer, sentences):
    """A rubric, a judge, the way verdicts are combined; never a model under test, or where a judge is reached."""
    assert version_changes(versions().version("t", scorer), versions(**change).version("t", scorer)) == sentences


def test_own_code_of_one_run_is_compared_as_code_and_of_another_by_its_files():
    def changes(old, new):
        return version_changes(ScorerVersion({"s": "d"}, code={"s": old}), ScorerVersion({"s": "d"}, code={"s": new}))

    first = OwnCode("salt", "one", {"a.py": "f1"})
    assert changes(first, OwnCode("salt", "one", {"a.py": "f2"})) == [], "another line of the file"
    assert changes(first, OwnCode("salt", "two", {"a.py": "f1"})) == ["the code of s"]
    assert changes(first, OwnCode("other", "two", {"a.py": "f1"})) == []
    assert changes(first, OwnCode("other", "two", {"a.py": "f2", "b.py": "f"})) == ["the code (a.py, b.py) of s"]
    assert "it is in no file" in changes(first, OwnCode("other", "one", {}))[0]


@pytest.mark.parametrize(
    ("scorer", "combine", "given", "mark"),
    [
        ("quality", "mean", None, 7.0),
        ("quality", "majority", None, 0.5),
        ("quality/a", "mean", None, 7.0),
        ("quality/a", "majority", None, 7.0),
        ("exact", "mean", None, 0.5),
        ("quality", "mean", 3.0, 3.0),
        ("quality/a", "majority", 3.0, 3.0),
        ("quality", "majority", 3.0, 0.5),
    ],
)
def test_a_panel_says_what_a_pass_is(scorer, combine, given, mark):
    """For its judges and their mean; a majority is 1 or 0 already, whatever the scale."""
    panels = {"quality": Panel(["quality/a"], combine, 7.0)}
    assert pass_mark([PanelPlan("t", "m", 1, panels=panels)], "t", scorer, given) == mark
