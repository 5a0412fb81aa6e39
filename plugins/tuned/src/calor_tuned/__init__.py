"""Choices among calor's kernels, measured on known devices; :func:`folder` has the files."""

from calor_tuned.plugin import folder

__all__ = ["folder"]
