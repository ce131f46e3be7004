"""The process that runs llama.cpp: serves one model on a loopback port until its standard input ends.

It is started as a plain file and imports nothing of holdfast. The first line of its input holds the options
as JSON; its output is one line with the address. The input stays open as long as the parent lives, so that a
killed parent leaves no server behind.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from typing import Any


def start(options: dict[str, Any]) -> Any:
    """The running server; it works for as long as the object lives."""
    xllamacpp = importlib.import_module("xllamacpp")

    params = xllamacpp.CommonParams()
    params.model.path = options["path"]
    params.model_alias = {options["alias"]}
    params.n_parallel = options["slots"]
    params.n_ctx = options["context"] * options["slots"]
    # More threads than free cores spin against each other and collapse to a few tokens a second.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = options["threads"]
    params.hostnames = ["127.0.0.1"]
    params.port = 0
    params.api_keys = [options["key"]]
    # A prompt that is partly cached gives slightly other numbers, and with them other words.
    params.cache_prompt = False
    return xllamacpp.Server(params)


def main() -> None:
    """Serve until the parent closes our input or dies."""
    answer = os.dup(1)
    # Whatever the native code prints belongs to the log, not into the answer.
    os.dup2(2, 1)
    server = start(json.loads(sys.stdin.readline()))
    os.write(answer, f"{server.listening_address}\n".encode())
    os.close(answer)
    sys.stdin.read()
    # The destructor would wait for work that nobody waits for any more.
    os._exit(0)


if __name__ == "__main__":
    main()
