"""Errors of training."""

from __future__ import annotations

from calor.errors import CalorError


class TrainingError(CalorError, RuntimeError):
    """Training cannot go on, with the reason."""


class NonFiniteLossError(TrainingError):
    """The loss became NaN or infinite; says where, and what to look at."""


class CheckpointError(CalorError, ValueError):
    """A checkpoint is missing, broken, or was made by something else than what loads it."""
