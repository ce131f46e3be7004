"""The four hooks of a sampling: when each is called, and with what. Iterations count from 1."""

import asyncio

from backend import FakeBackend
from mellea.plugins import HookType, block, hook, modify, plugin_scope
from mellea.stdlib.components import Instruction
from mellea.stdlib.context import ChatContext
from mellea.telemetry.context import get_sampling_iteration
from rig import error_of, lane_of, need, said, sample, shows, unmet, watching
from sides import sampling


@shows(["start", "iteration", "repair", "iteration", "end"])
async def order_in_one_lane():
    """Start, then iteration and repair in turn, then end."""
    with watching() as seen:
        await sample(sampling.RejectionSamplingStrategy(loop_budget=2), said("no"), [unmet()])
    return seen.kinds


@shows([1, True])
async def one_id_for_all():
    """All hooks of a sampling have its id, and another sampling has another."""
    with watching() as seen:
        await sample(sampling.RejectionSamplingStrategy(loop_budget=2), said("no"), [unmet()])
        first = {payload.sampling_id for _, payload in seen.payloads}
        await sample(sampling.RejectionSamplingStrategy(), said("no"), [unmet()])
        second = {payload.sampling_id for _, payload in seen.payloads} - first
    return [len(first), len(second) == 1]


@shows(["RejectionSamplingStrategy", 3, ["unmet"], True, "ChatContext"])
async def start_payload():
    """The start has the strategy, its budget, the requirements, the action and the context."""
    action = Instruction("say")
    with watching() as seen:
        strategy = sampling.RejectionSamplingStrategy(loop_budget=3)
        await sample(strategy, said("no"), [unmet()], action=action, context=ChatContext())
    (start,) = seen.of("start")
    required = [requirement.description for requirement in start.requirements]
    is_action = start.action._description.value == "say"
    return [start.strategy_name, start.loop_budget, required, is_action, type(start.context).__name__]


@shows([1, 3])
async def start_hook_changes_the_budget():
    """The budget that a start hook sets is the one that counts, below the configured one and above."""
    counts = []
    for given in (1, 3):
        backend = said("no")
        with watching(start=lambda payload, given=given: modify(payload, loop_budget=given)):
            await sample(sampling.RejectionSamplingStrategy(loop_budget=2), backend, [unmet()])
        counts.append(len(backend.calls))
    return counts


@shows([["ValueError", True, 0, ["start", "end"]], ["ValueError", True, 0, ["start", "end"]]])
async def start_hook_sets_a_budget_below_one():
    """A budget of 0 or -1 is an error that names the hook; nothing is asked, and the end is told."""
    return [await _with_budget(0), await _with_budget(-1)]


@shows([["ValueError", True, 0, ["start", "end"]], ["ValueError", True, 0, ["start", "end"]]])
async def start_hook_sets_a_budget_that_is_no_whole_number():
    """A budget of 1.5 or True is such an error, too."""
    return [await _with_budget(1.5), await _with_budget(True)]


@shows([[1, False, 0, 1, "no"], [2, True, 1, 1, "yes"]])
async def iteration_payload():
    """Each iteration has its number, its counts, and its result."""
    with watching() as seen:
        await sample(sampling.RejectionSamplingStrategy(loop_budget=3), said("no", "yes"), [need("yes")])
    return [
        [each.iteration, each.all_validations_passed, each.valid_count, each.total_count, str(each.result)]
        for each in seen.of("iteration")
    ]


@shows([1, 2, 3, 4, 5, 6])
async def iterations_of_lanes_are_unique():
    """With lanes, iterations are numbered without a gap and without a double."""
    with watching() as seen:
        strategy = sampling.RejectionSamplingStrategy(loop_budget=2, concurrency_budget=3)
        await sample(strategy, said("no"), [unmet()])
    return sorted(each.iteration for each in seen.of("iteration"))


