"""What a launch costs the caller: `python benchmarks/launches.py --device NAME --json FILE`.

Times are of the call alone, the device at rest before it: of a bound plan of one kernel, of a plan
of a hundred that depend on each other, and of CuPy's RawKernel, once and a hundred times.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

from harness import report  # noqa: E402

COUNT = 100
TEXT = """extern "C" __global__ void add_one(const float *x, float *y, long long n) {
  long long i = blockIdx.x * 256ll + threadIdx.x;
  if (i < n) y[i] = x[i] + 1.0f;
}"""


def shortest(call: Callable[[], Any], wait: Callable[[], Any], times: int) -> float:
    """Return the least time of a call, in seconds, of ``times`` samples."""
    found = []
    for _ in range(times):
        wait()
        start = perf_counter()
        call()
        found.append(perf_counter() - start)
    wait()
    return min(found)


def measure(device: str, times: int) -> dict[str, float]:
    """Return seconds by what is called; both libraries take turns."""
    import calor

    calls: dict[str, tuple[Callable[[], Any], Callable[[], Any]]] = {}
    with calor.device(device):
        x = calor.asarray(np.zeros(1000, np.float32))
        matrix, factor = calor.ones((32, 32)), calor.asarray(np.eye(32, dtype=np.float32))

        def powers(value: Any) -> Any:
            for _ in range(COUNT):
                value = value @ factor
            return value

        for name, function, given in (
            ("calor, a bound plan of 1 kernel", lambda x: x + 1.0, x),
            (f"calor, a bound plan of {COUNT} kernels", powers, matrix),
        ):
            jitted = calor.jit(function)
            jitted(given)
            bound = jitted.bind(given)
            bound()
            bound()
            calls[name] = bound, lambda: calor.synchronize(device)
    calls |= raw_kernels()
    for call, _ in calls.values():
        call()
    found: dict[str, float] = {}
    for _ in range(5):
        for name, (call, wait) in calls.items():
            taken = shortest(call, wait, times)
            found[name] = min(taken, found.get(name, taken))
    return found


def raw_kernels() -> dict[str, tuple[Callable[[], Any], Callable[[], Any]]]:
    """Return CuPy's calls, none where it is not installed."""
    try:
        import cupy
    except ImportError:
        return {}
    kernel = cupy.RawKernel(TEXT, "add_one")
    x, y = cupy.zeros(1000, cupy.float32), cupy.zeros(1000, cupy.float32)

    def once() -> None:
        kernel((4,), (256,), (x, y, 1000))

    def often() -> None:
        for _ in range(COUNT):
            kernel((4,), (256,), (x, y, 1000))

    wait = cupy.cuda.runtime.deviceSynchronize
    return {"CuPy, RawKernel once": (once, wait), f"CuPy, RawKernel {COUNT} times": (often, wait)}


def main() -> None:
    """Measure, print, and write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    found = measure(options.device, options.times)
    for name, seconds in found.items():
        print(f"{name:40s} {report.seconds(seconds)}")
    if options.json:
        command = shlex.join(["python", "benchmarks/launches.py", *sys.argv[1:]])
        setting = report.setting(command, options.device, ["cupy"], None)
        options.json.write_text(json.dumps({**setting, "seconds": found}, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
