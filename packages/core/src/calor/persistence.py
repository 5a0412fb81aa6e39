"""Saving and loading pytrees: ``calor.save`` and ``calor.load``.

Requirements: what is loaded equals what was saved (numbers bit for bit, tied tensors tied, types
of containers kept); a file holds data and never code, so loading one from anywhere is safe; the
tensors can be read by every reader of safetensors files.
"""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np

from calor.dtypes import DType, as_dtype
from calor.errors import ArgumentError, DTypeError, FormatError
from calor.recording.records import Leaf
from calor.safetensors_file import (
    File,
    SafetensorsFile,
    first_bytes,
    is_sharded,
    write_safetensors,
)
from calor.tensor.values import Handle
from calor.weight_shards import read_safetensors

_TREE: Final = "calor.tree"
_KEYS: Final = (str, int, float, bool, type(None))


def save(tree: Any, path: File) -> None:
    """Write a pytree to a file that `load` reads.

    Parameters
    ----------
    tree : Any
        Nested lists, tuples, dictionaries and sets of tensors, host arrays, numbers, strings,
        bytes, slices, ranges, dtypes and None. Of an object with ``state_dict``, such as a module
        or an optimizer, that is saved.
    path : str, path-like or binary stream
        The file, in the safetensors format, which is written completely or not at all; or a stream
        such as `io.BytesIO`.

    Raises
    ------
    ArgumentError
        If the tree contains something else, such as a function or an object without state.
    FileNotFoundError
        If the folder does not exist.

    Examples
    --------
    >>> import calor, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> calor.save({"w": calor.ones(2), "step": 3}, path)
    >>> calor.load(path)["step"]
    3
    """
    from calor.transforms.evaluate import eval

    writer = _Writer()
    structure = writer.node(tree, "")
    eval([t for t in writer.tensors.values() if isinstance(t, Handle)])
    text = json.dumps(structure, separators=(",", ":"))
    write_safetensors(path, writer.tensors, {_TREE: text})


def load(path: File, *, device: Any = None) -> Any:
    """Return the pytree that `save` wrote.

    Parameters
    ----------
    path : str, path-like or binary stream
        The file, or a stream, which is read to its end. Files of other programs give a dictionary
        of tensors: safetensors, also of several files (the index or the folder), NumPy's .npz and
        GGUF. NumPy's .npy gives a tensor.
    device : Device or str, optional
        Where the tensors are. By default the current device.

    Returns
    -------
    Any
        The pytree; tensors that were saved twice are one tensor again.

    Raises
    ------
    FormatError
        If the file is damaged, is a pickle, or is none of these.
    DTypeError
        If the file has a tensor of a dtype that calor does not have.

    Examples
    --------
    >>> import calor, tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "state.safetensors")
    >>> calor.save({"w": calor.ones(2), "step": 3}, path)
    >>> calor.load(path)["w"].tolist()
    [1.0, 1.0]
    """
    begin = b"" if is_sharded(path) else first_bytes(path)
    if begin and begin[-1:] != b"{":
        # What other programs wrote is told by its first bytes, and read by modules of its own.
        from calor.other_files import load_other

        made = load_other(path, device, begin)
        if made is not None:
            return made
    file = read_safetensors(path)
    text = file.metadata.get(_TREE)
    if text is None or not isinstance(file, SafetensorsFile):
        return {name: file.tensor(name, device=device) for name in file}
    try:
        return _Reader(file, device).node(json.loads(text))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        if isinstance(error, FormatError | DTypeError):
            raise
        raise FormatError(f"{file.path}: the structure cannot be read ({error!r})") from None


