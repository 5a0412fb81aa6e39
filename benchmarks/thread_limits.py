"""Give every library in the process the same number of threads.

It is called before any of them is imported, because most read their count once, at import.
"""

import importlib
import os
from collections.abc import Sequence

VARIABLES = (
    "OMP_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "MKL_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    "NUMEXPR_NUM_THREADS",
)


def limit_threads(count: int) -> None:
    """Limit the process to `count` threads; raises ValueError below one."""
    if count < 1:
        raise ValueError(f"--threads needs at least 1, not {count}")
    for name in VARIABLES:
        os.environ[name] = str(count)
    # XLA has no count of its own: it takes as many threads as the process may use processors.
    if hasattr(os, "sched_setaffinity"):
        allowed = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, allowed[:count])


def limit_peers(peers: Sequence[str], count: int) -> None:
    """Tell the peers that have a call for it."""
    if "torch" in peers:
        torch = importlib.import_module("torch")
        torch.set_num_threads(count)
