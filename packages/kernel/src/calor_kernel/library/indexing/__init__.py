"""Moves of elements: regions, gathers and scatters.

Requirements: modules are imported at the first use of their ops.
"""

from __future__ import annotations

from calor_kernel.contract import work
from calor_kernel.library.indexing.embedding_bag_fuser import OP, EmbeddingBagFuser

__all__ = ["EmbeddingBagFuser"]

work.lowering(OP)(
    work.deferred("calor_kernel.library.indexing.embedding_bags", "lower_embedding_bag")
)
for _op in ("concat", "pad", "dynamic_slice", "dynamic_update_slice"):
    work.lowering(_op, strided=True)(
        work.deferred("calor_kernel.library.indexing.regions", f"lower_{_op}")
    )
for _op, _dense in (("gather", (0, 1)), ("gather_nd", (0, 1)), ("take_along", (0,))):
    work.lowering(_op, dense=_dense)(
        work.deferred("calor_kernel.library.indexing.gather", f"lower_{_op}")
    )
for _op in ("scatter_nd", "scatter_along"):
    work.lowering(_op, dense=(0, 1, 2))(
        work.deferred("calor_kernel.library.indexing.scatter_launch", f"lower_{_op}")
    )
