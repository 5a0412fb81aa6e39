"""A pytest plugin: OpenCL tests run on Intel's CPU runtime, which has fp16 and subgroups.

Load it with `-p intel_opencl` where `pip install intel-opencl-rt intel-cmplr-lib-rt` has put it
(about 800 MB, under Intel's licence). The file that the wheel gives to OpenCL's loader names a path
of the machine that built it, so that one with the right path is written, and the libraries that
the runtime opens by name are opened first.
"""

from __future__ import annotations

import ctypes
import os
import sys
import tempfile
from pathlib import Path
from typing import Final

LIBRARIES: Final = ("libintlc.so.5", "libimf.so", "libirng.so", "libsvml.so", "libtbb.so.12")


def use(prefix: Path = Path(sys.prefix)) -> None:
    """Make Intel's runtime under a prefix the only OpenCL platform of this process.

    OSError where it is not installed. Call it before pyopencl is imported.
    """
    folder = prefix / "lib"
    for name in LIBRARIES:
        ctypes.CDLL(str(folder / name), mode=ctypes.RTLD_GLOBAL)
    vendors = Path(tempfile.mkdtemp(prefix="opencl-vendors-"))
    (vendors / "intel.icd").write_text(f"{folder / 'libintelocl.so'}\n", "utf-8")
    os.environ["OCL_ICD_VENDORS"] = str(vendors)


use()
