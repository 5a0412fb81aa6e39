"""Kernels as text of C-like languages: one printer, and a dialect per language."""

from calor_kernel.printers.c import print_kernel
from calor_kernel.printers.dialect import Dialect
from calor_kernel.printers.numbers import bits_of
from calor_kernel.printers.plain_c import PlainC

__all__ = ["Dialect", "PlainC", "bits_of", "print_kernel"]
