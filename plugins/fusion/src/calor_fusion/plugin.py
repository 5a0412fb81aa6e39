"""The plugin of calor-fusion: the fusers "elementwise", "products" and "rows".

The fusers are part of the kernel families whose kernels they use; this plugin enables them. It
imports nothing heavy.
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


def _products() -> Fuser:
    from calor_kernel.library.matmul import ProductFuser

    return ProductFuser()


def _rows() -> Fuser:
    from calor_kernel.library.reduce import RowFuser

    return RowFuser()


@hookimpl
def calor_fusers() -> Mapping[str, Callable[[], Fuser]]:
    """Return the fusers: elementwise chains; what follows products; reductions and norms."""
    return {"elementwise": _elementwise, "products": _products, "rows": _rows}
