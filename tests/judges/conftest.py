"""Tests of judges start the program and may ask a server that counts."""

from program_fixtures import holdfast, server, server_process, zygote

__all__ = ["holdfast", "server", "server_process", "zygote"]
