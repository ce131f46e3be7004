"""Which requirements apply, what they are given, and what becomes of one that misbehaves."""

from backend import FakeBackend
from mellea.core import Requirement, ValidationResult
from mellea.plugins import HookType, hook, modify, plugin_scope
from mellea.stdlib import functional
from mellea.stdlib.components import Instruction
from mellea.stdlib.context import ChatContext, SimpleContext
from rig import error_of, need, outline, said, sample, shows, unmet
from sides import sampling


@shows(["needs strategy"])
async def strategy_supersedes_the_call():
    """Requirements of the strategy replace those of the call."""
    strategy = sampling.RejectionSamplingStrategy(requirements=[need("strategy")])
    result = await sample(strategy, said("strategy"), [need("call")])
    return [requirement.description for requirement, _ in result.result_validations]


@shows(["needs call"])
async def call_where_the_strategy_has_none():
    """Without requirements of the strategy, those of the call apply."""
    result = await sample(sampling.RejectionSamplingStrategy(), said("call"), [need("call")])
    return [requirement.description for requirement, _ in result.result_validations]


@shows([True, []])
async def empty_list_of_the_strategy_supersedes():
    """An empty list is a list: nothing is required."""
    result = await sample(sampling.RejectionSamplingStrategy(requirements=[]), said("x"), [need("call")])
    return [result.success, result.result_validations]


@shows("as given")
async def order_of_requirements():
    """Requirements are checked and reported in the order in which they were given."""
    given = [need(str(number)) for number in range(24)]
    result = await sample(sampling.RejectionSamplingStrategy(), said("x"), given)
    return "as given" if [requirement for requirement, _ in result.result_validations] == given else "in another order"


@shows(1)
async def same_requirement_twice():
    """A requirement that was given twice is checked once."""
    twice = need("x")
    result = await sample(sampling.RejectionSamplingStrategy(), said("x"), [twice, twice])
    return len(result.result_validations)


@shows([[False, False, True]])
async def all_are_checked():
    """An unmet requirement does not keep the others from being checked."""
    result = await sample(sampling.RejectionSamplingStrategy(), said("c"), [need("a"), need("b"), need("c")])
    return [sorted(bool(verdict) for _, verdict in pairs) for pairs in result.sample_validations]


@shows([True, "needs taste", 2])
async def judged_requirement():
    """A requirement without a function is put to the backend; a bare yes gives the description as reason."""
    backend = FakeBackend(lambda call: "yes" if call.is_judging else "reply")
    result = await sample(sampling.RejectionSamplingStrategy(), backend, [Requirement("needs taste")])
    verdict = result.result_validations[0][1]
    return [result.success, verdict.reason, len(backend.calls)]


@shows([False, "ValueError"])
async def unreadable_judgement():
    """A judgement that cannot be read is not met, and keeps its error."""

    def unreadable(_output):
        raise ValueError("unreadable")

    backend = FakeBackend(lambda call: "?" if call.is_judging else "reply")
    asked = Requirement("needs taste", output_to_bool=unreadable)
    result = await sample(sampling.RejectionSamplingStrategy(), backend, [asked])
    return [result.success, type(result.result_validations[0][1].error).__name__]


@shows([False, ["told"]])
async def check_only():
    """A requirement that is only checked is enforced, and the prompt does not mention it."""
    action = Instruction("say", requirements=[need("told"), need("untold", check_only=True)])
    strategy = sampling.RejectionSamplingStrategy()
    result = await sample(strategy, said("told"), action.requirements, action=action)
    prompt = str(result.result_action.format_for_llm().args)
    return [result.success, [word for word in ("told", "untold") if f"needs {word}" in prompt]]


@shows([2, "reply"])
async def validation_without_a_context():
    """Without a validation context, requirements see the context that the candidate was generated into."""
    contexts = []
    look = Requirement("look", lambda context: contexts.append(context) or ValidationResult(True))
    await sample(sampling.RejectionSamplingStrategy(), said("reply"), [look], context=ChatContext())
    return [len(contexts[0].as_list()), str(contexts[0].last_output())]


@shows([["earlier", "reply"]])
async def validation_with_a_context():
    """With one, requirements see exactly it, with the candidate's output at its end."""
    contexts = []
    look = Requirement("look", lambda context: contexts.append(context) or ValidationResult(True))
    earlier = ChatContext().add(Instruction("earlier"))
    await sample(sampling.RejectionSamplingStrategy(), said("reply"), [look], validation_ctx=earlier)
    entries = contexts[0].as_list()
    return [[entries[0]._description.value, str(entries[1])]]


