"""Test aids: for code that must survive a crash, and for authors of plug-ins.

- `FaultyFileSystem` lets chosen operations fail: a full disk, a failed sync.
- `RecordingFileSystem` remembers what was written and synced; `crash_states` and `random_crash_state` give what a power
  loss may leave of that.
- `ProviderContract` and `HttpProviderContract` are the tests that every model provider passes.

The file systems wrap another FileSystem, usually a `RealFileSystem` below a temporary directory. This module is public;
no code that runs an evaluation imports it.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_names import load_lazily
from holdfast.storage.filesystem import FileSystem, RealFileSystem
from holdfast.testing.faulty_filesystem import FILESYSTEM_OPERATIONS, FaultyFileSystem, InjectedFault
from holdfast.testing.power_loss import (
    CrashState,
    DirectoryNode,
    FileNode,
    crash_states,
    file_states,
    random_crash_state,
    torn_forms,
)
from holdfast.testing.recording_filesystem import RecordingFileSystem

if TYPE_CHECKING:
    from holdfast.testing.http_provider_contract import HttpProviderContract
    from holdfast.testing.provider_contract import ProviderContract
    from holdfast.testing.provider_scene import ContractBroken, Scene

__all__ = [
    "FILESYSTEM_OPERATIONS",
    "ContractBroken",
    "CrashState",
    "DirectoryNode",
    "FaultyFileSystem",
    "FileNode",
    "FileSystem",
    "HttpProviderContract",
    "InjectedFault",
    "ProviderContract",
    "RealFileSystem",
    "RecordingFileSystem",
    "Scene",
    "crash_states",
    "file_states",
    "random_crash_state",
    "torn_forms",
]

# These need an HTTP server: whoever tests a file system does not.
_HOMES = {
    "holdfast.testing.http_provider_contract": ("HttpProviderContract",),
    "holdfast.testing.provider_contract": ("ProviderContract",),
    "holdfast.testing.provider_scene": ("ContractBroken", "Scene"),
}
__getattr__ = load_lazily(__name__, _HOMES)
