"""Files of other programs: shards and their index, NumPy's, GGUF; pickles are refused."""

from __future__ import annotations

import hashlib
import io
import json
import pickle
import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import calor
from calor.errors import DTypeError, FormatError
from calor.gguf_file import _BLOCKS, _PLAIN

A, B = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1, 2], np.int8)
INDEX = "model.safetensors.index.json"


@pytest.fixture
def shards(tmp_path: Path) -> Path:
    for name, held in (("one", {"a": A}), ("two", {"b": B})):
        calor.write_safetensors(tmp_path / f"{name}.safetensors", held)
    places = {"a": "one.safetensors", "b": "two.safetensors"}
    index = {"metadata": {"total_size": 26}, "weight_map": places}
    (tmp_path / INDEX).write_text(json.dumps(index))
    return tmp_path


@pytest.mark.parametrize("part", [INDEX, ""])
def test_shards_read_as_one_file(shards: Path, part: str) -> None:
    file = calor.read_safetensors(shards / part)
    assert sorted(file) == ["a", "b"]
    assert len(file) == 2
    assert file["a"].tolist() == A.tolist()
    assert file.specs["b"].dtype is calor.int8
    assert file.metadata == {"total_size": "26"}
    loaded = calor.load(str(shards / part))
    assert loaded["b"].tolist() == B.tolist()


def test_a_folder_without_an_index_is_all_its_files(shards: Path) -> None:
    (shards / INDEX).unlink()
    assert sorted(calor.load(shards)) == ["a", "b"]
    calor.write_safetensors(shards / "three.safetensors", {"a": A})
    with pytest.raises(FormatError, match=r"'a' is in one\.safetensors and in three"):
        calor.load(shards)


def test_only_shards_that_are_asked_for_are_opened(shards: Path) -> None:
    (shards / "two.safetensors").unlink()
    file = calor.read_safetensors(shards)
    assert file.tensor("a").tolist() == A.tolist()
    with pytest.raises(FormatError, match=r"the shard two\.safetensors is missing"):
        file["b"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[", "no index of shards"),
        ("[]", "no index of shards"),
        ('{"weight_map": 3}', "no index of shards"),
        ('{"weight_map": {"a": "../one.safetensors"}}', "no file of the same folder"),
        ('{"weight_map": {"a": 3}}', "no file of the same folder"),
        ('{"weight_map": {"c": "one.safetensors"}}', "'c' is not in one.safetensors"),
    ],
)
def test_an_index_that_is_wrong(shards: Path, text: str, message: str) -> None:
    (shards / INDEX).write_text(text)
    with pytest.raises(FormatError, match=message):
        calor.load(shards)


def test_folders_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"no safetensors files \(PyTorch's: none\)"):
        calor.load(tmp_path)
    for name in ("a", "b"):
        (tmp_path / f"{name}{INDEX.removeprefix('model')}").write_text("{}")
    with pytest.raises(FormatError, match="several indices, a.safetensors"):
        calor.load(tmp_path)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_npz_is_tensors_by_name(tmp_path: Path, write: Any, stream: bool) -> None:
    path = tmp_path / "x.npz"
    write(path, a=A, b=B)
    found = calor.load(io.BytesIO(path.read_bytes()) if stream else path)
    assert found["a"].tolist() == A.tolist()
    assert found["b"].dtype is calor.int8


