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
            TypeError: a requirement gave something that is no verdict.
            ValueError: a hook replaced the verdicts by fewer or more.
            PluginViolationError: a hook blocked.
        """
        seen = context if context.node_data is output else context.add(output)
        number = str(uuid.uuid4())
        asked, options = await self._before(number, list(requirements), seen, output)
        results: list[ValidationResult] = []
        try:
            results = await self._verdicts(asked, seen, options)
        finally:
            results = await self._after(number, asked, results)
        return list(zip(asked, results, strict=True))

    async def _verdicts(
        self, requirements: list[Requirement], context: Context, options: dict[str, Any] | None
    ) -> list[ValidationResult]:
        started: list[ModelOutputThunk] = []
        backend = tracked(self._backend, started)
        checks = [self._verdict(each, backend, context, options) for each in requirements]
        if all(map(_is_quick, requirements)):
            return [await check for check in checks]
        try:
            return await together(checks)
        finally:
            await close(started)

    async def _verdict(
        self, requirement: Requirement, backend: Backend, context: Context, options: dict[str, Any] | None
    ) -> ValidationResult:
        verdict = await requirement.validate(backend, context, format=self._format, model_options=options)
        if inspect.isawaitable(verdict):
            verdict = await verdict
        if isinstance(verdict, ValidationResult):
            return verdict
        if isinstance(verdict, bool):
            return ValidationResult(verdict)
        name = requirement.description or type(requirement).__name__
        raise TypeError(f"The requirement {name!r} returned {type(verdict).__name__}, not a ValidationResult.")

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
        self, number: str, requirements: list[Requirement], results: list[ValidationResult]
    ) -> list[ValidationResult]:
        """The verdicts as a hook wants them; it is told of an error, too."""
        if not has_plugins(HookType.VALIDATION_POST_CHECK):
            return results
        from mellea.plugins.hooks.validation import ValidationPostCheckPayload  # noqa: PLC0415 - needs Mellea's extra

        error, passed = sys.exception(), sum(map(bool, results))
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
    """Whether its check is a plain call, which needs no task of its own."""
    is_stock = type(requirement).validate is Requirement.validate
    function = requirement.validation_fn
    return is_stock and function is not None and not inspect.iscoroutinefunction(function)
