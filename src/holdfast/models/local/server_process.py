"""llama.cpp in a process of its own: its crash ends that process and nothing else.

The process leaves our process group, so that a Ctrl-C does not break replies that are still wanted. It ends
when we do, however we end, because its standard input ends then.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import signal
import sys
from typing import Any

import msgspec

from holdfast.models.errors import DETAIL_LIMIT, ModelError, Rejected, Unavailable
from holdfast.models.local import server_main

_LOG_BYTES = 4096
_END_SECONDS = 5.0


class LlamaProcess:
    """One running server; made by `start`, ended by `end`."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.address = ""
        self.key = secrets.token_hex(16)
        self._process = process
        self._log = b""
        self._reader = asyncio.create_task(self._keep_log())

    @classmethod
    async def start(cls, options: dict[str, Any], seconds: float) -> LlamaProcess:
        """A server that listens; a ModelError where it did not come up."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", server_main.__file__),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            start_new_session=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        )
        started = cls(process)
        try:
            started.address = await started._read_address(options, seconds)
        finally:
            if not started.address:
                await started.end()
        return started

    async def ended(self) -> str | None:
        """How the process came to its end, in words; None while it runs."""
        # A broken connection is seen a moment before the end of the process that caused it.
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._process.wait(), 0.2)
        return _describe_exit(self._process.returncode)

    @property
    def running(self) -> bool:
        return self._process.returncode is None

    @property
    def log(self) -> str:
        """What it logged last; its error lines where there are any."""
        lines = self._log.decode("utf-8", "replace").splitlines()
        wrong = [line for line in lines if " E " in line]
        return "\n".join(wrong or lines)[-DETAIL_LIMIT:]

    async def end(self) -> None:
        """End the process and wait for its end."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        try:
            await asyncio.wait_for(self._process.wait(), _END_SECONDS)
        except TimeoutError:
            self._process.kill()
            await self._process.wait()
        finally:
            if self.running:
                self._process.kill()
            await self._reader

    async def _read_address(self, options: dict[str, Any], seconds: float) -> str:
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise Unavailable("llama.cpp was started without pipes.")
        stdin.write(msgspec.json.encode({**options, "key": self.key}) + b"\n")
        try:
            line = await asyncio.wait_for(stdout.readline(), seconds)
        except TimeoutError:
            line = b""
        if not line:
            raise await self._failure(options["path"], seconds)
        return line.decode().strip()

    async def _failure(self, path: str, seconds: float) -> ModelError:
        how = await self.ended()
        if how is None:
            return Unavailable(f"llama.cpp did not load {path} within {seconds:g} s.", detail=self.log)
        await self._reader
        if (self._process.returncode or 0) < 0:
            return Unavailable(f"llama.cpp {how} while it loaded {path}.", detail=self.log)
        return Rejected(f"llama.cpp could not load {path}.", detail=self.log)

    async def _keep_log(self) -> None:
        stderr = self._process.stderr
        while stderr is not None and (chunk := await stderr.read(_LOG_BYTES)):
            self._log = (self._log + chunk)[-_LOG_BYTES:]


def _describe_exit(returncode: int | None) -> str | None:
    if returncode is None:
        return None
    if returncode < 0:
        return f"was ended by {signal.Signals(-returncode).name}"
    return f"ended with exit code {returncode}"
