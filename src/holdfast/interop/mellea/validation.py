"""Checking an attempt against Mellea's requirements, with Mellea's hooks around it."""

from __future__ import annotations

import inspect
import sys
import uuid
from collections.abc import Sequence
from typing import Any

from mellea.core import Backend, Context, ModelOutputThunk, Requirement, ValidationResult
from mellea.plugins.manager import has_plugins, invoke_hook
from mellea.plugins.types import HookType

from holdfast.interop.mellea.attempts import Validations
from holdfast.interop.mellea.closing import close, together, tracked


class Validator:
    """Checks the attempts of one sampling."""

    def __init__(self, backend: Backend, format: type | None, model_options: dict[str, Any] | None) -> None:  # noqa: A002 - Mellea's name
        self._backend, self._format, self._model_options = backend, format, model_options

    async def validate(
        self, requirements: Sequence[Requirement], context: Context, output: ModelOutputThunk
    ) -> Validations:
        """Each requirement with its verdict. The output is added to the context, unless it is its last entry.

        Raises:
            TypeError: a requirement gave something that is not a verdict.
            ValueError: a hook replaced the verdicts by fewer or more.
            PluginViolationError: a hook blocked.
        """
        seen = context if context.node_data is output else context.add(output)
        if not (has_plugins(HookType.VALIDATION_PRE_CHECK) or has_plugins(HookType.VALIDATION_POST_CHECK)):
            return list(zip(requirements, await self._verdicts(requirements, seen, self._model_options), strict=True))
        return await self._validate_with_hooks(list(requirements), seen, output)

    async def _validate_with_hooks(
        self, requirements: list[Requirement], context: Context, output: ModelOutputThunk
    ) -> Validations:
        number = str(uuid.uuid4())
        asked, options = await self._before(number, requirements, context, output)
        results: list[ValidationResult] | None = None
        try:
            results = await self._verdicts(asked, context, options)
        finally:
            if results is None:
                await self._after(number, asked, [], sys.exception())
        return list(zip(asked, await self._after(number, asked, results, None), strict=True))

    async def _verdicts(
        self, requirements: Sequence[Requirement], context: Context, options: dict[str, Any] | None
    ) -> list[ValidationResult]:
        if all(map(_is_quick, requirements)):
            found = [requirement.validation_fn(context) for requirement in requirements]
            return [await _as_verdict(each, requirement) for each, requirement in zip(found, requirements, strict=True)]
        started: list[ModelOutputThunk] = []
        backend = tracked(self._backend, started)
        try:
            return await together([self._verdict(each, backend, context, options) for each in requirements])
        finally:
            await close(started)

    async def _verdict(
        self, requirement: Requirement, backend: Backend, context: Context, options: dict[str, Any] | None
    ) -> ValidationResult:
        found = await requirement.validate(backend, context, format=self._format, model_options=options)
        return await _as_verdict(found, requirement)

    async def _before(
        self, number: str, requirements: list[Requirement], context: Context, output: ModelOutputThunk
    ) -> tuple[list[Requirement], dict[str, Any] | None]:
        """The requirements and options as a hook wants them."""
        options = self._model_options
        if not has_plugins(HookType.VALIDATION_PRE_CHECK):
            return requirements, options
        from mellea.plugins.hooks.validation import ValidationPreCheckPayload  # noqa: PLC0415 - needs Mellea's extra

        payload = ValidationPreCheckPayload(
            validation_id=number,
            requirements=requirements,
            target=output,
            context=context,
            model_options=options or {},
        )
        _, payload = await invoke_hook(HookType.VALIDATION_PRE_CHECK, payload, backend=self._backend)
        return list(payload.requirements), payload.model_options or options

    async def _after(
        self,
        number: str,
        requirements: list[Requirement],
        results: list[ValidationResult],
        error: BaseException | None,
    ) -> list[ValidationResult]:
        """The verdicts as a hook wants them; it also gets errors."""
        if not has_plugins(HookType.VALIDATION_POST_CHECK):
            return results
        from mellea.plugins.hooks.validation import ValidationPostCheckPayload  # noqa: PLC0415 - needs Mellea's extra

        passed = sum(map(bool, results))
        payload = ValidationPostCheckPayload(
            validation_id=number,
            requirements=requirements,
            results=results,
            all_validations_passed=error is None and passed == len(results),
            passed_count=passed,
            failed_count=len(results) - passed,
            exception=error,
        )
        _, payload = await invoke_hook(HookType.VALIDATION_POST_CHECK, payload, backend=self._backend)
        replaced = list(payload.results)
        if error is None and len(replaced) != len(requirements):
            raise ValueError(
                f"A VALIDATION_POST_CHECK hook returned {len(replaced)} verdicts on {len(requirements)} requirements."
            )
        return replaced


def _is_quick(requirement: Requirement) -> bool:
    """Whether its check is a call of a plain function, which needs no task of its own."""
    function = requirement.validation_fn
    return (
        inspect.isfunction(function)
        and not inspect.iscoroutinefunction(function)
        and type(requirement).validate is Requirement.validate
    )


async def _as_verdict(found: object, requirement: Requirement) -> ValidationResult:
    """What a requirement has found; a function that is async has found nothing yet."""
    if inspect.isawaitable(found):
        found = await found
    if isinstance(found, ValidationResult):
        return found
    if isinstance(found, bool):
        return ValidationResult(found)
    name = requirement.description or type(requirement).__name__
    raise TypeError(f"The requirement {name!r} returned {type(found).__name__}, not a ValidationResult.")