def test_npy_is_a_tensor(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", A.T)
    assert calor.load(tmp_path / "x.npy").tolist() == A.T.tolist()


def test_files_that_may_run_code_are_refused(tmp_path: Path) -> None:
    objects = tmp_path / "objects.npy"
    np.save(objects, np.array([{}, None]), allow_pickle=True)
    with pytest.raises(FormatError, match="NumPy cannot read the file"):
        calor.load(objects)
    (tmp_path / "x.pt").write_bytes(pickle.dumps({"a": A}))
    with zipfile.ZipFile(tmp_path / "y.pt", "w") as file:
        file.writestr("archive/data.pkl", b"")
    for name in ("x.pt", "y.pt"):
        with pytest.raises(FormatError, match=r"a pickle, .* torch\.load\(path, weights_only=True"):
            calor.load(tmp_path / name)
    (tmp_path / "broken.npz").write_bytes(b"PK\x03\x04" + bytes(20))
    with pytest.raises(FormatError, match="NumPy cannot read the file"):
        calor.load(tmp_path / "broken.npz")


# GGUF.


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def gguf(kind: int, shape: tuple[int, ...], data: bytes, version: int = 3) -> bytes:
    head = b"GGUF" + struct.pack("<IQQ", version, 1, 3)
    head += text("general.architecture") + struct.pack("<I", 8) + text("none")
    head += text("rate") + struct.pack("<If", 6, 0.5)
    head += text("words") + struct.pack("<IIQ", 9, 8, 2) + text("a") + text("b")
    head += text("w") + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape[::-1])
    head += struct.pack("<IQ", kind, 0)
    return head + bytes(-len(head) % 32) + data


@pytest.mark.parametrize("kind", sorted(_PLAIN))
def test_gguf_of_plain_types(kind: int) -> None:
    array = np.array([[1, 2, 3], [4, 5, 6]]).astype(_PLAIN[kind])
    file = calor.read_gguf(io.BytesIO(gguf(kind, (2, 3), array.tobytes())))
    assert file.metadata == {"general.architecture": "none", "rate": 0.5, "words": ["a", "b"]}
    assert file["w"].dtype == array.dtype
    assert file["w"].tolist() == array.tolist()
    assert file.specs["w"].shape == (2, 3)


# Digests of what the package gguf, version 0.19, makes of the same bytes.
DIGESTS = {
    2: "87041be51aa820a9",
    3: "d34e0e48258b28fd",
    6: "9a9a907e3e96a1bb",
    7: "b593667c4cf33ad2",
    8: "07ff77852572e44d",
    10: "27dbac890227242a",
    11: "95690b6f7a816960",
    12: "dbe35c6ba0b5b050",
    13: "6bd26133366e42e7",
    14: "1fabe84924b37726",
}


def blocks(kind: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(kind).integers(0, 256, (8, _BLOCKS[kind].nbytes), np.uint8)


@pytest.mark.parametrize("kind", sorted(_BLOCKS))
def test_gguf_in_blocks_is_what_the_blocks_mean(kind: int) -> None:
    file = gguf(kind, (4, 2 * _BLOCKS[kind].weights), blocks(kind).tobytes())
    found = calor.load(io.BytesIO(file))["w"]
    assert found.shape == (4, 2 * _BLOCKS[kind].weights)
    assert found.dtype is calor.float32
    numbers = np.nan_to_num(found.numpy(), nan=0.5)
    assert hashlib.sha256(numbers.tobytes()).hexdigest()[:16] == DIGESTS[kind]


def test_gguf_in_blocks_that_are_not_read() -> None:
    file = calor.read_gguf(io.BytesIO(gguf(20, (32,), bytes(18))))
    assert list(file) == ["w"]
    assert file.specs == {}
    with pytest.raises(DTypeError, match=r"blocks of type IQ4_NL, .*gguf\.quants\.dequantize"):
        file["w"]


WHOLE = gguf(0, (2,), bytes(8))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"GGUX" + WHOLE[4:], "no GGUF file"),
        (WHOLE[:40], "ends within its header"),
        (gguf(0, (2,), b"", version=9), "version 9"),
        (gguf(0, (1,) * 5, bytes(4)), "has 5 axes"),
        (WHOLE[:8] + struct.pack("<QQ", 1, 2**60) + WHOLE[24:], "of type|within its header"),
    ],
)
def test_gguf_that_is_damaged(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        calor.read_gguf(io.BytesIO(data))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gguf(0, (2**40, 2**20), bytes(8)), "beyond the end"),
        (gguf(0, (3,), bytes(8)), "beyond the end"),
        (gguf(8, (33,), bytes(68)), "no whole blocks"),
    ],
)
def test_gguf_tensors_that_are_damaged(data: bytes, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        calor.read_gguf(io.BytesIO(data))["w"]
