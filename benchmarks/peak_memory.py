"""Measure the most memory that training steps take, each library in processes of its own.

    python benchmarks/peak_memory.py --device cpu --peers torch --json FILE

A case is a few steps of plain SGD. Counted is what the process's resident memory grew by at most
from after the imports, weights and data included; the median of the samples. calor's step is
jitted, the peer's eager.
"""

import argparse
import contextlib
import importlib
import json
import os
import resource
import statistics
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
CASES = ("ResNet-50, 4 images of 224", "transformer, 6 layers of 512, 8 x 256 tokens")
_STEPS = 4


def main() -> int:
    """Run the samples, print a table of medians in MB, and their ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--peers", default="")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--sample", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.sample:
        library, case = options.sample
        print(json.dumps(sample(library, case, options.device)))
        return 0
    peers = [name for name in options.peers.split(",") if name]
    rows = []
    for case in CASES:
        found = {
            library: statistics.median(run(library, case, options) for _ in range(options.repeats))
            for library in ("calor", *peers)
        }
        ours = found["calor"]
        shown = ", ".join(f"{peer} {found[peer] / 1e6:.0f} MB" for peer in peers)
        ratios = {peer: round(ours / found[peer], 3) for peer in peers}
        print(f"{case}: calor {ours / 1e6:.0f} MB, {shown}; ours to theirs {ratios}")
        rows.append({"case": case, "bytes": found, "ours_to_theirs": ratios})
    if options.json:
        from harness import report

        command = " ".join(["python", "benchmarks/peak_memory.py", *sys.argv[1:]])
        setting = report.setting(command, options.device, peers, options.threads)
        document = {**setting, "suite": "peak_memory", "rows": rows}
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


def run(library: str, case: str, options: argparse.Namespace) -> int:
    """Return the bytes of one process."""
    threads = {n: str(options.threads) for n in ("OMP_NUM_THREADS", "CALOR_CPU_THREADS")}
    environment = {**os.environ, **threads, "CALOR_DEVICE": options.device}
    command = [sys.executable, __file__, "--sample", library, case, "--device", options.device]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    found: int = json.loads(done.stdout.splitlines()[-1])["bytes"]
    return found


def sample(library: str, case: str, device: str) -> dict[str, int]:
    """Train for a few steps; the bytes that resident memory grew by at most."""
    import numpy as np

    if library == "calor":
        import calor

        importlib.import_module("calor_train")
        with calor.device(device):
            # The device, its workers and what they import are not the model's.
            calor.eval(calor.jit(lambda x: x @ x + 1.0)(calor.ones((8, 8))))
    else:
        importlib.import_module(library)
    generator = np.random.default_rng(0)
    if case == CASES[0]:
        x = generator.standard_normal((4, 3, 224, 224), np.float32)
        y = generator.integers(0, 1000, 4)
    else:
        x = generator.standard_normal((8, 256, 512), np.float32)
        y = generator.integers(0, 10, 8)
    before = _resident()
    _reset_peak()
    steps = _ours(case, device, x, y) if library == "calor" else _theirs(case, x, y)
    for _ in range(_STEPS):
        assert np.isfinite(steps())
    return {"bytes": _peak() - before}


def _model(nn: Any, case: str) -> Any:
    if case == CASES[0]:
        from suites._resnet import resnet50

        return resnet50(nn)
    layers = [
        nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True) for _ in range(6)
    ]
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(256 * 512, 10))


def _ours(case: str, device: str, x: Any, y: Any) -> Callable[[], float]:
    import calor
    import calor_train as train
    from calor import nn

    with calor.device(device):
        model = _model(nn, case)
        optimizer = train.SGD(model.parameters(), lr=1e-3)
        images, labels = calor.asarray(x), calor.asarray(y)

    @calor.jit
    def step(x: Any, y: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    return lambda: float(step(images, labels))


def _theirs(case: str, x: Any, y: Any) -> Callable[[], float]:
    torch = importlib.import_module("torch")
    model = _model(torch.nn, case)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    images, labels = torch.from_numpy(x), torch.from_numpy(y)

    def step() -> float:
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss.detach())

    return step


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def _reset_peak() -> None:
    """Let the kernel count the peak anew; where it cannot, the peak is the process's."""
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) * 1024
    raise OSError("the system does not say how much memory was resident at most")


if __name__ == "__main__":
    sys.exit(main())
