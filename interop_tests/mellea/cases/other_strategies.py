"""Voting, budget forcing and the two solvers."""

import asyncio

from backend import FakeBackend
from mellea.backends.ollama import OllamaModelBackend
from mellea.core import CBlock, GenerateLog, ModelOutputThunk, Requirement, ValidationResult
from mellea.stdlib.context import ChatContext, SimpleContext
from rig import error_of, need, other_tasks, others_first, outline, said, sample, shows, unmet, watching
from sides import sampling


class FakeOllama(OllamaModelBackend):
    """Counts words as tokens, and opens no connection."""

    def __init__(self):
        self._model_id, self._provider = "fake", "ollama"
        self.formatter = self
        self.options = []

    def print(self, action):
        return str(action)

    async def _generate_from_raw(self, actions, ctx, *, model_options=None, **_settings):
        self.options.append(dict(model_options))
        thunk = ModelOutputThunk("thought")
        thunk.parsed_repr = "thought"
        thunk._generate_log = GenerateLog()
        thunk.generation.usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return [thunk], None


def solvers(fast, slow, **settings):
    return sampling.SOFAISamplingStrategy(fast, slow, **settings)


async def solve(strategy, requirements):
    return await strategy.sample(CBlock("say"), ChatContext(), said("session"), requirements)


@shows(["the cat sat", True, 5, 1])
async def vote_on_similar_texts():
    """Of similar texts, the one nearest to all is chosen; the result is that draw's own."""
    texts = ["the cat sat", "the cat sat", "the cat sat down", "a dog", "no idea"]
    backend = said(*texts)
    result = await sample(sampling.MBRDRougeLStrategy(number_of_samples=5), backend)
    return [result.value, result.success, len(backend.calls), len(result.sample_generations)]


@shows(["1/2", True])
async def vote_on_mathematics():
    """Expressions that are equal vote together."""
    result = await sample(sampling.MajorityVotingStrategyForMath(number_of_samples=3), said("1/2", "3", "0.5"))
    return [result.value, result.success]


@shows(["good", True])
async def invalid_draws_do_not_vote():
    """A draw that is not valid has no vote where another is valid."""
    backend = said("good", "bad", "bad", "bad")
    result = await sample(sampling.MBRDRougeLStrategy(number_of_samples=4), backend, [need("good")])
    return [result.value, result.success]


@shows(["bad", False])
async def vote_without_a_valid_draw():
    """Where none is valid, the invalid ones vote, and the result is a failure."""
    result = await sample(sampling.MBRDRougeLStrategy(number_of_samples=3), said("bad"), [unmet()])
    return [result.value, result.success]


@shows(["good", {"running": 0, "tasks": 0}])
async def error_of_one_draw_of_a_vote():
    """An error of one draw leaves the others their vote, and nothing running."""

    async def reply(call):
        if call.number == 2:
            raise ConnectionError("gone")
        await others_first()
        return "good"

    backend = FakeBackend(reply)
    try:
        value = (await sample(sampling.MBRDRougeLStrategy(number_of_samples=3), backend)).value
    except ConnectionError:
        value = "raised ConnectionError"
    return [value, {"running": backend.running, "tasks": other_tasks()}]


@shows([True, {"running": 0, "tasks": 0}])
async def every_draw_of_a_vote_fails():
    """When every draw has an error, the first one's is raised."""
    gone = ConnectionError("gone")
    backend = said(gone)
    error = await error_of(sample(sampling.MBRDRougeLStrategy(number_of_samples=3), backend))
    return [error is gone, {"running": backend.running, "tasks": other_tasks()}]


@shows({"error": "CancelledError", "running": 0, "tasks": 0})
async def cancelled_vote():
    """A vote that is cancelled leaves nothing running, even if it is cancelled again while draws take time to stop."""

    async def reply(_call):
        try:
            await asyncio.Event().wait()
        finally:
            await others_first()

    backend = FakeBackend(reply)
    task = asyncio.ensure_future(sample(sampling.MBRDRougeLStrategy(number_of_samples=3), backend))
    await others_first()
    for _ in range(5):
        task.cancel()
        await asyncio.sleep(0)
    error = await error_of(task)
    return {"error": type(error).__name__, "running": backend.running, "tasks": other_tasks()}


@shows([3, 3, [1, 1, 1]])
async def hooks_of_a_vote():
    """Each draw of a vote is a sampling of its own to the hooks."""
    with watching() as seen:
        await sample(sampling.MBRDRougeLStrategy(number_of_samples=3), said("x"))
    ids = {payload.sampling_id for _, payload in seen.payloads}
    return [len(ids), len(seen.of("end")), [each.iteration for each in seen.of("iteration")]]


