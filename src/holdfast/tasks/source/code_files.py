"""Where the code of a task is: beside the eval file or, once that is gone, as copies in the run.

Every task has such a place, and few have code: what imports it is loaded when there is some.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

FindCopy = Callable[[str], Path | None]
"""From a file's name, as `relative_name` gives it, to the run's copy of that file; None if absent."""


class CodeFiles(NamedTuple):
    """The files that references in an eval lead to."""

    directory: Path
    """Where relative paths start."""
    find_copy: FindCopy | None = None
    """Asked only for a file that no longer exists."""

    def module(self, home: str) -> ModuleType:
        """The module of a file (`checks/my.py`), or a module by its dotted name.

        Raises:
            ConfigurationError: it does not exist, or raises when it is imported.
        """
        from holdfast.tasks.source.importing import import_file  # noqa: PLC0415

        if not home.endswith(".py"):
            return self._module_by_name(home)
        path = (self.directory / home).absolute()
        # A file that another user may not look at does not exist here.
        copy = None if os.path.exists(path) else self._copy_of(path)  # noqa: PTH110 - the other form raises
        if copy is None:
            return import_file(path, home)
        with _saying_that_it_is_a_copy(str(path)):
            return import_file(copy, home)

    def _module_by_name(self, name: str) -> ModuleType:
        from holdfast.tasks.source.importing import MissingModule, import_module  # noqa: PLC0415

        try:
            return import_module(name, self.directory)
        except MissingModule:
            base = self._base_of_copy(name.split("."))
            if base is None:
                raise
        with _saying_that_it_is_a_copy(f"{name} in {self.directory}"):
            return import_module(name, base)

    def _base_of_copy(self, parts: list[str]) -> Path | None:
        """The directory from which the copy of a module can be imported by its name, if there is a copy."""
        package = self.directory.joinpath(*parts)
        if copy := self._copy_of(package.with_suffix(".py")):
            return copy.parents[len(parts) - 1]
        copy = self._copy_of(package / "__init__.py")
        return None if copy is None else copy.parents[len(parts)]

    def _copy_of(self, path: Path) -> Path | None:
        copy = None if self.find_copy is None else self.find_copy(relative_name(path, self.directory))
        if copy is not None:
            from holdfast.tasks.source.unpacked_copies import remember_original  # noqa: PLC0415

            remember_original(copy, path.absolute())
        return copy


@contextmanager
def _saying_that_it_is_a_copy(gone: str) -> Iterator[None]:
    """What lay beside a file is not with its copy: where the copy cannot be loaded, the files may have been moved."""
    from holdfast.errors import ConfigurationError  # noqa: PLC0415 - no code, no error

    try:
        yield
    except ConfigurationError as error:
        hint = (
            "If the directory was moved, say where it is now: `holdfast resume RUN --set directory=PATH`, or the same"
            " `holdfast run` as before from there with `--run-dir RUN --or-resume`."
        )
        text = f"{error} The run's own copy was loaded, since {gone} no longer exists; what lay beside it may be gone."
        raise ConfigurationError(text, hint=hint) from None


CodeBase = Path | CodeFiles
"""Where code is looked for: a directory alone, or one with copies behind it."""


def as_code_files(base: CodeBase) -> CodeFiles:
    return CodeFiles(base) if isinstance(base, Path) else base


def relative_name(path: Path, directory: Path) -> str:
    """A name for the copy of a file, which keeps files of one directory together, also of one outside the eval's."""
    relative = Path(os.path.relpath(path, directory))
    return "/".join(part for part in relative.parts if part != os.pardir)
