"""`function`: a check written as a function, plain or async.

It gets the text, and the validation context as well if it takes a second argument, with or without a default; `*args`
gets nothing beyond the text. Parameters of the names `text`, `reply`, `place`, `messages` and `context` are given by
name. A plain function runs in a thread, so it may take its time. An error that it raises is not a verdict.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple, Self, Unpack

import msgspec

from holdfast.errors import ConfigurationError
from holdfast.models.errors import excerpt
from holdfast.sampling.requirements.built_in import BuiltInRequirement, Naming
from holdfast.sampling.requirements.requirement import Checking, Draft
from holdfast.sampling.requirements.verdict import Verdict, VerdictKind
from holdfast.tasks.source.code_files import CodeBase
from holdfast.tasks.source.digest import source_digest
from holdfast.tasks.source.object_reference import load_function

Threshold = Annotated[float, msgspec.Meta(ge=0, le=1)]

REASON_CHARACTERS = 1000
_GIVEN_BY_NAME = ("text", "reply", "place", "messages", "context")
_COLLECTING = {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD}
_ALLOWED = "True or False, a reason (a text), (bool, reason), a score from 0 to 1, or a Verdict"


class FunctionRequirement(BuiltInRequirement, frozen=True, kw_only=True):
    """Met if the function returns True, or a score that is not below the threshold."""

    kind: ClassVar[str] = "function"
    short_argument: ClassVar[str] = "function"
    is_quick: ClassVar[bool] = False

    function: Any
    """The function: `file.py:name` or `package.module:name`. It gets the text of the answer and returns True or False,
    a reason (a text), or a score from 0 to 1.
    Example: `checks.py:is_polite`
    """

    threshold: Threshold = 0.5
    """The lowest score that meets the requirement. Example: `0.8`"""

    @property
    def gives_score(self) -> bool:
        """Whether it returns a score is unknown before it is called."""
        return True

    @classmethod
    def build(cls, arguments: Mapping[str, Any], place: str, base_dir: CodeBase = Path()) -> Self:
        """As for all; a reference to a function is looked up, and file paths start at base_dir."""
        given = arguments.get("function")
        if not isinstance(given, str):
            return super().build(arguments, place)
        try:
            found = load_function(given, base_dir)
        except ConfigurationError as error:
            raise ConfigurationError(f"{place}: {error.message}", hint=error.hint) from None
        return super().build({**arguments, "function": found}, place)

    def prepare(self) -> None:
        if not callable(self.function) or isinstance(self.function, type):
            raise ConfigurationError(
                f"A requirement cannot be made of {excerpt(repr(self.function), 100)}.",
                hint='Give a function, or its place as "file.py:name".',
            )
        self.__dict__["taken"] = _taken(self.function)
        self.__dict__["is_async"] = _is_async(self.function)

    async def check_later(self, draft: Draft, checking: Checking) -> Verdict:
        call = self._bound(draft)
        # A coroutine function of our own, so that whoever calls it sees that it is one.
        result = await checking.call(_awaiting(call) if self.__dict__["is_async"] else call)
        return self._verdict(await result if inspect.isawaitable(result) else result)

    def derived_id(self) -> str:
        return function_name(self.function).strip("<>")

    def derived_description(self) -> str:
        documented = inspect.getdoc(self.function) if not isinstance(self.function, functools.partial) else None
        first = excerpt((documented or "").strip().partition("\n\n")[0])
        return first or f"The answer must pass the check {function_name(self.function)}."

    def arguments(self) -> dict[str, Any]:
        return {name: value for name, value in super().arguments().items() if name != "function"}

    def identity(self) -> dict[str, Any]:
        # The description goes to the model, and may be the function's docstring, which a source digest leaves out.
        return {**super().identity(), "source": source_digest(self.function), "description": self.description}

    def _bound(self, draft: Draft) -> Callable[[], Any]:
        taken: _Taken = self.__dict__["taken"]
        by_position = [getattr(draft, part) for part in taken.by_position]
        by_name = {name: getattr(draft, part) for name, part in taken.by_name.items()}
        return functools.partial(self.function, *by_position, **by_name)

    def _verdict(self, result: object) -> Verdict:
        if isinstance(result, Verdict):
            return self._given_verdict(result)
        if isinstance(result, bool):
            return self.passed() if result else self.failed(self._reason(None))
        if isinstance(result, str) and result:
            return self.failed(self._reason(result))
        if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], bool):
            return self._reasoned(result[0], result[1])
        if isinstance(result, int | float) and 0 <= result <= 1:
            return self._scored(float(result))
        raise self._wrong(result)

    def _given_verdict(self, verdict: Verdict) -> Verdict:
        is_scored = verdict.score is None or (isinstance(verdict.score, int | float) and 0 <= verdict.score <= 1)
        if not (isinstance(verdict.kind, VerdictKind) and isinstance(verdict.reason, str) and is_scored):
            raise self._wrong(verdict)
        return msgspec.structs.replace(
            verdict, requirement=self.id, reason=excerpt(verdict.reason, REASON_CHARACTERS), hidden=self.check_only
        )

    def _reasoned(self, is_met: bool, reason: object) -> Verdict:  # noqa: FBT001 - the pair that was returned
        if reason is not None and not isinstance(reason, str):
            raise self._wrong((is_met, reason))
        return self.passed(excerpt(reason or "", REASON_CHARACTERS)) if is_met else self.failed(self._reason(reason))

    def _scored(self, score: float) -> Verdict:
        if score >= self.threshold:
            return self.passed(score=score)
        return self.failed(f"{self._reason(None)} Its score is {score:.3g}, below {self.threshold:g}.", score)

    def _reason(self, given: str | None) -> str:
        return excerpt(given or "", REASON_CHARACTERS) or excerpt(self.description, REASON_CHARACTERS)

    def _wrong(self, result: object) -> TypeError:
        shown = excerpt(repr(result), 60) if isinstance(result, str | int | float | tuple | Verdict) else ""
        what = f"{type(result).__name__} {shown}".strip()
        return TypeError(
            f"The requirement {function_name(self.function)}() returned {what}; it must return {_ALLOWED}."
        )


def function(
    given: Callable[..., Any] | str, *, threshold: float = 0.5, **naming: Unpack[Naming]
) -> FunctionRequirement:
    """The function, or the one at `file.py:name`, says that the text is as it should be.

    It returns True or False, a reason why not (a text), both as (bool, reason), a score from 0 to 1, which must not be
    below the threshold, or a Verdict.

    Raises:
        ConfigurationError: there is no such function, or it needs other arguments than those it can be given.
    """
    return FunctionRequirement.build({"function": given, "threshold": threshold, **naming}, "function()")


def function_name(given: object) -> str:
    """What a function is called, also inside a partial; of an object that can be called, its class."""
    while isinstance(given, functools.partial):
        given = given.func
    return excerpt(str(getattr(given, "__name__", type(given).__name__)), 100)


class _Taken(NamedTuple):
    """What of a draft a function is given."""

    by_position: tuple[str, ...]
    by_name: Mapping[str, str]
    """The part of the draft, by the name of the parameter."""


def _taken(given: Callable[..., Any]) -> _Taken:
    try:
        parameters = inspect.signature(given).parameters
    except (TypeError, ValueError):
        # What has no signature takes one value, as those of C mostly do.
        return _Taken(("text",), {})
    # What a partial has bound already is not given again.
    bound = given.keywords if isinstance(given, functools.partial) else {}
    open_ones = [parameter for parameter in parameters.values() if parameter.name not in bound]
    by_name = {one.name: one.name for one in open_ones if one.name in _GIVEN_BY_NAME and _is_nameable(one)}
    others = [one for one in open_ones if one.name not in by_name]
    return _with_others(given, by_name, others)


def _with_others(given: Callable[..., Any], by_name: dict[str, str], others: list[inspect.Parameter]) -> _Taken:
    """What parameters of other names get: the first the text, the second the context."""
    offered = [part for part in ("text", "context") if part not in by_name]
    by_position: list[str] = []
    for parameter in others:
        is_positional = parameter.kind in {parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD}
        is_required = parameter.default is parameter.empty and parameter.kind not in _COLLECTING
        if is_positional and offered:
            if _is_nameable(parameter):
                by_name[parameter.name] = offered.pop(0)
            else:
                by_position.append(offered.pop(0))
        elif is_required:
            raise _unfitting(given, f"needs the argument {parameter.name!r}, which a requirement is not given")
    if not by_name and not by_position:
        if not any(parameter.kind is parameter.VAR_POSITIONAL for parameter in others):
            raise _unfitting(given, "takes no argument, so it cannot look at the answer")
        by_position = ["text"]
    return _Taken(tuple(by_position), by_name)


def _is_nameable(parameter: inspect.Parameter) -> bool:
    return parameter.kind in {parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY}


def _unfitting(given: Callable[..., Any], fault: str) -> ConfigurationError:
    return ConfigurationError(
        f"The function {function_name(given)}() {fault}.",
        hint="It is called with (text) or (text, context); reply, place, messages and context are given by name.",
    )


def _is_async(given: object) -> bool:
    while isinstance(given, functools.partial):
        given = given.func
    own_call = getattr(type(given), "__call__", None)  # noqa: B004 - whether it is async, not whether it is there
    return inspect.iscoroutinefunction(given) or inspect.iscoroutinefunction(own_call)


def _awaiting(call: Callable[[], Any]) -> Callable[[], Any]:
    async def awaited() -> Any:
        return await call()

    return awaited
