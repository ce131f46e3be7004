"""Importing a file that a person wrote: under a private name, with its neighbours in reach.

Whatever goes wrong inside that file is one sentence with the file and the line, never a traceback. `sys.path` is as
before once the file is loaded; what a function imports later from beside its file is still found.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import linecache
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from types import ModuleType, TracebackType

from holdfast.errors import ConfigurationError, HoldfastError
from holdfast.tasks.source.origin import is_local

MODULE_PREFIX = "holdfast_task_"
"""What the names of modules begin with that were imported from a file."""


class MissingModule(ConfigurationError):  # noqa: N818 - reads as a sentence where it is raised
    """There is no module of that name; what a module that exists imports may be missing too, which is not this."""


def import_file(path: Path, shown: str) -> ModuleType:
    """The module of a file; loaded again only when the file has changed."""
    source = _read_source_file(path, shown)
    name = _module_name(path)
    loaded = sys.modules.get(name)
    if loaded is not None and getattr(loaded, "__holdfast_source__", None) == source:
        return loaded
    return _execute_module(name, path, source, shown)


def _module_name(path: Path) -> str:
    """A name that says nothing about where the file lies; a number tells files of one name apart."""
    first = _first_name(path)
    names = itertools.chain([first], (f"{first}_{number}" for number in itertools.count(2)))
    return next(name for name in names if name not in sys.modules or _is_from(sys.modules[name], path))


def _first_name(path: Path) -> str:
    return MODULE_PREFIX + re.sub(r"\W", "_", path.stem)


def unnumbered(name: str) -> str:
    """The name of a module that was imported from a file, as it is where no other file has that name."""
    module = sys.modules.get(name) if name.startswith(MODULE_PREFIX) else None
    return _first_name(Path(str(module.__file__))) if module is not None else name


def main_module_name() -> str:
    """The name that the file which this process was started with has where it is imported; empty without a file."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return _first_name(Path(file)) if isinstance(file, str) else ""


def _is_from(module: ModuleType, path: Path) -> bool:
    return getattr(module, "__file__", None) == str(path)


def import_module(name: str, base: Path) -> ModuleType:
    """A module by its dotted name, from beside the eval file or from what is installed."""
    with reachable(base), guarded(f"The module {name!r}"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            raise MissingModule(
                f"There is no module {error.name!r}.", hint="To name a file, write its ending too: tasks.py:name."
            ) from None


class guarded:  # noqa: N801 - reads as a word where it is used
    """Turns any error of a person's own code into one sentence that names the file and the line."""

    def __init__(self, what: str) -> None:
        self.what = what

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, _type: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None or isinstance(error, HoldfastError | KeyboardInterrupt | GeneratorExit):
            return
        if isinstance(error, SyntaxError) and error.filename and is_local(error.filename):
            place = f"{Path(error.filename).name} line {error.lineno}"
            raise ConfigurationError(f"{self.what} is not valid Python: {place}: {error.msg}.") from None
        from holdfast.models.environment_keys import hide_environment_keys  # noqa: PLC0415
        from holdfast.models.redaction import redact_error  # noqa: PLC0415 - for an error only

        hide_environment_keys()
        said = " ".join(redact_error(f"{type(error).__name__}: {error}").split())[:300]
        raise ConfigurationError(f"{self.what} raised {said.rstrip('.: ')}{_own_line(trace)}.") from None


@contextmanager
def reachable(directory: Path) -> Iterator[None]:
    """The files of a directory can be imported by name, first of all inside and last of all afterwards."""
    entry = str(directory)
    _forget_namesakes(directory)
    sys.path.insert(0, entry)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        if entry in sys.path:
            sys.path.remove(entry)
        _Beside.remember(entry)


class _Beside:
    """Finds what lies beside a loaded task file when nothing else does."""

    directories: list[str]

    def __init__(self) -> None:
        self.directories = []

    @classmethod
    def remember(cls, directory: str) -> None:
        finder = next((found for found in sys.meta_path if isinstance(found, cls)), None)
        if finder is None:
            finder = cls()
            sys.meta_path.append(finder)
        finder.directories = [directory, *(other for other in finder.directories if other != directory)]

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return PathFinder.find_spec(fullname, self.directories, target) if path is None else None

    @classmethod
    def known(cls) -> set[str]:
        return {directory for found in sys.meta_path if isinstance(found, cls) for directory in found.directories}


def _forget_namesakes(directory: Path) -> None:
    """Let go of modules from beside another task file that this directory has a module of the same name for."""
    others = _Beside.known() - {str(directory)}
    for name, module in list(sys.modules.items()):
        home = getattr(module, "__file__", None)
        if home is None or "." in name or not {str(Path(home).parent), str(Path(home).parent.parent)} & others:
            continue
        if (directory / f"{name}.py").is_file() or (directory / name).is_dir():
            for key in [key for key in sys.modules if key == name or key.startswith(f"{name}.")]:
                del sys.modules[key]


def _execute_module(name: str, path: Path, source: bytes, shown: str) -> ModuleType:
    with guarded(shown):
        code = compile(source, str(path), "exec", dont_inherit=True)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None:
        raise ConfigurationError(f"{shown} cannot be imported.")
    module = importlib.util.module_from_spec(spec)
    module.__dict__["__holdfast_source__"], module.__dict__["__holdfast_code__"] = source, code
    _remember_lines(path, source)
    sys.modules[name] = module
    try:
        with reachable(path.parent), guarded(shown):
            exec(code, module.__dict__)  # noqa: S102 - running the person's own file is what was asked for
    except ConfigurationError:
        del sys.modules[name]
        raise
    return module


def _remember_lines(path: Path, source: bytes) -> None:
    """Keep the lines that run, so that a digest taken later is of them and not of a file edited since."""
    text = importlib.util.decode_source(source)
    linecache.cache[str(path)] = (len(text), None, text.splitlines(keepends=True), str(path))


def _read_source_file(path: Path, shown: str) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise ConfigurationError(f"The file {shown} does not exist.", hint=f"The path is {path}.") from None
    except OSError as error:
        raise ConfigurationError(f"The file {shown} cannot be read: {error.strerror}.") from None


def _own_line(trace: TracebackType | None) -> str:
    """The innermost line of one's own code, as the end of a sentence."""
    import traceback  # noqa: PLC0415 - for an error only

    own = [frame for frame in traceback.extract_tb(trace) if is_local(frame.filename)]
    return f" (in {Path(own[-1].filename).name} line {own[-1].lineno})" if own else ""
