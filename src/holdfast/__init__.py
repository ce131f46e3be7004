"""Holdfast runs evaluations of language models and never loses a finished result."""

__version__ = "0.1.0"

__all__ = ["__version__"]
