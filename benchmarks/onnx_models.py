"""Time ONNX models at one set of shapes beside ONNX Runtime, by turns in one process.

A turn is a few calls of one runtime, after a pause in which the other's threads stop polling: they
would take a processor from it otherwise.

    python benchmarks/onnx_models.py --threads 1 --json FILE MODEL.onnx:x=1x3x48x320 …

After the path of each model come the shapes of its inputs, separated by commas; an input whose
shape is left out is a number of the value after ``--number INPUT=VALUE``. Integers are drawn below
``--below``. A ratio above 1 means that calor is faster; it is that of the medians, and that of the
shortest runs is beside it, which other programs on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import sys
from math import exp, log
from pathlib import Path
from statistics import median
from time import perf_counter, sleep
from typing import Any

import numpy as np

from harness.report import setting

# Calls until both runtimes have settled, and seconds and calls that are timed.
SETTLED, SECONDS, CALLS = 24, 3.0, (24, 304)
# Timed calls of a turn, and the seconds before it. ONNX Runtime's threads poll for some 20 ms.
TURN, PAUSE = 8, 0.05


def feed_of(session: Any, shapes: dict[str, list[int]], numbers: dict[str, int], below: int) -> Any:
    """Return inputs of the given shapes."""
    rng = np.random.default_rng(0)
    feed = {}
    for info in session.get_inputs():
        integer = np.int32 if "int32" in info.type else np.int64
        if info.name in numbers:
            feed[info.name] = np.array(numbers[info.name], integer)
        elif "int" in info.type:
            feed[info.name] = rng.integers(0, below, shapes[info.name]).astype(integer)
        else:
            feed[info.name] = rng.standard_normal(shapes[info.name]).astype(np.float32)
    return feed


def measured(
    model: Path, shapes: dict[str, list[int]], options: argparse.Namespace
) -> dict[str, Any]:
    """Return the seconds of both runtimes, and the largest difference of their results."""
    import onnxruntime

    import calor_onnx

    onnxruntime.set_default_logger_severity(3)
    sessions = []
    for runtime in (calor_onnx, onnxruntime):
        settings = runtime.SessionOptions()
        settings.intra_op_num_threads = options.threads
        sessions.append(runtime.InferenceSession(str(model), settings))
    numbers = {k: int(v) for k, _, v in (text.partition("=") for text in options.number or ())}
    feed = feed_of(sessions[1], shapes, numbers, options.below)
    results = [session.run(None, feed) for session in sessions]
    pairs = [[np.asarray(made, np.float64) for made in pair] for pair in zip(*results, strict=True)]
    for session in sessions:
        for _ in range(SETTLED):
            session.run(None, feed)
    times: list[list[float]] = [[], []]
    start = perf_counter()
    while len(times[0]) < CALLS[0] or (
        perf_counter() - start < SECONDS and len(times[0]) < CALLS[1]
    ):
        for session, taken in zip(sessions, times, strict=True):
            sleep(PAUSE)
            session.run(None, feed)
            for _ in range(TURN):
                begin = perf_counter()
                session.run(None, feed)
                taken.append(perf_counter() - begin)
    ours, theirs = times
    return {
        "model": "/".join(model.parts[-2:]),
        "shapes": shapes,
        "ours_s": median(ours),
        "peer_s": median(theirs),
        "ratio": median(theirs) / median(ours),
        "ratio_of_shortest": min(theirs) / min(ours),
        "largest_difference": max(float(np.abs(a - b).max(initial=0)) for a, b in pairs),
    }


def main() -> int:
    """Print a row for each model, and the geometric means of the ratios."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="+", metavar="MODEL:INPUT=SHAPE,…")
    parser.add_argument("--number", action="append", metavar="INPUT=VALUE")
    parser.add_argument("--below", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    os.environ["CALOR_CPU_THREADS"] = str(options.threads)
    rows = []
    for text in options.models:
        # Names of inputs may have colons.
        path, _, given = text.partition(".onnx:")
        named = [part.rpartition("=") for part in given.split(",") if part]
        shapes = {name: [int(n) for n in shape.split("x") if n] for name, _, shape in named}
        rows.append(measured(Path(f"{path}.onnx"), shapes, options))
        row = rows[-1]
        print(
            f"{row['model']:50}{row['ours_s'] * 1e3:10.3f} ms{row['peer_s'] * 1e3:10.3f} ms"
            f"{row['ratio']:8.2f}{row['ratio_of_shortest']:8.2f}",
            flush=True,
        )
    means = {
        key: exp(sum(log(row[key]) for row in rows) / len(rows))
        for key in ("ratio", "ratio_of_shortest")
    }
    print(f"{'geometric mean':76}{means['ratio']:8.2f}{means['ratio_of_shortest']:8.2f}")
    if options.json:
        command = shlex.join(["python", "benchmarks/onnx_models.py", *sys.argv[1:]])
        known = setting(command, "cpu", ("onnxruntime",), options.threads)
        document = {**known, "rows": rows, "geometric_means": means}
        options.json.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
