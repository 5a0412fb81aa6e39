"""Several devices of one host as one device: groups and collectives.

One process drives all devices of a group. A group is a device: a tensor on it is an array on each
member, an op runs on every member with that member's arrays, and a collective is an op like any
other. jit, gradients, modules and optimizers therefore work on a group as on one device. All
members run one program, so none waits for a collective that another never reaches, and no ranks
have to be launched. One process per device, or several machines, need another engine (Ray, MPI).

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
