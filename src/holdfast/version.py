"""The version of this program, where every part of it can read it."""

__version__ = "0.1.0"
