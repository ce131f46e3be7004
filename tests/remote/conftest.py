"""Tests of runs in an object store: a real server, one for each process of the tests."""

from program_fixtures import holdfast, observed, server, server_process, zygote
from store_fixtures import place, proxy, store

__all__ = ["holdfast", "observed", "place", "proxy", "server", "server_process", "store", "zygote"]
