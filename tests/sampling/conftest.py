"""The program and a counting server, for those tests that need real processes."""

from __future__ import annotations

from program_fixtures import holdfast, observed, server, server_process, zygote

__all__ = ["holdfast", "observed", "server", "server_process", "zygote"]
