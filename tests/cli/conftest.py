"""Tests of the command line start the program and may ask a server that counts."""

from program_fixtures import holdfast, observed, server, server_process, zygote

__all__ = ["holdfast", "observed", "server", "server_process", "zygote"]