@shows([["1.0", 3], ["1.1", 4], ["0.0", 1], ["0.1", 2]])
async def iteration_in_one_lane_while_another_is_elsewhere():
    """A hook in one lane is given that lane's iteration, wherever the others are; telemetry agrees."""
    lane_1_is_done = asyncio.Event()
    wrong = []

    async def reply(call):
        lane, turn = lane_of(call, 2)
        if lane == 0:
            await lane_1_is_done.wait()
        return f"{lane}.{turn}"

    def note(payload):
        if payload.iteration == 4:
            lane_1_is_done.set()
        if get_sampling_iteration() != payload.iteration:
            wrong.append(payload.iteration)

    with watching(iteration=note) as seen:
        strategy = sampling.RejectionSamplingStrategy(loop_budget=2, concurrency_budget=2)
        await sample(strategy, FakeBackend(reply), [unmet()])
    return [*([str(each.result), each.iteration] for each in seen.of("iteration")), *wrong]


@shows([["unknown", 1, "no", True, 1], ["unknown", 2, "no", True, 1]])
async def repair_payload():
    """A repair has the iteration it follows, what failed, and what will be asked next."""
    with watching() as seen:
        await sample(sampling.RepairTemplateStrategy(loop_budget=3), said("no"), [unmet("too short")])
    return [
        [
            each.repair_type,
            each.repair_iteration,
            str(each.failed_result),
            "too short" in each.repair_action._repair_string,
            len(each.failed_validations),
        ]
        for each in seen.of("repair")
    ]


@shows("template")
async def repair_type_of_a_subclass():
    """A strategy that says what kind of repair it makes is believed."""

    class Named(sampling.RepairTemplateStrategy):
        def _get_repair_type(self):
            return "template"

    with watching() as seen:
        await sample(Named(loop_budget=2), said("no"), [unmet()])
    return seen.of("repair")[0].repair_type


@shows([0, 2, 4])
async def repairs_are_one_less_than_turns():
    """There is no repair after the last turn of a lane, nor after a success."""
    counts = []
    for budgets, requirement in (((3, 1), need("x")), ((3, 1), unmet()), ((3, 2), unmet())):
        with watching() as seen:
            strategy = sampling.RejectionSamplingStrategy(loop_budget=budgets[0], concurrency_budget=budgets[1])
            await sample(strategy, said("x"), [requirement])
        counts.append(len(seen.of("repair")))
    return counts


@shows([True, 2, "yes", True, None, ["no", "yes"], 2, "NoneType"])
async def end_payload_of_a_success():
    """The end of a success has the result, its action and context, and everything drawn."""
    with watching() as seen:
        await sample(sampling.RejectionSamplingStrategy(loop_budget=3), said("no", "yes"), [need("yes")])
    (end,) = seen.of("end")
    drawn = [str(result) for result in end.all_results]
    has_place = end.final_action is not None and end.final_context is not None
    error = type(end.exception).__name__
    return [end.success, end.iterations_used, str(end.final_result), has_place, end.failure_reason, drawn, 2, error]


@shows([False, 2, "Budget exhausted after 2 iterations", "no", 2])
async def end_payload_of_a_failure():
    """The end of a failure says why, and has the candidate that was chosen all the same."""
    with watching() as seen:
        await sample(sampling.RejectionSamplingStrategy(loop_budget=2), said("no"), [unmet()])
    (end,) = seen.of("end")
    return [end.success, end.iterations_used, end.failure_reason, str(end.final_result), len(end.all_validations)]


@shows([False, True, True])
async def end_payload_of_a_failure_beside_an_error():
    """The end of a failure beside an error of another lane names both."""

    def reply(call):
        if call.iteration == 1:
            raise ConnectionError("gone")
        return "no"

    with watching() as seen:
        strategy = sampling.RejectionSamplingStrategy(concurrency_budget=2)
        await sample(strategy, FakeBackend(reply), [unmet()])
    (end,) = seen.of("end")
    return [end.success, "Budget exhausted after 1 iterations" in end.failure_reason, "gone" in end.failure_reason]


