"""Whether objects are the files of a spool: one comparison, and what was the same is not read again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import obstore
import pytest

from evals import fast_eval
from holdfast.run.core.layout import Layout, spool_root
from holdfast.run.remote.healing import heal_segments, heal_store
from holdfast.run.remote.upload_set import UploadSet
from holdfast.storage import object_comparison
from holdfast.storage.object_comparison import COMPARED_FILE, ObjectComparison, is_same_object, is_tag_of
from holdfast.storage.object_store import ObjectStore


@pytest.fixture
def stored(place, tmp_path):
    """A store with one object, its entry in the listing, and the same file here."""
    path = tmp_path / "spool" / "blobs" / "b"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"content")
    place.write("blobs/b", b"content")
    store = ObjectStore(place.url)
    return store, store.list()[0], path


@pytest.fixture
def reads(monkeypatch):
    """The files that were read to be compared."""
    found, real = [], object_comparison._md5_of
    monkeypatch.setattr(object_comparison, "_md5_of", lambda path: (found.append(path.name), real(path))[1])
    return found


def compared(stored, tmp_path):
    store, entry, path = stored
    comparison = ObjectComparison(store, tmp_path / "spool")
    same = comparison.is_same(entry, path)
    comparison.save()
    return same


def test_recovery_39_what_was_the_same_is_not_read_again(stored, tmp_path, reads):
    """While neither the listing nor the file says that something has changed."""
    assert compared(stored, tmp_path) and compared(stored, tmp_path)
    assert reads == ["b"]


def test_recovery_39_a_file_that_has_changed_is_read_again(stored, tmp_path, reads):
    """Also one of the same size; what differs is not remembered."""
    assert compared(stored, tmp_path)
    stored[2].write_bytes(b"CONTENT")
    assert not compared(stored, tmp_path) and not compared(stored, tmp_path)
    assert reads == ["b"] * 3


def test_recovery_39_an_object_that_has_changed_is_read_again(stored, tmp_path, place, reads):
    """Its tag in the listing is another one."""
    assert compared(stored, tmp_path)
    place.write("blobs/b", b"CONTENT")
    store, _, path = stored
    assert not compared((store, store.list()[0], path), tmp_path)
    assert reads == ["b", "b"]


@pytest.mark.parametrize("kept", [b"", b"{", b'{"blobs/b": 1}'])
def test_recovery_39_a_memory_that_cannot_be_read_is_no_memory(stored, tmp_path, reads, kept):
    (tmp_path / "spool" / object_comparison.COMPARED_FILE).write_bytes(kept)
    assert compared(stored, tmp_path)
    assert reads == ["b"]


def test_a_tag_that_is_no_digest_says_nothing(stored, tmp_path, monkeypatch):
    """Bytes are compared then; a tail that agrees vouches for a segment, and is not remembered as the whole."""
    store, entry, path = stored
    entry = entry._replace(tag='"0x8DC-2"')
    assert is_tag_of(entry.tag, path) is None
    assert is_same_object(store, entry, path) and is_same_object(store, entry, path, 4)
    path.write_bytes(b"CONtent")
    assert not is_same_object(store, entry, path)
    comparison = ObjectComparison(store, tmp_path / "spool")
    assert comparison.is_same(entry, path, 4)
    comparison.save()
    monkeypatch.setattr(obstore, "get_range", lambda *_, **__: pytest.fail("the whole is compared"))
    assert not ObjectComparison(store, tmp_path / "spool").is_same(entry, path)


def test_recovery_39_a_second_resume_reads_only_what_is_new(holdfast, place, server, tmp_path, reads):
    """Inputs, blobs and segments that an earlier comparison has seen are not read to be compared."""
    holdfast("run", fast_eval(tmp_path, server, 3), "--run-dir", place.url, code=0)
    (spool,) = (path.parent for path in place.spool.glob("*/journal"))
    store, layout = ObjectStore(place.url), Layout(spool)
    for _ in range(2):
        assert heal_segments(store, layout).changes == [] and heal_store(store, layout) == []
        assert UploadSet(store, layout).missing(everything=True) == []
    assert len(reads) == len(set(reads)) > 1


def test_recovery_39_objects_that_were_deleted_are_forgotten(stored, tmp_path, place):
    """The memory does not grow for ever; what is there and was not compared this time is kept."""
    store, _, path = stored
    for name in ("c", "d"):
        path.with_name(name).write_bytes(name.encode())
        place.write(f"blobs/{name}", name.encode())
    comparison = ObjectComparison(store, tmp_path / "spool")
    for entry in store.list():
        assert comparison.is_same(entry, tmp_path / "spool" / entry.key)
    comparison.save()
    path.unlink()
    place.delete("blobs/b")
    ObjectComparison(store, tmp_path / "spool").save()
    kept = msgspec.json.decode((tmp_path / "spool" / COMPARED_FILE).read_bytes())
    assert sorted(kept) == ["blobs/c", "blobs/d"]


def test_recovery_39_what_a_killed_comparison_leaves_does_not_keep_the_spool(holdfast, place, tmp_path, server):
    """Its temporary file has a name that `clean --local` knows."""
    holdfast("run", fast_eval(tmp_path, server, 2), "--run-dir", place.url, code=0)
    root, left = spool_root(place.url), []
    replace = Path.replace

    def killed(self, target):
        left.append(self)
        raise OSError

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Path, "replace", killed)
        comparison = ObjectComparison(ObjectStore(place.url), root)
        comparison._now["blobs/x"] = ("tag", 1, 2, 3)
        (root / "blobs").mkdir(exist_ok=True)
        (root / "blobs" / "x").touch()
        comparison.save()
        (root / "blobs" / "x").unlink()
    assert Path.replace is replace and left[0].exists()
    holdfast("clean", place.url, "--local", code=0)
    assert not left[0].exists() and not root.exists()
