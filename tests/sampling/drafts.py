"""What the tests of requirements share: a draft to check, and a way to threads and judges."""

import asyncio
import inspect

from holdfast.models.message import Message, Reply
from holdfast.sampling.place import Place
from holdfast.sampling.requirements.checks import Checks
from holdfast.sampling.requirements.requirement import Draft, in_order

PLACE = Place(1, 0, 0, 0, 7)
QUESTION = (Message("system", "Be brief."), Message("user", "What is it?"))


def draft(text, *, context=None, messages=QUESTION, place=PLACE):
    return Draft(text, Reply(text, "stop"), messages, place, context)


class ThreadedChecking:
    """Calls plain functions in threads, and answers for judges from a list."""

    def __init__(self, *replies):
        self.replies = list(replies)
        self.asked = []

    async def call(self, function, *args):
        if inspect.iscoroutinefunction(function):
            return await function(*args)
        return await asyncio.to_thread(function, *args)

    async def ask(self, model, messages, generation):
        self.asked.append((model, messages, generation))
        answer = self.replies.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, Reply) else Reply(answer, "stop")


def verdict_of(requirement, text, checking=None, **parts):
    """The verdict on a text, by whichever check the requirement has."""
    given = draft(text, **parts)
    if requirement.is_quick:
        return requirement.check(given)
    return asyncio.run(requirement.check_later(given, checking or ThreadedChecking()))


def verdicts_of(requirements, text, checking=None, *, short_circuit=False, **parts):
    """The verdicts of several, and whether all are passed."""
    verdicts = []
    checks = Checks(in_order(requirements), short_circuit=short_circuit)
    is_valid = asyncio.run(checks.run(draft(text, **parts), checking or ThreadedChecking(), verdicts))
    return is_valid, verdicts
