"""Time planning a known graph at new sizes: microseconds a node, and kernels compiled on the way.

    python benchmarks/replanning.py --device cpu --json FILE

Timed are ``KernelBackend.claim``, which core asks first, and ``compile``, which plans, asks for
kernels and records; nothing is kept of a size. Each size is met once as a program meets it (the
median of these is ``met_us``), and then asked about four times more: ``us_a_node`` is the least of
five, which other work on the machine disturbs least. A structure's first sizes are apart: its
kernels are compiled and its plan is learnt.
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
REPEATS = 5


@dataclass
class Row:
    """A graph that was compiled: nodes, seconds of each time, and kernels that were new."""

    nodes: int
    claims: list[float]
    compiles: list[float]
    kernels: int


@dataclass
class Times:
    """What claiming and compiling graphs took."""

    backend: Any
    rows: list[Row] = field(default_factory=list)

    def __enter__(self) -> "Times":
        original = self.backend.compile

        def timed(index: int, graph: Any) -> Any:
            kernels = self.backend.engine(index).kernels
            before = kernels.compiled + kernels.found
            row = Row(len(graph.nodes), [], [], 0)
            gc.disable()
            for _ in range(REPEATS):
                start = perf_counter()
                self.backend.claim(index, graph)
                middle = perf_counter()
                made = original(index, graph)
                row.claims.append(middle - start)
                row.compiles.append(perf_counter() - middle)
            gc.enable()
            row.kernels = kernels.compiled + kernels.found - before
            self.rows.append(row)
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


def summary(rows: list[Row]) -> dict[str, Any]:
    """Return the medians over sizes, in microseconds a node of claiming and compiling."""
    later = rows[FIRST:]
    nodes = later[0].nodes

    def median(take: Callable[[Row], float]) -> float:
        return statistics.median(take(row) for row in later) / nodes * 1e6

    return {
        "nodes": nodes,
        "us_a_node": median(lambda r: min(map(sum, zip(r.claims, r.compiles, strict=True)))),
        "met_us": median(lambda r: r.claims[0] + r.compiles[0]),
        "compile_us": median(lambda r: min(r.compiles)),
        "anew_us": min(rows[0].compiles) / nodes * 1e6,
        "kernels": sum(row.kernels for row in later),
        "sizes": len(later),
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
                    times.rows[before:] = [max(times.rows[before:], key=lambda row: row.nodes)]
            result[name] = row = summary(times.rows)
            print(
                f"{name:28} {row['nodes']:3} nodes: {row['us_a_node']:.2f} us a node "
                f"({row['met_us']:.2f} when first met), {row['kernels']} new kernels in "
                f"{row['sizes']} sizes"
            )
    if options.json:
        from harness import report

        command = " ".join(["python", "benchmarks/replanning.py", *sys.argv[1:]])
        document = {**report.setting(command, options.device, [], None), "suite": "replanning"}
        options.json.write_text(json.dumps({**document, "cases": result}, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
