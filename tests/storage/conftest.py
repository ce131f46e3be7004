"""Tests of storage that start the program itself."""

from program_fixtures import holdfast, server, server_process, zygote

__all__ = ["holdfast", "server", "server_process", "zygote"]
