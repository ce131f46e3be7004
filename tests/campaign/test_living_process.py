"""The gate in a process that lives on, as a notebook does: values that are mutated, code that is edited with and
without being loaded again, and use alone.

One seed again: `python tests/campaign/living_process.py mutation 17 1`.
"""

from __future__ import annotations

import pytest
from living_process import check_mutation, check_reload, check_stale, check_use

CHECKS = {"mutation": check_mutation, "use": check_use, "stale": check_stale, "reload": check_reload}


def check_seeds(kind, seeds, tmp_path):
    """Every seed; of mutations those that alter a prompt."""
    found = []
    for seed in seeds:
        place = tmp_path / str(seed)
        place.mkdir()
        found.append(CHECKS[kind](seed, place))
    judged = [one for one in found if one is not None]
    wrong = [str(one) for one in judged if one.problem]
    print(f"{kind}: {len(judged) - len(wrong)} of {len(judged)} as they should be")
    assert len(judged) >= len(found) / 3
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", CHECKS)
def test_a_sample_in_a_living_process(kind, tmp_path):
    """Resume 60c, 81: a few seeds."""
    check_seeds(kind, range(6), tmp_path)


@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", CHECKS)
def test_many_in_a_living_process(kind, tmp_path):
    """Resume 60c, 81: mutated by name, edited and not loaded accepted and recorded as it ran, used alone accepted."""
    check_seeds(kind, range(100), tmp_path)
