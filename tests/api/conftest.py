"""Tests of the Python interface start the program too, and put runs into an object store."""

from program_fixtures import holdfast, server, server_process, zygote
from store_fixtures import place, store

__all__ = ["holdfast", "place", "server", "server_process", "store", "zygote"]
