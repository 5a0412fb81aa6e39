"""A table of a model's modules: output shapes, parameters, bytes.

Requirements: nothing is computed and nothing changes, neither running statistics nor the random
state; so the model is traced on placeholders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import calor
from calor import Tensor
from calor.recording.tracing import GraphTrace
from calor.specs import spec
from calor_nn.parameters import Holder, held_tensors, observers, own_tensors


@dataclass(frozen=True)
class _Row:
    name: str
    shapes: str
    parameters: str
    size: str


def summary(module: Holder, *inputs: Any) -> str:
    """Return a table of a module and all below it: output shapes, parameters and bytes.

    Nothing is computed and no state changes.

    Parameters
    ----------
    module : Module
        The module.
    *inputs : Tensor or tuple of int
        What the module is called with: tensors, or shapes of float32 tensors. Without inputs the
        table has no output shapes.

    Returns
    -------
    str
        One line for each module, and the totals.

    Examples
    --------
    >>> from calor import nn
    >>> print(nn.summary(nn.Sequential(nn.Linear(3, 2), nn.ReLU()), (1, 3)))
    layer                         output  parameters  bytes
    Sequential                    [1, 2]
      0: Linear(3, 2, bias=True)  [1, 2]           8     32
      1: ReLU                     [1, 2]
    <BLANKLINE>
    parameters: 8
    bytes: 32
    """
    shapes = _output_shapes(module, inputs) if inputs else {}
    rows = [_Row("layer", "output" if inputs else "", "parameters", "bytes")]
    counted: set[int] = set()
    for path, inside in module.named_modules():
        rows.append(_row(path, inside, shapes.get(id(inside), ""), counted))
    return "\n".join([*_aligned(rows), "", *_totals(module)])


def _row(path: str, module: Holder, shapes: str, counted: set[int]) -> _Row:
    """Return the line of one module, with the parameters that it holds itself."""
    own = [held.tensor for held in own_tensors(module) if held.is_parameter]
    fresh = [leaf for leaf in own if id(leaf) not in counted]
    counted.update(id(leaf) for leaf in fresh)
    indent = "  " * (path.count(".") + 1 if path else 0)
    name = f"{path.rpartition('.')[2]}: " if path else ""
    count = f"{sum(t.size for t in fresh):,}" if own else ""
    if len(fresh) < len(own):
        count += " (tied)"
    size = f"{sum(t.nbytes for t in fresh):,}" if own else ""
    return _Row(f"{indent}{name}{_title(module)}", shapes, count, size)


def _title(module: Holder) -> str:
    extra = module.extra_repr()
    return f"{type(module).__name__}({extra})" if extra else type(module).__name__


def _output_shapes(module: Holder, inputs: Sequence[Any]) -> dict[int, str]:
    """Return each module's output shapes, by the module's id, from a call on placeholders."""
    found: dict[int, str] = {}
    tensors = [x for x in inputs if isinstance(x, Tensor)]
    device = tensors[0].device if tensors else _device_of(module)

    def observe(called: Holder, _: Any, output: Any) -> None:
        leaves = [x for x in calor.tree.leaves(output) if isinstance(x, Tensor)]
        found[id(called)] = ", ".join(str(list(x.shape)) for x in leaves)

    observers.append(observe)
    try:
        with GraphTrace(device, "summary") as trace, calor.no_grad():
            given = [
                trace.placeholder(spec(x.shape, x.dtype))
                if isinstance(x, Tensor)
                else trace.placeholder(spec(tuple(x), calor.float32))
                for x in inputs
            ]
            module(*given)
    finally:
        observers.remove(observe)
    return found


def _device_of(module: Holder) -> Any:
    for held in held_tensors(module):
        return held.tensor.device
    return calor.zeros(()).device


def _aligned(rows: Sequence[_Row]) -> list[str]:
    columns = [[getattr(row, field) for row in rows] for field in _Row.__annotations__]
    widths = [max(map(len, column)) for column in columns]
    lines = []
    for cells in zip(*columns, strict=True):
        text = [cell.ljust(w) for cell, w in zip(cells[:2], widths[:2], strict=True)]
        text += [cell.rjust(w) for cell, w in zip(cells[2:], widths[2:], strict=True)]
        lines.append("  ".join(t for t, w in zip(text, widths, strict=True) if w).rstrip())
    return lines


def _totals(module: Holder) -> list[str]:
    parameters = list(module.parameters())
    buffers = list(module.buffers())
    frozen = sum(p.size for p in parameters if not p.requires_grad)
    return [
        f"parameters: {sum(p.size for p in parameters):,}"
        + (f" ({frozen:,} frozen)" if frozen else ""),
        f"bytes: {sum(t.nbytes for t in (*parameters, *buffers)):,}"
        + (f" ({sum(t.nbytes for t in buffers):,} in buffers)" if buffers else ""),
    ]
