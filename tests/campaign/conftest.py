"""Campaigns start the program and may ask a server that counts."""

from program_fixtures import holdfast, server, server_process

__all__ = ["holdfast", "server", "server_process"]
