"""Scopes: the places inside a trial from which its steps are requested, each with its own path and count.

A path comes from the structure of the solver, never from timing: every asyncio task that a solver starts is the n-th
child of the scope it is started in, and `trial.scope("a")` gives a scope a name. So branches that ask the same question
side by side get their own replies back on resume, in whatever order they arrive.

The variable that holds the scope is masked around everything that a replay leaves out (calls of a model, functions of
steps): the tasks that a client library starts for itself must take no numbers.
"""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple, cast
from urllib.parse import quote
from weakref import WeakKeyDictionary

from holdfast.errors import UsageError
from holdfast.models.redaction import redact
from holdfast.sampling.place import derive_seed

_NUMBERED = "~"
_SLOTS = "score"
_SAMPLING = "sampling~"
_READABLE = " !\"#$&'()*+,:;<=>?@[]^`{|}"
"""What a name may hold unchanged; a slash nests, and the rest is escaped."""


class ScopeUser(NamedTuple):
    """Whose code asks in scopes, and the errors it gets: a solver holds a `trial`, a scorer a `scope`."""

    code: str
    handle: str
    """What that code holds: it calls `handle.generate`."""

    def no_name(self, name: object) -> UsageError:
        """What was given as the name of a scope is not one."""
        return UsageError(
            f"{name!r} is not a valid scope name.", hint=f'Give the scope a name, as in {self.handle}.scope("draft").'
        )

    def in_use(self, path: str) -> UsageError:
        """Another branch works in that scope."""
        return UsageError(
            f"The scope {path!r} is in use by another branch of the {self.code}.",
            hint=f'Give every branch a name of its own, as in {self.handle}.scope(f"branch {{number}}").',
        )

    def inside_step(self, what: str, masked: Masked) -> UsageError:
        """It was called where a replay leaves everything out."""
        return UsageError(
            f"{self.handle}.{what} was called inside {masked.place}, which is not run again on replay.",
            hint=f"Call it in the {self.code} itself, before or after.",
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
            f"{what} was called after the {self.code} had returned.",
            hint=f"Await everything that a {self.code} starts before it returns.",
        )

    def wrong_step(self) -> UsageError:
        """A step was asked for without its name or its function."""
        return UsageError(
            "A step needs a name and a function.", hint=f'As in {self.handle}.step("run tests", run_tests, x).'
        )

    def wrong_interruption(self, name: str, chosen: object) -> UsageError:
        """What a step was to do after an interrupt is not known, or was meant for its function."""
        return UsageError(
            f"on_interrupted of the step {name!r} is {chosen!r}; it is 'again' or 'fail', and belongs to the step.",
            hint="A parameter of that name of the function itself has to be bound before: functools.partial(function,"
            f" on_interrupted=…), given to {self.handle}.step.",
        )


SOLVER = ScopeUser("solver", "trial")
SCORER = ScopeUser("scorer", "scope")


class Scope:
    """One place inside an attempt at a trial."""

    __slots__ = (
        "_asked",
        "_calls",
        "_children",
        "_samplings",
        "depth",
        "family",
        "has_ended",
        "has_missed",
        "holder",
        "path",
        "scopes",
    )

    def __init__(self, scopes: AttemptScopes, path: str = "", family: str = "") -> None:
        self.scopes, self.path, self.family = scopes, path, family
        """`family` is the path of the named scope that it belongs to: its own, if it has a name."""
        self._calls = self._children = self._samplings = 0
        self._asked: dict[str, int] = {}
        self.has_ended = self.has_missed = False
        """Whether its task has ended, and whether it has asked for something that it has no record of."""
        self.holder: asyncio.Task[Any] | None = None
        self.depth = 0

    def key(self, name: str, fingerprint: str) -> str:
        """The identity of the step that is asked for here now."""
        base = f"{name}:{fingerprint}"
        count = self._asked[base] = self._asked.get(base, 0) + 1
        return f"/{self.path} {base}#{count}" if self.path else f"{base}#{count}"

    def call_seed(self, seed: int) -> int:
        """The seed of the call of a model that is made here now: derived from the trial's, the path, and its number."""
        self._calls += 1
        return derive_seed(seed, self.path, self._calls)

    @property
    def has_asked(self) -> bool:
        """Whether anything was asked here in this session."""
        return bool(self._asked)

    def start_child(self) -> Scope:
        """The scope of the next task that is started here."""
        self._children += 1
        return self.scopes.numbered(self, self._children)

    def start_sampling(self) -> tuple[int, Scope]:
        """The number and the scope of the next sampling that is asked for here."""
        self._samplings += 1
        return self._samplings, self.below(f"{_SAMPLING}{self._samplings}")

    def below(self, spelled: str) -> Scope:
        """A scope below this one, by a path that is spelled as it is to be."""
        return self.scopes.at(_joined(self.path, spelled))

    def holds(self, other: Scope) -> bool:
        """Whether the other one lies somewhere below it."""
        return not self.path or other.path.startswith(f"{self.path}/")


