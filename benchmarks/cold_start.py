"""Time a network's first inference in a new process: with empty caches, and with those it left.

    python benchmarks/cold_start.py --device cpu --peers torch --json FILE

Each sample is a process of its own; counted is what happens after the imports: the device is opened
and the weights are made, then the first call runs until its result is on the host. Beside it stands
what the whole process and its children take of the processors, imports included, which other
programs disturb least. Images are one of 224 by 224. Modules are compiled before the first sample,
as they are where a package is installed.
"""

import argparse
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from time import perf_counter
from typing import Any

HERE = Path(__file__).parent
_TIMES = ("weights_s", "first_s", "third_s", "cpu_s")


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
        os.environ["PYTHONPYCACHEPREFIX"] = str(Path(folder) / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        run("calor", options.device, Path(folder) / "none")
        for number in range(options.repeats):
            cache = Path(folder) / str(number)
            rows.append({"case": "empty caches", **run("calor", options.device, cache)})
            rows.append({"case": "warm disk cache", **run("calor", options.device, cache)})
        for peer in filter(None, options.peers.split(",")):
            for _ in range(options.repeats):
                rows.append({"case": f"{peer}, eager", **run(peer, options.device, Path(folder))})
    result = {}
    for case in dict.fromkeys(row["case"] for row in rows):
        of_case = [row for row in rows if row["case"] == case]
        found = {name: statistics.median(row[name] for row in of_case) for name in _TIMES}
        result[case] = found
        least = {name: min(row[name] for row in of_case) for name in _TIMES}
        print(
            f"{case:16} weights {found['weights_s']:.3f} s, first call {found['first_s']:.3f} s, "
            f"at the third {found['third_s']:.3f} s; processors {found['cpu_s']:.2f} s (least: "
            f"{least['weights_s']:.3f}, {least['first_s']:.3f}, {least['third_s']:.3f}; "
            f"{least['cpu_s']:.2f})"
        )
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
    """Return the times of one process, and what it took of the processors with its children."""
    environment = {**os.environ, "CALOR_CACHE_DIR": str(cache), "CALOR_DEVICE": device}
    command = [sys.executable, __file__, "--sample", library, "--device", device]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    found["cpu_s"] = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return found


def sample(library: str, device: str) -> dict[str, float]:
    """Make the network and call it three times; seconds of the parts."""
    import numpy as np

    sys.path.insert(0, str(HERE))
    from suites._resnet import resnet50

    image = np.random.default_rng(0).standard_normal((1, 3, 224, 224), np.float32)
    call: Any
    if library == "calor":
        import calor
        from calor import nn

        begin = perf_counter()
        with calor.device(device):
            model = resnet50(nn).eval()
            x = calor.asarray(image)
            calor.eval(*model.parameters(), x)
        call = calor.jit(lambda x: model(x))

        def ask() -> Any:
            return call(x).numpy()
    else:
        torch = importlib.import_module("torch")
        begin = perf_counter()
        model = resnet50(torch.nn).eval()
        x = torch.from_numpy(image)

        def ask() -> Any:
            with torch.no_grad():
                return model(x).numpy()

    times = [perf_counter() - begin]
    for _ in range(3):
        start = perf_counter()
        made = ask()
        times.append(perf_counter() - start)
    assert made.shape == (1, 1000)
    return dict(zip(("weights_s", "first_s", "second_s", "third_s"), times, strict=True))


if __name__ == "__main__":
    sys.exit(main())
