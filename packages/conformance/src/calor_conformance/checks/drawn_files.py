"""Drawn files: trees of tensors written and read by paths and streams, again and again.

A folder is a dictionary here: after each action every file has what was written to it last, whole,
or is as it was before a write that failed. What NumPy wrote is read, a file that was cut anywhere
is refused, and what is no file of data is told with the way to read it.
"""

from __future__ import annotations

import inspect
import io
import json
import os
import pickle
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import ALL, DType, as_dtype, bool_, float32, int32
from calor.errors import ArgumentError, CalorError, DTypeError, FormatError

from .base import Array, Check, Place
from .capsules import OWN

CONTRACT: Final = "a file has what was written last, whole, and is read by whatever way it came"
_TURNS, _ACTIONS = 4, 24
Rng = np.random.Generator


def _numbers(rng: Rng, dtype: DType) -> Array:
    shape = [int(n) for n in rng.integers(0, 4, int(rng.integers(0, 4)))]
    if dtype is bool_:
        return np.asarray(rng.random(shape) < 0.5)
    made = rng.integers(0, 8, shape) - (0 if dtype.kind == "uint" else 4)
    return np.asarray(made).astype(dtype.numpy)


def _same(got: Any, want: Any, what: str) -> None:
    """Require the structure, dtypes, shapes and bits of a tree of arrays and plain values."""
    if isinstance(want, dict):
        assert list(got) == list(want), f"{what} has the names {list(got)}, not {list(want)}"
        for name, one in want.items():
            _same(got[name], one, f"{what}[{name!r}]")
    elif isinstance(want, list):
        assert len(got) == len(want), f"{what} has {len(got)} items"
        for number, (a, b) in enumerate(zip(got, want, strict=True)):
            _same(a, b, f"{what}[{number}]")
    elif isinstance(want, np.ndarray):
        assert isinstance(got, calor.Tensor), f"{what} is a {type(got).__name__}"
        told = got.dtype.numpy, got.shape
        assert told == (want.dtype, want.shape), f"{what} is {told}"
        assert got.numpy().tobytes() == want.tobytes(), f"{what} is {got}, not {want}"
    else:
        assert got == want, f"{what} is {got!r}, not {want!r}"


def _tensors(tree: Any) -> Any:
    return calor.tree.map(lambda v: calor.asarray(v) if isinstance(v, np.ndarray) else v, tree)


