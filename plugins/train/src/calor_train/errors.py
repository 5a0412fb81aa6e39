"""Errors of training."""

from __future__ import annotations

from calor.errors import CalorError


class TrainingError(CalorError, RuntimeError):
    """Training cannot continue; the message says why."""


class NonFiniteLossError(TrainingError):
    """The loss became NaN or infinite; says where, and what to look at."""


class CheckpointError(CalorError, ValueError):
    """A checkpoint is missing, broken, or does not fit what loads it."""
