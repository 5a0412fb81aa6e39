"""The plugin of calor-fusion: the fusers "elementwise" and "rows". It imports nothing heavy.

The fusers are part of the kernel families whose kernels they use; this plugin enables them.
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
    """Return the fusers: elementwise chains; reductions and norms with their neighbours."""
    return {"elementwise": _elementwise, "rows": _rows}
