"""Resume 18 and 23, experiments 12: recorded answers are scored again, beside the scores that they have."""

from __future__ import annotations

import json
import signal

import pytest
from gate_world import make_rows

from folds import check_fold
from holdfast import Run, Sample, Task, UsageError, evaluate, generate, rescore
from holdfast.errors import ResumeAborted
from holdfast.run.fold.reader import RunReader

SCORER = """
def strict(answer, sample):
    return answer.text == sample.target
"""
LOOSE = SCORER.replace("answer.text == sample.target", "sample.target[:1] in answer.text")


def values(world, name="exact"):
    """The score of every trial under this name, by sample."""
    return {row["sample"]: row["scores"].get(name) for row in Run.open(world.run_dir).to_dicts()}


def versions(world):
    """The names of scores that other versions have replaced."""
    with Run.open(world.run_dir) as run:
        return sorted(name for name in run.report().tasks["t"]["m"].metrics if "@" in name)


def check_sound(world):
    """The fold is the one that its definition gives, and nothing is damaged."""
    reader = RunReader(world.run_dir)
    check_fold(reader)
    reader.close()
    assert world.json("verify", "r", code=0)["ok"]


def test_resume_18_a_changed_argument(world):
    """The refusal names rescore with a command that works; old and new scores are both on record."""
    world.rows = [{"id": "s1", "question": "Q1", "answer": "q1"}, {"id": "s2", "question": "q2", "answer": "q2"}]
    world.run()
    before = world.trials()
    world.task["scorers"] = [{"exact": {"ignore_case": True}}]
    said = world.refused()
    assert "holdfast rescore r --config" in said
    told = world("rescore", "r", "--config", world.write(), code=0)
    assert "Scoring 2 answers (exact 2); the model under test is not called." in told.err
    assert "Complete: 2 of 2 trials." in told.out
    assert world.trials() == before
    assert world.status()["calls"]["made"] == 2
    (old,) = versions(world)
    assert values(world) == {"s1": 1.0, "s2": 1.0} and values(world, old) == {"s1": 0.0, "s2": 1.0}
    metrics = world.report()["tasks"]["t"]["m"]["metrics"]
    assert metrics["exact"]["accuracy"]["value"] == 1.0 and metrics[old]["accuracy"]["value"] == 0.5
    check_sound(world)
    assert "nothing to score" in world("rescore", "r", code=0).out
    assert world.resume(code=0).code == 0


def test_answers_of_a_model_that_is_left_out_are_not_scored(world):
    """They are kept, and nobody pays a judge for them; a resume would score them, and it is said."""
    world.data["models"]["n"] = dict(world.model)
    world.run()
    del world.data["models"]["n"]
    world.task["scorers"] = [{"exact": {"ignore_case": True}}]
    told = world("rescore", "r", "--config", world.write(), code=0)
    assert "Scoring 4 answers (exact 4); the model under test is not called." in told.err
    assert "Not scored: 4 answers of models or tasks that the eval leaves out; `holdfast resume`" in told.err
    status = world.status()
    assert (status["finished"], status["remaining_by_reason"]) == (4, {"not scored": 4})
    check_sound(world)
    again = world("rescore", "r", "--config", world.write())
    told = " ".join((again.out + again.err).split())
    assert (
        "all selected answers have their scores, except for 4 answers of models or tasks that the eval leaves out"
        in told
    )
    world("resume", "r", code=0)
    assert world.status()["state"] == "complete" and world.status()["calls"]["made"] == 8


def test_a_dry_run_of_a_rescored_run_adds_no_scorer(world):
    """Its newest scores are those of the eval, as a resume finds them."""
    world.run()
    world.task["scorers"] = [{"exact": {"ignore_case": True}}]
    world("rescore", "r", "--config", world.write(), code=0)
    told = world("run", world.write(), "--run-dir", "r", "--or-resume", "--dry-run", code=0)
    assert "Added" not in told.out and "Nothing would be run" in told.out


def test_a_scorer_that_is_changed_back_finds_its_scores(world):
    """Nothing is scored a third time; the report has the first version under its plain name again."""
    world.run()
    first = values(world)
    for ignore_case in (True, False):
        world.task["scorers"] = [{"exact": {"ignore_case": ignore_case}}]
        told = world("rescore", "r", "--config", world.write(), code=0)
    assert "Nothing to score: all selected answers have the scores of these scorers." in told.err
    assert values(world) == first and len(versions(world)) == 1
    assert len(world.records("score")) == 8
    check_sound(world)


