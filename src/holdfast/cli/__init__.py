"""The command line: one file per verb, loaded when it is called."""

from holdfast.cli.main import main

__all__ = ["main"]
