"""Names of ``torch.optim`` and its schedules, and what to write in calor.

Requirements: one table makes the errors for missing names, and is loaded only for such an error.
"""

from __future__ import annotations

from typing import Final

_SET = "calor.train.Scheduler(optimizer, lr=calor.train.{})"
_OWN = "calor.train.Schedule as the base of a class with value(step, base)"

# Each is an expression, in which the names of torch's arguments stand for values.
CALLS: Final = {
    "StepLR": _SET.format("StepDecay(step_size, gamma)"),
    "MultiStepLR": _SET.format("MultiStep(milestones, gamma)"),
    "ExponentialLR": _SET.format("Exponential(gamma)"),
    "ConstantLR": _SET.format(
        "Joined([calor.train.Constant(factor), calor.train.Constant(1.0)], [total_iters])"
    ),
    "LinearLR": _SET.format("LinearRamp(total_iters, start_factor, end_factor)"),
    "PolynomialLR": _SET.format("Polynomial(total_iters, power)"),
    "CosineAnnealingLR": _SET.format("Cosine(T_max, eta_min)"),
    "CosineAnnealingWarmRestarts": _SET.format("CosineRestarts(T_0, T_mult, eta_min)"),
    "OneCycleLR": _SET.format("OneCycle(total_steps)"),
    "SequentialLR": _SET.format("Joined(schedules, milestones)"),
    "ChainedScheduler": _SET.format("Chained(*schedules)"),
    "SWALR": _SET.format("AnnealTo(swa_lr, anneal_epochs)"),
    "SparseAdam": "calor.train.Adam(params), whose gradients are dense",
}
WORDS: Final = {
    "LambdaLR": _OWN,
    "MultiplicativeLR": _OWN,
    "CyclicLR": _OWN,
    "LRScheduler": _OWN,
    "lr_scheduler": "calor.train.Scheduler(optimizer, lr=schedule) with one of calor.train's "
    "schedules",
    "optim": "calor.train, which has the optimizers itself",
}
HINTS: Final = {**CALLS, **WORDS}


def missing(name: str) -> AttributeError:
    """Return the error for a name that ``calor.train`` does not have."""
    hint = f"; write {HINTS[name]}" if name in HINTS else ""
    return AttributeError(f"module 'calor_train' has no attribute {name!r}{hint}")
