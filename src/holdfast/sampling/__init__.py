"""Sampling: one request, several candidates, in depth and in breadth, until one meets its requirements."""

from typing import TYPE_CHECKING

from holdfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from holdfast.sampling.solver import sampled

__all__ = ["sampled"]

_HOMES = {"holdfast.sampling.solver": ("sampled",)}
__getattr__ = load_lazily(__name__, _HOMES)
