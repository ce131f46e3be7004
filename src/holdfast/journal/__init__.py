"""The append-only journal: frames, segments, group commit, tolerant reading and the index. It knows nothing of
language models.
"""

from typing import TYPE_CHECKING

from holdfast.lazy_names import load_lazily

if TYPE_CHECKING:
    from holdfast.journal.blobs import BLOB_BYTES, BlobStore
    from holdfast.journal.damage import Damage, DamageKind
    from holdfast.journal.frame import FORMAT, RecordId
    from holdfast.journal.index.builder import Fold, RecordPlace
    from holdfast.journal.index.index import Index
    from holdfast.journal.reader import Journal, SegmentFile
    from holdfast.journal.segment import SegmentId, SegmentPin
    from holdfast.journal.segment_state import SegmentState, cross_check, scanned_state
    from holdfast.journal.writer import JournalWriter

__all__ = [
    "BLOB_BYTES",
    "FORMAT",
    "BlobStore",
    "Damage",
    "DamageKind",
    "Fold",
    "Index",
    "Journal",
    "JournalWriter",
    "RecordId",
    "RecordPlace",
    "SegmentFile",
    "SegmentId",
    "SegmentPin",
    "SegmentState",
    "cross_check",
    "scanned_state",
]

_HOMES = {
    "holdfast.journal.blobs": ("BLOB_BYTES", "BlobStore"),
    "holdfast.journal.damage": ("Damage", "DamageKind"),
    "holdfast.journal.frame": ("FORMAT", "RecordId"),
    "holdfast.journal.index.builder": ("Fold", "RecordPlace"),
    "holdfast.journal.index.index": ("Index",),
    "holdfast.journal.reader": ("Journal", "SegmentFile"),
    "holdfast.journal.segment": ("SegmentId", "SegmentPin"),
    "holdfast.journal.segment_state": ("SegmentState", "cross_check", "scanned_state"),
    "holdfast.journal.writer": ("JournalWriter",),
}
__getattr__ = load_lazily(__name__, _HOMES)
