"""References to code in an eval file: `my.py:strict` for a file, `package.module:strict` for a module."""

from __future__ import annotations

IN_MEMORY = "python:"
"""How a task that lives only in a Python process is referred to in a run's configuration."""


def is_code_reference(text: str) -> bool:
    """Whether a name stands for code in a file or a module, and not for something built in."""
    return ":" in text or text.endswith(".py")


def split_reference(reference: str) -> tuple[str, str]:
    """The file or module of a reference, and the name in it; the name is empty where none is given."""
    if ":" not in reference:
        return reference, ""
    home, _, name = reference.rpartition(":")
    return home, name


def is_moved(old: str | None, new: str | None) -> bool:
    """Whether two references name the same thing in a file that has moved; its code may still differ."""
    if not old or not new:
        return False
    (old_home, old_name), (new_home, new_name) = split_reference(old), split_reference(new)
    return old_home.endswith(".py") and new_home.endswith(".py") and old_name == new_name
