"""Files of weights: blocks of GGUF by the layout of each bit, shards, and drawn trees in each form.

Blocks are drawn byte by byte, and each weight is read as the format describes it, alone.
"""

from __future__ import annotations

import inspect
import io
import json
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType, bfloat16, bool_, complex128, float32
from calor.errors import FormatError

from .base import Array, Check, Place

CONTRACT: Final = "a file of weights gives the numbers that its format means"
Rng = np.random.Generator
_ALIGNED: Final = 32
_TURNS: Final = 12


def _half(block: bytes, at: int) -> float:
    return float(np.frombuffer(block, "<f2", 1, at)[0])


def _nibble(block: bytes, begin: int, i: int) -> int:
    """Return weight i of 32 in 16 bytes: the low halves first, then the high ones."""
    byte = block[begin + i % 16]
    return byte & 15 if i < 16 else byte >> 4


def _fifth(block: bytes, begin: int, i: int) -> int:
    return (int.from_bytes(block[begin : begin + 4], "little") >> i & 1) << 4


def _of_six(block: bytes, begin: int, j: int) -> tuple[int, int]:
    """Return scale and minimum j of eight, packed in twelve bytes of six bits each."""
    q = block[begin : begin + 12]
    if j < 4:
        return q[j] & 63, q[j + 4] & 63
    low = q[j + 4] & 15 | (q[j - 4] >> 6) << 4
    return low, q[j + 4] >> 4 | (q[j] >> 6) << 4


