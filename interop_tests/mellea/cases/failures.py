"""Errors, and what is chosen when no candidate is valid."""

import asyncio

from backend import FakeBackend
from mellea.stdlib.context import ChatContext
from rig import error_of, lane_of, logged, need, others_first, outline, said, sample, shows, unmet
from sides import sampling


def choosing(index):
    """A strategy that chooses this index of the failed."""

    class Choosing(sampling.RejectionSamplingStrategy):
        @staticmethod
        def select_from_failure(sampled_actions, sampled_results, sampled_val):
            return index

    return Choosing


@shows({"index": 0, "success": False, "values": ["a", "b", "c"], "passed": [[False], [False], [False]]})
async def rejection_chooses_the_first():
    """Of failed candidates, rejection chooses the first."""
    return outline(await sample(sampling.RejectionSamplingStrategy(loop_budget=3), said("a", "b", "c"), [unmet()]))


@shows({"index": 0, "success": False, "values": ["a", "b"], "passed": [[False], [False]]})
async def repair_template_chooses_the_first():
    """So does the template's repair."""
    return outline(await sample(sampling.RepairTemplateStrategy(loop_budget=2), said("a", "b"), [unmet()]))


@shows(["c", {"index": -1, "success": False, "values": ["a", "b", "c"], "passed": [[False], [False], [False]]}])
async def multi_turn_chooses_the_last():
    """Multi-turn chooses the last, which has been told the most."""
    strategy = sampling.MultiTurnStrategy(loop_budget=3)
    result = await sample(strategy, said("a", "b", "c"), [unmet()], context=ChatContext())
    return [result.value, outline(result)]


@shows(["0.2", False])
async def multi_turn_of_lanes_chooses_the_deepest():
    """With lanes, multi-turn chooses the deepest turn: not the last to arrive, of a lane that then failed."""
    lane_0_is_done = asyncio.Event()

    async def reply(call):
        lane, turn = lane_of(call, 3)
        if lane == 1 and turn == 1:
            raise ConnectionError("gone")
        if lane == 1:
            await lane_0_is_done.wait()
            await others_first()
        if lane == 0 and turn == 2:
            lane_0_is_done.set()
        return f"{lane}.{turn}"

    strategy = sampling.MultiTurnStrategy(loop_budget=3, concurrency_budget=2)
    result = await sample(strategy, FakeBackend(reply), [unmet()], context=ChatContext())
    return [result.value, result.success]


@shows(["b", 1])
async def subclass_chooses():
    """A subclass may choose any of the failed."""
    result = await sample(choosing(1)(loop_budget=3), said("a", "b", "c"), [unmet()])
    return [result.value, result.result_index]


@shows([["ValueError", True, True], ["ValueError", True, True]])
async def choice_out_of_range():
    """An index that is out of range is an error that names the method and the index."""
    shown = []
    for index in (7, -4):
        error = await error_of(sample(choosing(index)(loop_budget=3), said("a"), [unmet()]))
        shown.append([type(error).__name__, "select_from_failure" in str(error), str(index) in str(error)])
    return shown


@shows(["ValueError", True])
async def choice_that_is_no_index():
    """What is no whole number is such an error, too."""
    error = await error_of(sample(choosing("b")(loop_budget=2), said("a"), [unmet()]))
    return [type(error).__name__, "select_from_failure" in str(error)]


@shows([True, 1])
async def backend_error_in_one_lane():
    """With one lane, the backend's very exception is raised."""
    gone = ConnectionError("gone")
    backend = said(gone)
    error = await error_of(sample(sampling.RejectionSamplingStrategy(loop_budget=3), backend, [unmet()]))
    return [error is gone, len(backend.calls)]


@shows("ConnectionError")
async def backend_error_after_a_failed_turn():
    """An error after a failed turn is raised: the budget was not exhausted."""
    backend = said("no", ConnectionError("gone"))
    error = await error_of(sample(sampling.RejectionSamplingStrategy(loop_budget=3), backend, [unmet()]))
    return type(error).__name__


@shows([True, True])
async def all_lanes_fail():
    """When every lane has an error, the first lane's is raised, and it mentions the others."""
    errors = [ConnectionError("gone 0"), ConnectionError("gone 1"), ConnectionError("gone 2")]

    def reply(call):
        raise errors[call.iteration - 1]

    strategy = sampling.RejectionSamplingStrategy(concurrency_budget=3)
    error = await error_of(sample(strategy, FakeBackend(reply), [unmet()]))
    notes = " ".join(getattr(error, "__notes__", []))
    return [error is errors[0], "gone 1" in notes and "gone 2" in notes]


@shows([True, "lane 1", 1, ["lane 1"]])
async def error_of_a_lane_beside_a_success():
    """An error of one lane does not spoil the success of another; it is logged once."""
    lane_0_has_failed = asyncio.Event()

    async def reply(call):
        if call.iteration == 1:
            lane_0_has_failed.set()
            raise ConnectionError("gone")
        await lane_0_has_failed.wait()
        await others_first()
        return "lane 1"

    strategy = sampling.RejectionSamplingStrategy(concurrency_budget=2)
    with logged() as records:
        result = await sample(strategy, FakeBackend(reply), [need("lane")])
    about = [record for record in records if "gone" in record.getMessage()]
    return [result.success, result.value, len(about), outline(result)["values"]]


@shows([False, ["1.0", "1.1"], 1])
async def error_of_a_lane_beside_failures():
    """An error of one lane beside failed candidates of another is a failure, and it is logged."""

    def reply(call):
        lane, turn = lane_of(call, 2)
        if lane == 0:
            raise ConnectionError("gone")
        return f"{lane}.{turn}"

    strategy = sampling.RejectionSamplingStrategy(loop_budget=2, concurrency_budget=2)
    with logged() as records:
        result = await sample(strategy, FakeBackend(reply), [unmet()])
    about = [record for record in records if "gone" in record.getMessage()]
    return [result.success, outline(result)["values"], len(about)]
