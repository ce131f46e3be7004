"""The append-only journal: frames, segments, group commit, tolerant reading and the index. It knows nothing of
language models.
"""

from holdfast.journal.blobs import BLOB_BYTES, BlobStore
from holdfast.journal.damage import Damage, DamageKind
from holdfast.journal.frame import FORMAT, RecordId
from holdfast.journal.index.builder import IndexEntry
from holdfast.journal.index.database import ClosingRule
from holdfast.journal.index.index import Index, IndexRow
from holdfast.journal.reader import Journal, SegmentFile
from holdfast.journal.segment import SegmentId, SegmentPin
from holdfast.journal.segment_state import SegmentState, cross_check, scanned_state
from holdfast.journal.writer import JournalWriter

__all__ = [
    "BLOB_BYTES",
    "FORMAT",
    "BlobStore",
    "ClosingRule",
    "Damage",
    "DamageKind",
    "Index",
    "IndexEntry",
    "IndexRow",
    "Journal",
    "JournalWriter",
    "RecordId",
    "SegmentFile",
    "SegmentId",
    "SegmentPin",
    "SegmentState",
    "cross_check",
    "scanned_state",
]
