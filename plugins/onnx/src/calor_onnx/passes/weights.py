"""Constant transposes of large weights, done once during the upload."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from calor_onnx.constants import Constant
from calor_onnx.passes.looking import Look
from calor_onnx.passes.transposes import permutation
from calor_onnx.scratch import Room


def weights(look: Look) -> bool:
    """Replace transposes of large weights by transposed constants."""
    changed = False
    for node in list(look.graph.nodes):
        if not look.standard(node, "Transpose") or node.outputs[0] in look.pinned:
            continue
        found = permutation(look, node.outputs[0])
        if found is None:
            continue
        source, perm = found
        constant = look.constant(source)
        if constant is None or len(perm) != len(constant.shape):
            continue
        shape = tuple(constant.shape[axis] for axis in perm)
        name = look.fresh(f"{source}_turned")
        look.graph.constants[name] = Constant(constant.dtype, shape, _turned(constant, perm))
        changed |= look.bypass(node, name)
    return changed


def _turned(constant: Constant, perm: list[int]) -> Callable[[Room], Any]:
    def read(room: Room) -> Any:
        turned = constant.array().transpose(perm)
        made = room(turned.shape, turned.dtype)
        np.copyto(made, turned)
        return made

    return read
