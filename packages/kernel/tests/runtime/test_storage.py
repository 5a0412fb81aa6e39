"""Entries on disk: whole or absent, whoever writes and dies."""

import os
import subprocess
import sys
import time

import pytest

from calor.cache import cache_directory
from calor_kernel.device.storage import Storage, bundle_directories

KEY, OTHER = "ab" * 32, "cd" * 32


def entry(directory, key=KEY):
    return directory / key[:2] / key[2:]


def test_what_is_written_is_read(tmp_path):
    storage = Storage(tmp_path)
    assert storage.read(KEY) is None
    assert storage.write(KEY, b"image" * 1000)
    assert Storage(tmp_path).read(KEY) == b"image" * 1000
    assert list(storage.keys()) == [KEY]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:-1],
        lambda data: b"",
        lambda data: data[:60] + bytes([data[60] ^ 1]) + data[61:],
        lambda data: data + b"x",
        lambda data: b"another kind of file" + data,
    ],
)
def test_a_damaged_entry_is_none_and_goes(tmp_path, damage):
    storage = Storage(tmp_path)
    storage.write(KEY, b"image" * 100)
    path = entry(tmp_path)
    path.write_bytes(damage(path.read_bytes()))
    assert storage.read(KEY) is None
    assert not path.exists()


def test_an_entry_under_another_key_is_none_and_goes(tmp_path):
    storage = Storage(tmp_path)
    storage.write(KEY, b"one")
    storage.write(OTHER, b"other")
    entry(tmp_path).write_bytes(entry(tmp_path, OTHER).read_bytes())
    assert storage.read(KEY) is None
    assert not entry(tmp_path).exists()
    assert storage.read(OTHER) == b"other"


def test_a_bundle_is_only_read(tmp_path):
    Storage(tmp_path / "bundle").write(KEY, b"shipped")
    storage = Storage(tmp_path / "own", [tmp_path / "none", tmp_path / "bundle"])
    assert storage.read(KEY) == b"shipped"
    storage.write(KEY, b"own")
    assert storage.read(KEY) == b"own"
    path = entry(tmp_path / "bundle")
    path.write_bytes(b"damaged")
    entry(tmp_path / "own").unlink()
    assert storage.read(KEY) is None
    assert path.exists()


def test_what_was_used_long_ago_goes_first(tmp_path):
    storage = Storage(tmp_path, limit=10_000)
    keys = [f"{n:02x}" * 32 for n in range(9)]
    for n, key in enumerate(keys):
        storage.write(key, bytes(2000))
        if entry(tmp_path, key).exists():
            os.utime(entry(tmp_path, key), (time.time() - 10**6 + n,) * 2)
    storage.read(keys[0])
    storage.sweep()
    left = set(storage.keys())
    assert keys[0] in left
    assert keys[1] not in left
    assert {keys[-1], keys[-2]} <= left
    assert sum(entry(tmp_path, k).stat().st_size for k in left) <= 9000


def test_all_entries_are_looked_at_once_much_of_the_room_is_written(tmp_path, monkeypatch):
    looks = []
    sweep = Storage.sweep
    monkeypatch.setattr(Storage, "sweep", lambda self: (looks.append(self), sweep(self)))
    written = 0

    def write(count):
        nonlocal written
        for _ in range(count):
            # A storage of each device; a process counts for all of them.
            Storage(tmp_path, limit=10**6).write(f"{written:04x}" * 16, bytes(100))
            written += 1

    write(1)
    assert len(looks) == 1
    write(500)
    assert len(looks) == 1
    # An eighth of a million bytes.
    write(700)
    assert len(looks) == 2
    write(3 * 64)
    assert len(looks) == 2


def test_what_a_dead_writer_left_goes(tmp_path):
    storage = Storage(tmp_path)
    storage.write(KEY, b"image")
    left = entry(tmp_path).with_name(".half.1.2")
    left.write_bytes(b"ha")
    storage.sweep()
    assert left.exists()
    os.utime(left, (1, 1))
    storage.sweep()
    assert not left.exists()
    assert storage.read(KEY) == b"image"


def test_a_directory_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    storage = Storage(tmp_path / "file" / "cache")
    assert not storage.write(KEY, b"image")
    assert storage.read(KEY) is None
    nowhere = Storage(None)
    assert not nowhere.write(KEY, b"image")
    assert nowhere.read(KEY) is None


WRITER = """
import sys, os
from pathlib import Path
from calor_kernel.device.storage import Storage
storage = Storage(Path(sys.argv[1]))
for turn in range(40):
    for n in range(5):
        storage.write(f"{n:02x}" * 32, bytes([n]) * 50_000)
        found = storage.read(f"{n:02x}" * 32)
        assert found is None or found == bytes([n]) * 50_000, n
    if turn == int(sys.argv[2]):
        os.kill(os.getpid(), 9)
"""


def test_processes_that_write_at_once_and_die(tmp_path):
    turns = ["100", "100", "3", "9"]
    processes = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), turn]) for turn in turns
    ]
    assert [p.wait() for p in processes] == [0, 0, -9, -9]
    storage = Storage(tmp_path)
    for n in range(5):
        assert storage.read(f"{n:02x}" * 32) == bytes([n]) * 50_000


def test_where_it_is(monkeypatch, tmp_path):
    monkeypatch.setenv("CALOR_CACHE_DIR", str(tmp_path))
    assert cache_directory() == tmp_path
    monkeypatch.delenv("CALOR_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "x"))
    assert cache_directory() == tmp_path / "x" / "calor"
    monkeypatch.setenv("CALOR_BUNDLES", f"{tmp_path}{os.pathsep}{tmp_path / 'b'}")
    assert bundle_directories() == [tmp_path, tmp_path / "b"]
