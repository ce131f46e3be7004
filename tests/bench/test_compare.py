"""Two versions of the program compared: what the numbers allow to say, and what a base has to be."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from bench import compare, measure, turn
from bench.base import CompareError, Tree, base_tree
from bench.compare import by_name, paired, unpaired
from bench.paired import Paired, Round, rounds_needed

ROOT = Path(__file__).resolve().parents[2]
LIKE = Round(100.0, 101.0, 102.0)


def figure(*rounds: Round, unit: str = "µs") -> Paired:
    return Paired("trial", "one", unit, list(rounds))


@pytest.mark.parametrize(("rounds", "needed"), [(1, None), (4, None), (5, 5), (6, 6), (10, 8), (20, 13)])
def test_chance_alone_names_a_side_in_less_than_one_comparison_in_a_hundred(rounds, needed):
    assert rounds_needed(rounds) == needed


@pytest.mark.parametrize(
    ("unit", "higher", "lower"),
    [("µs", "slower", "faster"), ("s", "slower", "faster"), ("MB/s", "faster", "slower"), ("MB", "more", "less")],
)
def test_a_side_that_is_the_worst_or_the_best_of_every_round_is_named(unit, higher, lower):
    assert figure(*[Round(100.0, 110.0, 104.0)] * 5, unit=unit).verdict == higher
    assert figure(*[Round(100.0, 90.0, 104.0)] * 5, unit=unit).verdict == lower


def test_one_round_of_five_that_disagrees_is_noise():
    assert figure(*[Round(100.0, 150.0, 104.0)] * 4, LIKE).verdict == "within noise"
    assert figure(*[Round(100.0, 50.0, 104.0)] * 4, LIKE).verdict == "within noise"


def test_two_rounds_of_ten_may_disagree():
    assert figure(*[Round(100.0, 110.0, 104.0)] * 8, LIKE, LIKE).verdict == "slower"
    assert figure(*[Round(100.0, 110.0, 104.0)] * 7, LIKE, LIKE, LIKE).verdict == "within noise"


def test_equal_numbers_are_no_difference():
    assert figure(*[Round(100.0, 100.0, 100.0)] * 5).verdict == "within noise"


def test_a_steady_difference_below_one_in_a_hundred_is_not_named():
    assert figure(*[Round(100.0, 100.5, 100.0)] * 5).verdict == "within 1 %"


def test_four_rounds_allow_no_verdict():
    assert figure(*[Round(100.0, 200.0, 100.0)] * 4).verdict == "too few rounds"


def test_a_drift_of_the_machine_cancels_out():
    drifting = figure(
        *(Round(100.0 * 1.1**turn, 100.0 * 1.1 ** (turn + 1), 100.0 * 1.1 ** (turn + 2)) for turn in range(5))
    )
    assert drifting.ratio == pytest.approx(1.0)
    assert drifting.verdict == "within noise"


def test_medians_are_of_all_rounds():
    found = figure(Round(100.0, 120.0, 144.0), Round(100.0, 60.0, 100.0), Round(200.0, 220.0, 50.0))
    assert (found.base, found.here) == (100.0, 120.0)
    assert found.ratios == pytest.approx([1.0, 0.6, 2.2])
    assert found.noise == pytest.approx([1.44, 1.0, 0.25])
    assert found.ratio == pytest.approx(1.0)


def test_a_difference_of_nothing_has_no_ratio():
    found = figure(Round(1.0, 0.0, 2.0), Round(-1.0, 1.0, 1.0), unit="MB")
    assert (found.ratio, found.ratios, found.noise, found.verdict) == (None, [], [], "no ratio")


def row(what: str, value: float) -> dict[str, object]:
    return {"name": "memory", "what": what, "value": value, "unit": "MB"}


def test_figures_find_each_other_by_name_and_in_order():
    base = by_name([row("of 200 MB", 1.0), row("the difference", 2.0), row("the difference", 3.0), row("old", 4.0)])
    here = by_name([row("new", 5.0), row("of 201 MB", 6.0), row("the difference", 7.0), row("the difference", 8.0)])
    found = paired([[base, here, base]])
    assert [(each.what, *each.rounds[0]) for each in found] == [
        ("of 201 MB", 1.0, 6.0, 1.0),
        ("the difference", 2.0, 7.0, 2.0),
        ("the difference", 3.0, 8.0, 3.0),
    ]
    assert unpaired(base, here) == ["memory: old: only in the base", "memory: new: only in this tree"]


@pytest.fixture
def checkout(tmp_path, monkeypatch):
    """A git repository whose only commit has nothing to measure."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    root = tmp_path / "checkout"
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "--quiet", root], check=True)
    subprocess.run(["git", *author, "commit", "--quiet", "--allow-empty", "-m", "Nothing"], check=True, cwd=root)
    return root


