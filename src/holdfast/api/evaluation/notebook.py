"""Progress in a notebook: one cell output that is updated in place.

IPython is used where it is loaded, and never imported.
"""

from __future__ import annotations

import asyncio
import contextlib
import html
import sys
from collections import deque
from collections.abc import AsyncIterator
from typing import Any

from holdfast.api.progress.text import progress_text
from holdfast.engine.progress import Progress
from holdfast.terminal.text import printable

_KERNEL_SHELL = "ZMQInteractiveShell"
_MOST_MESSAGES = 10
_MESSAGE_CHARACTERS = 400


def is_notebook() -> bool:
    """Whether this process is the kernel of a notebook, which can show HTML."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return any(kind.__name__ == _KERNEL_SHELL for kind in type(shell).__mro__)


class NotebookDisplay:
    """Shows a session's progress until it ends, and the newest messages below it."""

    def __init__(self, progress: Progress, place: str, *, interval: float) -> None:
        self._progress, self._place, self._interval = progress, place, interval
        self._messages: deque[str] = deque(maxlen=_MOST_MESSAGES)

    def tell(self, message: str) -> None:
        """Shows a message with the next update."""
        self._messages.append(printable(message)[:_MESSAGE_CHARACTERS])

    @contextlib.asynccontextmanager
    async def showing(self) -> AsyncIterator[None]:
        """Shows progress while the block runs."""
        handle = _show_html(self._html())
        task = asyncio.create_task(self._keep_showing(handle))
        try:
            yield
        finally:
            task.cancel()
            _update_html(handle, self._html())

    async def _keep_showing(self, handle: Any) -> None:
        while True:
            await asyncio.sleep(self._interval)
            _update_html(handle, self._html())

    def _html(self) -> str:
        progress = self._progress
        bar = f'<progress value="{progress.done}" max="{max(progress.planned, 1)}"></progress>'
        lines = "".join(f"<div>{html.escape(message)}</div>" for message in self._messages)
        place = f"<code>{html.escape(printable(self._place))}</code>"
        return f"<div>{bar} {html.escape(progress_text(progress))}<br>{place}{lines}</div>"


def _show_html(text: str) -> Any:
    """Puts HTML below the cell; what is returned can update it."""
    shown = sys.modules["IPython"].display
    return shown.display(shown.HTML(text), display_id=True)


def _update_html(handle: Any, text: str) -> None:
    handle.update(sys.modules["IPython"].display.HTML(text))
