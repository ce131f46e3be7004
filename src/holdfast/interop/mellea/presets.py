"""Mellea's presets, with strategies from here."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from mellea.stdlib.sampling import presets

from holdfast.interop.mellea.strategies import ModelFriendlyRepairStrategy


def _on_engine(make: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(make)
    def made(*args: Any, **settings: Any) -> Any:
        preset = make(*args, **settings)
        theirs = preset.strategy
        preset.strategy = ModelFriendlyRepairStrategy(loop_budget=theirs.loop_budget, requirements=theirs.requirements)
        return preset

    return made


python_code_generation_sampling = _on_engine(presets.python_code_generation_sampling)
python_plotting_sampling = _on_engine(presets.python_plotting_sampling)
