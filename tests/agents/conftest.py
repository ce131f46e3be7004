"""Tests of agents start the program."""

from program_fixtures import holdfast, zygote

__all__ = ["holdfast", "zygote"]