def test_an_unknown_revision_is_named(checkout, tmp_path):
    with pytest.raises(CompareError, match="no-such is no revision of this checkout, and no directory with"):
        base_tree("no-such", checkout, tmp_path)


def test_a_revision_without_benchmarks_is_named(checkout, tmp_path):
    with pytest.raises(CompareError, match="HEAD has no benchmarks of its own to run: fatal: pathspec"):
        base_tree("HEAD", checkout, tmp_path)


def test_a_directory_that_is_no_checkout_has_no_revisions(checkout, tmp_path):
    (bare := tmp_path / "bare").mkdir()
    with pytest.raises(CompareError, match=r"git finds no revisions here: .*Name the directory of another checkout"):
        base_tree("HEAD", bare, tmp_path)


def test_a_revision_is_unpacked_with_its_own_sources(checkout, tmp_path):
    for part in ("src/holdfast/one.py", "bench/trial.py"):
        (checkout / part).parent.mkdir(parents=True)
        (checkout / part).write_text("ONE = 1\n", encoding="utf-8")
    subprocess.run(["git", "add", "."], check=True, cwd=checkout)
    author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
    subprocess.run(["git", *author, "commit", "--quiet", "-m", "One"], check=True, cwd=checkout)
    (checkout / "src/holdfast/one.py").write_text("ONE = 2\n", encoding="utf-8")
    tree = base_tree("HEAD", checkout, tmp_path)
    assert (tree.path / "src/holdfast/one.py").read_text(encoding="utf-8") == "ONE = 1\n"
    assert tree.has("trial") and not tree.has("help")


def test_a_package_of_another_tree_is_refused(tmp_path):
    with pytest.raises(SystemExit, match=r"holdfast was loaded from .*, which is not in"):
        turn._prove(holdfast, tmp_path)


def test_a_tree_that_cannot_be_compiled_is_named(tmp_path):
    for part in ("src", "bench"):
        (tmp_path / part).mkdir()
    (tmp_path / "bench" / "trial.py").write_text("def\n", encoding="utf-8")
    with pytest.raises(CompareError, match=r"The modules of old cannot be compiled: .*trial\.py"):
        Tree("old", tmp_path)


def test_a_turn_takes_as_many_rounds_as_it_is_told(monkeypatch):
    monkeypatch.setattr(measure, "ROUNDS", 5)
    monkeypatch.setitem(measure.median_of.__kwdefaults__, "rounds", 5)
    turn._set_rounds(2)
    rest = iter(range(5))
    assert measure.median_of(lambda: float(next(rest))) == (0.5,)
    assert (measure.ROUNDS, next(rest)) == (2, 2)


def test_an_unknown_benchmark_is_named(capsys):
    with pytest.raises(SystemExit) as ended:
        compare.main(["HEAD", "tril"])
    assert ended.value.code == 2
    assert "no benchmark is called tril; there are group_commit," in capsys.readouterr().err


def test_a_tree_is_compared_with_itself():
    words = [".", "help", "--quick", "--rounds", "1", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "bench", "compare", *words], check=True, stdout=subprocess.PIPE, cwd=ROOT
    )
    figures = json.loads(done.stdout)["figures"]
    assert [each["what"].partition(",")[0] for each in figures] == ["holdfast --help", "import holdfast"]
    assert {each["verdict"] for each in figures} == {"too few rounds"}
    assert all(len(each["rounds"]) == 1 and each["ratio"] > 0 for each in figures)
