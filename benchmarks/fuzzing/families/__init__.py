"""The families of operations, each a module with the distribution of its cases."""

from fuzzing.cases import Family, Sample, Work
from fuzzing.families import (
    attention,
    convolution,
    elementwise,
    indexing,
    layouts,
    linear,
    moving,
    norms,
    ordering,
    pooling,
    recurrent,
    reductions,
    rows,
    updates,
)

_MODULES = (
    linear, attention, convolution, norms, elementwise, moving, rows, indexing, reductions, pooling,
    updates, ordering, layouts, recurrent,
)  # fmt: skip
FAMILIES: dict[str, Family] = {
    family.name: family for module in _MODULES for family in module.FAMILIES
}


def work_of(sample: Sample) -> Work:
    """Return the work of a case; KeyError for a family or parameter that there is not."""
    return FAMILIES[sample.family].work(dict(sample.parameters))