def test_resume_23_changed_code_of_a_scorer(world):
    """Its code is part of its version; the solver's code is not touched, and its change is still refused."""
    code = world.directory / "own.py"
    code.write_text(SCORER)
    world.task["scorers"] = ["own.py:strict"]
    world.run()
    code.write_text(LOOSE)
    assert "holdfast rescore r" in world.refused(given=False)
    world("rescore", "r", code=0)
    assert values(world, "strict") == {"s1": 1.0, "s2": 1.0, "s3": 0.0, "s4": 1.0}
    assert len(versions(world)) == 1
    world.task["prompt"] = "Please: {question}"
    before = world.everything()
    assert "tasks.t.prompt (identity)" in world("rescore", "r", "--config", world.write(), code=3).err
    assert world.everything() == before
    check_sound(world)


def test_resume_18_changed_targets(world):
    """Answers are compared with the targets of now; those of before stay on record under their version."""
    world.run()
    world.rows[2]["answer"] = "q3"
    assert "the target was edited in: s3" in world.refused() and "holdfast rescore" in world.refused()
    world("rescore", "r", "--config", world.write(), code=0)
    (old,) = versions(world)
    assert values(world)["s3"] == 1.0 and values(world, old)["s3"] == 0.0
    row = next(row for row in Run.open(world.run_dir).to_dicts() if row["sample"] == "s3")
    assert row["target"] == "q3"
    check_sound(world)
    # A later change of the scorer is one under these targets.
    world.task["scorers"] = [{"exact": {"ignore_case": True}}]
    world("rescore", "r", "--config", world.write(), code=0)
    assert values(world)["s3"] == 1.0 and len(versions(world)) == 2


COUNTED = """
from pathlib import Path

def counted(answer, sample):
    with Path(__file__).with_name("scored.txt").open("a") as stream:
        stream.write(f"{sample.id}\\n")
    return answer.text == sample.target
"""


def scored(world):
    """The samples for which the scorer has been called since the last look."""
    place = world.directory / "scored.txt"
    found = sorted(place.read_text().split()) if place.exists() else []
    place.unlink(missing_ok=True)
    return found


def test_resume_18_only_edited_targets_are_scored_again_and_those_edited_back_are_found(world):
    """The other samples keep their scores in the new version; the first targets give the first version."""
    (world.directory / "own.py").write_text(COUNTED)
    world.task["scorers"] = ["own.py:counted"]
    world.run()
    assert scored(world) == ["s1", "s2", "s3", "s4"]
    first, before = values(world, "counted"), world.rows[2]["answer"]
    world.rows[2]["answer"] = "q3"
    told = world("rescore", "r", "--config", world.write(), code=0)
    assert "3 of 4 scores hold, since the targets have not changed there." in told.err
    assert scored(world) == ["s3"]
    second = values(world, "counted")
    assert second == {**first, "s3": 1.0}
    world.rows[2]["answer"] = before
    told = world("rescore", "r", "--config", world.write(), code=0)
    assert "Nothing to score" in told.err
    assert scored(world) == [] and values(world, "counted") == first
    world.rows[2]["answer"], world.rows[0]["answer"] = "q3", "other"
    world("rescore", "r", "--config", world.write(), code=0)
    assert scored(world) == ["s1"]
    assert values(world, "counted") == {**second, "s1": 0.0}
    check_sound(world)
    # A scorer that has changed too judges everything.
    (world.directory / "own.py").write_text(COUNTED.replace("return answer", "return not answer"))
    world.rows[0]["answer"] = "q1"
    world("rescore", "r", "--config", world.write(), code=0)
    assert scored(world) == ["s1", "s2", "s3", "s4"]


def test_resume_18_a_changed_template_of_targets_is_another_version_each_time(world):
    """The rows are the same, and the targets made of them are not: no score holds, and none is found again wrongly."""
    world.run()
    first = values(world)
    for template, expected in (("x{answer}", set()), ("{answer}!", set()), ("{answer}", {1.0})):
        world.task["target"] = template
        world("rescore", "r", "--config", world.write(), code=0)
        assert {value for value in values(world).values() if value} == expected
    assert values(world) == first
    assert len(versions(world)) == 2
    check_sound(world)


