"""Print what a process holds while it meets ten thousand sizes: memory must stay flat.

    python benchmarks/many_sizes.py --device cpu --json FILE

Each size is met once: a chain of elementwise ops and a linear layer, recorded and looked at, with
the same functions and new shapes.
"""

import argparse
import gc
import json
import sys
from pathlib import Path
from time import perf_counter
from typing import Any


def resident() -> int:
    """Return the bytes of this process that are in memory."""
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return pages * 4096


def main() -> int:
    """Meet the sizes, and print the memory after each tenth of them."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--sizes", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import calor
    from calor import nn

    rows: list[dict[str, Any]] = []
    with calor.device(options.device) as device:
        backend: Any = device.backend
        engine = backend.engine(0)
        layer = nn.Linear(16, 24)
        start = perf_counter()
        for number in range(1, options.sizes + 1):
            # No two pairs are alike.
            n, m = 2 + number % 100, 16 + number // 100
            x = calor.ones((n, m))
            y = calor.tanh(x * 2.0 + 1.0).sum(axis=1)
            z = nn.functional.relu(layer(x[:, :16]))
            calor.eval(y, z)
            if number % max(options.sizes // 10, 1) == 0:
                gc.collect()
                kernels = engine.kernels
                row = {
                    "sizes": number,
                    "resident_bytes": resident(),
                    "kernels": kernels.compiled + kernels.found,
                    "plans": device.plans_made,
                    "seconds": perf_counter() - start,
                }
                rows.append(row)
                print(
                    f"{number:6} sizes: {row['resident_bytes'] / 2**20:7.1f} MiB, "
                    f"{row['kernels']} kernels, {row['seconds']:.0f} s"
                )
    if options.json:
        from harness import report

        command = " ".join(["python", "benchmarks/many_sizes.py", *sys.argv[1:]])
        document = {**report.setting(command, options.device, [], None), "suite": "many_sizes"}
        options.json.write_text(json.dumps({**document, "rows": rows}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
