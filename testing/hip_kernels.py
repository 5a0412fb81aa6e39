"""Asks the conformance suite of imitated AMD GPUs: `python testing/hip_kernels.py --shard 1/400`.

Each kernel is printed as HIP C++, compiled by clang for the processor that is imitated, and run on
the host. Arguments are those of `calor-conformance`; without `--device` each processor is asked.
"""

import os
import sys

# Workers would not compile twice.
os.environ.update(CALOR_CACHE="0", CALOR_COMPILE_WORKERS="0")

import pytest

from amd_code import checked, missing
from calor_conformance.command import main
from calor_host_shim.devices import HostHipToolchain
from calor_host_shim.hip import DEVICES


def check_all() -> None:
    """Have every text that a device compiles compiled for its processor too."""
    patch, compiled = pytest.MonkeyPatch(), HostHipToolchain.compile

    def both(self: HostHipToolchain, source: str, name: str) -> bytes:
        checked(source, name, self.processor)
        return compiled(self, source, name)

    patch.setattr(HostHipToolchain, "compile", both)


if __name__ == "__main__":
    lacking = missing()
    if lacking is not None:
        sys.exit(lacking)
    check_all()
    given = sys.argv[1:]
    devices = [] if "--device" in given else [f"hip-shim:{n}" for n in range(len(DEVICES))]
    sys.exit(max([main([*(("--device", d) if d else ()), *given]) for d in devices or [""]]))
