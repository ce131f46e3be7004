"""`show`: a table that fits the terminal, one trial in full, and what selects among trials."""

from __future__ import annotations

import json
import re
import unicodedata

import pytest

from evals import http_eval, python_eval, write_eval
from holdfast.analysis.money import money_text

HOSTILE = "\x1b[2J\x1b]0;owned\x07\x00\x9b31m\u202eevil"
LONG = "x" * 300
ROWS = [
    {"id": "fr", "q": "The capital of France?", "a": "Paris"},
    {"id": "fr#1", "q": "An id with a number sign?", "a": "yes"},
    {"id": "a/b c", "q": "An id with a slash and a space?", "a": "yes"},
    {"id": LONG, "q": "A long id? " + "word " * 200, "a": "yes"},
    {"id": "日本", "q": "日本の首都はどこですか。一語で答えてください。", "a": "東京"},
    {"id": HOSTILE, "q": f"hostile {HOSTILE} question\nin two lines", "a": HOSTILE},
    {"q": "No id?", "a": "right"},
]
TASK = {"dataset": "rows", "prompt": "{q}", "target": "{a}", "scorers": ["exact"]}


def write_rows(directory, rows):
    (directory / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_eval(directory, rows=ROWS, tasks=None, **keys):
    """Paris, 東京 and `right` are right; every other reply is wrong."""
    write_rows(directory, rows)
    rules = [{"contains": "France", "reply": "Paris"}, {"contains": "日本", "reply": "東京"}]
    args = {"rules": [*rules, {"contains": "No id", "reply": "right"}], "default": f"I {HOSTILE} do not know. " * 20}
    model = {"provider": "scripted", "model": "table", "args": args, "price": {"input": 0.15, "output": 0.6}}
    data = {
        "name": "shown",
        "concurrency_limit": 1,
        "models": {"m": model},
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": tasks or {"t": TASK},
        **keys,
    }
    return write_eval(directory, data)


def width_of(line):
    """The columns of a line, counted by itself."""
    flat = {"Mn", "Me", "Cf"}
    return sum(
        2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in line if unicodedata.category(one) not in flat
    )


def column_of(line, text):
    return width_of(line[: line.index(text)])


def table(out):
    """The header and the rows of what `show` printed."""
    return out.partition("\n\n")[0].splitlines()


@pytest.fixture
def shown(holdfast, tmp_path):
    holdfast("run", make_eval(tmp_path), "--run-dir", "r", code=0)
    return holdfast


def test_inputs_that_begin_alike_show_what_differs(holdfast, tmp_path):
    """At 80 columns too, of a list of wrong answers."""
    countries = ["Finland", "Peru", "Chad", "Laos"]
    rows = [{"id": f"sample-{name}", "q": f"What is the capital of {name}?", "a": "a town"} for name in countries]
    holdfast("run", make_eval(tmp_path, rows), "--run-dir", "r", code=0)
    header, *lines = table(holdfast("show", "r", "--wrong", code=0, COLUMNS="80").out)
    place = column_of(header, "input")
    assert [line[place:].split("?")[0] for line in lines] == [f"…{name}" for name in countries]


@pytest.mark.parametrize("columns", ["80", "200", "60", "40", "1"])
def test_no_line_is_wider_than_the_terminal(shown, columns):
    """Whatever ids, inputs and answers are like; nothing in them acts on a terminal."""
    out = shown("show", "r", code=0, COLUMNS=columns).out
    header, *rows = table(out)
    assert len(rows) == len(ROWS)
    assert max(map(width_of, [header, *rows])) <= max(int(columns), 20)
    assert re.findall(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", out) == []


def test_columns_are_aligned_also_behind_wide_characters(shown):
    """Every state begins below the title, every score ends below the end of its title."""
    header, *rows = table(shown("show", "r", code=0, COLUMNS="100").out)
    assert header.split() == ["trial", "state", "exact", "input", "target", "answer"]
    state, target = column_of(header, "state"), column_of(header, "target")
    assert {column_of(row, "valid") for row in rows} == {state}
    (japanese,) = [row for row in rows if row.startswith("日本#1")]
    assert column_of(japanese, "東京") == target
    scores = {row[row.index("valid") + 5 :].split()[0] for row in rows}
    assert scores == {"0", "1"}


def test_without_a_terminal_there_are_80_columns(shown):
    """A pipe has no width; no escape is written to it."""
    out = shown("show", "r", code=0).out
    assert 60 < max(map(width_of, table(out))) <= 80 and "\x1b" not in out


def test_input_target_and_answer_are_in_the_table(shown):
    """Beginnings where there is not room for all, whole texts where there is."""
    (narrow,) = [row for row in table(shown("show", "r", COLUMNS="80").out) if row.startswith("fr#1 ")]
    assert "The capital" in narrow and narrow.split()[-2:] == ["Paris", "Paris"]
    out = shown("show", "r", COLUMNS="250").out
    assert "日本の首都はどこですか。一語で答えてください。" in out and "hostile evil question in two lines" in out


def test_every_shown_reference_is_accepted(shown):
    """Ids with number signs, slashes, spaces, 300 characters, other scripts, escapes, and none at all."""
    rows = shown.json("show", "r", code=0)["trials"]
    labels = [re.split(r"\s\s+", row)[0] for row in table(shown("show", "r", code=0, COLUMNS="2000").out)[1:]]
    assert len(labels) == len(rows) == len(ROWS)
    for label, row in zip(labels, rows, strict=True):
        if row["sample"] != HOSTILE:
            assert shown.json("show", "r", label, code=0)["trial"] == row["trial"]
    (short,) = [label for label in labels if re.fullmatch(r"[0-9a-f]{8}#1", label)]
    (full,) = [row["sample"] for row in rows if row["sample"].startswith(short[:8])]
    assert len(full) == 32
    assert shown.json("show", "r", short[:8], code=0)["row"]["sample"] == full


def test_the_footer_names_the_run_and_a_command(shown, tmp_path):
    """What can be typed next can be pasted: the run as it was named, and the first trial of the list."""
    out = shown("show", "r", code=0).out
    assert out.endswith("r: 7 of 7 trials finished, 0 remaining.\nShow one in full: holdfast show r 'fr#1'\n")
    assert shown("show", code=0).out.endswith("Show one in full: holdfast show @latest 'fr#1'\n")
    limited = shown("show", "r", "--limit", "2", code=0).out
    assert len(table(limited)) == 4 and "… and 5 more; --limit shows more" in limited


def test_json_has_every_matching_trial_unless_a_limit_is_given(holdfast, tmp_path):
    """People see the first fifty; a program would take them for all. Every row stands in one valid document."""
    rows = [{"id": f"s{number:02}", "q": f"{number}?", "a": "x"} for number in range(53)]
    holdfast("run", make_eval(tmp_path, rows), "--run-dir", "r", code=0)
    assert "… and 3 more" in holdfast("show", "r", code=0).out
    every = holdfast.json("show", "r", code=0)
    assert every["matching"] == len(every["trials"]) == 53 and every["planned"] == 53 and every["notes"] == []
    assert len(holdfast.json("show", "r", "--wrong", code=0)["trials"]) == 53
    few = holdfast.json("show", "r", "--limit", "2", code=0)
    assert (few["matching"], len(few["trials"])) == (53, 2)
    none = holdfast.json("show", "r", "--failed", code=0)
    assert (none["matching"], none["trials"], none["notes"]) == (0, [], [])


def test_wrong_shows_first_what_is_wrong(holdfast, tmp_path):
    """Five scorers share a column that is cut; the one that is below 1 is not what is cut off."""
    scorers = [{"includes": {"name": f"right{number}"}} for number in range(1, 5)]
    task = {**TASK, "scorers": [*scorers, {"exact": {"name": "strict"}}]}
    rows = [{"id": "fr", "q": "The capital of France?", "a": "Pari"}]
    holdfast("run", make_eval(tmp_path, rows, {"t": task}), "--run-dir", "r", code=0)
    assert "strict=0 right1=1" in holdfast("show", "r", "--wrong", code=0, COLUMNS="110").out
    assert "right1=1 right2=1" in holdfast("show", "r", code=0, COLUMNS="110").out


def test_trials_are_selected_by_what_was_asked_expected_and_answered(shown):
    """A list of messages, a column of the dataset and an unknown name too; an unknown column is offered as metadata."""
    for where in ("answer=Paris", "target ~ pari", "input ~ 'of france'", "metadata.a=Paris"):
        assert [row["sample"] for row in shown.json("show", "r", "--where", where, code=0)["trials"]] == ["fr"], where
    assert 'did you mean "metadata.q"?' in shown("show", "r", "--where", "q ~ France", code=2).err
    assert 'did you mean "answer"?' in shown("show", "r", "--where", "anwser=Paris", code=2).err
    redone = shown("resume", "r", "--redo", "answer=Paris and input ~ France", code=0)
    assert "Running 1 trial again" in redone.err
    assert 'did you mean "metadata.q"?' in shown("resume", "r", "--redo", "q ~ France", code=2).err


def test_wrong_and_failed_and_where_are_joined_with_and(shown):
    """--wrong: valid, with a score below 1; all of them are one expression."""
    wrong = shown.json("show", "r", "--wrong", code=0)
    assert wrong["matching"] == 4 and {row["scores"]["exact"] for row in wrong["trials"]} == {0.0}
    spelled_out = shown.json("show", "r", "--where", "status=valid and exact<1", code=0)
    assert spelled_out["trials"] == wrong["trials"]
    out = shown("show", "r", "--wrong", "--where", "sample='fr#1' or sample=fr", code=0).out
    assert len(table(out)) == 2
    assert "1 of 7 trials on record matches --wrong and \"sample='fr#1' or sample=fr\"." in out
    assert shown.json("show", "r", "--wrong", "--failed", code=0)["matching"] == 0


def test_that_nothing_is_wrong_or_failed_is_no_mistake(shown):
    """An expression that matches nothing may be mistyped; an option cannot be."""
    out = shown("show", "r", "--failed", code=0).out
    assert out == "0 of 7 trials on record match --failed.\nr: 7 of 7 trials finished, 0 remaining.\n"
    assert (
        "No trial on record in r matches --failed and 'epoch=1'"
        in shown("show", "r", "--failed", "--where", "epoch=1", code=2).err
    )
    error = shown("show", "r", "--wrong", "--where", "epohc=1", code=2).err
    assert 'unknown field "epohc" at column 1' in error


def test_options_that_select_go_with_no_single_trial(shown):
    """One trial is not selected among."""
    for option in (["--wrong"], ["--failed"], ["--where", "epoch=1"]):
        assert "cannot be used with one TRIAL" in shown("show", "r", "fr", *option, code=2).err


def test_one_trial_in_full(shown):
    """Sample, input, target, answer, score, cost, state, model, epoch and tokens; then the transcript."""
    out = shown("show", "r", "日本", code=0).out
    head, _, transcript = out.partition("── step generate")
    facts = dict(re.findall(r"^  (\w+) +(.*)$", head, re.MULTILINE))
    row = shown.json("show", "r", "日本", code=0)["row"]
    cost = row["cost"]
    assert head.startswith("日本#1\n") and 0 < cost < 0.0001
    assert facts.pop("time").endswith(" s") and facts.pop("trial") == row["trial"]
    assert facts.pop("cost") == money_text(cost, "USD")
    assert facts == {
        "run": "r",
        "task": "t",
        "model": "m",
        "sample": "日本",
        "epoch": "1",
        "state": "valid",
        "answer": "東京",
        "score": "exact = 1",
        "tokens": f"{row['usage']['input_tokens']} in, {row['usage']['output_tokens']} out",
    }
    assert head.endswith("── input\n日本の首都はどこですか。一語で答えてください。\n── target\n東京\n")
    assert "[m] 東京" in transcript and "── valid after" in transcript


def test_the_facts_of_a_trial_are_wrapped_at_words(shown):
    """A long answer takes several lines, indented, none wider than the terminal."""
    head = shown("show", "r", "a/b c", code=0).out.partition("── input")[0]
    assert max(map(width_of, head.splitlines())) <= 80
    assert head.count("do not know.") > 3 and re.search(r"\n {10}\S", head)


def test_json_of_one_trial_has_its_row(shown):
    """The row as in the list, beside the records; a person's short name is not in it."""
    listed = shown.json("show", "r", code=0)["trials"]
    one = shown.json("show", "r", "fr", code=0)
    assert one.keys() == {"schema_version", "trial", "row", "records"}
    assert one["row"] == next(row for row in listed if row["sample"] == "fr")
    assert one["row"]["trial"] == one["trial"]


GRID = {"a": {**TASK, "epochs": 2}, "b": {**TASK, "prompt": {"plain": "{q}", "polite": "Please: {q}"}}}


def test_tasks_models_axes_and_epochs_are_told_apart(holdfast, tmp_path):
    """Two tasks with the same ids, two models, an axis and two epochs: the reference has what differs."""
    echo = {"provider": "scripted", "model": "echo"}
    eval_file = make_eval(tmp_path, ROWS[:1], GRID, models={"m": echo, "n": echo})
    holdfast("run", eval_file, "--run-dir", "r", code=0)
    labels = {row.split()[0] for row in table(holdfast("show", "r", code=0).out)[1:]}
    assert labels == {
        *(f"a/{model}/fr#{epoch}" for model in "mn" for epoch in (1, 2)),
        *(f"b/{model}/fr#1,prompt={prompt}" for model in "mn" for prompt in ("plain", "polite")),
    }
    ambiguous = holdfast("show", "r", "a/fr#1", code=2).err
    assert "'a/fr#1' matches 2 trials: a/m/fr#1, a/n/fr#1. Give one of these." in ambiguous
    assert holdfast.json("show", "r", "b/n/fr,prompt=polite", code=0)["row"]["axes"] == {"prompt": "polite"}
    assert "axes    prompt=polite" in holdfast("show", "r", "b/n/fr,prompt=polite", code=0).out


def test_an_expression_takes_references_too(holdfast, tmp_path):
    """`trial=a/fr#1` selects, for `show` and for a redo; `!=` selects the others."""
    holdfast("run", make_eval(tmp_path, ROWS[:2], {"a": {**TASK, "epochs": 2}, "b": TASK}), "--run-dir", "r", code=0)

    def matching(expression):
        found = holdfast.json("show", "r", "--where", expression, code=0)["trials"]
        return sorted(f"{row['task']}/{row['sample']}#{row['epoch']}" for row in found)

    assert matching("trial=a/fr#1") == ["a/fr#1"]
    assert matching("trial='fr#1'") == ["a/fr#1", "b/fr#1"]
    assert matching("trial=a/m/fr#2 or trial=b/fr#1#1") == ["a/fr#2", "b/fr#1#1"]
    assert len(matching("trial!=a/fr#1")) == 5
    holdfast("resume", "r", "--redo", "trial=a/fr#1", code=0)
    attempts = {row["trial"]: row["attempts"] for row in holdfast.json("show", "r")["trials"]}
    assert sorted(attempts.values()) == [1, 1, 1, 1, 1, 2]


BROKEN = """
from holdfast import Sample, Score, Task, exact, scorer, task

async def solve(trial):
    if trial.sample.id == "s1":
        raise ValueError("not today, " + "and not tomorrow " * 20)
    return "a"

@scorer
async def graded(answer, sample):
    return Score(0.25, explanation="only a quarter of it is right, because of this and that " * 3)

@task
def t():
    samples = [Sample(f"q{n}", target="a", id=f"s{n}") for n in (1, 2)]
    return Task(samples=samples, solver=solve, scorers=[exact(), graded])
"""


def test_errors_stand_below_their_rows_and_explanations_beside_scores(holdfast, server, tmp_path):
    """A failed trial with its error in one line of the list, and with the traceback in full."""
    holdfast("run", python_eval(tmp_path, server.base_url, BROKEN, max_retries=1), "--run-dir", "r", code=1)
    lines = table(holdfast("show", "r", "--failed", code=0).out)
    assert lines[1].startswith("s1#1   failed (task error)")
    assert lines[2].startswith("  attempt 2: ValueError: not today") and lines[2].endswith("…") and len(lines[2]) <= 80
    failed = holdfast("show", "r", "s1", code=0).out
    assert "state   failed (task error), attempt 2 of 2\n" in failed and "Traceback" in failed
    valid = holdfast("show", "r", "s2", code=0).out
    assert "  score   exact = 1\n  score   graded = 0.25: only a quarter" in valid
    wrong = holdfast("show", "r", "--wrong", code=0).out
    assert table(wrong)[0].split()[:4] == ["trial", "state", "exact", "graded"] and len(table(wrong)) == 2


def test_a_run_without_its_samples_says_why_they_are_missing(holdfast, tmp_path):
    """The table is printed all the same; the reason is on standard error, once."""
    holdfast("run", make_eval(tmp_path), "--run-dir", "r", code=0)
    for path in (tmp_path / "r" / "inputs").iterdir():
        path.unlink()
    ended = holdfast("show", "r", code=0)
    assert len(table(ended.out)) == len(ROWS) + 1 and ended.err.count("note: Samples of the task 't'") == 1


def test_a_trial_given_as_the_run_gets_a_hint(holdfast, tmp_path):
    """`show fr#1` is not a run; the command that was meant is named."""
    holdfast("run", make_eval(tmp_path), "--run-dir", "r", code=0)
    assert "holdfast show @latest 'fr#1'" in holdfast("show", "fr#1", code=2).err
    assert holdfast.json("show", "@latest", "fr#1", code=0)["row"]["sample"] == "fr"


def test_the_state_of_a_disabled_model_s_trials_has_its_reason(holdfast, server, tmp_path):
    """As the JSON has it; and the session that the model was disabled for is over."""
    server.behave(refuse_status=401, refuse_times=10**9)
    holdfast("run", http_eval(tmp_path, server.base_url, 2), "--run-dir", "r", code=1)
    told = holdfast("show", "r", code=0).out
    assert "unfinished (model disabled)" in told and "m was disabled for that session. " in told
    reference = told.splitlines()[1].split()[0]
    one = holdfast("show", "r", reference, code=0).out
    assert "unfinished (model disabled)" in one and "for this session" not in told + one
    assert {trial["reason"] for trial in holdfast.json("show", "r")["trials"]} == {"model disabled"}
