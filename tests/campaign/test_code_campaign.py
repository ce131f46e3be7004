"""Tasks drawn from seeds, each with one change, offered to the gate: what alters a prompt or a score is refused by
name, what alters neither is accepted, and no key of the environment is in a byte of the run.

Whether a change alters anything is found out by executing the task before and after it, without the product
(`observed_task.py`). One seed again, with its files: `python tests/campaign/gate_campaign.py harmful 17 --keep DIR`.
"""

from __future__ import annotations

import hashlib

import pytest
import zstandard
from drawn_program import HARMFUL, NEUTRAL
from drawn_task import KEY_NAMES, draw_program
from gate_campaign import (
    Bench,
    Case,
    Verdict,
    accepts_everything,
    check_seed,
    find_secrets,
    judge,
    make_case,
    real_gate,
    refuses_everything,
    run_seeds,
)

SAMPLE = list(range(24))
WHOLE = list(range(500))


def check_all(kind, seeds, processes):
    """Every seed of the kind; those with a problem are told with what it takes to look at them."""
    told = run_seeds(kind, seeds, processes)
    wrong = [text for _, problem, text, _ in told if problem]
    print(f"{kind}: {len(told) - len(wrong)} of {len(told)} seeds as they should be")
    assert len(told) == len(seeds)
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("kind", [HARMFUL, NEUTRAL, "keys"])
def test_a_sample_of_seeds(kind):
    """Resume 52-61, 80-82: a few seeds of the campaign."""
    check_all(kind, SAMPLE, 1)


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("kind", [HARMFUL, NEUTRAL, "keys"])
def test_all_seeds(kind):
    """Resume 52-61, 80-82: 500 changes that alter a prompt or a score, 500 that alter neither, 500 tasks with keys."""
    check_all(kind, WHOLE, 2)


@pytest.fixture
def bench():
    made = Bench()
    yield made
    made.zygote.end()


def test_a_gate_that_accepts_everything_is_found_out(tmp_path, bench):
    finding = check_seed(HARMFUL, 0, tmp_path, bench, accepts_everything)
    assert finding.problem == "a harmful change was accepted" and "harmful seed 0" in str(finding)
    assert not check_seed(NEUTRAL, 0, tmp_path, bench, accepts_everything).problem


def test_a_gate_that_refuses_everything_is_found_out(tmp_path, bench):
    assert check_seed(NEUTRAL, 0, tmp_path, bench, refuses_everything).problem == "a neutral change was refused"
    assert "names none of" in check_seed(HARMFUL, 0, tmp_path, bench, refuses_everything).problem


def test_a_gate_that_fails_is_found_out(tmp_path):
    for kind in (HARMFUL, NEUTRAL):
        assert "ended with 70" in judge(make_case(kind, 1, tmp_path), Verdict(70, ""))


def test_the_observer_tells_harmful_from_neutral(tmp_path):
    """A case is of its kind by what the task asks and scores, and the two versions do differ in their files."""
    for seed in range(3):
        case = make_case(HARMFUL, seed, tmp_path)
        assert case.names and (case.before.files, case.before.environment) != (case.after.files, case.after.environment)


PLANTED = {
    "text": lambda value: value.encode(),
    "packed": lambda value: zstandard.compress(b"{" + value.encode() + b"}"),
    "digest": lambda value: hashlib.sha256(value.encode()).hexdigest().encode(),
    "short digest": lambda value: hashlib.blake2b(value.encode(), digest_size=16).hexdigest().encode(),
    "digest of a header": lambda value: hashlib.sha256(f"Bearer {value}".encode()).digest(),
}


@pytest.mark.parametrize("form", PLANTED)
def test_a_key_in_the_run_is_found(tmp_path, bench, form):
    """The search finds a value in whatever form it was planted, and nothing where nothing was."""
    program = draw_program("planted", holders=1)
    case = Case("keys", 0, "", (), program, program, tmp_path)
    real_gate(case, bench)
    assert not list(find_secrets(case))
    value = next(value for name, value in program.environment.items() if name in KEY_NAMES)
    (case.run / "artifacts" / "note").write_bytes(PLANTED[form](value))
    assert list(find_secrets(case))
