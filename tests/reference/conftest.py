"""Two tests here start the program."""

from program_fixtures import holdfast, zygote

__all__ = ["holdfast", "zygote"]
