"""Files: whole or not at all when written; one line with the path and a cure when they cannot be read."""

import errno
import json
import os

import pytest

from privlab.compute.files import guarded, make_folder, visible, write_atomic


def test_a_file_is_written_with_its_folders_and_a_link_stays_one(tmp_path):
    tmp_path.chmod(0o777)  # whoever may write in a folder may write in the folders made in it
    target, link = tmp_path / "a/b/file.bin", tmp_path / "link"
    link.symlink_to(target)
    before = os.umask(0o022)
    try:
        for content in (b"one", b"two"):
            write_atomic(str(link), content)
    finally:
        os.umask(before)
    assert target.read_bytes() == b"two" and os.listdir(target.parent) == ["file.bin"] and link.is_symlink()
    assert [(tmp_path / name).stat().st_mode & 0o777 for name in ("a", "a/b")] == [0o777, 0o777]
    write_atomic("/dev/null", b"content")
    assert not os.path.isfile("/dev/null")


def test_a_full_disk_leaves_the_old_file_and_no_rubbish(tmp_path, monkeypatch):
    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    write_atomic(target := tmp_path / "weights", b"old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match=r"cannot write .*weights: No space left on device; make room") as raised:
        write_atomic(target, b"new")
    assert raised.value.errno == errno.ENOSPC and target.read_bytes() == b"old" and os.listdir(tmp_path) == ["weights"]
    with pytest.raises(OSError, match=r"out='.*weights' cannot be a folder to write in: File exists; give another"):
        make_folder(target)


@pytest.mark.parametrize("content", [b"{}", b"[" * 100_000])
def test_whatever_a_file_holds_it_is_told_in_one_line_with_a_cure(tmp_path, content):
    file = tmp_path / "file.json"
    file.write_bytes(content)
    with pytest.raises(ValueError) as caught, guarded(file, "is no note", "run the labs again"):
        json.loads(file.read_bytes())["a"]
    line = str(caught.value)
    assert line.startswith(f"{file} is no note (") and line.endswith("); run the labs again") and "\n" not in line


def test_what_is_hidden_is_not_what_a_person_has_put_there(tmp_path):
    for name in ("b.jpg", "a.jpg", ".c.jpg", "in/d.jpg", ".ipynb_checkpoints/e.jpg", "__MACOSX/f.jpg"):
        write_atomic(tmp_path / name, b"")
    assert visible(tmp_path, "**/*.jpg") == [tmp_path / name for name in ("a.jpg", "b.jpg", "in/d.jpg")]
