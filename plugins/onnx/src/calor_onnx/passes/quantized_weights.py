"""Conversion of constant weights of few bits to a form that a device multiplies directly.

Unsigned bytes become signed bytes with a shifted zero point, because devices have instructions for
those. Weights of ``MatMulNBits`` become numbers up to a limit of bytes: a call then reads them
once, instead of unpacking them to memory and reading them back. Unpacked weights take eight times
the memory, so weights beyond the limit stay packed.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any, Final

import numpy as np

from calor_onnx.constants import Constant
from calor_onnx.graph import Node
from calor_onnx.passes.looking import Look, inputs_of
from calor_onnx.scratch import Room
from calor_onnx.tensors import unpack

Array = np.ndarray[Any, Any]
# Positions of the operand of bytes and of its zero point.
_BYTES: Final = {
    ("", "MatMulInteger"): (1, 3),
    ("com.microsoft", "MatMulIntegerToFloat"): (1, 5),
    ("com.microsoft", "DynamicQuantizeMatMul"): (1, 3),
}
# Limit of the bytes of unpacked weights in a graph.
LIMIT: Final = 256 << 20
_MADE: Final = "_as_numbers"
# Number of rows unpacked at a time, which limits temporary memory.
_ROWS: Final = 64


def few_bits(look: Look) -> bool:
    """Convert weights of few bits."""
    changed = False
    for node in list(look.graph.nodes):
        places = _BYTES.get((node.domain, node.op))
        if (node.domain, node.op) in look.functions:
            continue
        if places is not None:
            changed |= _signed(look, node, *places)
        elif (node.domain, node.op) == ("com.microsoft", "MatMulNBits"):
            changed |= _numbers(look, node)
    return changed


def _own(look: Look, name: str) -> Constant | None:
    """Return a constant of the graph with one reader only, so that it can be removed."""
    known = look.graph.constants.get(name)
    return known if known is look.constant(name) and look.single(name) else None


def _signed(look: Look, node: Node, place: int, zero_place: int) -> bool:
    inputs = inputs_of(node, max(zero_place + 1, len(node.inputs)))
    name, zero_name = inputs[place], inputs[zero_place]
    weight, zero = _own(look, name), look.constant(zero_name)
    if weight is None or weight.dtype != np.uint8 or (zero_name and zero is None):
        return False
    if zero is not None and zero.dtype != np.uint8:
        return False
    constants = look.graph.constants
    inputs[place], inputs[zero_place] = look.fresh(f"{name}_signed"), look.fresh(f"{name}_zero")
    constants[inputs[place]] = Constant(np.dtype(np.int8), weight.shape, _moved(weight))
    if zero is None:
        constants[inputs[zero_place]] = Constant.of(np.array(-128, np.int8))
    else:
        constants[inputs[zero_place]] = Constant(np.dtype(np.int8), zero.shape, _moved(zero))
    look.replace(
        node,
        Node(node.op, node.domain, node.version, node.name, inputs, list(node.outputs),
             dict(node.attributes)),
    )  # fmt: skip
    return True


def _moved(constant: Constant) -> Callable[[Room], Array]:
    def read(room: Room) -> Array:
        made = room(constant.shape, np.dtype(np.int8))
        np.bitwise_xor(constant.array(), np.uint8(128), out=made.view(np.uint8))
        return made

    return read


def _numbers(look: Look, node: Node) -> bool:
    a, name, rate_name, zero_name, groups, bias = inputs_of(node, 6)
    weight, rates, zeros = _own(look, name), look.constant(rate_name), look.constant(zero_name)
    if weight is None or rates is None or groups or (zero_name and zeros is None):
        return False
    options = {"bits": 4, **node.attributes}
    numbers = [options.get(n) for n in ("N", "K", "block_size", "bits")]
    if not all(isinstance(n, int) and n > 0 for n in numbers) or rates.dtype.kind != "f":
        return False
    shape, size, bits = (options["N"], options["K"]), options["block_size"], options["bits"]
    spent = sum(
        prod(known.shape) * known.dtype.itemsize
        for other, known in look.graph.constants.items()
        if other.endswith(_MADE)
    )
    wanted = prod(shape) * rates.dtype.itemsize
    if bits not in (2, 4, 8) or weight.dtype != np.uint8 or spent + wanted > LIMIT:
        return False
    blocks = -(-shape[1] // size)
    if weight.size * 8 != shape[0] * blocks * size * bits or rates.size != shape[0] * blocks:
        return False
    if zeros is not None:
        row = blocks if zeros.dtype != np.uint8 else -(-blocks * bits // 8)
        if zeros.dtype not in (np.uint8, rates.dtype) or zeros.size != shape[0] * row:
            return False
    made = look.fresh(name + _MADE)
    look.graph.constants[made] = Constant(
        rates.dtype, shape, _unpacked(weight, rates, zeros, shape, size, bits)
    )
    inputs = [a, made, *([bias] if bias else [])]
    look.replace(
        node, Node("Linear", "calor", 1, node.name, inputs, list(node.outputs))
    )  # fmt: skip
    return True


def _unpacked(
    weight: Constant, rates: Constant, zeros: Constant | None, shape: tuple[int, int], size: int,
    bits: int,
) -> Callable[[Room], Array]:  # fmt: skip
    rows, columns = shape
    blocks = -(-columns // size)

    def offsets() -> Array:
        if zeros is None:
            return np.full((rows, blocks), 2 ** (bits - 1), rates.dtype)
        found = zeros.array().reshape(rows, -1)
        if zeros.dtype == np.uint8:
            packed = found.shape[1] * 8 // bits
            found = unpack(found.reshape(-1), bits, rows * packed).reshape(rows, packed)
        return found[:, :blocks].astype(rates.dtype)

    def read(room: Room) -> Array:
        made = room(shape, rates.dtype)
        packed = weight.array().reshape(rows, -1)
        scale, offset = rates.array().reshape(rows, blocks, 1), offsets().reshape(rows, blocks, 1)
        for start in range(0, rows, _ROWS):
            part = packed[start : start + _ROWS]
            codes = unpack(part.reshape(-1), bits, part.size * 8 // bits)
            numbers = codes.reshape(len(part), blocks, size).astype(rates.dtype)
            numbers -= offset[start : start + _ROWS]
            numbers *= scale[start : start + _ROWS]
            made[start : start + _ROWS] = numbers.reshape(len(part), -1)[:, :columns]
        return made

    return read
