"""What a call may set, and what of it reaches the backend."""

from backend import FakeBackend
from mellea.core import Requirement
from pydantic import BaseModel
from rig import error_of, need, said, sample, shows
from sides import sampling


class Form(BaseModel):
    """A format for structured output."""

    word: str


@shows([{"temperature": 0.5}, {"temperature": 0.5}])
async def model_options_reach_every_call():
    """Model options go to each candidate's call as they are."""
    backend = said("no")
    strategy = sampling.RejectionSamplingStrategy(loop_budget=2)
    await sample(strategy, backend, [need("yes")], model_options={"temperature": 0.5})
    return [call.options for call in backend.calls]


@shows([[False, {"seed": 1}], [True, {"seed": 1}]])
async def model_options_reach_judges():
    """Model options go to the calls that judge, too."""
    backend = FakeBackend(lambda call: "yes" if call.is_judging else "reply")
    strategy = sampling.RejectionSamplingStrategy()
    await sample(strategy, backend, [Requirement("needs taste")], model_options={"seed": 1})
    return [[call.is_judging, call.options] for call in backend.calls]


@shows([["Form", False], ["None", True]])
async def output_format_is_for_candidates():
    """The output format applies to candidates, not to judges."""
    backend = FakeBackend(lambda call: "yes" if call.is_judging else "reply")
    await sample(sampling.RejectionSamplingStrategy(), backend, [Requirement("needs taste")], format=Form)
    return [[getattr(call.format, "__name__", "None"), call.is_judging] for call in backend.calls]


@shows([[True, False], [False, True]])
async def tool_calls_are_for_candidates():
    """Tools are offered to candidates, not to judges."""
    backend = FakeBackend(lambda call: "yes" if call.is_judging else "reply")
    await sample(sampling.RejectionSamplingStrategy(), backend, [Requirement("needs taste")], tool_calls=True)
    return [[call.tool_calls, call.is_judging] for call in backend.calls]


@shows(["ValueError", "ValueError", "ValueError"])
async def budgets_below_one():
    """A budget below 1 is refused where the strategy is made."""
    made = [{"loop_budget": 0}, {"loop_budget": -1}, {"concurrency_budget": 0}]
    return [type(await error_of(_make(**budgets))).__name__ for budgets in made]


@shows(["ValueError", "ValueError"])
async def budgets_that_are_no_whole_numbers():
    """So is one that is not a whole number."""
    return [type(await error_of(_make(loop_budget=value))).__name__ for value in (1.5, True)]


@shows([1, 1, None])
async def defaults():
    """One turn, one lane, no requirements of its own."""
    strategy = sampling.RejectionSamplingStrategy()
    return [strategy.loop_budget, strategy.concurrency_budget, strategy.requirements]


@shows(2)
async def budget_changed_after_making():
    """The budget that counts is the one that the strategy has when it samples."""
    strategy = sampling.RejectionSamplingStrategy()
    strategy.loop_budget = 2
    backend = said("no")
    await sample(strategy, backend, [need("yes")])
    return len(backend.calls)


async def _make(**budgets):
    return sampling.RejectionSamplingStrategy(**budgets)
