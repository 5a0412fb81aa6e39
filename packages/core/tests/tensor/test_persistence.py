"""Trees on disk, the safetensors format, pickles and copies."""

import copy
import io
import json
import os
import pickle
import time
from collections import OrderedDict
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import calor
from calor.errors import ArgumentError, DTypeError, FormatError, GradientError
from calor.persistence import load, save
from calor.safetensors_file import write_safetensors
from calor.weight_shards import read_safetensors

DTYPES = [t.name for t in calor.dtypes.ALL]


def same(a: Any, b: Any) -> bool:
    """Whether two trees are equal in types, structure and bits."""
    if type(a) is not type(b):
        return False
    if isinstance(a, calor.Tensor):
        return (
            a.dtype is b.dtype
            and a.requires_grad == b.requires_grad
            and same(a.detach().numpy(), b.detach().numpy())
        )
    if isinstance(a, np.ndarray | np.generic):
        return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
    if isinstance(a, dict):
        return list(a) == list(b) and all(same(a[k], b[k]) for k in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, float):
        return a.hex() == b.hex()
    return bool(a == b)


def trees() -> list[Any]:
    tied = calor.asarray([1.0, 2.0], requires_grad=True)
    return [
        {"w": calor.ones((2, 3)), "b": tied, "tied": tied, "step": 3, "rate": 0.1},
        [None, True, False, "text", "", 10**30, -0.0, float("nan"), float("inf"), 1 - 2j],
        ({"a": {"b": [calor.asarray(1)]}}, (), [], {}),
        OrderedDict([("z", calor.asarray([1j])), ("a", 1)]),
        {1: "int", None: "none", False: "bool", 0.5: "float", "a.b": calor.asarray(1.0)},
        {"a": {"b": calor.asarray(1.0)}, "a.b": calor.asarray(2.0)},
        [np.arange(3), np.float32(2.5), np.array(7, np.int8), calor.float16],
        calor.asarray(3.0),
        7,
        {"__metadata__": calor.asarray(1.0), "": calor.asarray(2.0)},
        {"ü": calor.zeros((0, 4)), "\ud800": "lone"},
        calor.ones(3) * 2 + 1,
        [calor.asarray([0, 1, 1], dtype=name) for name in DTYPES],
        [b"\x00\xff", {3, "a", None}, frozenset((1.5, 2)), slice(None, 3, -1), range(2, 9, 3)],
    ]


@pytest.mark.parametrize("tree", trees(), ids=range(len(trees())))
def test_what_is_loaded_is_what_was_saved(tree: Any, tmp_path: Path) -> None:
    save(tree, tmp_path / "tree.safetensors")
    assert same(load(tmp_path / "tree.safetensors"), tree)
    assert os.listdir(tmp_path) == ["tree.safetensors"]


def test_tied_tensors_stay_tied(tmp_path: Path) -> None:
    x, array = calor.ones(2, requires_grad=True), np.ones(2)
    save([x, {"again": x}, array, array], tmp_path / "t")
    first, second, third, fourth = load(tmp_path / "t")
    assert first is second["again"]
    assert third is fourth
    assert first.requires_grad


class Counter:
    def state_dict(self) -> dict[str, Any]:
        return {"steps": 3, "mean": calor.ones(2)}


def test_the_state_of_objects_is_saved() -> None:
    stream = io.BytesIO()
    save({"counter": Counter(), "kind": calor.int8}, stream)
    stream.seek(0)
    assert same(load(stream), {"counter": Counter().state_dict(), "kind": calor.int8})


class Pair(NamedTuple):
    a: int
    b: int


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({"f": print}, "save: f is a builtin_function_or_method, .* save its state"),
        ([1, {"p": Pair(1, 2)}], r"save: 1.p is a Pair"),
        ({(1, 2): 3}, "a key of the tree is a tuple"),
        (object(), "the tree is a object"),
    ],
)
def test_what_cannot_be_saved(tree: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match=message):
        save(tree, tmp_path / "t")
    assert not os.listdir(tmp_path)