class _Writer:
    """Turns a tree into nested lists that JSON holds, and names its tensors by their place."""

    def __init__(self) -> None:
        self.tensors: dict[str, Any] = {}
        self.seen: dict[int, str] = {}

    def node(self, value: Any, place: str) -> Any:
        kind = type(value)
        if value is None or kind is bool or kind is str:
            return value
        if kind in (int, float, complex):
            return [kind.__name__, _number(value)]
        if kind is bytes:
            return ["bytes", value.hex()]
        if kind in (slice, range):
            ends = (value.start, value.stop, value.step)
            return [kind.__name__, [self.node(v, f"{place}.{i}") for i, v in enumerate(ends)]]
        if kind in (set, frozenset):
            # In an order of their own, so that equal sets make equal files.
            items = sorted(value, key=lambda v: (type(v).__name__, repr(v)))
            return [kind.__name__, [self.node(v, f"{place}.{i}") for i, v in enumerate(items)]]
        if kind in (list, tuple):
            return [kind.__name__, [self.node(v, f"{place}.{i}") for i, v in enumerate(value)]]
        if kind in (dict, OrderedDict):
            return [kind.__name__, [self.item(k, v, place) for k, v in value.items()]]
        if kind is DType:
            return ["dtype", value.name]
        if isinstance(value, Handle):
            return ["tensor", self.name(value, place), type(value._record) is Leaf]
        if isinstance(value, np.ndarray | np.generic):
            as_dtype(value.dtype)
            what = "array" if isinstance(value, np.ndarray) else "scalar"
            return [what, self.name(np.asarray(value), place)]
        if hasattr(kind, "state_dict"):
            return self.node(value.state_dict(), place)
        raise ArgumentError(
            f"save: {place[1:] or 'the tree'} is a {kind.__name__}, which a file of data cannot "
            f"hold; save its state, for example dataclasses.asdict(value)"
        )

    def item(self, key: Any, value: Any, place: str) -> Any:
        if type(key) not in _KEYS:
            raise ArgumentError(
                f"save: a key of {place[1:] or 'the tree'} is a {type(key).__name__}; keys are "
                f"strings, numbers, bools or None"
            )
        return [self.node(key, place), self.node(value, f"{place}.{key}")]

    def name(self, value: Any, place: str) -> str:
        """Return the name under which a tensor is stored; a tensor in two places has one."""
        found = self.seen.get(id(value))
        if found is None:
            wanted = found = place[1:] or "value"
            count = 1
            while found in self.tensors or found == "__metadata__":
                count += 1
                found = f"{wanted}#{count}"
            self.tensors[found] = value
            self.seen[id(value)] = found
        return found


def _number(value: Any) -> Any:
    if type(value) is int:
        return str(value)
    if type(value) is float:
        return value.hex()
    return [value.real.hex(), value.imag.hex()]


class _Reader:
    """Builds a tree from the lists that _Writer made."""

    def __init__(self, file: SafetensorsFile, device: Any) -> None:
        self.file = file
        self.device = device
        self.arrays: dict[str, Any] = {}
        self.tensors: dict[str, Any] = {}
        self.kinds: Mapping[str, Callable[..., Any]] = {
            "int": int,
            "float": float.fromhex,
            "complex": lambda parts: complex(*map(float.fromhex, parts)),
            "dtype": as_dtype,
            "bytes": bytes.fromhex,
            "slice": lambda ends: slice(*map(self.node, ends)),
            "range": lambda ends: range(*map(self.node, ends)),
            "set": lambda items: set(map(self.node, items)),
            "frozenset": lambda items: frozenset(map(self.node, items)),
            "list": lambda items: [self.node(i) for i in items],
            "tuple": lambda items: tuple([self.node(i) for i in items]),
            "dict": lambda items: {self.node(k): self.node(v) for k, v in items},
            "OrderedDict": lambda items: OrderedDict(
                (self.node(k), self.node(v)) for k, v in items
            ),
            "scalar": lambda name: self.file[name][()],
            "array": self.array,
            "tensor": self.tensor,
        }

    def node(self, value: Any) -> Any:
        if value is None or type(value) in (bool, str):
            return value
        kind, *rest = value
        return self.kinds[kind](*rest)

    def array(self, name: str) -> Any:
        """Return a host array; the same one for each place that held it."""
        if name not in self.arrays:
            self.arrays[name] = self.file[name].copy()
        return self.arrays[name]

    def tensor(self, name: str, requires_grad: bool) -> Any:
        """Return a tensor; the same one for each place that held it."""
        found = self.tensors.get(name)
        if found is None:
            found = self.tensors[name] = self.file.tensor(name, device=self.device)
            if requires_grad:
                found.requires_grad_()
        return found
