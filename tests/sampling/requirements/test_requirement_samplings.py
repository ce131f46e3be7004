"""Built-in requirements inside a sampling: repair, judges, errors and hooks."""

import asyncio

import pytest

from holdfast.api.sample import sample
from holdfast.models.errors import Rejected
from holdfast.models.message import Reply, Usage
from holdfast.sampling.candidate import CandidateStatus
from holdfast.sampling.hooks import Changes, SamplingHook
from holdfast.sampling.requirements import VerdictKind, judge, length, regex
from holdfast.sampling.strategies.best_of_n import BestOfN
from holdfast.sampling.strategies.repair import Rejection, Repair


class Saying:
    """A provider that says one thing after another."""

    def __init__(self, *said):
        self.said, self.requests = list(said), []

    async def send(self, request):
        self.requests.append(request)
        said = self.said.pop(0)
        if isinstance(said, Exception):
            raise said
        return Reply(said, "stop", Usage(10, 5))

    async def close(self):
        """Nothing is held."""


def sampled(model, **options):
    return asyncio.run(sample(model, "Say it.", **options))


def test_the_model_is_told_what_was_wrong():
    """A built-in, a function and a short form, in one call; the reasons are in the next request."""

    def is_polite(text):
        return "please" in text or "Say please."

    model = Saying("no", "Yes, please")
    result = sampled(
        model, requirements=[regex("^[A-Z]"), is_polite, {"length": {"max": 20}}], strategy=Repair(loop_budget=2)
    )
    assert result.success and result.text == "Yes, please"
    told = model.requests[1].messages[-1].text
    assert 'contains no match of the regular expression "^[A-Z]"' in told and "* Say please." in told
    assert [verdict.requirement for verdict in result.chosen.verdicts] == ["regex", "is_polite", "length"]


def test_what_is_checked_only_and_what_could_not_be_checked_is_not_told():
    """Row 9: a judge without a verdict makes no reason that the model could act on."""
    model, strict = Saying("no", "no"), Saying("?", "?", "?", "?")
    requirements = [regex("secret", check_only=True), judge(model="strict", criterion="good")]
    result = sampled(model, requirements=requirements, strategy=Repair(loop_budget=2), models={"strict": strict})
    assert not result.success
    assert model.requests[1].messages == model.requests[0].messages
    assert [verdict.kind for verdict in result.chosen.verdicts] == [VerdictKind.FAILED, VerdictKind.ERROR]


def test_a_judge_decides():
    strict = Saying('{"explanation": "rude", "met": false}', '{"explanation": "fine", "met": true}')
    model = Saying("Go away", "Hello")
    polite = judge(model="strict", criterion="It is polite.")
    result = sampled(model, strategy=Repair(loop_budget=2, requirements=[polite]), models={"strict": strict})
    assert result.success and result.text == "Hello"
    assert "* rude" in model.requests[1].messages[-1].text
    assert result.chosen.judging == Usage(10, 5)


def test_errors_of_validators_and_of_judges_are_told_apart():
    """Row 9: a validator's own exception, a judge that fails and an unmet requirement are three things."""

    def broken(text):
        raise LookupError("oops")

    with pytest.raises(LookupError, match="oops"):
        sampled(Saying("x"), requirements=[broken])
    down = judge(model="strict", criterion="good")
    with pytest.raises(Rejected):
        sampled(Saying("x"), requirements=[down], models={"strict": Saying(Rejected("no such model"))})
    result = sampled(Saying("x"), requirements=[length(min=2)])
    assert [candidate.status for candidate in result.candidates] == [CandidateStatus.INVALID]


def test_a_hook_adds_one_that_nobody_named():
    """Row 17: one without an id of its own is enforced beside the one that is there."""

    class Adds(SamplingHook):
        def start(self, event):  # noqa: ARG002 - of the interface
            return Changes(requirements=[regex("b"), regex("c")])

    strategy = Rejection(requirements=[regex("a")], hooks=[Adds()])
    result = sampled(Saying("a b"), strategy=strategy)
    found = {verdict.requirement: verdict.is_passed for verdict in result.candidates[0].verdicts}
    assert found == {"regex": True, "regex-2": True, "regex-3": False}


def test_a_judge_scores_for_the_best_of_several():
    strict = Saying('{"score": 0.2}', '{"score": 0.9}', '{"met": false}')
    strategy = BestOfN(loop_budget=3, scorer=judge(model="strict", criterion="good", scored=True))
    result = sampled(Saying("a", "b", "c"), strategy=strategy, models={"strict": strict})
    assert result.text == "b"
    assert [candidate.score for candidate in result.candidates] == [0.2, 0.9, 0.0]


def test_the_validation_context_reaches_the_function_as_it_is():
    """Row 18."""
    context, seen = object(), []

    def looks(text, context):
        seen.append(context)
        return True

    sampled(Saying("x"), requirements=[looks], validation_context=context)
    assert seen == [context] and seen[0] is context
