"""Asking the kernel families for work, each question once.

Requirements: planning a known graph at another size, or a graph of known ops, costs microseconds a
node, so what a family answered is kept by op, attributes, views and results.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

from calor.interning import remember
from calor.ops.attributes import exact_items
from calor.specs import Spec
from calor_kernel import library
from calor_kernel.library.work import DENSE, LOWERINGS, Refusal, Request, View, Work
from calor_kernel.runtime.device import DeviceInfo


def load_families() -> None:
    """Import the kernel families, which register what they lower."""
    for module in pkgutil.iter_modules(library.__path__, f"{library.__name__}."):
        import_module(module.name)


class Lowerings:
    """What the families answered for one device."""

    def __init__(self, info: DeviceInfo) -> None:
        self.info = info
        self._memo: dict[Any, Sequence[Work] | Refusal] = {}

    def __contains__(self, op: str) -> bool:
        return op in LOWERINGS

    def dense(self, op: str, number: int) -> bool:
        """Return whether an op takes an operand only as dense memory."""
        which = DENSE.get(op)
        return which is None or number in which

    def ask(
        self,
        op: str,
        attributes: Mapping[str, Any],
        inputs: tuple[View, ...],
        outputs: tuple[Spec, ...],
        deterministic: bool = False,
    ) -> Sequence[Work] | Refusal:
        """Return the candidates of a family for an op, or why there is none."""
        key = (op, exact_items(attributes), inputs, outputs, deterministic)
        found = self._memo.get(key)
        if found is None:
            request = Request(op, attributes, inputs, outputs, self.info, deterministic)
            found = remember(self._memo, key, LOWERINGS[op](request))
        return found
