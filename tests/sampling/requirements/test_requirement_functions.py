"""Requirements that are functions: how they are called, what they may return, and what their errors are."""

import asyncio
import functools
import inspect
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from holdfast.errors import ConfigurationError
from holdfast.models.errors import Unavailable
from holdfast.sampling.place import CURRENT_PLACE, current_place
from holdfast.sampling.requirements import Verdict, VerdictKind, as_requirements, function, judge, regex
from holdfast.sampling.requirements.checks import Checks
from tests.sampling.drafts import PLACE, QUESTION, ThreadedChecking, draft, verdict_of, verdicts_of

PASSED, FAILED, ERROR = VerdictKind


def is_short(text):
    """The answer is short.

    This is said to nobody.
    """
    return len(text) < 4


class AsyncCheck:
    async def __call__(self, text):
        await asyncio.sleep(0)
        return text == "yes"


class PlainCheck:
    def __call__(self, text):
        return text == "yes"

    def method(self, text):
        return text == "yes"

    async def async_method(self, text):
        return text == "yes"


async def is_yes(text, *, wanted="yes"):
    await asyncio.sleep(0)
    return text == wanted


def returns_a_coroutine(text):
    return is_yes(text)


RETURNED = {
    "True": (True, PASSED, "", None),
    "False": (False, FAILED, "Says something.", None),
    "a reason": ("It is\nwrong.", FAILED, "It is wrong.", None),
    "a pair, met": ((True, "well done"), PASSED, "well done", None),
    "a pair, unmet": ((False, "no good"), FAILED, "no good", None),
    "a pair without a reason": ((False, None), FAILED, "Says something.", None),
    "a score above": (0.8, PASSED, "", 0.8),
    "a score at the threshold": (0.5, PASSED, "", 0.5),
    "a score below": (0.25, FAILED, "Says something. Its score is 0.25, below 0.5.", 0.25),
    "the number 1": (1, PASSED, "", 1.0),
    "a verdict": (Verdict("other", FAILED, "why", 0.1), FAILED, "why", 0.1),
    "an error": (Verdict("other", ERROR, "cannot tell"), ERROR, "cannot tell", None),
}


@pytest.mark.parametrize("case", RETURNED)
@pytest.mark.parametrize("is_async", [False, True])
def test_what_it_may_return(case, is_async):
    returned, kind, reason, score = RETURNED[case]

    def says(text):
        """Says something."""
        return returned

    async def says_later(text):
        """Says something."""
        return returned

    verdict = verdict_of(function(says_later if is_async else says, id="mine"), "text")
    assert (verdict.requirement, verdict.kind, verdict.reason, verdict.score) == ("mine", kind, reason, score)


WRONG = [None, "", 2, -0.1, float("nan"), b"x", [True], (True,), (1, "x"), (True, 5), {}, object()]
WRONG += [Verdict("x", "passed"), Verdict("x", PASSED, 5), Verdict("x", PASSED, score=7)]


@pytest.mark.parametrize("returned", WRONG, ids=lambda returned: type(returned).__name__)
def test_a_wrong_type_names_the_function(returned):
    """Row 10: a validator that returns the wrong type raises TypeError, which names it."""

    def misguided(text):
        return returned

    async def misguided_later(text):
        return returned

    with pytest.raises(TypeError, match=r"misguided\(\) returned .*; it must return"):
        verdict_of(function(misguided), "x")
    with pytest.raises(TypeError, match=r"misguided_later\(\) returned"):
        verdict_of(function(misguided_later), "x")


ASYNC = {
    "function": is_yes,
    "partial": functools.partial(is_yes, wanted="yes"),
    "partial of a partial": functools.partial(functools.partial(is_yes), wanted="yes"),
    "object": AsyncCheck(),
    "partial of an object": functools.partial(AsyncCheck()),
    "method": PlainCheck().async_method,
    "plain function that returns a coroutine": returns_a_coroutine,
}


@pytest.mark.parametrize("case", ASYNC)
def test_async_validators_are_awaited(case):
    """Row 10: whatever is async is awaited, in whatever it is wrapped."""
    assert verdict_of(function(ASYNC[case]), "yes").is_passed
    assert not verdict_of(function(ASYNC[case]), "no").is_passed


def test_an_async_validator_runs_in_the_loop_and_a_plain_one_does_not():
    seen = {}

    async def awaited(text):
        seen["async"] = threading.current_thread()
        return True

    def plain(text):
        seen["plain"] = threading.current_thread()
        return True

    assert verdicts_of([function(awaited), function(plain)], "x")[0]
    assert seen["async"] is threading.main_thread() is not seen["plain"]


@pytest.mark.parametrize("wrapped", [AsyncCheck(), functools.partial(AsyncCheck())])
def test_an_object_with_an_async_call_is_not_sent_to_a_thread(wrapped):
    """What it builds before its first await may need the loop."""
    called = []

    class Noting(ThreadedChecking):
        async def call(self, function, *args):
            called.append(inspect.iscoroutinefunction(function))
            return await super().call(function, *args)

    assert verdict_of(function(wrapped), "yes", Noting()).is_passed
    assert called == [True]


@pytest.mark.parametrize("plain", [PlainCheck(), PlainCheck().method, functools.partial(is_short), str.isalpha])
def test_plain_callables_of_every_kind(plain):
    assert verdict_of(function(plain), "yes").is_passed


def by_position(text, context):
    return text, context


def other_names(answer, sample):
    return answer, sample


def by_name(answer, *, context, reply, place, messages):
    return answer, context, reply, place, messages


def only_the_reply(reply):
    return reply


def place_first(place, answer):
    return place, answer


