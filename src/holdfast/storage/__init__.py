"""Where bytes live: one FileSystem object through which every durable byte goes, and leases."""

from holdfast.storage.filesystem import AppendFile, FileSystem, ReadFile, RealFileSystem, write_atomically
from holdfast.storage.leases.holder import LeaseHolder
from holdfast.storage.leases.local import Lease, take_lease

__all__ = [
    "AppendFile",
    "FileSystem",
    "Lease",
    "LeaseHolder",
    "ReadFile",
    "RealFileSystem",
    "take_lease",
    "write_atomically",
]