class _Folder:
    """Files by name with the trees that they should hold."""

    def __init__(self, place: Place, rng: Rng, root: Path) -> None:
        self.place, self.rng, self.root = place, rng, root
        self.kinds = [d for d in ALL if place.plain.info.dtypes.get(d)]
        self.trees: dict[str, Any] = {}
        self.names: list[str] = []
        self.held: list[tuple[Any, Any]] = []

    def told(self) -> str:
        return f"after {', '.join(self.names)}"

    def array(self) -> Array:
        return _numbers(self.rng, self.kinds[int(self.rng.integers(len(self.kinds)))])

    def tree(self) -> dict[str, Any]:
        names = [str(n) for n in self.rng.permutation(["a", "b.c", "weight", "0", "é"])]
        made: dict[str, Any] = {n: self.array() for n in names[: int(self.rng.integers(1, 5))]}
        if self.rng.random() < 0.5:
            made["rest"] = [int(self.rng.integers(99)), "text", self.array()]
        return made

    def name(self) -> str:
        return str(self.rng.choice(["one", "two.safetensors", "three.ckpt"]))

    def path(self, name: str) -> Any:
        """Return a path in one of its forms."""
        path = self.root / name
        return (path, str(path), Path(os.path.relpath(path)))[int(self.rng.integers(3))]

    def verify(self) -> None:
        for name, tree in self.trees.items():
            _same(calor.load(self.root / name), tree, f"the file {name}, {self.told()},")
        left = sorted(p.name for p in self.root.iterdir() if p.is_file())
        assert left == sorted(self.trees), f"files {left}, not {sorted(self.trees)}, {self.told()}"
        for found, tree in self.held:
            _same(found, tree, f"what was read, {self.told()},")

    # What a user does.

    def save(self) -> None:
        name, tree = self.name(), self.tree()
        calor.save(_tensors(tree), self.path(name))
        self.trees[name] = tree

    def load(self) -> None:
        """What was read stays when its file is written anew."""
        if self.trees:
            name = str(self.rng.choice(list(self.trees)))
            device = self.place.plain if self.rng.random() < 0.5 else None
            found = calor.load(self.path(name), device=device)
            self.held = [*self.held[-3:], (found, self.trees[name])]

    def weights(self) -> None:
        """Plain files of tensors, with texts, that other readers know."""
        name = self.name()
        tree = {n: v for n, v in self.tree().items() if n != "rest"}
        texts = {"by": "a user", "é": '"'} if self.rng.random() < 0.5 else {}
        given = tree if self.rng.random() < 0.5 else _tensors(tree)
        calor.write_safetensors(self.path(name), given, texts)
        file = calor.read_safetensors(self.path(name))
        known = {k: v for k, v in file.metadata.items() if not k.startswith("calor.")}
        assert known == texts, f"texts {file.metadata}, not {texts}"
        assert len(file) == len(tree), f"{len(file)} tensors of {len(tree)}"
        assert f"{len(tree)} tensors" in repr(file), repr(file)
        for key, array in tree.items():
            got = file[key]
            assert got.dtype == array.dtype, f"{key} is {got.dtype}, not {array.dtype}"
            assert got.tobytes() == array.tobytes(), f"{key} is {got}, not {array}"
            assert not got.flags.writeable, f"{key} of a file can be written to"
            told = file.specs[key]
            assert (told.shape, told.dtype.numpy) == (array.shape, array.dtype), f"{key}: {told}"
        _layout((self.root / name).read_bytes(), tree)
        # Largest first, so the order of a file is another than that of the tree.
        self.trees[name] = {key: tree[key] for key in file}

    def stream(self) -> None:
        """Streams, from where they stand; several in one."""
        trees = [self.tree() for _ in range(2)]
        before = self.rng.bytes(int(self.rng.integers(0, 20)))
        stream = io.BytesIO()
        stream.write(before)
        calor.save(_tensors(trees[0]), stream)
        assert stream.getvalue()[: len(before)] == before, "a stream is written from its start"
        stream.seek(len(before))
        _same(calor.load(stream), trees[0], "a stream")
        assert not stream.read(), "a stream is not read to its end"
        twice = io.BytesIO(), io.BytesIO()
        for one in twice:
            calor.save(_tensors(trees[1]), one)
        assert twice[0].getvalue() == twice[1].getvalue(), "equal trees make other files"

    def fail(self) -> None:
        """A write that fails leaves what was there."""
        bad: dict[str, Any] = {"function": len, "object": object(), "texts": np.array(["a"])}
        kind = str(self.rng.choice(list(bad)))
        tree = {"w": calor.ones(2), "deep": [1, {"x": bad[kind]}]}
        try:
            calor.save(tree, self.path(self.name()))
        except (ArgumentError, DTypeError) as error:
            said = str(error)
        else:
            raise AssertionError(f"a tree with a {kind} is saved")
        assert kind == "texts" or "deep.1.x" in said, said
        try:
            calor.save(_tensors(self.tree()), self.root / "missing" / "file")
        except FileNotFoundError as error:
            assert "missing" in str(error), f"{error}"  # noqa: PT017
        else:
            raise AssertionError("a folder is made")

    def break_off(self) -> None:
        """The disk is full, or the user stops the program, in the middle of a write."""
        whole: Any = os.replace

        def broken(*given: Any) -> None:
            raise KeyboardInterrupt

        setattr(os, "replace", broken)  # noqa: B010
        try:
            calor.save(_tensors(self.tree()), self.root / self.name())
        except KeyboardInterrupt:
            return
        finally:
            setattr(os, "replace", whole)  # noqa: B010
        raise AssertionError("a file is not replaced as a whole")

    def numpy(self) -> None:
        """Files of NumPy: one array, several, compressed or not."""
        tree = {n: v for n, v in self.tree().items() if n != "rest"}
        tree = {n: v for n, v in tree.items() if as_dtype(v.dtype).name not in OWN} or {
            "a": np.arange(3)
        }
        stream = io.BytesIO()
        (np.savez if self.rng.random() < 0.5 else np.savez_compressed)(stream, **tree)
        path = self.root / "arrays"
        path.write_bytes(stream.getvalue())
        stream.seek(0)
        for source in (path, stream):
            _same(calor.load(source), tree, "a file of NumPy's arrays")
        cut = stream.getvalue()[: int(self.rng.integers(4, len(stream.getvalue())))]
        _refused(cut, ("stream",))
        one, array = io.BytesIO(), np.asarray(next(iter(tree.values())))
        np.save(one, np.array(array, order="F"))
        one.seek(0)
        _same(calor.load(one), array, "an array")
        path.unlink()

    def shards(self) -> None:
        """A model in several files, with an index or without, of which one may be missing."""
        tree = {f"layer{k}.w": self.array() for k in range(4)}
        folder = self.root / "model"
        folder.mkdir()
        parts = [list(tree)[:1], list(tree)[1:]]
        files = [f"model-{k}.safetensors" for k in range(2)]
        for file, own in zip(files, parts, strict=True):
            calor.write_safetensors(folder / file, {n: tree[n] for n in own})
        index = folder / "model.safetensors.index.json"
        with_index = bool(self.rng.integers(2))
        if with_index:
            names = {n: f for f, own in zip(files, parts, strict=True) for n in own}
            index.write_text(json.dumps({"weight_map": names, "metadata": {"size": 3}}), "utf-8")
        paths: list[Any] = [folder, str(folder), *([index] if with_index else [])]
        for path in paths:
            found = calor.load(path, device=self.place.plain)
            _same({n: found[n] for n in tree}, tree, f"shards of {path}")
            held = calor.read_safetensors(path)
            assert sorted(held) == sorted(tree), f"names {sorted(held)}"
            assert len(held) == len(tree), f"{len(held)} tensors"
            assert held.metadata == ({"size": "3"} if with_index else {}), f"{held.metadata}"
            assert list(held.specs) == list(held), "shapes of other names"
        (folder / files[1]).unlink()
        if with_index:
            _refused(folder, (files[1], "missing"))
            index.write_text('{"weight_map": {"a": "../other"}}', "utf-8")
            _refused(folder, ("same folder",))
            index.write_text("[]", "utf-8")
            _refused(folder, ("weight_map",))
            index.unlink()
        (folder / files[0]).unlink()
        _refused(folder, ("no safetensors files",))
        left = [p.name for p in folder.iterdir()]
        assert not left, f"files {left} are left beside shards"
        folder.rmdir()

    def cut(self) -> None:
        """No beginning of a file is a file, and neither is a file with something behind it."""
        stream = io.BytesIO()
        calor.save(_tensors({**self.tree(), "last": np.ones(3, np.float32)}), stream)
        whole = stream.getvalue()
        for end in {int(n) for n in self.rng.integers(0, len(whole), 12)}:
            _refused(whole[:end], ())
        _refused(whole + b"\0", ())
        path = self.root / "damaged"
        path.write_bytes(whole[:-1])
        _refused(path, ("damaged", "truncated"))
        path.unlink()

    def others(self) -> None:
        """What is no file of data is told as what it is."""
        pickled = io.BytesIO()
        with zipfile.ZipFile(pickled, "w") as archive:
            archive.writestr("model/data.pkl", pickle.dumps({"w": 1}))
        protocol = int(self.rng.integers(2, 6))
        for content, words in (
            (pickle.dumps({"w": 1}, protocol), ("pickle", "torch.load", "weights_only=True")),
            (pickled.getvalue(), ("pickle", "torch.load")),
            (b"PK\x03\x04 no archive", ("NumPy cannot read",)),
            (b"\x93NUMPY\x01\x00", ("NumPy cannot read",)), (b"GGUF\0\0\0\0", ()),
            (b"", ("0 bytes",)), (b"{}", ("2 bytes",)), (b"text of a user, no file", ()),
        ):  # fmt: skip
            _refused(content, words)

    def go(self) -> None:
        every = [self.save, self.save, self.load, self.load, self.weights, self.stream, self.fail,
                 self.break_off, self.numpy, self.shards, self.cut, self.others]  # fmt: skip
        for number in range(_ACTIONS):
            action = every[(number * 5 + int(self.rng.integers(3))) % len(every)]
            self.names.append(action.__name__)
            action()
            self.verify()


