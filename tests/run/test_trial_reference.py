"""References to trials: exact against the record, never a guess, and whatever is shown is accepted."""

from __future__ import annotations

import contextlib
import random

import pytest

from durable import commit
from holdfast import Run, UsageError
from holdfast.engine.planning.trial_keys import trial_key
from holdfast.run import RunReader, SessionContents, create_run
from holdfast.run.core.records import ScoreRecord, Status, TrialRecord
from holdfast.run.fold.candidate import TrialCandidate, coordinates
from holdfast.run.trial_reference import TrialReferences
from holdfast.run.where.expression import Names, parse_where

DIGEST = "3f2a9c1e" + "0" * 24
ODD_IDS = [
    "fr",
    "fr#1",
    "fr#1#1",
    "fr#2",
    "a/fr",
    "t/fr#1",
    "t/m/fr",
    "m/fr",
    "",
    "#1",
    "1",
    "~2",
    " two words ",
    "x" * 300,
    "日本#1",
    "👩‍👩‍👧",
    "\x1b[31mred\x1b[0m\u202e",
    "a,prompt=plain",
    "quote'\"\\",
    "new\nline",
    DIGEST,
    f"{DIGEST}~2",
]


def write_run(root, trials):
    """A run with these (task, model, axes, sample, epoch), all of them valid."""
    session = create_run(root, SessionContents(name="named", config={}, planned=len(trials)))
    for task, model, axes, sample, epoch in trials:
        key = trial_key(task, model, axes, sample, epoch)
        commit(session, ScoreRecord(trial=key, attempt=1, scorer="exact", value=1.0, explanation=f"like {sample!r}"))
        about = {"task": task, "model": model, "sample": sample, "epoch": epoch, "axes": axes}
        commit(session, TrialRecord(trial=key, attempt=1, status=Status.VALID, scores={"exact": 1.0}, **about))
    session.close("completed")
    return root


@pytest.fixture
def named(tmp_path):
    """Makes a run of such trials, and gives its references."""
    with contextlib.ExitStack() as opened:

        def make(*trials):
            root = write_run(tmp_path / "run", trials)
            reader = opened.enter_context(contextlib.closing(RunReader(root)))
            return TrialReferences(reader.fold, "run"), list(reader.fold.trials())

        yield make


def test_task_model_and_axes_are_part_of_a_label_where_there_are_several(named, tmp_path):
    """`fr#1` is enough in a run of one task and model; nothing that differs is left out."""
    assert labels(named(("t", "m", {}, "fr", 1), ("t", "m", {}, "fr", 2))) == ["fr#1", "fr#2"]


def labels(made):
    references, trials = made
    return sorted(references.label(trial) for trial in trials)


@pytest.mark.parametrize(
    ("trials", "expected"),
    [
        ([("t", "m", {}, "fr", 1), ("u", "m", {}, "fr", 1)], ["t/fr#1", "u/fr#1"]),
        ([("t", "m", {}, "fr", 1), ("t", "n", {}, "fr", 1)], ["m/fr#1", "n/fr#1"]),
        ([("t", "m", {}, "fr", 1), ("u", "n", {}, "fr", 1)], ["t/m/fr#1", "u/n/fr#1"]),
        ([("t", "m", {"prompt": "a"}, "fr", 1), ("t", "m", {"prompt": "b"}, "fr", 1)],
         ["fr#1,prompt=a", "fr#1,prompt=b"]),
    ],
)  # fmt: skip
def test_labels_of_grids(named, trials, expected):
    """What a run has several of is named."""
    assert labels(named(*trials)) == expected


def test_every_label_names_its_trial_whatever_ids_are_like(named):
    """Ids with every character of a reference in them, two tasks, two models, three epochs and an axis."""
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed {seed}")
    rng = random.Random(seed)
    grid = [
        (task, model, {"prompt": prompt}, sample, epoch)
        for task in ("t", "a")
        for model in ("m", "lab/m")
        for prompt in ("plain", "x,y=z")
        for sample in ODD_IDS
        for epoch in (1, 2, 11)
    ]
    references, trials = named(*rng.sample(grid, 200))
    for trial in trials:
        assert references.find(references.label(trial)).key == trial.key
        assert references.find(trial.key).key == trial.key


