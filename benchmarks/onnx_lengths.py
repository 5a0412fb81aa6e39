"""Time an ONNX model at many sizes of an axis beside ONNX Runtime, and the memory that both take.

    python benchmarks/onnx_lengths.py MODEL.onnx --vary T=20:80 --set N=1 --threads 1 --json FILE

Each runtime runs in processes of its own, by turns: the model is loaded, runs once at a size of its
own, then at all sizes in a random order, and at all of them again. Figures are medians over the
processes. Names of axes are those that the model declares; an axis without a name is given as
INPUT:NUMBER. Integers are drawn below ``--below``; an input that is the number of elements of
another is given as INPUT=T.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import perf_counter, process_time
from typing import Any

import numpy as np

from harness.report import setting

SIDES = {"calor": "calor_onnx", "ONNX Runtime": "onnxruntime"}


def peak() -> int:
    """Return the most bytes of this process that were in memory."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def feed_of(session: Any, sizes: dict[str, int], below: int, rng: np.random.Generator) -> Any:
    """Return inputs for these sizes by name of an axis."""
    feed = {}
    for info in session.get_inputs():
        if info.name in sizes:
            feed[info.name] = np.array([sizes[info.name]], np.int64)
            continue
        names = [
            size if isinstance(size, int) else sizes.get(size or "", sizes.get(f"{info.name}:{i}"))
            for i, size in enumerate(info.shape)
        ]
        if None in names:
            raise SystemExit(f"{info.name} has the axes {info.shape}; name all by --set or --vary")
        shape = [size for size in names if size is not None]
        if "int" in info.type:
            made = rng.integers(0, below, shape)
            feed[info.name] = made.astype(np.int32 if "int32" in info.type else np.int64)
        else:
            feed[info.name] = rng.standard_normal(shape).astype(np.float32)
    return feed


def one_side(options: argparse.Namespace) -> dict[str, float]:
    """Return the figures of one runtime, in this process."""
    name, _, bounds = options.vary.partition("=")
    first, last = map(int, bounds.split(":"))
    fixed = {key: int(n) for key, _, n in (text.partition("=") for text in options.set or ())}
    same = [key for key, _, axis in (text.partition("=") for text in options.like or ())]
    os.environ["CALOR_CPU_THREADS"] = str(options.threads)
    runtime = __import__(SIDES[options.side])
    settings = runtime.SessionOptions()
    settings.intra_op_num_threads = options.threads
    start = perf_counter()
    session = runtime.InferenceSession(str(options.model), settings)
    figures = {"load_seconds": perf_counter() - start}
    rng = np.random.default_rng(options.seed)
    sizes = [*range(first, last)]
    random.Random(options.seed).shuffle(sizes)

    # Processor time of each call, which other programs on the machine disturb less.
    busy: list[float] = []

    def run(size: int) -> float:
        given = {**fixed, name: size, **dict.fromkeys(same, size)}
        feed = feed_of(session, given, options.below, rng)
        begin = perf_counter()
        before = process_time()
        session.run(None, feed)
        busy.append(process_time() - before)
        return perf_counter() - begin

    figures["first_call_seconds"] = run(last)
    figures["new_sizes_seconds"] = sum(map(run, sizes))
    figures["known_sizes_seconds"] = sum(map(run, sizes))
    figures["new_sizes_processor_seconds"] = sum(busy[1 : 1 + len(sizes)])
    figures["known_sizes_processor_seconds"] = sum(busy[1 + len(sizes) :])
    figures["peak_bytes"] = peak()
    return figures


def main() -> int:
    """Print the figures of both runtimes, and their ratios: ONNX Runtime's by calor's."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--vary", required=True, metavar="AXIS=FIRST:LAST")
    parser.add_argument("--set", action="append", metavar="AXIS=SIZE")
    parser.add_argument("--like", action="append", metavar="INPUT=AXIS")
    parser.add_argument("--below", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeats", type=int, default=3, help="processes of each runtime")
    parser.add_argument("--side", choices=SIDES)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    if options.side:
        print(json.dumps(one_side(options)))
        return 0
    runs: dict[str, list[dict[str, float]]] = {side: [] for side in SIDES}
    for turn in range(1 + options.repeats):
        for side in SIDES:
            command = [sys.executable, *sys.argv, "--side", side]
            text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
            # The first process fills the stores of kernels and plans.
            if turn:
                runs[side].append(json.loads(text.splitlines()[-1]))
    found = {
        side: {key: median(run[key] for run in made) for key in made[0]}
        for side, made in runs.items()
    }
    print(f"{'':30}{'calor':>12}{'ONNX Runtime':>16}{'ratio':>8}")
    for key, ours in found["calor"].items():
        theirs = found["ONNX Runtime"][key]
        unit = 2**20 if key.endswith("bytes") else 1
        print(f"{key:30}{ours / unit:12.3f}{theirs / unit:16.3f}{theirs / ours:8.2f}")
    if options.json:
        made_by = shlex.join(["python", "benchmarks/onnx_lengths.py", *sys.argv[1:]])
        document = {
            **setting(made_by, "cpu", ("onnxruntime",), options.threads),
            "model": options.model.name,
            "figures_by_runtime": found,
        }
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
