"""Several devices of one host as one: groups, and what their members exchange.

One process drives all devices of a group by one program. A group is a device: a tensor on it is an
array on each member, an op runs on every member with that member's arrays, and a collective is an
op among others. So jit, gradients, modules and optimizers work on a group as on one device, no
member can wait for a collective that another one never reaches, and there are no ranks to start.
Programs of one process per device, and of many machines, are left to engines made for it (Ray,
MPI).

>>> import calor
>>> from calor.distributed import all_reduce, group
>>> both = group("numpy", "numpy")
>>> x = both.scatter(calor.asarray([1.0, 2.0, 3.0, 4.0]))
>>> all_reduce(x).tolist()
[4.0, 6.0]
"""

from calor_distributed.collectives import (
    all_gather,
    all_reduce,
    average_gradients,
    broadcast,
    rank,
    reduce_scatter,
)
from calor_distributed.group import Group, group

__all__ = [
    "Group",
    "all_gather",
    "all_reduce",
    "average_gradients",
    "broadcast",
    "group",
    "rank",
    "reduce_scatter",
]
