"""Optimizers: SGD, Adam, AdamW, and what they are built from."""

from calor_train.optimizers.adam import Adam, AdamW
from calor_train.optimizers.base import Optimizer
from calor_train.optimizers.group import ParameterGroup
from calor_train.optimizers.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer", "ParameterGroup"]
