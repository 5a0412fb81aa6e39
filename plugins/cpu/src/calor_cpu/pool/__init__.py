"""The native thread pool and the runner of plans."""

from calor_cpu.pool.layout import Block, Layout, Record, bits
from calor_cpu.pool.plan import KEEP_S, RESUME, Explain, KernelFailure, Plan, Runner, is_long
from calor_cpu.pool.pool import Pool, default_threads

__all__ = [
    "KEEP_S",
    "RESUME",
    "Block",
    "Explain",
    "KernelFailure",
    "Layout",
    "Plan",
    "Pool",
    "Record",
    "Runner",
    "bits",
    "default_threads",
    "is_long",
]
