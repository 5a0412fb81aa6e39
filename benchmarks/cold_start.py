"""Time a network's first inference in a new process: with empty caches, and with those it left.

    python benchmarks/cold_start.py --device cpu --peers torch --json FILE

Each sample is a process of its own; counted is what happens after the imports: the weights are
made, then the first call runs until its result is on the host. Images are one of 224 by 224.
"""

import argparse
import importlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent


def main() -> int:
    """Run the samples and print medians; the first calor process fills the caches."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peers", default="")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sample", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sample:
        print(json.dumps(sample(options.sample, options.device)))
        return 0
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(options.repeats):
            cache = Path(folder) / str(number)
            rows.append({"case": "empty caches", **run("calor", options.device, cache)})
            rows.append({"case": "warm disk cache", **run("calor", options.device, cache)})
        for peer in filter(None, options.peers.split(",")):
            for _ in range(options.repeats):
                rows.append({"case": f"{peer}, eager", **run(peer, options.device, Path(folder))})
    result = {}
    for case in dict.fromkeys(row["case"] for row in rows):
        seconds = [row["first_s"] for row in rows if row["case"] == case]
        again = [row["second_s"] for row in rows if row["case"] == case]
        result[case] = {"first_s": statistics.median(seconds), "second_s": statistics.median(again)}
        print(f"{case:16} first {result[case]['first_s']:.3f} s, then {min(again):.3f} s")
    if options.json:
        from harness import report

        setting = report.setting(
            " ".join(["python", "benchmarks/cold_start.py", *sys.argv[1:]]),
            options.device,
            [p for p in options.peers.split(",") if p],
            None,
        )
        document = {**setting, "suite": "cold_start", "samples": rows, "medians": result}
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


def run(library: str, device: str, cache: Path) -> dict[str, float]:
    """Return the times of one process."""
    environment = {**os.environ, "CALOR_CACHE_DIR": str(cache), "CALOR_DEVICE": device}
    command = [sys.executable, __file__, "--sample", library, "--device", device]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


def sample(library: str, device: str) -> dict[str, float]:
    """Make the network and call it twice; seconds of both calls."""
    import numpy as np

    sys.path.insert(0, str(HERE))
    from suites._resnet import resnet50

    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    call: Any
    if library == "calor":
        import calor
        from calor import nn

        with calor.device(device):
            model = resnet50(nn).eval()
            x = calor.asarray(image)
            calor.eval(*model.parameters(), x)
        call = calor.jit(lambda x: model(x))

        def ask() -> Any:
            return call(x).numpy()
    else:
        torch = importlib.import_module("torch")
        model = resnet50(torch.nn).eval()
        x = torch.from_numpy(image)

        def ask() -> Any:
            with torch.no_grad():
                return model(x).numpy()

    times = []
    for _ in range(2):
        start = perf_counter()
        made = ask()
        times.append(perf_counter() - start)
    assert made.shape == (1, 1000)
    return {"first_s": times[0], "second_s": times[1]}


if __name__ == "__main__":
    sys.exit(main())
