"""The ZIP format, as far as Inspect's logs use it: names of its parts, and the entry of a member.

Python 3.11 has no method 93 (zstd), which Inspect writes; this is why the format is read and written here.
"""

import struct
from typing import NamedTuple

STORED, DEFLATED, ZSTD = 0, 8, 93
"""The methods of compression that logs use."""
LOCAL = struct.Struct("<4s5H3L2H")
CENTRAL = struct.Struct("<4s6H3L5H2L")
END = struct.Struct("<4s4H2LH")
END64 = struct.Struct("<4sQ2H2L4Q")
LOCATOR64 = struct.Struct("<4sLQL")
LOCAL_SIGN, CENTRAL_SIGN, END_SIGN = b"PK\x03\x04", b"PK\x01\x02", b"PK\x05\x06"
END64_SIGN, LOCATOR64_SIGN = b"PK\x06\x06", b"PK\x06\x07"
MAX16, MAX32 = 0xFFFF, 0xFFFFFFFF
"""What a field of two or four bytes holds if the value is in the ZIP64 part."""
ZIP64_EXTRA = 1
ENCRYPTED, UTF8_NAME = 0x1, 0x800
"""Flags of a member."""
MOST_COMMENT = 0xFFFF


class ZipEntry(NamedTuple):
    """A member of an archive, as the central directory describes it."""

    name: str
    method: int
    crc: int
    packed: int
    """Its size in the archive."""
    size: int
    """Its size when unpacked."""
    offset: int
    """Where its local header begins."""
    flags: int = 0