def test_a_shorter_reference_is_enough_where_it_names_one(named):
    """Epoch, task, model and axes may be left out as long as they do not matter."""
    references, trials = named(
        ("t", "m", {"prompt": "a"}, "fr", 1), ("t", "m", {"prompt": "a"}, "de", 1), ("u", "n", {}, "de", 2)
    )
    by_sample = {(trial.row.sample, trial.standing.group.task): trial.key for trial in trials}
    for text in ("fr", "fr#1", "t/fr", "t/fr#1", "t/m/fr#1", "m/fr", "fr#1,prompt=a", "t/fr,prompt=a"):
        assert references.find(text).key == by_sample["fr", "t"], text
    for text in ("de#2", "u/de", "n/de#2", "u/n/de"):
        assert references.find(text).key == by_sample["de", "u"], text


def test_many_references_are_found_in_one_pass_as_one_by_one(named):
    """Whatever names exactly one trial in full; what does not is left to be found, or refused, by itself."""
    references, trials = named(
        ("t", "m", {"prompt": "a"}, "fr", 1), ("t", "m", {"prompt": "a"}, "de", 1), ("u", "n", {}, "de", 2)
    )
    sure = ["fr", "fr#1", "t/m/fr#1", "fr#1,prompt=a", "de#2", "u/n/de", trials[1].key]
    found = references.find_many([*sure, "de", "nope", "", trials[1].key[:9]])
    assert {text: trial.key for text, trial in found.items()} == {text: references.find(text).key for text in sure}
    assert references.find_many([]) == {}


@pytest.mark.parametrize("text", ["de", "fr#3", "u/fr", "fr#01", "fr#1,prompt=b", "fr#", "f", "", "#1", "t/", "FR"])
def test_what_names_none_or_several_is_refused(named, text):
    """Nothing is guessed: a part of an id, another case or an epoch that is not on record names no trial."""
    references, _ = named(
        ("t", "m", {"prompt": "a"}, "fr", 1), ("t", "m", {"prompt": "a"}, "de", 1), ("u", "n", {}, "de", 2)
    )
    with pytest.raises(UsageError) as refused:
        references.find(text)
    expected = "'de' matches 2 trials: t/m/de#1,prompt=a, u/n/de#2." if text == "de" else "There is no trial"
    assert expected in str(refused.value)


def test_an_id_comes_before_the_beginning_of_a_key(named):
    """A sample whose id reads like the beginning of a key is found by its id."""
    keys = [trial_key("t", "m", {}, str(number), 1) for number in range(30)]
    references, _ = named(*(("t", "m", {}, str(number), 1) for number in range(30)))
    digits = [number for number in range(10) if any(key.startswith(str(number)) for key in keys)]
    assert digits
    for number in digits:
        assert references.find(str(number)).row.sample == str(number)
    assert references.find(keys[3][:12]).key == keys[3]


def test_another_reading_of_a_shown_reference_does_not_stand_in_its_way(named):
    """`fr#1` is the first epoch of `fr`, as it is shown; the sample `fr#1` is named in full."""
    references, _ = named(("t", "m", {}, "fr", 1), ("t", "m", {}, "fr#1", 1), ("t", "m", {}, "fr", 2))
    assert references.find("fr#1").row.sample == "fr"
    assert references.find("fr#1#1").row.sample == "fr#1"


def test_samples_without_an_id_have_short_names_that_tell_them_apart(named):
    """Eight digits, more where two digests begin alike; any beginning of at least four digits is accepted."""
    alike = DIGEST[:10] + "f" * 22
    references, trials = named(
        *(("t", "m", {}, sample, 1) for sample in (DIGEST, f"{DIGEST}~2", alike, "e" * 32, "an-id"))
    )
    shown = {trial.row.sample: references.label(trial) for trial in trials}
    assert shown == {
        DIGEST: "3f2a9c1e000#1",
        f"{DIGEST}~2": "3f2a9c1e000~2#1",
        alike: "3f2a9c1e00f#1",
        "e" * 32: "eeeeeeeeeee#1",
        "an-id": "an-id#1",
    }
    for sample, label in shown.items():
        assert references.find(label).row.sample == sample
    assert references.find("eeee").row.sample == "e" * 32
    assert references.find(f"{DIGEST}").row.sample == DIGEST
    with pytest.raises(UsageError, match="matches 2 trials: 3f2a9c1e000#1, 3f2a9c1e00f#1"):
        references.find("3f2a9c1e")
    with pytest.raises(UsageError, match="There is no trial"):
        references.find("eee")


