"""The families of operations, each a module with the distribution of its cases."""

from fuzzing.cases import Family, Sample, Work
from fuzzing.families import (
    attention,
    attention_forms,
    convolution,
    decoding,
    elementwise,
    experts,
    factors,
    images,
    indexing,
    layouts,
    linear,
    losses,
    moving,
    norm_forms,
    norms,
    optimizers,
    ordering,
    pooling,
    recurrent,
    reductions,
    rows,
    sparse,
    spectra,
    updates,
)

_MODULES = (
    linear, attention, convolution, norms, elementwise, moving, rows, indexing, reductions, pooling,
    updates, ordering, layouts, recurrent, attention_forms, decoding, experts, images, losses,
    norm_forms, optimizers, sparse, spectra, factors,
)  # fmt: skip
FAMILIES: dict[str, Family] = {
    family.name: family for module in _MODULES for family in module.FAMILIES
}


def work_of(sample: Sample) -> Work:
    """Return the work of a case; KeyError for a family or parameter that there is not."""
    return FAMILIES[sample.family].work(dict(sample.parameters))