class AttemptScopes:
    """The scopes of one attempt, as far as they exist in this session."""

    def __init__(self, path: str = "") -> None:
        """With a path, they are those of a score slot, which lies there."""
        self._path = path
        self._by_path: dict[str, Scope] = {}
        self.user = SCORER if path else SOLVER
        """Whose code asks here."""

    @property
    def root(self) -> Scope:
        """Where the solver, or the slot, starts."""
        root = self._by_path.get(self._path)
        if root is None:
            root = self._by_path[self._path] = Scope(self, self._path, self._path)
        return root

    def find(self, path: str) -> Scope | None:
        return self._by_path.get(path)

    def forget(self) -> None:
        """The attempt has ended. Scopes refer to this object: with them in it, only the collector could free it."""
        self._by_path.clear()

    def numbered(self, parent: Scope, number: int) -> Scope:
        path = _joined(parent.path, f"{_NUMBERED}{number}")
        scope = self._by_path[path] = Scope(self, path, parent.family)
        return scope

    def named(self, parent: Scope, name: str) -> Scope:
        """The scope of this name; the same one whenever it is asked for."""
        spelled = self._spell(name)
        if not parent.path and _is_slot_part(spelled.partition("/")[0]):
            # Paths of score slots are reserved: no name that a solver gives leads there.
            spelled = _escaped(spelled)
        return self.at(_joined(parent.path, spelled))

    def at(self, path: str) -> Scope:
        """The scope at a path that ends in a name."""
        if path not in self._by_path:
            self._by_path[path] = Scope(self, path, path)
        return self._by_path[path]

    def _spell(self, name: str) -> str:
        """A name as written in a path: a slash nests; what could be taken for something else is escaped."""
        if not isinstance(name, str) or not all(name.split("/")):
            raise self.user.no_name(name)
        # A key may rotate, and no path holds one.
        return "/".join(map(_spell_part, redact(name).split("/")))


class Masked(NamedTuple):
    """Stands in place of a scope where none may be used."""

    place: str
    """What runs there, as an error names it."""


IN_MODEL_CALL, IN_SAMPLING, IN_OBSERVER = Masked("a model call"), Masked("a sampling"), Masked("an observer")
CURRENT_SCOPE: contextvars.ContextVar[Scope | Masked | None] = contextvars.ContextVar("scope", default=None)


@contextmanager
def holding(scope: Scope) -> Iterator[None]:
    """While a task works in a named scope; no other may do so at the same time.

    Raises:
        UsageError: another task does, or this is inside a step.
    """
    if isinstance(current := CURRENT_SCOPE.get(), Masked):
        # It was made outside: a name does not lead out of a step.
        raise scope.scopes.user.inside_step("scope", current)
    task = asyncio.current_task()
    if scope.holder is not None and scope.holder is not task:
        raise scope.scopes.user.in_use(scope.path)
    scope.holder, scope.depth = task, scope.depth + 1
    token = CURRENT_SCOPE.set(scope)
    try:
        yield
    finally:
        CURRENT_SCOPE.reset(token)
        scope.depth -= 1
        if not scope.depth:
            scope.holder = None


class Masking:
    """While something runs that a replay leaves out: nothing in it takes a number. No generator: it is used often."""

    __slots__ = ("_masked", "_token")

    def __init__(self, masked: Masked = IN_MODEL_CALL) -> None:
        self._masked = masked

    def __enter__(self) -> None:
        self._token = CURRENT_SCOPE.set(self._masked)

    def __exit__(self, *_: object) -> None:
        CURRENT_SCOPE.reset(self._token)


def _joined(path: str, part: str) -> str:
    return f"{path}/{part}" if path else part


def _spell_part(part: str) -> str:
    """One part of a path; it has no slash, and looks neither like a number nor like a sampling."""
    spelled = quote(part, safe=_READABLE.replace(" ", ""), errors="backslashreplace")
    return _escaped(spelled) if spelled.startswith((_NUMBERED, _SAMPLING)) else spelled


def _escaped(part: str) -> str:
    """The same name, which cannot be taken for something that is not one."""
    return f"%{ord(part[0]):X}{part[1:]}"


