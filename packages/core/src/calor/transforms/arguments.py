"""Arguments of a jitted call, flattened and checked by generated code.

Requirements: the second call with the same structure must not walk pytrees. For each structure a
function is generated that unpacks the arguments with plain subscripts and type checks, and returns
None at the first difference.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from types import CodeType
from typing import Any, Final

import numpy as np

from calor import tree
from calor.errors import TraceError
from calor.functions.creation import asarray
from calor.graph.attributes import PLAIN, exact
from calor.tensor.count import Count
from calor.tensor.values import Handle
from calor.transforms.state import Stateful

NUMBERS: Final = (float, int, complex, Count)
KINDS: Final = ("tensors", "numbers", "objects")

Unpack = Callable[
    [tuple[Any, ...], dict[str, Any]], tuple[list[Any], list[Any], list[Stateful]] | None
]


@lru_cache(256)
def _compiled(source: str) -> CodeType:
    """Return the code of a source, which is often the same for arguments of other sizes."""
    return compile(source, "<calor.jit arguments>", "exec")


class Arguments:
    """One structure of arguments: its leaves by kind, and the generated function for the next call.

    Leaves are tensors, weak Python numbers, and Stateful objects; everything else is static and
    compared. ``rebuild`` puts replaced leaves back into (args, kwargs). ``first`` are leaves of
    other arguments, with which what ``unpack`` gives begins.
    """

    def __init__(
        self,
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
        static: frozenset[int | str],
        first: tuple[list[Any], list[Any], list[Stateful]] = ([], [], []),
    ) -> None:
        self.tensors: list[Any] = []
        self.numbers: list[Any] = []
        self.objects: list[Stateful] = []
        self.statics: list[Any] = []
        self.lines: list[str] = []
        self.arrays = False
        self._names = 0
        self._args = tuple(
            self._visit(value, f"args[{i}]", i in static) for i, value in enumerate(args)
        )
        self._kwargs = {
            name: self._visit(value, f"kwargs[{name!r}]", name in static)
            for name, value in kwargs.items()
        }
        self.unpack = self._generate(len(args), tuple(kwargs), first)

    @property
    def tensors_alone(self) -> bool:
        """Whether the arguments are tensors, one after another and without names."""
        places = [("tensor", i) for i in range(len(self.tensors))]
        return not self.arrays and not self._kwargs and list(self._args) == places

    def _visit(self, value: Any, path: str, static: bool) -> Any:
        kind = type(value)
        if static:
            return self._static(value, path)
        if isinstance(value, Handle) or kind is np.ndarray:
            self.arrays = self.arrays or kind is np.ndarray
            name = self._name(path)
            self.lines.append(f"    if type({name}) is not K{self._hold(kind)}: return None")
            self.lines.append(f"    tensors.append({name})")
            self.tensors.append(value)
            return ("tensor", len(self.tensors) - 1)
        if kind in NUMBERS:
            name = self._name(path)
            self.lines.append(f"    if type({name}) is not K{self._hold(kind)}: return None")
            self.lines.append(f"    numbers.append({name})")
            self.numbers.append(value)
            return ("number", len(self.numbers) - 1)
        if isinstance(value, Stateful):
            name = self._name(path)
            self.lines.append(f"    if type({name}) is not K{self._hold(kind)}: return None")
            self.lines.append(f"    objects.append({name})")
            self.objects.append(value)
            return ("object", len(self.objects) - 1)
        if kind in (list, tuple, dict):
            return self._container(value, kind, path)
        if tree._functions(kind) is not None and value is not None:
            leaves, structure = tree.flatten(value)
            name = self._name(path)
            inner = self._name(f"flatten({name})")
            self.lines.append(f"    if {inner}[1] != K{self._hold(structure)}: return None")
            parts = [self._visit(x, f"{inner}[0][{i}]", False) for i, x in enumerate(leaves)]
            return ("tree", structure, parts)
        return self._static(value, path)

    def _container(self, value: Any, kind: type, path: str) -> Any:
        name = self._name(path)
        parts = list(value.values()) if kind is dict else list(value)
        form = f"len({name}) != {len(parts)}"
        if kind is dict:
            keys = self._hold(list(value))
            form = f"[*{name}] != K{keys}"
            if not all(isinstance(key, str) for key in value):
                form = f"exact((*{name},)) != K{self._hold(exact(tuple(value)))}"
        self.lines.append(f"    if type({name}) is not {kind.__name__} or {form}: return None")
        if parts and all(isinstance(x, Handle) and type(x) is type(parts[0]) for x in parts):
            return self._tensors(value, kind, name, parts)
        if kind is dict:
            visited = [self._visit(x, f"{name}[K{keys}[{i}]]", False) for i, x in enumerate(parts)]
            return ("dict", list(value), visited)
        return (
            kind.__name__,
            [self._visit(x, f"{name}[{i}]", False) for i, x in enumerate(value)],
        )

    def _tensors(self, value: Any, kind: type, name: str, parts: list[Any]) -> Any:
        """Unpack a container of tensors in one step; anything else has no ``_value``."""
        first = len(self.tensors)
        self.tensors += parts
        leaves = [("tensor", first + i) for i in range(len(parts))]
        if kind is dict:
            self.lines.append(f"    tensors += {name}.values()")
            return ("dict", list(value), leaves)
        self.lines.append(f"    tensors += {name}")
        return (kind.__name__, leaves)

    def _static(self, value: Any, path: str) -> Any:
        if isinstance(value, Handle):
            raise TraceError("a tensor cannot be a static argument; static arguments are compared")
        name = self._name(path)
        if type(value) in PLAIN:
            held = self._hold(value)
            differs = f"type({name}) is not type(K{held}) or not ({name} == K{held})"
            differs = f"{name} is not K{held} and ({differs})"
        else:
            # 0.0 and −0.0 are equal and make two programs; NaN is not equal and makes one.
            differs = f"exact({name}) != K{self._hold(exact(value))}"
        self.lines.append(f"    if {differs}: return None")
        return ("static", value)

    def _name(self, path: str) -> str:
        self._names += 1
        name = f"v{self._names}"
        self.lines.append(f"    {name} = {path}")
        return name

    def _hold(self, value: Any) -> int:
        self.statics.append(value)
        return len(self.statics) - 1

    def _generate(self, count: int, names: Sequence[str], first: Sequence[list[Any]]) -> Unpack:
        held = f"K{self._hold(set(names))}"
        check = f"kwargs.keys() != {held}" if names else "kwargs"
        source = "\n".join(
            [
                "def unpack(args, kwargs):",
                f"    if len(args) != {count} or {check}: return None",
                *[
                    f"    {leaves} = [{f'*K{self._hold(known)}' if known else ''}]"
                    for leaves, known in zip(KINDS, first, strict=True)
                ],
                *self.lines,
                f"    return {', '.join(KINDS)}",
            ]
        )
        scope: dict[str, Any] = {f"K{i}": value for i, value in enumerate(self.statics)}
        scope |= {"flatten": tree.flatten, "exact": exact}
        exec(_compiled(source), scope)
        unpack: Unpack = scope["unpack"]
        return unpack

    def rebuild(
        self,
        tensors: Sequence[Any],
        numbers: Sequence[Any],
        objects: Sequence[Stateful] | None = None,
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Return (args, kwargs) with tensors and numbers replaced, and objects if given."""
        objects = self.objects if objects is None else objects

        def made(node: Any) -> Any:
            kind = node[0]
            if kind == "tensor":
                return tensors[node[1]]
            if kind == "number":
                return numbers[node[1]]
            if kind == "object":
                return objects[node[1]]
            if kind == "static":
                return node[1]
            if kind == "tree":
                return tree.unflatten(node[1], [made(part) for part in node[2]])
            if kind == "dict":
                return dict(zip(node[1], (made(part) for part in node[2]), strict=True))
            parts = [made(part) for part in node[1]]
            return tuple(parts) if kind == "tuple" else parts

        return tuple(made(a) for a in self._args), {k: made(v) for k, v in self._kwargs.items()}


def as_tensors(leaves: Sequence[Any], device: Any) -> list[Any]:
    """Return the leaves with host arrays and numbers, traced ones too, made tensors of a device."""
    return [asarray(x) if isinstance(x, Handle) else asarray(x, device=device) for x in leaves]