@shows([{"index": 1, "success": True, "values": ["no", "yes"], "passed": [[False], [True]]}, 0])
async def fast_solver_succeeds():
    """While the fast solver succeeds, the slow one is not asked."""
    slow = said("slow")
    result = await solve(solvers(said("no", "yes"), slow), [need("yes")])
    return [outline(result), len(slow.calls)]


@shows([["a", "b", "c", "slow yes"], 3, True])
async def slow_solver_after_the_budget():
    """When the fast solver's budget is used up, the slow one is asked once."""
    reasons = iter("abcd")
    slow = said("slow yes")

    def check(context):
        return ValidationResult("yes" in str(context.last_output()), reason=next(reasons))

    result = await solve(solvers(said("a", "b", "c"), slow, loop_budget=3), [Requirement("r", check)])
    return [outline(result)["values"], result.result_index, result.success]


@shows([["a", "b", "slow"], 2, False])
async def slow_solver_after_standing_still():
    """The slow solver is asked as soon as the fast one fails twice in the same way; its answer is the result."""
    result = await solve(solvers(said("a", "b", "c"), said("slow"), loop_budget=5), [unmet()])
    return [outline(result)["values"], result.result_index, result.success]


@shows([0, 4, 0])
async def what_the_slow_solver_is_told():
    """By its mode the slow solver starts afresh, goes on with the conversation, or gets the best attempt."""
    shown = []
    for mode in ("fresh_start", "continue_chat", "best_attempt"):
        slow = said("slow")
        await solve(solvers(said("a", "b"), slow, s2_solver_mode=mode, loop_budget=2), [unmet()])
        shown.append(len(slow.calls[0].history))
    return shown


@shows(["slow", 3, [False, False, True]])
async def solvers_with_a_judge():
    """Requirements without a function are put to the judge's backend, and stand under their own name."""
    judge = FakeBackend(lambda call: "Yes" if "slow" in call.history else "No")
    asked = Requirement("needs taste")
    result = await solve(solvers(said("a", "b"), said("slow"), judge_backend=judge, loop_budget=2), [asked])
    verdicts = [bool(verdict) for pairs in result.sample_validations for name, verdict in pairs if name is asked]
    return [result.value, len(judge.calls), verdicts]


@shows(["start", "iteration", "repair", "iteration", "end"])
async def hooks_of_the_solvers():
    """The two solvers tell the hooks of a sampling, like every other strategy."""
    with watching() as seen:
        await solve(solvers(said("a"), said("slow"), loop_budget=1), [unmet()])
    return seen.kinds


@shows({"error": "CancelledError", "running": 0, "tasks": 0})
async def cancelled_solvers():
    """A solver that is cancelled leaves nothing running."""
    fast = FakeBackend(lambda _call: asyncio.Event().wait())
    task = asyncio.ensure_future(solve(solvers(fast, said("slow")), [unmet()]))
    await others_first()
    task.cancel()
    error = await error_of(task)
    return {"error": type(error).__name__, "running": fast.running, "tasks": other_tasks()}


@shows(["TypeError", 0])
async def solvers_without_a_conversation():
    """The two solvers need a context that holds a conversation."""
    fast = said("a")
    error = await error_of(solvers(fast, said("b")).sample(CBlock("say"), SimpleContext(), said("c"), [unmet()]))
    return [type(error).__name__, len(fast.calls)]


@shows(["<think>thought </think>thought", True, {"temperature": 0}])
async def budget_forcing():
    """Budget forcing thinks and answers in two calls; the caller's model options stay as they are."""
    strategy = sampling.BudgetForcingSamplingStrategy(think_max_tokens=8, requirements=None)
    options = {"temperature": 0}
    backend = FakeOllama()
    result = await sample(strategy, backend, [need("thought")], model_options=options, action=CBlock("say"))
    return [result.value, result.success, options]


@shows(["start", "iteration", "end"])
async def hooks_of_budget_forcing():
    """Budget forcing tells the hooks of a sampling, like every other strategy."""
    strategy = sampling.BudgetForcingSamplingStrategy(think_max_tokens=8, requirements=None)
    with watching() as seen:
        await sample(strategy, FakeOllama(), [need("thought")], action=CBlock("say"))
    return seen.kinds


@shows("TypeError")
async def budget_forcing_elsewhere():
    """Budget forcing on a backend that cannot do it is refused."""
    strategy = sampling.BudgetForcingSamplingStrategy(requirements=None)
    return type(await error_of(sample(strategy, said("x")))).__name__
