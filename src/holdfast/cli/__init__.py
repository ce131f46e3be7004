"""The command line: one file per command, in folders by the groups of `--help`, loaded when it is called."""

from holdfast.cli.main import main

__all__ = ["main"]
