"""LLVM text line by line: names, types, constants, blocks and declarations.

Requirements: equal kernels have equal texts. The text needs no pass pipeline, so constants are
operands and every value is in static single assignment from the start. float16 and bfloat16 are
held as bits (i16), because processors convert them but do not compute in them.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from calor.dtypes import DType
from calor.errors import CompileError
from calor_cpu.target import Target
from calor_kernel.ir.nodes import Kernel, Memory, Operation, Value
from calor_kernel.ir.types import Type

Argument = tuple[str, str]  # a type with its attributes and a value

_FLOATS: Final = {4: "float", 8: "double"}
_SUFFIXES: Final = {"float": "f32", "double": "f64", "half": "f16", "bfloat": "bf16", "ptr": "p0"}


def element(dtype: DType) -> str:
    """Return the LLVM type of an element as a value; bool is i1, half types are their bits."""
    if dtype.kind == "bool":
        return "i1"
    if dtype.kind == "float" and dtype.itemsize > 2:
        return _FLOATS[dtype.itemsize]
    return f"i{dtype.itemsize * 8}"


def stored(dtype: DType) -> str:
    """Return the LLVM type of an element in memory, where bool is a byte."""
    return "i8" if dtype.kind == "bool" else element(dtype)


def vector(of: str, width: int) -> str:
    """Return the LLVM type of ``width`` lanes; one lane is a scalar."""
    return of if width == 1 else f"<{width} x {of}>"


def llvm(type: Type) -> str:
    """Return the LLVM type of a value."""
    return vector(element(type.dtype), type.width)


def suffix(of: str, width: int = 1) -> str:
    """Return a type in the notation of intrinsics: "f32", "v16i8"."""
    scalar = _SUFFIXES.get(of, of)
    return scalar if width == 1 else f"v{width}{scalar}"


def number(known: Any, dtype: DType) -> str:
    """Return a number in LLVM's notation: floats by their bits, so that none is rounded."""
    if dtype.kind == "bool":
        return "true" if known else "false"
    if dtype.kind != "float":
        return str(int(known))
    if dtype.itemsize == 2:
        with np.errstate(all="ignore"):
            return str(int(np.asarray(known, np.float64).astype(dtype.numpy).view(np.int16)))
    (bits,) = struct.unpack("<Q", struct.pack("<d", known))
    return f"0x{bits:016X}"


class Writer:
    """The text of one kernel while it is written."""

    def __init__(self, kernel: Kernel, target: Target) -> None:
        self.kernel = kernel
        self.target = target
        self.lines: list[str] = []
        self.allocations: list[str] = []
        self.names: dict[Value, str] = {}
        self.pointers: dict[Memory, str] = {}
        self.positions: dict[int, str] = {}
        self.counts: dict[int, str] = {}
        self.messages: list[str] = []
        self.declared: dict[str, str] = {}
        self.globals: list[str] = []
        self.label = "entry"
        self._count = 0

    # Names and lines.
    def fresh(self, hint: str = "v") -> str:
        """Return an unused name without its sign."""
        self._count += 1
        return f"{hint}{self._count}"

    def line(self, text: str) -> None:
        """Add a line to the current block."""
        self.lines.append(f"  {text}")

    def let(self, text: str, hint: str = "v") -> str:
        """Add an instruction with a result and return the name of the result."""
        name = f"%{self.fresh(hint)}"
        self.line(f"{name} = {text}")
        return name

    def block(self, label: str) -> None:
        """Begin a block."""
        self.label = label
        self.lines.append(f"{label}:")

    def jump(self, label: str) -> None:
        """End the block with a jump."""
        self.line(f"br label %{label}")

    def choose(self, condition: str, then: str, otherwise: str) -> None:
        """End the block with a branch."""
        self.line(f"br i1 {condition}, label %{then}, label %{otherwise}")

    # Values.
    def use(self, value: Value) -> str:
        """Return the text of an operand, without its type."""
        return self.names[value]

    def typed(self, value: Value) -> str:
        """Return the text of an operand after its type."""
        return f"{llvm(value.type)} {self.names[value]}"

    def result(self, operation: Operation, text: str) -> None:
        """Bind the operation's result to an instruction."""
        self.result_of(operation.result, text)

    def pair(self, value: Value) -> Argument:
        """Return an operand as an argument of a call."""
        return llvm(value.type), self.names[value]

    def result_of(self, value: Value, text: str) -> None:
        """Bind a value to an instruction."""
        self.names[value] = self.let(text)

    def splat(self, of: str, width: int, name: str) -> str:
        """Return a scalar broadcast to every lane."""
        if width == 1:
            return name
        if not name.startswith("%"):
            return f"splat ({of} {name})"
        type = vector(of, width)
        one = self.let(f"insertelement {type} poison, {of} {name}, i64 0")
        lanes = vector("i32", width)
        return self.let(f"shufflevector {type} {one}, {type} poison, {lanes} zeroinitializer")

    def shuffle(self, type: Type, a: str, lanes: Sequence[int], b: str = "poison") -> str:
        """Return lanes of two vectors of a type; several lanes only."""
        whole = llvm(type)
        mask = ", ".join(f"i32 {i}" for i in lanes)
        return self.let(
            f"shufflevector {whole} {a}, {whole} {b}, <{len(lanes)} x i32> <{mask}>",
        )

    def join(self, type: Type, names: list[str]) -> str:
        """Return the concatenation of vectors of a type."""
        total = type.width * len(names)
        while len(names) > 1:
            names += ["poison"] * (len(names) % 2)
            every = range(2 * type.width)
            pairs = zip(names[::2], names[1::2], strict=True)
            names = [self.shuffle(type, a, every, b) for a, b in pairs]
            type = type.wide(type.width * 2)
        return names[0] if type.width == total else self.shuffle(type, names[0], range(total))

    def call(self, returns: str, name: str, *arguments: Argument, flags: str = "") -> str:
        """Call a function, declare it, and return the result's name."""
        types = ", ".join(type for type, _ in arguments)
        given = ", ".join(f"{type} {text}" for type, text in arguments)
        self.declared[name] = f"declare {returns} @{name}({types})"
        text = f"call {flags}{returns} @{name}({given})"
        if returns == "void":
            self.line(text)
            return ""
        return self.let(text)

    def string(self, text: str) -> str:
        """Return a zero-terminated constant of bytes."""
        return self.bytes(text.encode() + b"\0")

    def bytes(self, data: bytes) -> str:
        """Return a constant of bytes."""
        name = f"@text.{len(self.globals)}"
        content = "".join(f"\\{byte:02X}" for byte in data)
        self.globals.append(f'{name} = private constant [{len(data)} x i8] c"{content}"')
        return name

    def refuse(self, operation: Operation, reason: str) -> CompileError:
        """Return the error of an operation that this device lacks, with the kernel's line."""
        where = operation.position
        at = f"{where[0]}:{where[1]}: " if where is not None else ""
        return CompileError(
            f"{at}kernel {self.kernel.name!r}, operation {operation.name!r}: {reason}"
        )
