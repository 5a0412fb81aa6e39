"""The native thread pool and the runner of plans."""

from calor_cpu.pool.plan import KernelFailure, Plan, Record, bits
from calor_cpu.pool.pool import Pool, default_threads

__all__ = ["KernelFailure", "Plan", "Pool", "Record", "bits", "default_threads"]