def with_a_default(answer, reference=None):
    return answer, reference


def with_more_defaults(answer, reference=None, strict=0, *, wanted=1):
    return answer, reference, strict, wanted


def text_and_anything(text, *args):
    return text, args


def optional_context(text, context=None):
    return text, context


def positional_only(answer, sample, /):
    return answer, sample


def anything(*args, **kwargs):
    return args, kwargs


CONTEXT = object()
CALLED = [
    (by_position, ("x", CONTEXT)),
    (other_names, ("x", CONTEXT)),
    (by_name, ("x", CONTEXT, draft("x").reply, PLACE, QUESTION)),
    (only_the_reply, draft("x").reply),
    (place_first, (PLACE, "x")),
    (with_a_default, ("x", CONTEXT)),
    (with_more_defaults, ("x", CONTEXT, 0, 1)),
    (text_and_anything, ("x", ())),
    (optional_context, ("x", CONTEXT)),
    (positional_only, ("x", CONTEXT)),
    (anything, (("x",), {})),
    (functools.partial(other_names, sample=5), ("x", 5)),
    (functools.partial(by_position, context=5), ("x", 5)),
]


@pytest.mark.parametrize(("checked", "expected"), CALLED)
def test_it_is_given_what_it_takes(checked, expected):
    """Row 18: validators receive exactly the validation context, and the rest of the draft by name."""
    got = []

    @functools.wraps(checked)
    def noting(*args, **kwargs):
        got.append(checked(*args, **kwargs))
        return True

    if isinstance(checked, functools.partial):
        noting.__signature__ = inspect.signature(checked.func)
        noting = functools.partial(noting, **checked.keywords)
    assert verdict_of(function(noting), "x", context=CONTEXT).is_passed
    assert got == [expected]
    if CONTEXT in (expected if isinstance(expected, tuple) else ()):
        assert CONTEXT in got[0]


def takes_nothing():
    return True


def takes_three(answer, sample, third):
    return True


def needs_a_keyword(text, *, needed):
    return True


@pytest.mark.parametrize("taken", [takes_nothing, takes_three, needs_a_keyword])
def test_arguments_that_it_is_not_given_are_refused_when_it_is_made(taken):
    with pytest.raises(ConfigurationError, match="It is called with"):
        function(taken)


@pytest.mark.parametrize("given", [5, None, int, AsyncCheck])
def test_what_is_no_function_is_refused(given):
    with pytest.raises(ConfigurationError, match="cannot be made of"):
        function(given)


def test_its_error_is_neither_a_verdict_nor_a_model_error():
    """Row 9: what a validator raises comes through as itself, and says which requirement was being checked."""

    def broken(text):
        raise KeyError("oops")

    checks = Checks((regex("x"), function(broken)), short_circuit=False)
    verdicts = []
    with pytest.raises(KeyError, match="oops"):
        asyncio.run(checks.run(draft("x"), ThreadedChecking(), verdicts))
    assert [verdict.requirement for verdict in verdicts] == ["regex"]
    assert checks.after(verdicts).id == "broken"


def test_a_judge_that_cannot_be_reached_is_a_model_error():
    """Row 9: the error of a judge's call is the model's."""
    with pytest.raises(Unavailable):
        verdict_of(judge(model="j", criterion="good"), "x", ThreadedChecking(Unavailable("down")))


def test_validators_of_lanes_run_side_by_side():
    """Row 24: plain validators in 8 lanes are all inside at the same time, so that none waits for another."""
    together = threading.Barrier(8)

    def waits_for_the_others(text):
        together.wait(timeout=60)
        return True

    async def lanes():
        checks = Checks([function(waits_for_the_others)], short_circuit=False)
        return await asyncio.gather(*(checks.run(draft("x"), ThreadedChecking(), []) for _ in range(8)))

    async def with_threads():
        asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(8))
        return await lanes()

    assert asyncio.run(with_threads()) == [True] * 8


def test_a_validator_sees_its_place():
    """What is set for the lane is visible in the thread of its validator."""
    seen = []

    def looks(text):
        seen.append(current_place())
        return True

    async def lane():
        CURRENT_PLACE.set(PLACE)
        await function(looks).check_later(draft("x"), ThreadedChecking())

    asyncio.run(lane())
    assert seen == [PLACE]


def test_what_it_is_called_and_said_to_be():
    requirement = function(is_short)
    assert (requirement.id, requirement.description) == ("is_short", "The answer is short.")
    unnamed = function(functools.partial(is_yes))
    assert (unnamed.id, unnamed.description) == ("is_yes", "The answer must pass the check is_yes.")
    assert [one.id for one in as_requirements([is_short, is_short, lambda text: text == "x"])] == [
        "is_short",
        "is_short-2",
        "lambda",
    ]


def test_its_identity_is_its_source():
    def one(text):
        return len(text) < 4

    def other(text):
        return len(text) < 5

    found = {name: function(given, id="f").identity() for name, given in {"one": one, "other": other}.items()}
    assert found["one"]["source"] != found["other"]["source"]
    assert found["one"]["arguments"] == {"id": "f", "check_only": False, "threshold": 0.5}
    assert function(one, threshold=0.9, id="f").identity() != found["one"]


def says(returned, text):
    return returned


def test_a_reason_is_bounded_and_harmless():
    hostile = "\x1b[31mred\x00\ud800 \u202e" + "x" * 10_000_000
    for returned in (hostile, (False, hostile), Verdict("x", FAILED, hostile)):
        reason = verdict_of(function(functools.partial(says, returned)), "x").reason
        assert reason.startswith("[31mred x") and reason.isprintable() and len(reason) <= 1000
