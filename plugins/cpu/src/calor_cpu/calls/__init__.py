"""Bound calls, compiled to built-in functions of the interpreter."""

from calor_cpu.calls.build import caller, finalizer

__all__ = ["caller", "finalizer"]