def test_resume_18_judges_of_samples_whose_targets_are_the_same_are_not_asked(world, server):
    """One edited target costs one call of each judge; killed and resumed, no more."""
    server.behave(reply='{"explanation": "e", "grade": "C"}')
    world.data = judged(server)
    world.task["prompt"] = "{question}"
    world.run()
    assert asked(world) == {"a": 4, "b": 4}
    paid = world.report()["by_model"]["a"]["usage"]["output_tokens"]
    world.rows[2]["answer"] = "edited"
    world("rescore", "r", "--config", world.write(), "--where", "judge=a", code=0)
    assert asked(world) == {"a": 5, "b": 4}
    world("resume", "r", code=0)
    assert asked(world) == {"a": 5, "b": 5}
    assert world.status()["state"] == "complete"
    # What was taken over is not paid for a second time.
    assert world.report()["by_model"]["a"]["usage"]["output_tokens"] == paid * 5 // 4
    check_sound(world)


def test_experiments_12_only_matching_scores(world):
    """With a prompt variant and a scorer named: just those are scored; the rest remains and is scored by resume."""
    world.task["prompt"] = {"plain": "{question}", "polite": "Please: {question}"}
    world.task["scorers"] = ["exact", "includes"]
    world.run()
    world.task["scorers"] = [{"exact": {"ignore_case": True}}, {"includes": {"ignore_case": True}}]
    given = ("rescore", "r", "--config", world.write(), "--where", "prompt=polite and scorer=includes")
    told = world(*given, code=0)
    assert "Scoring 4 answers (includes 4)" in told.err
    rows = Run.open(world.run_dir).to_dicts()
    assert {row["axes"]["prompt"] for row in rows if "includes" in row["scores"]} == {"polite"}
    assert not any("exact" in row["scores"] for row in rows)
    status = world.json("status", "r", code=0)
    assert status["state"] == "incomplete" and status["remaining_by_reason"] == {"not scored": 8}
    check_sound(world)
    assert "matches no score" in world("rescore", "r", "--where", "scorer=regex", code=2).err
    assert world("resume", "r", code=0).out.count("Complete: 8 of 8 trials.") == 1
    assert status["calls"]["made"] == world.status()["calls"]["made"] == 8
    check_sound(world)


def test_answers_only(world):
    """Of an unfinished run the answers are scored; what was not started is left alone and named."""
    world.task["limit"] = 2
    world.run()
    world.task["limit"] = 4
    world.task["scorers"] = [{"exact": {"ignore_case": True}}]
    told = world("rescore", "r", "--config", world.write(), code=0)
    assert "Added: 2 trials, 4 in all" in told.err and "`holdfast resume` runs them" in told.err
    status = world.json("status", "r", code=0)
    assert (status["calls"]["made"], status["valid"], status["not_started"]) == (2, 2, 2)
    world("resume", "r", code=0)
    assert set(values(world).values()) == {0.0, 1.0} and None not in values(world).values()
    check_sound(world)


def test_a_scorer_that_failed_is_mended(world):
    """Answers whose scorer raised are scored by the mended one; the model is not asked again."""
    code = world.directory / "own.py"
    code.write_text(SCORER.replace("answer.text == sample.target", "1 / 0"))
    world.task["scorers"] = ["own.py:strict"]
    world.run("--set", "max_retries=0", code=1)
    code.write_text(SCORER)
    world("rescore", "r", code=0)
    status = world.status()
    assert status["state"] == "complete" and status["calls"]["made"] == 4
    assert values(world, "strict")["s1"] == 1.0
    check_sound(world)


def test_a_fork_of_a_rescored_run_keeps_the_newest_scores(world):
    """The plain name of the new run is the newest version of the old one."""
    world.rows = [{"id": "s1", "question": "Q1", "answer": "q1"}]
    world.run()
    world.task["scorers"] = [{"exact": {"ignore_case": True}}]
    world("rescore", "r", "--config", world.write(), code=0)
    told = world("fork", "r", "--run-dir", "f", "--config", world.write(), code=0)
    assert "1 kept" in told.out
    (row,) = Run.open(world.directory / "f").to_dicts()
    assert row["scores"] == {"exact": 1.0}
    assert world.json("verify", "f", code=0)["ok"]


def test_rescore_in_python(tmp_path, monkeypatch):
    """Tasks that exist in a process are scored again with their new scorers."""
    monkeypatch.chdir(tmp_path)

    def long(answer, sample):
        return len(answer.text) > 3

    def task(*scorers):
        return Task(samples=[Sample("abc", target="abc", id="a")], solver=generate(), scorers=list(scorers), name="t")

    evaluate(task("exact"), ["scripted/echo"], run="r")
    run = rescore("r", tasks=task("exact", long))
    assert run.is_complete and run.to_dicts()[0]["scores"] == {"exact": 1.0, "long": 0.0}
    with pytest.raises(UsageError, match="where"):
        rescore(run, where="nosuch=1", tasks=task("exact", long))
    with pytest.raises(ResumeAborted, match="identity"):
        rescore(run, tasks=task("exact", long), set={"seed": 7})


