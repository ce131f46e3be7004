"""The version of this program, where every part of it can read it."""

__version__ = "0.1.0"

SCHEMA_VERSION = 2
"""Of the JSON objects that commands print and `progress_file` holds; raised when a key changes its meaning or goes."""
