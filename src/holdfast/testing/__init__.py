"""Test aids for whoever tests code that must survive a crash: Holdfast's own tests, and authors of plug-ins.

- `FaultyFileSystem` lets chosen operations fail: a full disk, a failed sync.
- `RecordingFileSystem` remembers what was written and synced; `crash_states` and `random_crash_state` give what a power
  loss may leave of that.

Both wrap another FileSystem, usually a `RealFileSystem` below a temporary directory. This module is public; no code
that runs an evaluation imports it.
"""

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

__all__ = [
    "FILESYSTEM_OPERATIONS",
    "CrashState",
    "DirectoryNode",
    "FaultyFileSystem",
    "FileNode",
    "FileSystem",
    "InjectedFault",
    "RealFileSystem",
    "RecordingFileSystem",
    "crash_states",
    "file_states",
    "random_crash_state",
    "torn_forms",
]
