"""`response_schema`: solvers and scorers ask for structured output in one keyword, and the reply is durable as any."""

from __future__ import annotations

import asyncio

import pytest

from engine.rig import Actor, Rig, simple_task
from engine.test_score_slots import judged_task
from holdfast import Reply, Usage, generate, sample, scorer
from holdfast.engine.events import Note
from holdfast.errors import ConfigurationError
from holdfast.run.core.records import REPLY_NOTE, NoteRecord, StepRecord
from holdfast.sampling import Rejection

SCHEMA = {"type": "object", "properties": {"grade": {"type": "integer"}}, "required": ["grade"]}


class Recording(Actor):
    """Notes what it is asked; `takes` is what it says about schemas."""

    def __init__(self, takes: bool | None = True, text: str = "Q0") -> None:  # noqa: FBT001, FBT002 - a test's own
        if takes is not None:
            self.takes_response_schema = takes

        async def behave(request, number):
            return Reply(text, "stop", Usage(1, 1))

        super().__init__(behave)


async def ask_with_schema(trial):
    return await trial.generate(trial.sample.input, response_schema=SCHEMA, temperature=0)


def notes(rig: Rig) -> list[str]:
    return [note.text for note in rig.records(NoteRecord) if note.kind == REPLY_NOTE]


def test_a_solver_gives_a_schema(tmp_path):
    """It reaches the provider beside the generation, is on record, and a later session replays the reply."""
    model = Recording()
    rig = Rig(tmp_path / "r", simple_task(1, ask_with_schema), {"m": model})
    assert rig.session().ended.exit_code == 0
    (asked,) = model.requests
    assert asked.response_schema == SCHEMA
    assert asked.generation.temperature == 0
    (step,) = rig.records(StepRecord)
    assert step.request["response_schema"] == SCHEMA
    assert step.request["generation"] == {"temperature": 0.0}
    assert notes(rig) == []


def test_a_request_without_a_schema_is_recorded_as_before(tmp_path):
    """None is the same as none."""

    async def solve(trial):
        return await trial.generate(trial.sample.input, response_schema=None)

    rig = Rig(tmp_path / "r", simple_task(1, solve), {"m": Recording()})
    rig.session()
    (step,) = rig.records(StepRecord)
    assert set(step.request) == {"messages"}


@pytest.mark.parametrize("takes", [None, False])
def test_a_provider_without_schemas_is_named_once(tmp_path, takes):
    """The reply is any text, one note for the model says so, and the ledger counts the replies."""
    rig = Rig(tmp_path / "r", simple_task(5, ask_with_schema), {"m": Recording(takes)})
    session = rig.session()
    assert session.ended.exit_code == 0
    assert notes(rig) == ["m: Its provider does not send a response_schema: replies may not fit it."]
    assert len(session.of(Note)) == 1


def test_a_scorer_gives_a_schema_to_a_judge(tmp_path):
    """By the same keyword, in the scope and in a named scope below it."""
    judge = Recording()

    @scorer(name="judged")
    async def judged(answer, sample, scope):
        await scope.generate("Grade it.", model="judge", response_schema=SCHEMA)
        reply = await scope.scope("again").generate("Grade it.", model="judge", response_schema={"type": "string"})
        return reply.text == "Q0"

    rig = Rig(tmp_path / "r", judged_task(judged), {"m": Recording(), "judge": judge})
    rig.session()
    asked = [request.response_schema for request in judge.requests if request.messages[0].text == "Grade it."]
    assert SCHEMA in asked
    assert {"type": "string"} in asked


def test_a_sampling_and_the_usual_solver_take_a_schema(tmp_path):
    """Every candidate is drawn with it."""

    async def solve(trial):
        return await trial.generate(trial.sample.input, strategy=Rejection(loop_budget=1), response_schema=SCHEMA)

    model = Recording()
    Rig(tmp_path / "r", simple_task(1, solve), {"m": model}).session()
    Rig(tmp_path / "s", simple_task(1, generate(response_schema=SCHEMA)), {"m": model}).session()
    asyncio.run(sample(model, "q", response_schema=SCHEMA))
    assert [asked.response_schema for asked in model.requests] == [SCHEMA] * 3


@pytest.mark.parametrize("wrong", [[1], "object", {1: 2}, {"a": object()}], ids=["list", "text", "key", "value"])
def test_what_is_no_schema_is_refused(wrong):
    """Before anything is sent, and in a sentence."""
    with pytest.raises(ConfigurationError, match="response_schema"):
        generate(response_schema=wrong)
    with pytest.raises(ConfigurationError, match="response_schema"):
        asyncio.run(sample(Recording(), "q", response_schema=wrong))
