"""The native thread pool and the runner of plans."""

from calor_cpu.pool.plan import Plan, Record, bits
from calor_cpu.pool.pool import Pool, default_threads

__all__ = ["Plan", "Pool", "Record", "bits", "default_threads"]
