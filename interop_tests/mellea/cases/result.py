"""What a sampling returns: Mellea's SamplingResult, with its fields."""

from backend import FakeBackend
from mellea.core import CBlock, ComputedModelOutputThunk, SamplingResult
from mellea.stdlib import functional
from mellea.stdlib.components import Instruction
from mellea.stdlib.context import ChatContext, SimpleContext
from rig import need, outline, said, sample, shows, unmet
from sides import sampling


class Shout(Instruction):
    """An action with a parser of its own."""

    def _parse(self, computed):
        return f"{computed.value}!"


@shows({"index": 0, "success": True, "values": ["yes"], "passed": [[True]]})
async def first_candidate_is_valid():
    """A valid first candidate is the only one."""
    result = await sample(sampling.RejectionSamplingStrategy(loop_budget=3), said("yes"), [need("yes")])
    return outline(result)


@shows({"index": 1, "success": True, "values": ["no", "yes"], "passed": [[False], [True]]})
async def second_candidate_is_valid():
    """Failed candidates come before the chosen one, in the order in which they were drawn."""
    result = await sample(sampling.RejectionSamplingStrategy(loop_budget=3), said("no", "yes"), [need("yes")])
    return outline(result)


@shows({"index": 0, "success": True, "values": ["anything"], "passed": [[]]})
async def without_requirements_the_first_is_valid():
    """Nothing required: one candidate, and success."""
    return outline(await sample(sampling.RejectionSamplingStrategy(loop_budget=3), said("anything")))


@shows([True, True, "yes", 2])
async def result_type():
    """The result is Mellea's own class, and a content block with the chosen text."""
    result = await sample(sampling.RejectionSamplingStrategy(loop_budget=2), said("no", "yes"), [need("yes")])
    is_block = isinstance(result, CBlock)
    return [type(result) is SamplingResult, is_block, result.value, len(result.sample_contexts)]


@shows([True, True, True, True])
async def properties_follow_the_index():
    """`result`, `result_ctx`, `result_action` and `result_validations` are those at `result_index`."""
    result = await sample(sampling.RejectionSamplingStrategy(loop_budget=2), said("no", "yes"), [need("yes")])
    return [
        result.result is result.sample_generations[1],
        result.result_ctx is result.sample_contexts[1],
        result.result_action is result.sample_actions[1],
        result.result_validations is result.sample_validations[1],
    ]


@shows([True, True])
async def generations_are_computed():
    """Every generation is a computed thunk, failed ones too."""
    result = await sample(sampling.RejectionSamplingStrategy(loop_budget=2), said("no", "yes"), [need("yes")])
    return [isinstance(generation, ComputedModelOutputThunk) for generation in result.sample_generations]


@shows([True, ["say", "yes"]])
async def context_ends_with_the_generation():
    """The context of a candidate has its action and, last, its very thunk."""
    result = await sample(sampling.RejectionSamplingStrategy(), said("yes"), context=ChatContext())
    entries = result.result_ctx.as_list()
    return [entries[-1] is result.result, [entries[0]._description.value, str(entries[1])]]


@shows([False, True])
async def only_the_chosen_log_is_final():
    """Of all generation logs, the chosen candidate's alone is marked as final."""
    result = await sample(sampling.RejectionSamplingStrategy(loop_budget=2), said("no", "yes"), [need("yes")])
    return [generation.generate_log.is_final_result for generation in result.sample_generations]


@shows([True, False, False])
async def final_log_of_a_failure():
    """The candidate chosen on failure is marked as final as well."""
    result = await sample(sampling.RejectionSamplingStrategy(loop_budget=3), said("no"), [unmet()])
    return [generation.generate_log.is_final_result for generation in result.sample_generations]


@shows({"index": 0, "success": True, "values": ["yes"], "passed": [[]]})
async def backend_without_logs():
    """A backend that keeps no generation log can be sampled from."""
    backend = FakeBackend(lambda _call: "yes", logs=False)
    return outline(await sample(sampling.RejectionSamplingStrategy(), backend))


@shows(["no!", "yes!"])
async def replies_are_parsed_by_the_first_action():
    """What a repaired action brings is parsed as the action that was given would parse it."""
    strategy = sampling.MultiTurnStrategy(loop_budget=2)
    backend = said("no", "yes")
    result = await sample(strategy, backend, [need("yes")], action=Shout("say"), context=ChatContext())
    return [generation.parsed_repr for generation in result.sample_generations]


@shows(["CBlock", "yes", "yes"])
async def block_as_action():
    """A bare content block is an action; its parsed form is the text."""
    result = await sample(sampling.RejectionSamplingStrategy(), said("yes"), action=CBlock("say"))
    return [type(result.result_action).__name__, result.result.value, result.result.parsed_repr]


@shows([True, True])
async def given_action_is_copied():
    """A candidate's action is a copy: what a strategy changes never reaches the caller's object."""
    action = Instruction("say")
    result = await sample(sampling.RepairTemplateStrategy(loop_budget=2), said("no"), [unmet()], action=action)
    return [all(done is not action for done in result.sample_actions), action._repair_string is None]


@shows(["yes", ["say", "yes"]])
async def through_ainstruct():
    """`ainstruct` takes the strategy, and returns its result and context."""
    strategy = sampling.RejectionSamplingStrategy(loop_budget=2)
    result, context = await functional.ainstruct(
        "say", ChatContext(), said("no", "yes"), requirements=[need("yes")], strategy=strategy
    )
    return [result.value, [context.as_list()[0]._description.value, str(context.as_list()[1])]]


@shows({"index": 1, "success": True, "values": ["no", "yes"], "passed": [[False], [True]]})
async def through_ainstruct_with_samples():
    """`return_sampling_results` gives the whole result."""
    strategy = sampling.RejectionSamplingStrategy(loop_budget=2)
    result = await functional.ainstruct(
        "say",
        SimpleContext(),
        said("no", "yes"),
        requirements=[need("yes")],
        strategy=strategy,
        return_sampling_results=True,
    )
    return outline(result)


@shows("yes")
async def through_the_synchronous_call():
    """`instruct`, which runs a loop in a thread of its own, takes the strategy."""
    strategy = sampling.RejectionSamplingStrategy(loop_budget=2)
    result, _context = functional.instruct(
        "say", SimpleContext(), said("no", "yes"), requirements=[need("yes")], strategy=strategy
    )
    return result.value
