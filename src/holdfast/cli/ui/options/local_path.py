"""The path of an option that names a place on this machine: what is meant as a URL never becomes a directory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from holdfast.errors import UsageError


class LocalPath(click.Path):
    """A path that refuses URLs; `Path` would drop a slash of one and take the rest for directories."""

    def __init__(self, *, dir_okay: bool = True) -> None:
        super().__init__(path_type=Path, dir_okay=dir_okay)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The path, as click makes it.

        Raises:
            UsageError: it is a URL.
        """
        if "://" in str(value):
            name = param.opts[0] if isinstance(param, click.Option) else getattr(param, "human_readable_name", "this")
            raise UsageError(
                f"{value} is a URL, and {name} takes a path on this machine.", hint="Name a directory or a file here."
            )
        return super().convert(value, param, ctx)