def _q2_k(b: bytes, i: int) -> float:
    scale, half, shift = b[i // 16], i // 128, 2 * (i % 128 // 32)
    weight = b[16 + 32 * half + i % 32] >> shift & 3
    return _half(b, 80) * (scale & 15) * weight - _half(b, 82) * (scale >> 4)


def _q3_k(b: bytes, i: int) -> float:
    half, shift, number = i // 128, 2 * (i % 128 // 32), i // 16
    low = b[32 + 32 * half + i % 32] >> shift & 3
    high = b[i % 32] >> (i // 32) & 1
    scales, tops = b[96:104], b[104:108]
    scale = scales[number % 8] >> (4 if number >= 8 else 0) & 15
    scale |= (tops[number % 4] >> 2 * (number // 4) & 3) << 4
    return _half(b, 108) * (scale - 32) * (low - (0 if high else 4))


def _q4_k(b: bytes, i: int) -> float:
    scale, least = _of_six(b, 4, i // 32)
    byte = b[16 + 32 * (i // 64) + i % 32]
    weight = byte >> 4 if i % 64 >= 32 else byte & 15
    return _half(b, 0) * scale * weight - _half(b, 2) * least


def _q5_k(b: bytes, i: int) -> float:
    scale, least = _of_six(b, 4, i // 32)
    byte = b[48 + 32 * (i // 64) + i % 32]
    weight = (byte >> 4 if i % 64 >= 32 else byte & 15) | (b[16 + i % 32] >> (i // 32) & 1) << 4
    return _half(b, 0) * scale * weight - _half(b, 2) * least


def _q6_k(b: bytes, i: int) -> float:
    half, part, at = i // 128, i % 128 // 32, i % 32
    low = b[64 * half + at + 32 * (part % 2)]
    weight = low >> 4 if part >= 2 else low & 15
    weight |= (b[128 + 32 * half + at] >> 2 * part & 3) << 4
    scale = int(np.int8(np.uint8(b[192 + i // 16])))
    return _half(b, 208) * scale * (weight - 32)


# The number of each type, the weights and bytes of its blocks, where it has halves, and what weight
# i of a block is.
_BLOCKS: Final[dict[str, tuple[int, int, int, tuple[int, ...], Callable[[bytes, int], float]]]] = {
    "Q4_0": (2, 32, 18, (0,), lambda b, i: _half(b, 0) * (_nibble(b, 2, i) - 8)),
    "Q4_1": (3, 32, 20, (0, 2), lambda b, i: _half(b, 0) * _nibble(b, 4, i) + _half(b, 2)),
    "Q5_0": (6, 32, 22, (0,), lambda b, i: _half(b, 0) * (
        (_nibble(b, 6, i) | _fifth(b, 2, i)) - 16)),
    "Q5_1": (7, 32, 24, (0, 2), lambda b, i: _half(b, 0) * (
        _nibble(b, 8, i) | _fifth(b, 4, i)) + _half(b, 2)),
    "Q8_0": (8, 32, 34, (0,), lambda b, i: _half(b, 0) * int(np.int8(np.uint8(b[2 + i])))),
    "Q2_K": (10, 256, 84, (80, 82), _q2_k), "Q3_K": (11, 256, 110, (108,), _q3_k),
    "Q4_K": (12, 256, 144, (0, 2), _q4_k), "Q5_K": (13, 256, 176, (0, 2), _q5_k),
    "Q6_K": (14, 256, 210, (208,), _q6_k),
}  # fmt: skip
_PLAIN: Final = {0: "<f4", 1: "<f2", 24: "<i1", 25: "<i2", 26: "<i4", 27: "<i8", 28: "<f8"}


def _text(text: str) -> bytes:
    raw = text.encode()
    return struct.pack("<Q", len(raw)) + raw


def _gguf(tensors: dict[str, tuple[int, tuple[int, ...], bytes]], more: dict[str, bytes]) -> bytes:
    """Return a file of tensors: their type, shape and bytes."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(more))
    for name, value in more.items():
        head += _text(name) + value
    data = b""
    for name, (kind, shape, raw) in tensors.items():
        data += bytes(-len(data) % _ALIGNED)
        head += _text(name) + struct.pack("<I", len(shape))
        head += b"".join(struct.pack("<Q", n) for n in reversed(shape))
        head += struct.pack("<IQ", kind, len(data))
        data += raw
    return head + bytes(-len(head) % _ALIGNED) + data


def _blocks(rng: Rng, size: int, halves: tuple[int, ...], count: int) -> bytes:
    made = b""
    for _ in range(count):
        block = bytearray(rng.integers(0, 256, size, np.uint8).tobytes())
        for at in halves:
            block[at : at + 2] = np.float16(rng.normal()).tobytes()
        made += bytes(block)
    return made


def _close(got: Any, want: Array, what: str) -> None:
    assert got.shape == want.shape, f"{what}: shape {got.shape}, not {want.shape}"
    off = np.abs(got.astype(np.float64) - want)
    assert np.all(off <= 1e-5 * (1 + np.abs(want))), (
        f"{what}: {got.reshape(-1)[np.argmax(off)]} at {int(np.argmax(off))}, not "
        f"{want.reshape(-1)[np.argmax(off)]}"
    )


def _read_blocks(rng: Rng) -> None:
    tensors: dict[str, tuple[int, tuple[int, ...], bytes]] = {}
    wants: dict[str, Array] = {}
    for name, (kind, weights, size, halves, of) in _BLOCKS.items():
        raw = _blocks(rng, size, halves, 4)
        tensors[name] = kind, (2, 2 * weights), raw
        parts = [raw[n * size : (n + 1) * size] for n in range(4)]
        made = [[of(part, i) for i in range(weights)] for part in parts]
        wants[name] = np.array(made).reshape(2, -1)
    held = calor.read_gguf(io.BytesIO(_gguf(tensors, {})))
    assert list(held) == list(tensors), f"names: {list(held)}"
    for name, want in wants.items():
        _close(held[name], want, name)
        _close(held.tensor(name).numpy(), want, f"{name} as a tensor")
        told = held.specs[name]
        assert (told.shape, told.dtype) == (want.shape, float32), f"{name}: {told}"


def _read_plain(rng: Rng) -> None:
    """Plain numbers of each dtype, what a file says besides, and files that are cut."""
    arrays = {str(kind): (rng.normal(size=(2, 3)) * 50).astype(form)
              for kind, form in _PLAIN.items()}  # fmt: skip
    tensors = {name: (int(name), a.shape, a.tobytes()) for name, a in arrays.items()}
    wide = np.asarray(rng.normal(size=(4,)), np.float32).astype(bfloat16.numpy)
    tensors["half"] = 30, wide.shape, wide.tobytes()
    numbers = struct.pack("<IQ", 4, 3) + struct.pack("<3I", 1, 2, 3)
    more = {
        "name": struct.pack("<I", 8) + _text("a model"),
        "count": struct.pack("<Ii", 5, -7), "share": struct.pack("<If", 6, 0.5),
        "flag": struct.pack("<I?", 7, True), "wide": struct.pack("<Id", 12, 0.1),
        "list": struct.pack("<I", 9) + numbers,
    }  # fmt: skip
    file = _gguf(tensors, more)
    held = calor.read_gguf(io.BytesIO(file))
    said = dict(held.metadata)
    want = {"name": "a model", "count": -7, "share": 0.5, "flag": True, "wide": 0.1,
            "list": [1, 2, 3]}  # fmt: skip
    assert said == want, f"metadata: {said}"
    assert len(held) == len(tensors), "the number of tensors"
    for name, array in arrays.items():
        assert held[name].tobytes() == array.tobytes(), f"numbers of type {name}"
        assert held[name].shape == array.shape, f"the shape of type {name}"
    assert held["half"].astype(np.float32).tolist() == wide.astype(np.float32).tolist(), "bfloat16"
    for cut in (3, 10, len(file) // 2, len(file) - 1):
        try:
            again = calor.read_gguf(io.BytesIO(file[:cut]))
            for name in again:
                again[name]
        except FormatError:
            continue
        raise AssertionError(f"a file of {len(file)} bytes is read of its first {cut}")


def _read_shards(rng: Rng) -> None:
    """Weights of one model in several files, with an index and without."""
    arrays = {f"layer{k}.{part}": np.asarray(rng.normal(size=(2, 3)), np.float32)
              for k in range(4) for part in ("weight", "bias")}  # fmt: skip
    names = list(arrays)
    files = {"model-1.safetensors": names[:3], "model-2.safetensors": names[3:]}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for file, own in files.items():
            calor.write_safetensors(root / file, {n: calor.asarray(arrays[n]) for n in own})
        index = {"weight_map": {n: file for file, own in files.items() for n in own}}
        (root / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
        for path in (root, root / "model.safetensors.index.json"):
            held = calor.read_safetensors(path)
            assert sorted(held) == sorted(names), f"names of {path.name}: {sorted(held)}"
            assert len(held) == len(names), "the number of tensors"
            for name, array in arrays.items():
                assert np.asarray(held[name]).tobytes() == array.tobytes(), name
                assert held.tensor(name).numpy().tobytes() == array.tobytes(), name
                told = held.specs[name]
                assert (told.shape, told.dtype) == (array.shape, float32), f"{name}: {told}"
            assert "layer9.weight" not in held, "a name that is nowhere"


_NAMES: Final = ("w", "layer.0.weight", "a/b", "ä ü", "", "0", "__meta__", "shape", "x" * 70)


def _bits(rng: Rng, dtype: DType) -> Array:
    """Return numbers of any bits, or none at all."""
    shape = tuple(int(n) for n in rng.integers(0, 4, int(rng.integers(0, 4))))
    kind = np.dtype(dtype.numpy)
    if dtype is bool_:
        return np.asarray(rng.integers(0, 2, shape), np.bool_)
    raw = rng.bytes(int(np.prod(shape)) * kind.itemsize)
    return np.frombuffer(raw, kind).reshape(shape).copy()


def _drawn(rng: Rng, among: Sequence[DType]) -> dict[str, Array]:
    names = [_NAMES[int(i)] for i in rng.permutation(len(_NAMES))[: int(rng.integers(1, 9))]]
    made = {n: _bits(rng, among[int(rng.integers(len(among)))]) for n in names}
    # complex128 is written as pairs of float64.
    made[names[0]] = _bits(rng, complex128) if rng.random() < 0.4 else made[names[0]]
    return {n: _laid(rng, a) for n, a in made.items()}


def _laid(rng: Rng, array: Array) -> Array:
    """Return an array of the same elements whose axes lie in another order, or run backwards."""
    way = int(rng.integers(4))
    if way == 1:
        return array.T.copy().T
    if way == 2:
        return np.asarray(np.flip(np.asarray(np.flip(array)).copy()))
    return np.repeat(array, 2, -1)[..., ::2] if way == 3 and array.ndim else array


def _alike(got: Any, want: Array, what: str) -> None:
    host = got.numpy() if isinstance(got, calor.Tensor) else np.asarray(got)
    assert host.dtype == want.dtype, f"{what}: {host.dtype}, not {want.dtype}"
    assert host.shape == want.shape, f"{what}: shape {host.shape}, not {want.shape}"
    assert host.tobytes() == want.tobytes(), f"{what}: {host}, not {want}"


def _held(held: Any, arrays: dict[str, Array], what: str) -> None:
    """Compare a file of safetensors, or a folder of them, with what was written."""
    assert sorted(held) == sorted(arrays), f"{what}: names {sorted(held)}, not {sorted(arrays)}"
    for name, array in arrays.items():
        told = held.specs[name]
        assert (told.shape, np.dtype(told.dtype.numpy)) == (array.shape, array.dtype), (
            f"{what}: {name!r} of {array.dtype}{array.shape} is told as {told}"
        )
        _alike(held[name], array, f"{what}: {name!r}")
        _alike(held.tensor(name, device="numpy"), array, f"{what}: the tensor {name!r}")


def _write_drawn(rng: Rng) -> None:
    """Tensors of every dtype and any bits in a stream, a file, and a folder of several files."""
    for _ in range(_TURNS):
        arrays = _drawn(rng, ALL)
        given = {n: a if rng.random() < 0.3 else calor.asarray(a, device="numpy")
                 for n, a in arrays.items()}  # fmt: skip
        texts = {"author": "ü", "": "x"} if rng.random() < 0.5 else {}
        stream = io.BytesIO()
        calor.write_safetensors(stream, given, texts)
        _held(calor.read_safetensors(io.BytesIO(stream.getvalue())), arrays, "a stream")
        with tempfile.TemporaryDirectory() as folder:
            root, files = Path(folder), int(rng.integers(1, 4))
            path = root / "one.safetensors"
            calor.write_safetensors(path, given, texts)
            assert path.read_bytes() == stream.getvalue(), "a file has other bytes than a stream"
            held = calor.read_safetensors(path)
            told = {key: text for key, text in held.metadata.items() if "calor." not in key}
            assert told == texts, f"metadata {told}, not {texts}"
            _held(held, arrays, "a file")
            path.unlink()
            where = {n: f"part-{rng.integers(files)}.safetensors" for n in arrays}
            for file in {*where.values()}:
                own = {n: given[n] for n in arrays if where[n] == file}
                calor.write_safetensors(root / file, own, texts)
            index = {"metadata": {"total_size": 1}, "weight_map": where}
            if len({*where.values()}) > 1 or rng.random() < 0.5:
                (root / "model.safetensors.index.json").write_text(json.dumps(index), "utf-8")
            _held(calor.read_safetensors(root), arrays, f"a folder of {files} files")


def _load_numpys(rng: Rng) -> None:
    """Arrays that NumPy wrote, one or several, compressed or not, in either order of axes."""
    among = [d for d in ALL if np.dtype(d.numpy).isbuiltin == 1]
    for _ in range(_TURNS):
        arrays = {n or "one": a for n, a in _drawn(rng, among).items() if "/" not in n}
        arrays = {n: np.asfortranarray(a) if rng.random() < 0.5 else a for n, a in arrays.items()}
        stream = io.BytesIO()
        (np.savez_compressed if rng.random() < 0.5 else np.savez)(stream, **arrays)  # type: ignore[arg-type]
        made = calor.load(io.BytesIO(stream.getvalue()), device="numpy")
        assert [*made] == [*arrays], f"names {[*made]}, not {[*arrays]}"
        for name, array in arrays.items():
            _alike(made[name], array, f"{name!r} of several")
            one = io.BytesIO()
            np.save(one, array)
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "one.npy"
                path.write_bytes(one.getvalue())
                for file in (path, io.BytesIO(one.getvalue())):
                    _alike(calor.load(file, device="numpy"), array, f"{name!r} alone")


_ASPECTS: Final[dict[str, Callable[[Rng], None]]] = {
    "gguf-blocks": _read_blocks, "gguf-plain": _read_plain, "safetensors-shards": _read_shards,
    "safetensors-drawn": _write_drawn, "numpy-drawn": _load_numpys,
}  # fmt: skip


def _run(name: str, place: Place) -> None:
    _ASPECTS[name](np.random.default_rng([place.seed, list(_ASPECTS).index(name)]))


def weight_files() -> Iterator[Check]:
    """Yield a check of each kind of file of weights."""
    for name, aspect in _ASPECTS.items():
        yield Check(
            kind="transfers",
            subject=f"weights-{name}",
            tier="full",
            contract=CONTRACT,
            run=partial(_run, name),
            text=partial(inspect.getsource, aspect),
            dtypes=(float32,),
            looks=True,
        )