def test_a_failed_save_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "t"
    save({"a": 1}, path)

    def fail(descriptor: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk full"):
        save({"a": calor.ones(1000)}, path)
    assert load(path) == {"a": 1}
    assert os.listdir(tmp_path) == ["t"]


def test_a_link_is_kept_and_its_target_replaced(tmp_path: Path) -> None:
    save(1, tmp_path / "target")
    (tmp_path / "link").symlink_to("target")
    save(2, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "target") == 2


def test_the_library_of_the_format_agrees(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    arrays = {
        "a": np.arange(6, dtype=np.int8).reshape(2, 3),
        "b": np.linspace(0, 1, 5),
        "c": np.array([True, False, True]),
        "d": np.zeros((0, 2), np.float16),
        "e": np.array(5, np.uint32),
        "f": np.array([1 + 2j], np.complex64),
    }
    path = tmp_path / "file.safetensors"
    write_safetensors(path, arrays, {"made by": "a test"})
    theirs = library.load_file(path)
    assert same({k: theirs[k] for k in arrays}, arrays)
    library.save_file(arrays, path, {"x": "y"})
    ours = read_safetensors(path)
    assert same({k: ours[k] for k in arrays}, arrays)
    assert ours.metadata == {"x": "y"}
    assert same(load(path)["b"], calor.asarray(arrays["b"]))


def test_reading_is_lazy_aligned_and_read_only(tmp_path: Path) -> None:
    path = tmp_path / "f"
    write_safetensors(path, {"odd": np.ones(3, np.int8), "wide": calor.ones(4, dtype="float64")})
    file = read_safetensors(path)
    assert list(file) == ["wide", "odd"]
    assert len(file) == 2
    assert str(file.specs["wide"]) == "float64[4]"
    wide = file["wide"]
    assert wide.flags.aligned
    assert not wide.flags.owndata
    assert not wide.flags.writeable
    assert file.tensor("wide").tolist() == [1.0] * 4
    assert "absent" not in file
    os.unlink(path)
    del file
    assert wide.sum() == 4


@pytest.mark.parametrize(
    ("tensors", "metadata"),
    [({1: np.ones(1)}, None), ({}, {"a": 1}), ({"__metadata__": np.ones(1)}, None)],
)
def test_names_and_metadata_are_texts(tensors: Any, metadata: Any, tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="names and metadata .* are strings"):
        write_safetensors(tmp_path / "f", tensors, metadata)


def file_of(header: Any, data: bytes = b"") -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + data


def one(dtype: Any = "U8", shape: Any = (2,), offsets: Any = (0, 2)) -> dict[str, Any]:
    return {"a": {"dtype": dtype, "shape": shape, "data_offsets": offsets}}


HOSTILE: list[tuple[bytes, str]] = [
    (b"", "0 bytes is not a safetensors file"),
    (b"\x02\x00\x00\x00", "4 bytes is not a safetensors file"),
    ((2**63).to_bytes(8, "little"), "header of 9223372036854775808 bytes does not fit"),
    ((200_000_000).to_bytes(8, "little") + b"{}", "does not fit; the file is truncated"),
    (file_of(b"{"), "header cannot be read"),
    (file_of(b"\xff\xfe"), "header cannot be read"),
    (file_of(b"[" * 100_000), "header cannot be read"),
    (file_of([]), "not a table of tensors"),
    (file_of(b'{"a":1,"a":2}'), "a name occurs twice"),
    (file_of({"a": 1}), "'a' lacks a dtype"),
    (file_of({"a": {"dtype": "U8", "shape": [2]}}), "'a' lacks"),
    (file_of(one(offsets=[0]), b"12"), "'a' lacks"),
    (file_of(one(offsets=[0, 3]), b"123"), r"'a' has 3 bytes, U8 of shape \(2,\) needs 2"),
    (file_of(one(shape=[-2]), b"12"), "not sizes"),
    (file_of(one(shape=[True, 2]), b"12"), "not sizes"),
    (file_of(one(shape=[2**62, 2**62], offsets=[0, 0])), "needs"),
    (file_of(one(offsets=[-2, 0]), b"12"), "not sizes"),
    (file_of(one(dtype=5), b"12"), "not sizes"),
    (file_of(one(), b"1"), "truncated"),
    (file_of(one(), b"123"), "data was appended"),
    (file_of(one(offsets=[1, 3]), b"123"), "overlaps another tensor, or leaves a gap"),
    (
        file_of({**one(), "b": {"dtype": "U8", "shape": [2], "data_offsets": [1, 3]}}, b"123"),
        "'b' overlaps",
    ),
    (file_of(one("F4", offsets=[2, 0]), b""), "overlaps"),
    (file_of({"__metadata__": {"a": 1}}), "metadata is not a table of strings"),
    (file_of({"__metadata__": {"calor.complex128": "5"}}), "not a list of names"),
    (
        file_of({"__metadata__": {"calor.complex128": '["a"]'}, **one()}, b"12"),
        "not stored as pairs",
    ),
]


@pytest.mark.parametrize(("content", "message"), HOSTILE, ids=[m for _, m in HOSTILE])
def test_damaged_files(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(content)
    with pytest.raises(FormatError, match=message):
        read_safetensors(tmp_path / "f")


@pytest.mark.parametrize(
    "structure",
    ["{", "[1]", '["list", 5]', '["tensor", "absent", false]', '["code", "x"]', '["int", "x"]',
     '["dict", [[["list", []], 1]]]', '["float"]', "[" * 50_000, '[["list"], []]'],
)  # fmt: skip
def test_damaged_structures(structure: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(file_of({"__metadata__": {"calor.tree": structure}}))
    with pytest.raises(FormatError, match="structure cannot be read"):
        load(tmp_path / "f")


def test_every_truncation_of_a_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "f"
    save({"a": calor.ones(3), "b": [1, "x"]}, path)
    content = path.read_bytes()
    for length in range(len(content)):
        path.write_bytes(content[:length])
        with pytest.raises(FormatError):
            load(path)


def test_types_that_calor_lacks_raise_when_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "f"
    both = {"b": {"dtype": "U8", "shape": [1], "data_offsets": [1, 2]}}
    path.write_bytes(file_of({**one("F8_E8M0", [1], [0, 1]), **both}, b"\x01\x02"))
    file = read_safetensors(path)
    assert file["b"].tolist() == [2]
    with pytest.raises(DTypeError, match="'a' is stored as F8_E8M0, which calor does not have"):
        file["a"]


def test_truth_values_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(file_of(one("BOOL"), b"\x01\x07"))
    with pytest.raises(FormatError, match="neither 0 nor 1"):
        read_safetensors(tmp_path / "f")["a"]


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("dtype", DTYPES)
def test_pickles(dtype: str, protocol: int) -> None:
    x = calor.asarray([[0, 1], [1, 0]], dtype=dtype)
    y = pickle.loads(pickle.dumps(x, protocol))
    assert same(x, y)
    assert y.device is x.device


@pytest.mark.parametrize("dtype", ["bfloat16", "float8_e4m3fn", "float8_e5m2"])
def test_pickles_name_no_package_of_types(dtype: str) -> None:
    assert b"ml_dtypes" not in pickle.dumps(calor.ones(2, dtype=dtype))


def test_pickled_leaves_are_leaves() -> None:
    x = calor.ones(2, requires_grad=True)
    y = pickle.loads(pickle.dumps(x))
    assert y.requires_grad
    (y * y).sum().backward()
    assert y.grad is not None
    with pytest.raises(GradientError, match="cannot be pickled: .* use x.detach"):
        pickle.dumps(x * 2)


def test_a_pickle_of_an_absent_device_opens_on_the_default_one() -> None:
    function, (array, dtype, _, leaf) = calor.ones(2).__reduce_ex__(4)
    assert function(array, dtype, "nowhere:7", leaf).tolist() == [1.0, 1.0]


def test_copies() -> None:
    x = calor.ones(2, requires_grad=True)
    (x * 3).sum().backward()
    twice = copy.deepcopy([x, x])
    assert twice[0] is twice[1]
    assert twice[0] is not x
    assert twice[0].requires_grad
    assert twice[0].grad.tolist() == [3.0, 3.0]
    with calor.no_grad():
        twice[0] += 1
    assert x.tolist() == [1.0, 1.0]
    plain = calor.ones(2)
    shallow = copy.copy(plain)
    shallow += 1
    assert plain.tolist() == [1.0, 1.0]
    with pytest.raises(GradientError, match="cannot be copied deeply"):
        copy.deepcopy(x * 2)


def test_streams_are_written_and_read() -> None:
    tree = {"w": calor.ones((2, 3)), "z": np.arange(4, dtype=np.complex128), "step": 3}
    stream = io.BytesIO()
    save(tree, stream)
    stream.seek(0)
    assert same(load(stream), tree)
    with pytest.raises(FormatError, match="<stream>: a file of 3 bytes"):
        load(io.BytesIO(b"abc"))


def test_a_missing_folder_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="make it first: '.*absent'$"):
        save([1], tmp_path / "absent" / "file")


@pytest.mark.parametrize(("age", "locked", "left"), [(61, False, 0), (0, False, 1), (61, True, 1)])
def test_what_a_killed_process_left_is_removed(
    tmp_path: Path, age: float, locked: bool, left: int
) -> None:
    fcntl = pytest.importorskip("fcntl")
    part = tmp_path / ".file.0123.part"
    part.write_bytes(b"half")
    written = time.time() - age
    os.utime(part, (written, written))
    with part.open("rb") as file:
        if locked:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        save([1], tmp_path / "file")
    assert len(list(tmp_path.glob(".*.part"))) == left
    assert load(tmp_path / "file") == [1]