def test_bad_words(world):
    """Nothing is written for an expression that is wrong, a setting that is refused, or a run that does not exist."""
    world.run()
    before = world("cat", "r").out, world.config
    for words, code in (
        (("--where", "judg=b"), 2),
        (("--set", "tasks.t.prompt=x"), 3),
        (("--set", "nosuch=1"), 2),
        (("--config", "gone.yaml"), 2),
    ):
        assert world("rescore", "r", *words).code == code
    assert world("rescore", "nosuch", code=2).out == ""
    assert (world("cat", "r").out, world.config) == before


def judged(server):
    """An eval with two judges at a counting server, and two prompts."""
    judge = {"provider": "openai", "base_url": server.base_url}
    return {
        "models": {
            "m": {"provider": "scripted", "model": "echo"},
            "a": {**judge, "model": "ja"},
            "b": {**judge, "model": "jb"},
        },
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {
            "t": {
                "dataset": "rows",
                "prompt": {"plain": "{question}", "polite": "Please: {question}"},
                "target": "{answer}",
                "scorers": [{"model_graded": {"name": "quality", "models": ["a", "b"]}}],
            }
        },
    }


def asked(world):
    """How often each judge has replied."""
    steps = [step for step in world.records("step") if step.get("role") == "judge" and "error" not in step]
    return {name: sum(step["model"] == name for step in steps) for name in ("a", "b")}


def test_experiments_12_a_new_rubric_for_one_judge_and_one_prompt(world, server):
    """`judge=b` and a prompt variant: just those slots are asked; the model under test is not called."""
    server.behave(reply='{"explanation": "e", "grade": "C"}')
    world.data = judged(server)
    world.run()
    assert asked(world) == {"a": 8, "b": 8}
    quality = world.task["scorers"][0]["model_graded"]
    quality["criterion"] = "Be strict."
    assert "holdfast rescore r --config" in world.refused()
    told = world("rescore", "r", "--config", world.write(), "--where", "prompt=polite and judge=b", code=0)
    assert "Scoring 4 answers (quality/b 4)" in told.err
    assert told.err.count("tasks.t.scorers.quality") == 1
    assert asked(world) == {"a": 8, "b": 12}
    world("rescore", "r", code=0)
    assert asked(world) == {"a": 16, "b": 16}
    assert len([name for name in versions(world) if name.startswith("quality/")]) == 2
    assert world.status()["state"] == "complete"
    check_sound(world)


def test_resume_18_another_judge_behind_a_name(world, server):
    """A judge whose model is another is asked anew; the other judge and the panel's rule cost nothing."""
    server.behave(reply='{"explanation": "e", "grade": "C"}')
    world.data = judged(server)
    world.run()
    world.data["models"]["b"]["generation"] = {"temperature": 0.5}
    assert "models.b.generation.temperature (scoring)" in world.refused()
    world("rescore", "r", "--config", world.write(), code=0)
    assert asked(world) == {"a": 8, "b": 16}
    world.task["scorers"][0]["model_graded"]["combine"] = "majority"
    world.resume(code=0)
    assert asked(world) == {"a": 8, "b": 16}
    # The model under test stays what it is.
    world.data["models"]["m"]["generation"] = {"temperature": 0.5}
    assert "models.m.generation.temperature (identity)" in world("rescore", "r", "--config", world.write(), code=3).err
    check_sound(world)


def test_resume_18_another_model_behind_a_judge(world, server):
    """The model that a judge is now is asked, whatever name its server reports; replies of the old one are not its."""
    server.behave(reply='{"explanation": "e", "grade": "C"}', model="jb")
    world.data = judged(server)
    world.task["prompt"] = "{question}"
    world.run()
    world.data["models"]["b"]["model"] = "jb-new"
    server.behave(reply='{"explanation": "e", "grade": "I"}', model="jb-new")
    world("rescore", "r", "--config", world.write(), "--where", "sample=s1 and judge=b", code=0)
    assert asked(world) == {"a": 4, "b": 5}
    # Neither a fork nor --reuse takes a reply of the old judge for one of the new.
    world("fork", "r", "--run-dir", "f", code=0)
    world("resume", "f", code=0)
    report = world.json("report", "f", code=0)["tasks"]["t"]["m"]["metrics"]
    assert report["quality/b"]["accuracy"]["value"] == 0.0 and report["quality/a"]["accuracy"]["value"] == 1.0
    world("run", world.write(), "--run-dir", "n", "--reuse", "r", code=0)
    report = world.json("report", "n", code=0)["tasks"]["t"]["m"]["metrics"]
    assert report["quality/b"]["accuracy"]["value"] == 0.0
    world("resume", "r", code=0)
    assert asked(world) == {"a": 4, "b": 8}
    check_sound(world)


