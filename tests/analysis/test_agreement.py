"""Agreement of judges: published worked examples, and what must hold for any ratings (experiments 10)."""

from __future__ import annotations

import random
from itertools import product

import pytest

from holdfast.analysis.agreement import (
    Ratings,
    cohen_kappa,
    effective_judges,
    krippendorff_alpha,
    mean_spread,
)

LEVELS = ["nominal", "ordinal", "interval"]
FOUR_OBSERVERS = {
    "a": [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    "b": [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    "c": [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    "d": [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
}
"""Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), section C: 4 observers, 12 units, some missing."""


def units_of(ratings):
    return [dict(zip(ratings, values, strict=True)) for values in zip(*ratings.values(), strict=True)]


def alpha_by_definition(units, level):
    """From the matrix of coincidences and the differences of each two values, as the definition has it."""
    rated = [[value for value in unit.values() if value is not None] for unit in units]
    rated = [values for values in rated if len(values) > 1]
    values = sorted({value for unit in rated for value in unit})
    pairs = dict.fromkeys(product(values, repeat=2), 0.0)
    for unit in rated:
        for i, one in enumerate(unit):
            for j, other in enumerate(unit):
                pairs[one, other] += (i != j) / (len(unit) - 1)
    totals = {one: sum(pairs[one, other] for other in values) for one in values}
    n = sum(totals.values())

    def difference(one, other):
        if level == "nominal":
            return one != other
        if level == "interval":
            return (one - other) ** 2
        between = sum(totals[value] for value in values if min(one, other) <= value <= max(one, other))
        return (between - (totals[one] + totals[other]) / 2) ** 2

    observed = sum(count * difference(*pair) for pair, count in pairs.items())
    expected = sum(totals[a] * totals[b] * difference(a, b) for a, b in pairs) / (n - 1)
    return 1 - observed / expected


def random_units(seed, judges=4, n=40, values=(0, 0.25, 0.5, 1)):
    rng = random.Random(seed)
    names = [f"judge{place}" for place in range(judges)]
    return [{name: rng.choice([*values, None]) for name in names} for _ in range(n)]


@pytest.mark.parametrize(("level", "published"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_alpha_of_four_observers_is_that_of_the_publication(level, published):
    """Krippendorff (2011), sections C and D: nominal .743, ordinal .815, interval .849."""
    assert krippendorff_alpha(units_of(FOUR_OBSERVERS), level) == pytest.approx(published, abs=5e-4)


def test_alpha_of_two_observers_is_that_of_the_publication():
    """Krippendorff (2011), section A: binary data of 10 units, .095; section B: nominal data of 12 units, .692."""
    binary = {"meg": [0, 1, 0, 0, 0, 0, 0, 0, 1, 0], "owen": [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]}
    assert krippendorff_alpha(units_of(binary), "nominal") == pytest.approx(0.095, abs=5e-4)
    nominal = {"ben": "aabbdcccedda", "gerry": "babbbcccoddd".replace("o", "e")}
    numbers = {judge: [ord(value) for value in values] for judge, values in nominal.items()}
    assert krippendorff_alpha(units_of(numbers), "nominal") == pytest.approx(0.692, abs=5e-4)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", LEVELS)
def test_alpha_is_that_of_its_definition(level, seed):
    """The sums that it is computed from give what a matrix of coincidences gives."""
    units = random_units(seed)
    assert krippendorff_alpha(units, level) == pytest.approx(alpha_by_definition(units, level), rel=1e-12)


@pytest.mark.parametrize("level", LEVELS)
def test_binary_ratings_have_one_alpha(level):
    """With two values, every difference is the same, whatever the level."""
    units = random_units(7, values=(0, 1))
    assert krippendorff_alpha(units, level) == pytest.approx(krippendorff_alpha(units, "nominal"), rel=1e-12)


@pytest.mark.parametrize("seed", range(5))
def test_figures_do_not_depend_on_the_order_of_units_or_judges(seed):
    """To the last bit, also for values that no float sum adds up exactly."""
    units = random_units(seed, values=(0.1, 0.2, 0.3, 0.7, 1e-9))
    rng = random.Random(seed + 100)
    mixed = [dict(rng.sample(sorted(unit.items()), len(unit))) for unit in rng.sample(units, len(units))]
    names = {name: f"{9 - int(name[-1])}" for name in units[0]}
    renamed = [{names[judge]: value for judge, value in unit.items()} for unit in mixed]
    for figure in (mean_spread, effective_judges, *(lambda u, at=at: krippendorff_alpha(u, at) for at in LEVELS)):
        assert figure(units) is not None
        assert figure(units) == figure(mixed) == figure(renamed)


def test_missing_ratings_are_left_out():
    """None, an absent judge, and units that only one judge has rated change nothing."""
    units = units_of(FOUR_OBSERVERS)
    absent = [{judge: value for judge, value in unit.items() if value is not None} for unit in units]
    lonely = [*absent, {"a": 9}, {}, {"e": None}]
    for level in LEVELS:
        assert krippendorff_alpha(units, level) == krippendorff_alpha(absent, level)
        assert krippendorff_alpha(absent, level) == krippendorff_alpha(lonely, level)
    assert mean_spread(units) == mean_spread(lonely)


@pytest.mark.parametrize("level", LEVELS)
def test_alpha_is_undefined_where_nothing_varies_or_nothing_can_be_compared(level):
    """Judges that always say the same have not shown that they agree: None, and never 1."""
    assert krippendorff_alpha([{"a": 1, "b": 1}] * 5, level) is None
    assert krippendorff_alpha([{"a": 1}, {"b": 0}], level) is None
    assert krippendorff_alpha([], level) is None


@pytest.mark.parametrize("level", LEVELS)
def test_full_agreement_on_different_units_is_1(level):
    assert krippendorff_alpha([{"a": 0, "b": 0}, {"a": 1, "b": 1}], level) == 1.0


def test_memory_grows_with_combinations_of_values_only():
    ratings = Ratings()
    for number in range(10_000):
        ratings.add({"a": number % 2, "b": number % 3 == 0})
    assert len(list(ratings.combinations())) == 4
    assert sum(count for _, count in ratings.combinations()) == 10_000


KAPPAS = [
    # 50 proposals, read by two people: the example that most introductions have.
    ({"yy": 20, "yn": 5, "ny": 10, "nn": 15}, 0.4, None),
    # The same share of agreement, and other marginals: 60 of 100 agree in both.
    ({"yy": 45, "yn": 15, "ny": 25, "nn": 15}, 0.1304, None),
    ({"yy": 25, "yn": 35, "ny": 5, "nn": 35}, 0.2593, None),
    # Cohen (1960): 200 patients, three diagnoses.
    (dict(zip(map("".join, product("abc", repeat=2)), [88, 14, 18, 10, 40, 10, 2, 6, 12], strict=True)), 0.492, None),
    # The manual of SAS, PROC FREQ, "Agreement Study": skin conditions by two dermatologists.
    (
        dict(
            zip(
                map("".join, product("tpmc", repeat=2)),
                [10, 4, 1, 0, 5, 10, 12, 2, 2, 4, 12, 5, 0, 2, 6, 13],
                strict=True,
            )
        ),
        0.3449,
        0.0724,
    ),
]


@pytest.mark.parametrize(("counts", "published", "stderr"), KAPPAS)
def test_kappa_is_that_of_published_examples(counts, published, stderr):
    kappa = cohen_kappa({tuple(pair): count for pair, count in counts.items()})
    assert kappa is not None and kappa.interval is not None
    assert kappa.value == pytest.approx(published, abs=6e-5 if published != 0.492 else 5e-4)
    assert kappa.interval == pytest.approx(
        (kappa.value - 1.959964 * kappa.stderr, kappa.value + 1.959964 * kappa.stderr)
    )
    if stderr:
        assert kappa.stderr == pytest.approx(stderr, abs=5e-5)


def test_kappa_is_symmetric_in_judges_and_in_values():
    table = {(1, 1): 17, (1, 0): 4, (0, 1): 9, (0, 0): 30}
    swapped = {(b, a): count for (a, b), count in table.items()}
    renamed = {(1 - a, 1 - b): count for (a, b), count in table.items()}
    assert cohen_kappa(table) == cohen_kappa(swapped) == cohen_kappa(renamed)


def test_kappa_is_undefined_where_both_give_one_value_only():
    assert cohen_kappa({(1, 1): 12}) is None
    assert cohen_kappa({}) is None
    assert cohen_kappa({(1, 1): 0}) is None


def test_full_agreement_has_no_interval():
    """The formula gives a standard error of 0 there: four units out of four do not prove it."""
    kappa = cohen_kappa({(1, 1): 2, (0, 0): 2})
    assert kappa is not None and (kappa.value, kappa.stderr, kappa.interval) == (1.0, 0.0, None)


def test_kappa_is_below_0_where_two_judges_contradict_each_other():
    kappa = cohen_kappa({(1, 0): 5, (0, 1): 5})
    assert kappa is not None and kappa.value == -1.0


def test_copies_of_a_judge_count_as_one_judge():
    units = [{"a": value, "b": value, "c": value} for value in (0, 1, 1, 0, 0.5)]
    assert effective_judges(units) == pytest.approx(1.0)


def test_uncorrelated_judges_count_in_full():
    """Every combination once: all correlations are 0."""
    units = [dict(zip("abc", values, strict=True)) for values in product((0, 1), repeat=3)]
    assert effective_judges(units) == 3.0


def test_judges_that_contradict_each_other_count_as_no_more_than_they_are():
    assert effective_judges([{"a": 0, "b": 1}, {"a": 1, "b": 0}]) == 2.0


def test_half_correlated_judges_count_as_by_the_formula():
    """Two judges with r = 0.5 are 2 / (1 + 0.5)."""
    units = [{"a": 0, "b": 0}] * 3 + [{"a": 1, "b": 1}] * 3 + [{"a": 0, "b": 1}, {"a": 1, "b": 0}]
    assert effective_judges(units) == pytest.approx(2 / 1.5)


def test_the_number_of_independent_judges_is_undefined_where_nothing_varies():
    assert effective_judges([{"a": 1, "b": 1}] * 4) is None
    assert effective_judges([{"a": 1}, {"a": 0}]) is None
    assert effective_judges([]) is None


def test_spread_is_the_mean_of_the_ranges():
    units = [{"a": 0, "b": 1, "c": 0.5}, {"a": 0.25, "b": 0.25}, {"a": 1}]
    assert mean_spread(units) == 0.5
    assert mean_spread([{"a": 1}]) is None


@pytest.mark.parametrize("size", [5e-324, 1e155, 1e300, 1e308])
def test_figures_of_scores_of_any_size_are_those_of_small_ones(size):
    """Recorded scores may be as large as a float can be; a figure that is larger than any float is None."""
    small = [{"a": 1, "b": 1}, {"a": 0, "b": 0}, {"a": 1, "b": 0}]
    units = [{name: value * size for name, value in unit.items()} for unit in small]
    assert effective_judges(units) == effective_judges(small)
    assert krippendorff_alpha(units, "interval") == krippendorff_alpha(small, "interval")
    assert mean_spread(units) == pytest.approx(size / 3)
    assert mean_spread([{"a": 1.7e308, "b": -1.7e308}]) is None