def is_below(path: str, other: str) -> bool:
    """Whether a path is the other one, or lies below it."""
    return path == other or path.startswith(f"{other}/")


def is_in_sampling(path: str) -> bool:
    """Whether a path lies in a sampling."""
    return path.startswith(_SAMPLING) or f"/{_SAMPLING}" in path


def sampling_in_path(path: str) -> str:
    """The path of the sampling that a path lies in; empty if it lies in none."""
    parts = path.split("/")
    found = next((place for place, part in enumerate(parts) if part.startswith(_SAMPLING)), -1)
    return "/".join(parts[: found + 1])


def slot_path(scorer: str, slot_attempt: int) -> str:
    """The path of a score slot's scope: another one for every attempt of the slot, which asks anew."""
    part = _SLOTS if slot_attempt == 1 else f"{_SLOTS}{_NUMBERED}{slot_attempt}"
    return f"{part}/{_spell_part(scorer)}"


def first_slot_path(path: str) -> str:
    """The path of the first attempt of the slot at `path`."""
    return f"{_SLOTS}/{path.partition('/')[2]}"


def slot_in_path(path: str) -> str:
    """The path of the score slot that a scope of one belongs to."""
    return "/".join(path.split("/", 2)[:2])


def is_in_slot(path: str) -> bool:
    """Whether a path lies in a score slot."""
    return _is_slot_part(path.partition("/")[0])


def key_at_slot(key: str, path: str) -> str:
    """The key of a step of a score slot, as it is in the attempt of the slot at `path`."""
    return f"/{path}{key.removeprefix(f'/{slot_in_path(scope_in_key(key))}')}" if key else ""


def _is_slot_part(part: str) -> bool:
    return part == _SLOTS or part.startswith(f"{_SLOTS}{_NUMBERED}")


def scope_in_key(key: str) -> str:
    """The path of the scope in a step's key."""
    return key[1:].partition(" ")[0] if key.startswith("/") else ""


def names_in(path: str) -> str:
    """The names in a path, without the numbers of tasks."""
    return "/".join(part for part in path.split("/") if not part.startswith(_NUMBERED))


def family_of(path: str) -> str:
    """The path of the named scope that a scope belongs to."""
    parts = path.split("/")
    while parts and parts[-1].startswith(_NUMBERED):
        parts.pop()
    return "/".join(parts)


# Tasks.

TaskFactory = Callable[..., Any]


class _ScopingFactory:
    """Makes the tasks of a loop; one that is started in a scope gets a scope of its own, by its number."""

    def __init__(self, inner: TaskFactory | None) -> None:
        self.inner, self.users = inner, 0

    def __call__(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Future[Any]:
        context: contextvars.Context | None = options.get("context")
        scope = CURRENT_SCOPE.get() if context is None else context.get(CURRENT_SCOPE)
        if not isinstance(scope, Scope):
            return self._make(loop, work, **options)
        child = scope.start_child()
        # A copy: a context that several tasks share has room for one scope only.
        own = contextvars.copy_context() if context is None else context.copy()
        own.run(CURRENT_SCOPE.set, child)
        if context is None:
            # Not handed over as an option, which a factory of somebody else's may not know.
            task = own.run(self._make, loop, work, **options)
        else:
            task = self._make(loop, work, **{**options, "context": own})
        task.add_done_callback(lambda _: setattr(child, "has_ended", True))
        return task

    def _make(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Future[Any]:
        if self.inner is not None:
            made: asyncio.Future[Any] = self.inner(loop, work, **options)
            return made
        return asyncio.Task(work, loop=loop, **options)


_factories: WeakKeyDictionary[asyncio.AbstractEventLoop, _ScopingFactory] = WeakKeyDictionary()
"""The factory of each loop that has one: two sessions in one loop share it, or every task would get two numbers."""


@contextmanager
def scoping_tasks() -> Iterator[None]:
    """While the tasks that solvers start in this loop get scopes; whatever makes its tasks otherwise still does."""
    loop = asyncio.get_running_loop()
    factory = _factories.get(loop)
    if factory is None:
        factory = _factories[loop] = _ScopingFactory(loop.get_task_factory())
        loop.set_task_factory(cast("Any", factory))
    factory.users += 1
    try:
        yield
    finally:
        factory.users -= 1
        installed: object = loop.get_task_factory()
        if not factory.users:
            del _factories[loop]
            # If other code has wrapped the factory meanwhile, it stays: without a scope ours does nothing.
            if installed is factory:
                loop.set_task_factory(factory.inner)
