"""How the next turn follows from the last."""

from backend import FakeBackend
from mellea.core import CBlock
from mellea.stdlib.components import Message
from mellea.stdlib.context import ChatContext
from rig import error_of, lane_of, need, outline, said, sample, shows, unmet
from sides import sampling


@shows([["say", "say"], True])
async def rejection_asks_the_same():
    """Rejection asks with the very action of the turn before."""
    backend = said("no")
    result = await sample(sampling.RejectionSamplingStrategy(loop_budget=2), backend, [unmet()])
    return [backend.texts, result.sample_actions[0] is result.sample_actions[1]]


@shows([[None, True, True], 0])
async def repair_template_adds_reasons():
    """The template's repair puts the reasons into a copy of the instruction, over the old context."""
    backend = said("no")
    result = await sample(sampling.RepairTemplateStrategy(loop_budget=3), backend, [unmet("too short")])
    repairs = [action._repair_string for action in result.sample_actions]
    told = [repair and "too short" in repair for repair in repairs]
    return [told, max(len(call.history) for call in backend.calls)]


@shows([True, False])
async def repair_template_falls_back_on_the_description():
    """Without a reason, the description says what is missing; a met requirement is not mentioned."""
    strategy = sampling.RepairTemplateStrategy(loop_budget=2)
    result = await sample(strategy, said("a"), [need("a"), need("b")])
    repair = result.sample_actions[1]._repair_string
    return ["needs b" in repair, "needs a" in repair]


@shows([True, "say"])
async def repair_template_keeps_other_actions():
    """An action that is no instruction is asked again as it is."""
    strategy = sampling.RepairTemplateStrategy(loop_budget=2)
    result = await sample(strategy, said("no"), [unmet()], action=CBlock("say"))
    return [result.sample_actions[0] is result.sample_actions[1], str(result.sample_actions[1])]


@shows([["Message", "user", True], [0, 2, 4]])
async def multi_turn_talks():
    """Multi-turn answers with a message that has the reasons; the conversation grows by each turn."""
    backend = said("no")
    strategy = sampling.MultiTurnStrategy(loop_budget=3)
    result = await sample(strategy, backend, [unmet("too short")], context=ChatContext())
    told = result.sample_actions[1]
    is_message = type(told).__name__ if isinstance(told, Message) else "?"
    return [[is_message, told.role, "too short" in told.content], [len(call.history) for call in backend.calls]]


@shows(["TypeError", 0])
async def multi_turn_without_a_conversation():
    """Multi-turn over a context that holds no conversation is refused before anything is asked."""
    backend = said("no")
    error = await error_of(sample(sampling.MultiTurnStrategy(loop_budget=2), backend, [unmet()]))
    return [type(error).__name__, len(backend.calls)]


@shows({"index": -1, "success": False, "values": ["no"], "passed": [[False]]})
async def multi_turn_of_one_turn():
    """With a single turn there is nothing to repair, and any context will do."""
    return outline(await sample(sampling.MultiTurnStrategy(), said("no"), [unmet()]))


@shows([[1, 1, 1], [2, 2, 2]])
async def repair_sees_the_turns_so_far():
    """A subclass's repair is given actions, results and verdicts of all turns so far."""
    seen = []

    class Watching(sampling.RejectionSamplingStrategy):
        @staticmethod
        def repair(old_ctx, new_ctx, past_actions, past_results, past_val):
            seen.append([len(past_actions), len(past_results), len(past_val)])
            return past_actions[-1], old_ctx

    await sample(Watching(loop_budget=3), said("no"), [unmet()])
    return seen


@shows([["0.0"], ["1.0"]])
async def repair_sees_its_own_lane():
    """With several lanes, each repair is given the turns of its own lane only."""
    seen = []

    class Watching(sampling.RejectionSamplingStrategy):
        @staticmethod
        def repair(old_ctx, new_ctx, past_actions, past_results, past_val):
            seen.append([str(result) for result in past_results])
            return past_actions[-1], old_ctx

    backend = FakeBackend(lambda call: "{}.{}".format(*lane_of(call, 2)))
    await sample(Watching(loop_budget=2, concurrency_budget=2), backend, [unmet()])
    return sorted(seen)


@shows([[0, 2], [2, 4], [0, 0]])
async def repair_is_given_both_contexts():
    """A repair is given the context before its turn and the one after, and its choice of context is used."""
    seen = []

    class Restarting(sampling.RejectionSamplingStrategy):
        def repair(self, old_ctx, new_ctx, past_actions, past_results, past_val):
            seen.append([len(old_ctx.as_list()), len(new_ctx.as_list())])
            return past_actions[-1], new_ctx if len(seen) == 1 else ChatContext()

    backend = said("no")
    await sample(Restarting(loop_budget=3), backend, [unmet()], context=ChatContext())
    return [*seen, [len(backend.calls[0].history), len(backend.calls[2].history)]]


@shows(["KeyError", 1])
async def repair_that_raises():
    """An exception of a repair is raised: it is not an exhausted budget."""

    class Broken(sampling.RejectionSamplingStrategy):
        @staticmethod
        def repair(old_ctx, new_ctx, past_actions, past_results, past_val):
            raise KeyError("broken")

    backend = said("no")
    error = await error_of(sample(Broken(loop_budget=3), backend, [unmet()]))
    return [type(error).__name__, len(backend.calls)]


@shows([True, True])
async def model_friendly_repair():
    """The strategy for generated code is a template repair, with reasons rewritten for the model."""
    strategy = sampling.ModelFriendlyRepairStrategy(loop_budget=2)
    result = await sample(strategy, said("no"), [unmet("too short")])
    is_template = isinstance(strategy, sampling.RepairTemplateStrategy)
    return [is_template, "too short" in result.sample_actions[1]._repair_string]


@shows([True, 2])
async def preset_for_code():
    """The preset for code brings a strategy of this side."""
    preset = sampling.python_code_generation_sampling(loop_budget=2)
    return [isinstance(preset.strategy, sampling.ModelFriendlyRepairStrategy), preset.strategy.loop_budget]