@shows([False, "ConnectionError", 1, ["no"]])
async def end_payload_of_an_error():
    """The end of an error has the exception, and what had been drawn before it."""
    with watching() as seen:
        strategy = sampling.RejectionSamplingStrategy(loop_budget=3)
        await error_of(sample(strategy, said("no", ConnectionError("gone")), [unmet()]))
    (end,) = seen.of("end")
    drawn = [str(result) for result in end.all_results]
    return [end.success, type(end.exception).__name__, end.iterations_used, drawn]


@shows([False, "ConnectionError"])
async def end_payload_of_an_error_at_once():
    """The end is told of an error of the very first call."""
    with watching() as seen:
        await error_of(sample(sampling.RejectionSamplingStrategy(), said(ConnectionError("gone")), [unmet()]))
    (end,) = seen.of("end")
    return [end.success, type(end.exception).__name__]


@shows([True, "NoneType", [True, "NoneType"]])
async def sampling_while_an_error_is_handled():
    """What the caller is handling while it samples is no error of the sampling."""
    checks = []

    @hook(HookType.VALIDATION_POST_CHECK)
    async def after(payload, _context):
        checks.extend([payload.all_validations_passed, type(payload.exception).__name__])

    with watching() as seen, plugin_scope(after):
        try:
            {}["the caller's"]
        except KeyError:
            result = await sample(sampling.RejectionSamplingStrategy(), said("x"), [need("x")])
    return [result.success, type(seen.of("end")[0].exception).__name__, checks]


@shows(["PluginViolationError", 0, ["start"]])
async def start_hook_blocks():
    """A start hook that blocks ends the sampling before it begins."""
    backend = said("x")
    with watching(start=lambda _payload: block("no")) as seen:
        error = await error_of(sample(sampling.RejectionSamplingStrategy(), backend))
    return [type(error).__name__, len(backend.calls), seen.kinds]


@shows(["PluginViolationError", 1])
async def iteration_hook_blocks():
    """An iteration hook that blocks ends the sampling."""
    backend = said("no")
    with watching(iteration=lambda _payload: block("no")):
        error = await error_of(sample(sampling.RejectionSamplingStrategy(loop_budget=3), backend, [unmet()]))
    return [type(error).__name__, len(backend.calls)]


@shows("PluginViolationError")
async def hook_blocks_in_one_lane():
    """A block in one lane blocks the sampling, whatever the other lanes have."""

    def judge(payload):
        return block("no") if payload.iteration == 1 else None

    backend = FakeBackend(lambda call: "lane 0" if call.iteration == 1 else "lane 1")
    with watching(iteration=judge):
        strategy = sampling.RejectionSamplingStrategy(concurrency_budget=2)
        error = await error_of(sample(strategy, backend, [unmet()]))
    return type(error).__name__


@shows(["PluginViolationError", "PluginViolationError"])
async def other_hook_blocks_in_one_lane():
    """So does a block before a generation, or before a check, of one lane."""
    shown = []
    for kind in (HookType.GENERATION_PRE_CALL, HookType.VALIDATION_PRE_CHECK):

        @hook(kind)
        async def block_lane_0(_payload, _context):
            return block("no") if get_sampling_iteration() == 1 else None

        with plugin_scope(block_lane_0):
            strategy = sampling.RejectionSamplingStrategy(concurrency_budget=2)
            error = await error_of(sample(strategy, said("x"), [unmet()]))
        shown.append(type(error).__name__)
    return shown


async def _with_budget(given):
    backend = said("no")
    with watching(start=lambda payload: modify(payload, loop_budget=given)) as seen:
        error = await error_of(sample(sampling.RejectionSamplingStrategy(loop_budget=2), backend, [unmet()]))
    return [type(error).__name__, "SAMPLING_LOOP_START" in str(error), len(backend.calls), seen.kinds]
