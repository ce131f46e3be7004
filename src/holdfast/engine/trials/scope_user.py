"""Whose code asks in scopes, a solver or a scorer, and what it is told when it asks where it cannot."""

from __future__ import annotations

from typing import NamedTuple

from holdfast.errors import UsageError


class ScopeUser(NamedTuple):
    """The words of an author: a solver holds a `trial`, a scorer a `scope`."""

    code: str
    handle: str
    """What that code holds: it calls `handle.generate`."""
    ending: str
    """What has ended once nothing more can be asked."""

    def no_name(self, name: object) -> UsageError:
        """What was given as the name of a scope is not one."""
        return UsageError(
            f"{name!r} is not a name of a scope.", hint=f'A scope has a name, as in {self.handle}.scope("draft").'
        )

    def in_use(self, path: str) -> UsageError:
        """Another branch works in that scope."""
        return UsageError(
            f"The scope {path!r} is in use by another branch of the {self.code}.",
            hint=f'Give every branch a name of its own, as in {self.handle}.scope(f"branch {{number}}").',
        )

    def inside_step(self, what: str) -> UsageError:
        """It was called where a replay leaves everything out."""
        return UsageError(
            f"{self.handle}.{what} was called inside a function that {self.handle}.step runs.",
            hint=f"Call it in the {self.code} itself, before the step or after it.",
        )

    def unknown_branch(self, what: str) -> UsageError:
        """It was called outside every scope."""
        called = f"{self.handle}.{what} was called where the branch of the {self.code} is not known"
        return UsageError(
            f"{called}, as in another thread.", hint=f'Name the branch: {self.handle}.scope("NAME").{what}(…).'
        )

    def other_loop(self, what: str) -> UsageError:
        """It was called in a loop where nothing of the session runs."""
        return UsageError(
            f"{self.handle}.{what} was called in another event loop than the {self.code}'s.",
            hint=f'From a thread: asyncio.run_coroutine_threadsafe({self.handle}.scope("NAME").{what}(…), loop).',
        )

    def already_over(self, what: str) -> UsageError:
        """It was called when nothing more could be recorded."""
        return UsageError(
            f"{what} was called after the {self.ending} had ended.",
            hint=f"Await everything that a {self.code} starts before it returns.",
        )

    def wrong_step(self) -> UsageError:
        """A step was asked for without its name or its function."""
        return UsageError(
            "A step needs a name and a function.", hint=f'As in {self.handle}.step("run tests", run_tests, x).'
        )


SOLVER = ScopeUser("solver", "trial", "trial")
SCORER = ScopeUser("scorer", "scope", "scorer")
