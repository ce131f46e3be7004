"""The progress bar of a sampling, where Mellea shows one."""

from __future__ import annotations

from typing import Any

from mellea.core import MelleaLogger


class SamplingProgress:
    """Counts candidates; shown while Mellea's logger shows messages about them."""

    def __init__(self, title: str, *, is_shown: bool) -> None:
        self._title = title
        self._bar: Any = None
        self._is_shown = is_shown and MelleaLogger.get_logger().getEffectiveLevel() <= MelleaLogger.INFO

    def open(self, total: int) -> None:
        """Shows it, at 0."""
        if self._is_shown:
            import tqdm  # noqa: PLC0415 - only where it is shown

            self._bar = tqdm.tqdm(total=total, desc=self._title)

    def update(self) -> None:
        """One more candidate."""
        if self._bar is not None:
            self._bar.update()

    def close(self) -> None:
        """Ends the line, on whatever path."""
        if self._bar is not None:
            self._bar.close()