def _layout(content: bytes, tree: dict[str, Array]) -> None:
    """Read a file as the format says it, alone."""
    size = int.from_bytes(content[:8], "little")
    assert size % 8 == 0, f"a header of {size} bytes"
    header, data = json.loads(content[8 : 8 + size]), content[8 + size :]
    texts = header.pop("__metadata__", {})
    pairs = json.loads(texts.get("calor.complex128", "[]"))
    for name, array in tree.items():
        start, stop = header[name]["data_offsets"]
        assert data[start:stop] == array.tobytes(), f"{name} is not where the header says"
        shape = [*array.shape, 2] if name in pairs else list(array.shape)
        assert header[name]["shape"] == shape, f"{name} has shape {header[name]['shape']}"
        item = 8 if name in pairs else array.itemsize
        assert start % item == 0, f"{name} begins at {start}, of {item} bytes an element"
        assert (name in pairs) == (array.dtype == np.complex128), f"pairs {pairs}"
    assert sorted(header) == sorted(tree), f"the header names {sorted(header)}"


def _refused(source: Any, words: tuple[str, ...]) -> None:
    given = io.BytesIO(source) if isinstance(source, bytes) else source
    try:
        found = calor.load(given)
    except FormatError as error:
        said = str(error)
    except CalorError as error:
        raise AssertionError(f"{source!r} gives {error!r}") from error
    else:
        raise AssertionError(f"{source!r} is read as {found!r}")
    for word in words:
        assert word in said, f"{word!r} is not in {said!r}"


def _run(place: Place) -> None:
    for turn in range(_TURNS):
        with tempfile.TemporaryDirectory() as name:
            rng = np.random.default_rng([place.seed, 91, turn])
            _Folder(place, rng, Path(name)).go()


def drawn_files() -> Iterator[Check]:
    """Yield the check of folders."""
    source: Callable[[], str] = partial(inspect.getsource, _Folder)
    yield Check(
        kind="transfers",
        subject="drawn-files",
        tier="full",
        contract=CONTRACT,
        run=_run,
        text=source,
        dtypes=(float32, int32),
        looks=True,
    )