def test_answers_whose_judge_was_down_are_scored(world, server):
    """They have their answers: a new criterion is applied to them as to all others."""
    server.behave(reply='{"explanation": "e", "grade": "C"}')
    world.data = judged(server)
    world.task["prompt"] = "{question}"
    world.data["models"]["b"]["base_url"] = "http://127.0.0.1:9/v1"
    world.data["runner"] = {"retry_deadline": 0.5}
    world.run(code=1)
    assert set(world.status()["remaining_by_reason"]) == {"no reply (score: quality/b)"}
    world.data["models"]["b"]["base_url"] = server.base_url
    world.task["scorers"][0]["model_graded"]["criterion"] = "Be strict."
    told = world("rescore", "r", "--config", world.write(), code=0)
    assert "Scoring 4 answers (quality/a 4, quality/b 4)" in told.err
    assert world.status()["state"] == "complete" and asked(world) == {"a": 8, "b": 4}
    check_sound(world)


def test_earlier_versions_keep_their_metric(world, server):
    """A version is named by its own scores: a mean stays a mean, an accuracy an accuracy."""
    world.run()
    code = world.directory / "own.py"
    code.write_text("def exact(answer, sample):\n    return 0.5\n")
    world.task["scorers"] = ["own.py:exact"]
    world("rescore", "r", "--config", world.write(), code=0)
    metrics = world.report()["tasks"]["t"]["m"]["metrics"]
    (old,) = versions(world)
    assert list(metrics["exact"]) == ["mean"] and list(metrics[old]) == ["accuracy"]


def test_a_rename_is_not_offered_to_rescore(world):
    """The ways out are commands that work: a renamed scorer is refused by rescore too, so it is not named."""
    world.task["scorers"] = [{"exact": {"name": "one"}}]
    world.run()
    world.task["scorers"] = [{"exact": {"name": "two"}}]
    said = world.refused()
    assert "holdfast rescore" not in said.partition("Ways out")[2]


KILLED = """
import asyncio
async def slow(answer, sample, scope):
    reply = await scope.generate("Judge " + answer.text, model="j")
    return float(len(reply.text))
"""


def test_a_killed_rescore_continues(server, holdfast, tmp_path):
    """SIGKILL in the middle: judged answers stay judged, calls in flight alone may be made again."""
    (tmp_path / "own.py").write_text(KILLED)
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in make_rows(12)))
    data = {
        "concurrency_limit": 2,
        "models": {
            "m": {"provider": "scripted", "model": "echo"},
            "j": {"provider": "openai", "model": "j", "base_url": server.base_url, "api_key_env": "HOME"},
        },
        "datasets": {"rows": {"path": "rows.jsonl"}},
        "tasks": {
            "t": {
                "dataset": "rows",
                "prompt": "{question}",
                "target": "{answer}",
                "models": ["m"],
                "scorers": ["exact"],
            }
        },
    }
    (tmp_path / "eval.yaml").write_text(json.dumps(data))
    assert holdfast("run", "eval.yaml", "--run-dir", "r").code == 0
    data["tasks"]["t"]["scorers"] = ["exact", "own.py:slow"]
    (tmp_path / "eval.yaml").write_text(json.dumps(data))
    server.behave(hold=True, **{"pass": 5})
    process = holdfast.start("rescore", "r", "--config", "eval.yaml")
    server.wait_for(received=7)
    process.send(signal.SIGKILL)
    assert process.wait().code == -signal.SIGKILL
    server.behave()
    assert holdfast("rescore", "r").code == 0
    assert max(server.worked_on().values()) <= 2 and sum(server.worked_on().values()) <= 12 + 2
    status = json.loads(holdfast("status", "r", "--json").out)
    assert status["state"] == "complete" and status["valid"] == 12
    assert json.loads(holdfast("verify", "r", "--json").out)["ok"]
