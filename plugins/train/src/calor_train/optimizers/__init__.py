"""Optimizers, one family a module, and what they are built from."""

from calor_train.optimizers.adafactor import Adafactor
from calor_train.optimizers.adagrad import Adadelta, Adagrad
from calor_train.optimizers.adam import Adam, AdamW
from calor_train.optimizers.adamax import Adamax
from calor_train.optimizers.adan import Adan
from calor_train.optimizers.base import Optimizer
from calor_train.optimizers.group import ParameterGroup
from calor_train.optimizers.lamb import LAMB
from calor_train.optimizers.lbfgs import LBFGS
from calor_train.optimizers.lion import Lion
from calor_train.optimizers.muon import Muon
from calor_train.optimizers.nadam import NAdam
from calor_train.optimizers.radam import RAdam
from calor_train.optimizers.rmsprop import RMSprop
from calor_train.optimizers.rprop import Rprop
from calor_train.optimizers.sgd import SGD

__all__ = [
    "LAMB",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Adan",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "ParameterGroup",
    "RAdam",
    "RMSprop",
    "Rprop",
]
