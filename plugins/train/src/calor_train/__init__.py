"""Training for calor: optimizers, schedules, data loading, a training loop with a live screen."""

from typing import TYPE_CHECKING

from calor.settings import check_constructors as _check_constructors
from calor_train.annealing import AnnealTo
from calor_train.averaged_model import AveragedModel, update_bn
from calor_train.averaging import ExponentialMovingAverage
from calor_train.callbacks import Callback, Checkpoint, CSVLog, EarlyStopping
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
from calor_train.errors import CheckpointError, NonFiniteLossError, TrainingError
from calor_train.learner import Learner
from calor_train.metrics import (
    Accuracy,
    ConfusionMatrix,
    Loss,
    Mean,
    Metric,
    RunningMean,
    TopK,
)
from calor_train.optimizers import (
    LAMB,
    LBFGS,
    SGD,
    Adadelta,
    Adafactor,
    Adagrad,
    Adam,
    Adamax,
    AdamW,
    Adan,
    Lion,
    Muon,
    NAdam,
    Optimizer,
    ParameterGroup,
    RAdam,
    RMSprop,
    Rprop,
)
from calor_train.plateau import ReduceLROnPlateau
from calor_train.ranges import RANGES as _RANGES
from calor_train.scaling import GradScaler
from calor_train.scheduler import Scheduler
from calor_train.schedules import (
    Chained,
    Constant,
    Cosine,
    CosineRestarts,
    Exponential,
    Joined,
    LinearRamp,
    LinearWarmup,
    MultiStep,
    OneCycle,
    OneCycleMomentum,
    Polynomial,
    Schedule,
    StepDecay,
)

__all__ = [
    "LAMB",
    "LBFGS",
    "SGD",
    "Accuracy",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Adan",
    "AnnealTo",
    "ArrayDataset",
    "AveragedModel",
    "CSVLog",
    "Callback",
    "Chained",
    "Checkpoint",
    "CheckpointError",
    "ConfusionMatrix",
    "Constant",
    "Cosine",
    "CosineRestarts",
    "DataLoader",
    "Dataset",
    "EarlyStopping",
    "Exponential",
    "ExponentialMovingAverage",
    "GradScaler",
    "Joined",
    "Learner",
    "LinearRamp",
    "LinearWarmup",
    "Lion",
    "Loss",
    "Mean",
    "Metric",
    "MultiStep",
    "Muon",
    "NAdam",
    "NonFiniteLossError",
    "OneCycle",
    "OneCycleMomentum",
    "Optimizer",
    "ParameterGroup",
    "Polynomial",
    "RAdam",
    "RMSprop",
    "ReduceLROnPlateau",
    "Rprop",
    "RunningMean",
    "Schedule",
    "Scheduler",
    "StepDecay",
    "Subset",
    "TopK",
    "TrainingError",
    "clip_by_global_norm",
    "clip_by_value",
    "clip_grad_norm_",
    "clip_grad_value_",
    "default_collate",
    "global_norm",
    "random_split",
    "update_bn",
]

_check_constructors(
    [found for found in vars().values() if isinstance(found, type)], "calor_train.", _RANGES
)

if not TYPE_CHECKING:
    # Hidden from type checkers, for which a module with __getattr__ has every attribute.
    def __getattr__(name: str) -> object:
        from calor_train.migration import missing

        raise missing(name)
