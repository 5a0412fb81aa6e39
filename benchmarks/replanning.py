"""Time planning a known graph at new sizes: microseconds a node, and kernels compiled on the way.

    python benchmarks/replanning.py --device cpu --json FILE

Timed is ``KernelBackend.compile`` alone, which plans, asks for kernels and records; each size is
met once. A structure's first sizes are apart: its kernels are compiled and its plan is learnt.
"""

import argparse
import gc
import json
import statistics
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

FIRST = 3  # sizes that are apart: planned as any graph, then learnt, then used


@dataclass
class Times:
    """What compiling graphs took: microseconds a node and kernels compiled, by call."""

    backend: Any
    rows: list[tuple[int, float, int]] = field(default_factory=list)
    collect: bool = True

    def __enter__(self) -> "Times":
        original = self.backend.compile

        def timed(index: int, graph: Any) -> Any:
            kernels = self.backend.engine(index).kernels
            before = kernels.compiled + kernels.found
            gc.disable()
            start = perf_counter()
            made = original(index, graph)
            seconds = perf_counter() - start
            gc.enable()
            nodes = max(len(graph.nodes), 1)
            new = kernels.compiled + kernels.found - before
            self.rows.append((len(graph.nodes), seconds / nodes * 1e6, new))
            return made

        self.backend.compile = timed
        return self

    def __exit__(self, *_: object) -> None:
        del self.backend.compile


def chain(device: str) -> tuple[Callable[[int], Any], Iterable[int]]:
    """Fifty elementwise ops on a matrix whose two sizes change."""
    import calor

    @calor.jit
    def run(x: Any) -> Any:
        for _ in range(10):
            x = calor.tanh(x * 2.0 + 1.0) - calor.sqrt(calor.abs(x))
        return x

    return lambda n: run(calor.ones((n, 3 * n + 1))).numpy(), range(37, 137, 2)


def mlp(device: str) -> tuple[Callable[[int], Any], Iterable[int]]:
    """Three linear layers on a batch whose size changes."""
    import calor
    from calor import nn

    model = nn.Sequential(
        nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 256), nn.GELU(), nn.Linear(256, 10)
    )
    run = calor.jit(lambda x: calor.nn.functional.softmax(model(x), axis=-1))
    return lambda n: run(calor.ones((n, 64))).numpy(), range(37, 137, 2)


def transformer(device: str) -> tuple[Callable[[int], Any], Iterable[int]]:
    """A transformer's layer, forward, on texts whose length changes."""
    import calor
    from calor import nn

    layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True).eval()
    run = calor.jit(lambda x: layer(x))
    return lambda n: run(calor.ones((2, n, 128))).numpy(), range(37, 137, 2)


def cnn(device: str) -> tuple[Callable[[int], Any], Iterable[int]]:
    """A training step of two convolutions and a linear layer, with a batch whose size changes."""
    import calor
    import calor_train as train
    from calor import nn

    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 10),
    )
    optimizer = train.SGD(model.parameters(), lr=1e-3)

    def step(x: Any, labels: Any) -> Any:
        loss = nn.functional.cross_entropy(model(x), labels)
        model.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    generator = np.random.default_rng(0)

    def call(n: int) -> Any:
        x = calor.asarray(generator.standard_normal((n, 3, 16, 16), np.float32))
        return run(x, calor.asarray(generator.integers(0, 10, n))).numpy()

    run = calor.jit(step)
    return call, range(5, 55)


CASES = {
    "chain of 50 elementwise ops": chain,
    "MLP forward": mlp,
    "transformer layer forward": transformer,
    "CNN training step": cnn,
}


def main() -> int:
    """Run every case and print what planning took."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--case", default="")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    import calor

    result = {}
    with calor.device(options.device) as device:
        backend = device.backend
        for name, make in CASES.items():
            if options.case not in name:
                continue
            call, sizes = make(options.device)
            with Times(backend) as times:
                for n in sizes:
                    before = len(times.rows)
                    call(n)
                    # Of several graphs the largest is meant; the others make the arguments.
                    times.rows[before:] = [max(times.rows[before:])]
            later = times.rows[FIRST:]
            result[name] = {
                "nodes": later[0][0],
                "first_us": times.rows[0][1],
                "learnt_us": times.rows[1][1],
                "us_a_node": statistics.median(us for _, us, _ in later),
                "least_us_a_node": min(us for _, us, _ in later),
                "kernels": sum(new for _, _, new in later),
                "sizes": len(later),
            }
            row = result[name]
            print(
                f"{name:30} {row['nodes']:4} nodes: {row['us_a_node']:6.2f} us a node "
                f"(least {row['least_us_a_node']:.2f}), {row['kernels']} new kernels in "
                f"{row['sizes']} sizes; first {row['first_us']:.0f}, second {row['learnt_us']:.0f}"
            )
    if options.json:
        from harness import report

        command = " ".join(["python", "benchmarks/replanning.py", *sys.argv[1:]])
        document = {**report.setting(command, options.device, [], None), "suite": "replanning"}
        options.json.write_text(json.dumps({**document, "cases": result}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