def test_many_candidates_are_counted(named):
    """The first eight are named."""
    references, _ = named(*(("t", "m", {}, "fr", epoch) for epoch in range(1, 12)))
    with pytest.raises(UsageError, match=r"'fr' matches 11 trials: fr#.* and 3 more\. Give one of these\."):
        references.find("fr")


def test_trials_that_have_not_started_are_mentioned(tmp_path):
    """A sample of the plan that is not on record yet is not mistaken for a mistyped one."""
    session = create_run(tmp_path / "r", SessionContents(name="named", config={}, planned=3))
    session.close("interrupted")
    with Run.open(tmp_path / "r") as run, pytest.raises(UsageError, match="3 planned trials have not started"):
        run.key_of("fr")


def test_python_takes_references_wherever_it_takes_a_trial(tmp_path):
    """Transcript, records, steps and scores of `fr#1`; an unknown one is an error, not an empty list."""
    root = write_run(tmp_path / "r", [("t", "m", {}, "fr", 1), ("t", "m", {}, "de", 1)])
    with Run.open(root) as run:
        key = trial_key("t", "m", {}, "fr", 1)
        assert run.key_of("fr#1") == run.key_of("t/fr") == run.key_of(key[:9]) == key
        assert [record.trial for record in run.records_of("fr#1")] == [key, key]
        assert [record.trial for record in run.transcript("fr")] == [key, key]
        assert list(run.steps("fr")) == []
        assert [(one.scorer, one.value, one.explanation) for one in run.scores_of("fr")] == [
            ("exact", 1.0, "like 'fr'")
        ]
        for read in (run.records_of, run.scores_of, lambda trial: list(run.transcript(trial))):
            with pytest.raises(UsageError, match="There is no trial 'nobody'"):
                read("nobody")


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("exact<1", "List such trials with: holdfast show {} --where 'exact<1'"),
        ("nobody", "List the trials with: holdfast show {}"),
    ],
)
def test_an_expression_in_place_of_a_trial_is_recognised(tmp_path, text, hint):
    """The way out is the command that was meant."""
    root = write_run(tmp_path / "r", [("t", "m", {}, "fr", 1)])
    with Run.open(root) as run, pytest.raises(UsageError) as caught:
        run.key_of(text)
    assert caught.value.hint == hint.format(root)


@pytest.mark.parametrize("several", [False, True])
def test_a_reference_that_is_shown_selects_its_trial(named, several):
    """`--where` and `--redo` take what `show` prints: an id or short digest, the task and the model, the axes."""
    plain, short = {"prompt": "plain"}, {"prompt": "short", "tier": "T0"}
    trials = [("t", "m", plain, "fr", 1), ("t", "m", short, "fr", 1), ("t", "m", plain, "fr", 2)]
    trials += [("t", "m", plain, DIGEST, 1), ("t", "m", plain, f"{DIGEST}~2", 1)]
    trials += [("u", "n", plain, "fr", 1), ("u", "m", plain, DIGEST, 1)] if several else []
    references, recorded = named(*trials)
    for trial in recorded:
        assert selected(references, recorded, f"trial='{references.label(trial)}'") == [references.label(trial)]
        others = selected(references, recorded, f"trial!='{references.label(trial)}'")
        assert len(others) == len(trials) - 1


def selected(references, recorded, expression):
    where = parse_where(expression, Names(frozenset({"prompt", "tier"})))
    return [
        references.label(trial)
        for trial in recorded
        if where.matches(TrialCandidate(None, None, trial.key, coordinates(trial), trial, dict))
    ]
