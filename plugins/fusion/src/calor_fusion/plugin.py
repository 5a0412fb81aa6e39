"""What the entry points name: the fusers "elementwise" and "rows". It imports nothing heavy.

The fusers belong to the kernel families whose kernels they ask for, and live there; this says
that they are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from calor.plugins import hookimpl

if TYPE_CHECKING:
    from calor_kernel.contract.fuser import Fuser


def _elementwise() -> Fuser:
    from calor_kernel.library.elementwise import ElementwiseFuser

    return ElementwiseFuser()


def _rows() -> Fuser:
    from calor_kernel.library.reduce import RowFuser

    return RowFuser()


@hookimpl
def calor_fusers() -> Mapping[str, Callable[[], Fuser]]:
    """Chains of elementwise operations; reductions and norms with the work around them."""
    return {"elementwise": _elementwise, "rows": _rows}
