"""Inputs for a model from files or from a random seed.

Requirements: open sizes get a small number unless given by name. Integers are small, because most
are indices.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from calor_onnx.arrays import array_of
from calor_onnx.errors import InputError
from calor_onnx.graph import ValueInfo
from calor_onnx.limits import bounded
from calor_onnx.model import Model
from calor_onnx.types import STRING

Array = np.ndarray[Any, Any]


def feed(
    model: Model, *, files: Mapping[str, str] | None = None,
    shapes: Mapping[str, list[int]] | None = None, seed: int = 0,
) -> dict[str, Any]:  # fmt: skip
    """Return a value for each input of a model, from files or random.

    Parameters
    ----------
    model : Model
        The model.
    files : mapping of str, default None
        For an input, the name of a .npy or .npz file, or numbers separated by commas.
    shapes : mapping of str, default None
        For an input its shape, for a symbol its size in a list of one.
    seed : int, default 0
        Seed of the random values.

    Returns
    -------
    dict
        Values by input. Random values have the declared type.

    Raises
    ------
    InputError
        If the model has no such input or symbol, a shape or file does not fit, or an input is a
        sequence or map without a file.

    Examples
    --------
    >>> import calor_onnx, onnx
    >>> from calor_onnx.feeding import feed
    >>> model = calor_onnx.load(onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["" : 17]>
    ...     double (float[N, 3] x) => (float[N, 3] y) { y = Add (x, x) }'''), device="numpy")
    >>> feed(model, shapes={"N": [5]})["x"].shape
    (5, 3)
    """
    files, shapes = dict(files or {}), dict(shapes or {})
    _check_names(model, shapes)
    random = np.random.default_rng(seed)
    found: dict[str, Any] = {}
    for info in model.inputs:
        if info.name in files:
            found[info.name] = _given(info, files.pop(info.name))
        elif info.kind == "tensor":
            found[info.name] = drawn(info, _shape(info, shapes), random)
        elif not info.kind.startswith("optional"):
            raise InputError(
                f"the input {info.name!r} is a {info.kind}, which has no random value; run the "
                f"model from Python"
            )
    if files:
        raise InputError(f"the model has no input {', '.join(map(repr, files))}")
    return found


def _check_names(model: Model, shapes: Mapping[str, list[int]]) -> None:
    """Check that each shape belongs to an input or symbol and is possible."""
    symbols = [size for i in model.inputs for size in i.shape or () if isinstance(size, str)]
    known = dict.fromkeys([*(info.name for info in model.inputs), *symbols])
    for name, sizes in shapes.items():
        if name not in known:
            raise InputError(
                f"the model has no input or symbol {name!r}; it has {', '.join(known) or 'none'}"
            )
        if any(size < 0 for size in sizes) or (name in symbols and not sizes):
            raise InputError(
                f"{name!r} cannot have the sizes {sizes}; pass numbers of at least 0, one for a "
                f"symbol"
            )


def _shape(info: ValueInfo, shapes: Mapping[str, list[int]]) -> tuple[int, ...]:
    if info.name in shapes:
        return tuple(shapes[info.name])
    sizes = info.shape or ()
    return tuple(
        size if isinstance(size, int) and size > 0
        else shapes[size][0] if isinstance(size, str) and size in shapes
        else _usual(place, len(sizes))
        for place, size in enumerate(sizes)
    )  # fmt: skip


def _usual(place: int, rank: int) -> int:
    """Return a default for an open size: one sample, and enough for windows in later axes."""
    if place == 0:
        return 1
    return 64 if rank >= 3 and place >= 2 else 16


def drawn(info: ValueInfo, shape: tuple[int, ...], random: Any) -> Array:
    """Return random elements of an input's type."""
    dtype = np.dtype(np.float32) if info.dtype is None else info.dtype
    bounded(shape, 8, f"the input {info.name!r}")
    if dtype == STRING:
        return np.array(random.choice(["a", "b", "c"], shape), np.object_)
    if dtype.kind == "b":
        return np.asarray(random.integers(0, 2, shape), np.bool_)
    if dtype.kind in "iu":
        return np.asarray(random.integers(0, 4, shape)).astype(dtype)
    return np.asarray(random.random(shape)).astype(dtype)


def _given(info: ValueInfo, text: str) -> Array:
    """Return the numbers of a text in the input's type, or the contents of the named file."""
    kind = float if info.dtype is not None and info.dtype.kind not in "biu" else int
    try:
        numbers = [kind(part) for part in text.split(",")]
    except ValueError:
        return _loaded(info.name, text)
    return array_of(info, numbers if len(numbers) > 1 or info.shape else numbers[0])


def made_up(found: Mapping[str, Any], given: Collection[str]) -> list[str]:
    """Return a line about inputs with random values and how to give them, or no line.

    Examples
    --------
    >>> from calor_onnx.feeding import made_up
    >>> made_up({"x": np.ones((1, 16)), "rate": np.array(8000)}, ["rate"])
    ['random: x [1, 16]; give shapes by --shape x=1,16, values by --input x=x.npy or x=1,2']
    """
    names = [name for name in found if name not in given]
    if not names:
        return []
    told = ", ".join(f"{name} {list(np.shape(found[name]))}" for name in names)
    first = names[0]
    sizes = ",".join(map(str, np.shape(found[first])))
    how = f"give shapes by --shape {first}={sizes}, values by --input {first}={first}.npy"
    return [f"random: {told}; {how} or {first}=1,2"]


def _loaded(name: str, path: str) -> Array:
    with Path(path).open("rb") as file:
        try:
            read: Any = np.load(file, allow_pickle=False)
        except (ValueError, EOFError, BadZipFile) as error:
            raise InputError(
                f"{path} is not a .npy or .npz file of numbers; write one with np.save({path!r}, x)"
            ) from error
        if isinstance(read, np.ndarray):
            return read
        keys = list(read.keys())
        if name not in keys and len(keys) != 1:
            raise InputError(f"{path} has no array {name!r}; it has {', '.join(keys)}")
        return np.asarray(read[name if name in keys else keys[0]])
