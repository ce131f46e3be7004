"""Stand-ins for packages that are not installed: whatever is imported from them can be called, subclassed and used as
a decorator that changes nothing.
"""

# ruff: noqa: ARG002 - it takes whatever it is given
from __future__ import annotations

import importlib.abc
import importlib.machinery
import inspect
import sys
import types

PACKAGES: tuple[str, ...] = ()
"""The names of the packages; written here for each eval."""


class Anything:
    """The base of classes whose real base is not installed: it keeps what it is given."""

    def __init_subclass__(cls, **named):
        pass

    def __init__(self, *given, **named):
        self.__dict__.update(named)

    @classmethod
    def model_validate(cls, data):
        return cls(**data) if isinstance(data, dict) else cls()

    def model_dump(self, **named):
        return dict(self.__dict__)


class Missing:
    def __init__(self, name):
        self.missing_name = name

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.missing_name}.{name}")

    def __call__(self, *given, **named):
        if len(given) == 1 and not named and (inspect.isfunction(given[0]) or inspect.isclass(given[0])):
            return given[0]
        return Missing(f"{self.missing_name}()")

    def __mro_entries__(self, bases):
        return (Anything,)

    def __getitem__(self, key):
        return self

    def __or__(self, other):
        return self

    __ror__ = __or__

    def __iter__(self):
        return iter(())

    def __fspath__(self):
        return "/no/such/place"

    def __truediv__(self, other):
        return self

    __rtruediv__ = __add__ = __radd__ = __truediv__

    def __enter__(self):
        return self

    def __exit__(self, *error):
        return None

    def __repr__(self):
        return f"<{self.missing_name}>"


class MissingModule(types.ModuleType):
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return Missing(f"{self.__name__}.{name}")

    def __setattr__(self, name, value):
        """A module inside it is not kept as an attribute: which of them were imported says nothing about a task."""
        if not isinstance(value, MissingModule):
            super().__setattr__(name, value)


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Found after everything else."""

    def find_spec(self, name, path=None, target=None):
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if name.split(".")[0] in PACKAGES else None

    def create_module(self, spec):
        return MissingModule(spec.name)

    def exec_module(self, module):
        pass


def install():
    if not any(type(one).__name__ == "Finder" and type(one).__module__ == __name__ for one in sys.meta_path):
        sys.meta_path.append(Finder())
