"""Asks the conformance suite of an imitated GPU: `python testing/cuda_kernels.py --shard 1/400`.

Each kernel is printed as CUDA C++, compiled by NVRTC for the oldest and the newest architecture of
which the tests have hardware, and run on lanes. Arguments are those of `calor-conformance`.
"""

import os
import sys
from typing import Any

# A stored kernel is an image without a body, which lanes could not run; workers would not imitate.
os.environ.update(CALOR_CACHE="0", CALOR_COMPILE_WORKERS="0")

import pytest

from calor_conformance.command import main
from calor_cuda.toolchain import CudaToolchain
from imitated_cuda import Fake

OLDEST = "sm_80"


def imitate() -> None:
    """Put the imitated driver in CuPy's place, and compile every kernel for both."""
    patch = pytest.MonkeyPatch()
    Fake().install(patch)
    compiled, older = CudaToolchain.compile, CudaToolchain(OLDEST)

    def both(self: CudaToolchain, source: str, name: str) -> bytes:
        compiled(older, source, name)
        return compiled(self, source, name)

    patch.setattr(CudaToolchain, "compile", both)


if __name__ == "__main__":
    imitate()
    given: list[Any] = sys.argv[1:]
    sys.exit(main(["--device", "cuda", *given]))
