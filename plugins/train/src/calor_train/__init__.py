"""Training for calor: optimizers, schedules, data loading, a training loop with a live screen."""

from calor_train.clipping import (
    clip_by_global_norm,
    clip_by_value,
    clip_grad_norm_,
    clip_grad_value_,
    global_norm,
)
from calor_train.data import (
    ArrayDataset,
    DataLoader,
    Dataset,
    Subset,
    default_collate,
    random_split,
)
from calor_train.optimizers import SGD, Adam, AdamW, Optimizer, ParameterGroup
from calor_train.scheduler import Scheduler
from calor_train.schedules import (
    Chained,
    Constant,
    Cosine,
    CosineRestarts,
    Exponential,
    Linear,
    LinearWarmup,
    MultiStep,
    OneCycle,
    OneCycleMomentum,
    Polynomial,
    Schedule,
    Sequential,
    StepDecay,
)

__all__ = [
    "SGD",
    "Adam",
    "AdamW",
    "ArrayDataset",
    "Chained",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "DataLoader",
    "Dataset",
    "Exponential",
    "Linear",
    "LinearWarmup",
    "MultiStep",
    "OneCycle",
    "OneCycleMomentum",
    "Optimizer",
    "ParameterGroup",
    "Polynomial",
    "Schedule",
    "Scheduler",
    "Sequential",
    "StepDecay",
    "Subset",
    "clip_by_global_norm",
    "clip_by_value",
    "clip_grad_norm_",
    "clip_grad_value_",
    "default_collate",
    "global_norm",
    "random_split",
]
