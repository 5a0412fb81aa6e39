"""The native thread pool and the runner of plans."""

from calor_cpu.pool.layout import Layout, Record, bits
from calor_cpu.pool.plan import KernelFailure, Plan, is_long
from calor_cpu.pool.pool import Pool, default_threads

__all__ = [
    "KernelFailure",
    "Layout",
    "Plan",
    "Pool",
    "Record",
    "bits",
    "default_threads",
    "is_long",
]