@shows(["awaited", False])
async def asynchronous_function():
    """A function that is async is awaited, and its verdict counts."""
    awaited = []

    async def check(_context):
        awaited.append("awaited")
        return ValidationResult(False, reason="unmet")

    result = await sample(sampling.RejectionSamplingStrategy(), said("x"), [Requirement("later", check)])
    return [*awaited, result.success]


@shows(False)
async def function_that_returns_an_awaitable():
    """A plain function that returns something to await is as good as an async one."""

    async def check():
        return ValidationResult(False)

    strategy = sampling.RejectionSamplingStrategy()
    return (await sample(strategy, said("x"), [Requirement("later", lambda _context: check())])).success


@shows([True, False])
async def function_that_returns_a_bool():
    """A plain true or false is a verdict."""
    strategy = sampling.RejectionSamplingStrategy()
    met = await sample(strategy, said("x"), [Requirement("plain", lambda _context: True)])
    unmet_one = await sample(strategy, said("x"), [Requirement("plain", lambda _context: False)])
    return [met.success, unmet_one.success]


@shows(["TypeError", True])
async def function_that_returns_something_else():
    """Anything else is an error that names the requirement."""
    wrong = Requirement("truthy", lambda _context: "no")
    error = await error_of(sample(sampling.RejectionSamplingStrategy(), said("x"), [wrong]))
    return [type(error).__name__, "truthy" in str(error)]


@shows(["ZeroDivisionError", 1])
async def function_that_raises():
    """An exception of a requirement's function is raised as it is, and nothing more is asked."""
    backend = said("x")
    broken = Requirement("broken", lambda _context: 1 / 0)
    error = await error_of(sample(sampling.RejectionSamplingStrategy(loop_budget=3), backend, [broken]))
    return [type(error).__name__, len(backend.calls)]


@shows("ZeroDivisionError")
async def function_that_raises_on_the_second_turn():
    """An exception on a later turn is raised too: it is not an exhausted budget."""
    seen = []

    def check(_context):
        seen.append(1)
        return ValidationResult(False) if len(seen) == 1 else 1 / 0

    strategy = sampling.RejectionSamplingStrategy(loop_budget=3)
    return type(await error_of(sample(strategy, said("x"), [Requirement("late", check)]))).__name__


@shows([False, ["needs a", "needs b"]])
async def requirement_added_by_a_hook():
    """A requirement that a hook adds before the check is enforced, and paired with its verdict."""
    added = need("b")

    @hook(HookType.VALIDATION_PRE_CHECK)
    async def add(payload, _context):
        return modify(payload, requirements=[*payload.requirements, added])

    with plugin_scope(add):
        result = await sample(sampling.RejectionSamplingStrategy(), said("a"), [need("a")])
    return [result.success, [requirement.description for requirement, _ in result.result_validations]]


@shows([True, [True]])
async def verdict_replaced_by_a_hook():
    """A hook after the check may replace the verdicts; they count as replaced."""

    @hook(HookType.VALIDATION_POST_CHECK)
    async def pardon(payload, _context):
        return modify(payload, results=[ValidationResult(True) for _ in payload.results])

    with plugin_scope(pardon):
        result = await sample(sampling.RejectionSamplingStrategy(), said("x"), [unmet()])
    return [result.success, [bool(verdict) for _, verdict in result.result_validations]]


@shows([["pre", 1], ["post", 0, 1, False]])
async def hooks_around_the_check():
    """The hooks around the check say what is checked and how it came out."""
    seen = []

    @hook(HookType.VALIDATION_PRE_CHECK)
    async def before(payload, _context):
        seen.append(["pre", len(payload.requirements)])

    @hook(HookType.VALIDATION_POST_CHECK)
    async def after(payload, _context):
        seen.append(["post", payload.passed_count, payload.failed_count, payload.all_validations_passed])

    with plugin_scope([before, after]):
        await sample(sampling.RejectionSamplingStrategy(), said("x"), [unmet()])
    return seen


@shows({"index": 1, "success": True, "values": ["no", "yes"], "passed": [[False], [True]]})
async def requirements_of_an_instruction():
    """`ainstruct` hands the requirements of its instruction to the strategy."""
    strategy = sampling.RepairTemplateStrategy(loop_budget=3)
    result = await functional.ainstruct(
        "say",
        SimpleContext(),
        said("no", "yes"),
        requirements=[need("yes")],
        strategy=strategy,
        return_sampling_results=True,
    )
    return outline(result)
