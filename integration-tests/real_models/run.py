"""Do real models answer as they should on calor, through their own packages, unmodified?

    python run.py --device cpu --json FILE [CASE ...]

Each case runs in a process of its own, in which calor-onnx stands in the place of onnxruntime. What
the package's sessions are given is kept, and given to ONNX Runtime afterwards: the outputs are
compared, and both are timed by turns, the shortest of several repeats. A case of which something is
not installed is left out, and said to be; the exit status is 1 where one that ran does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import datetime
import json
import logging
import platform
import shlex
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

import cases as known
import numpy as np
import weight_files

import calor

CASES = (*known.CASES, *weight_files.CASES)
# How many of a session's calls are compared, and how many repeats are timed.
COMPARED, REPEATS = 40, 15


class Recorded:
    """A session of a package: where its model is from, and the calls that were made."""

    def __init__(self, source: Any, session: Any) -> None:
        self.source = source
        self.session = session
        self.calls: list[tuple[Any, dict[str, Any], list[Any]]] = []


@contextlib.contextmanager
def recording() -> Iterator[dict[int, Recorded]]:
    """Keep what sessions are made of, given and give."""
    import onnxruntime

    kept: dict[int, Recorded] = {}
    cls = onnxruntime.InferenceSession
    make, run = cls.__init__, cls.run

    def made(self: Any, path_or_bytes: Any, *args: Any, **options: Any) -> None:
        make(self, path_or_bytes, *args, **options)
        kept[id(self)] = Recorded(path_or_bytes, self)

    def ran(self: Any, names: Any, feed: Any, options: Any = None) -> Any:
        outputs = run(self, names, feed, options)
        calls = kept[id(self)].calls
        if len(calls) < COMPARED:
            copies = {name: np.array(value) for name, value in feed.items()}
            calls.append((names, copies, outputs))
        return outputs

    cls.__init__, cls.run = made, ran
    try:
        yield kept
    finally:
        cls.__init__, cls.run = make, run


def difference(ours: Any, theirs: Any) -> float:
    """Return the largest difference in parts of the largest magnitude."""
    a, b = np.asarray(ours), np.asarray(theirs)
    if a.shape != b.shape or a.dtype != b.dtype:
        return float("inf")
    if not a.size or a.dtype.kind not in "fiub":
        return 0.0 if np.array_equal(a, b) else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    return float(np.abs(a - b).max() / max(np.abs(b).max(), 1e-30))


def best(functions: list[Any], repeats: int) -> list[float]:
    """Return the shortest time of each, in milliseconds, where they take turns."""
    found = [float("inf")] * len(functions)
    for function in functions:
        function()
    for _ in range(repeats):
        for place, function in enumerate(functions):
            start = time.perf_counter()
            function()
            found[place] = min(found[place], (time.perf_counter() - start) * 1e3)
    return found


def beside_onnxruntime(
    sessions: list[Recorded], theirs: Any, repeats: int, threads: int
) -> dict[str, Any]:
    """Return how the calls differ from those of ONNX Runtime, and how long a call takes."""
    theirs.set_default_logger_severity(4)
    settings = theirs.SessionOptions()
    settings.intra_op_num_threads = threads
    worst, timed = 0.0, []
    for recorded in sessions:
        peer = theirs.InferenceSession(
            recorded.source, settings, providers=["CPUExecutionProvider"]
        )
        for names, feed, outputs in recorded.calls:
            expected = peer.run(names, feed)
            worst = max(worst, *map(difference, outputs, expected))
        if recorded.calls:
            names, feed, _ = recorded.calls[-1]
            run = recorded.session.run
            ours, other = best(
                [partial(run, names, feed), partial(peer.run, names, feed)],
                repeats,
            )
            model = recorded.session.calor_model
            timed.append(
                {
                    "ms": round(ours, 3),
                    "onnxruntime_ms": round(other, 3),
                    "ratio": round(ours / other, 2),
                    "nodes": len(model.graph.nodes),
                    "interpreted": model.reason,
                }
            )
    return {"difference": worst, "calls": timed}


def one(case: known.Case, device: str, repeats: int, threads: int) -> dict[str, Any]:
    """Ask one case, in this process."""
    import onnxruntime as theirs

    import calor_onnx

    calor_onnx.replace_onnxruntime(device)
    row: dict[str, Any] = {"expected": case.expected, "tolerance": case.tolerance}
    start = time.perf_counter()
    try:
        with recording() as sessions, calor.device(device):
            answer = case.ask()
    except (known.Absent, ModuleNotFoundError) as error:
        return row | {"outcome": "absent", "why": str(error)}
    row |= {"answer": answer, "seconds": round(time.perf_counter() - start, 1)}
    if sessions:
        row |= beside_onnxruntime([*sessions.values()], theirs, repeats, threads)
    right = case.agrees(answer) and row.get("difference", 0.0) <= case.tolerance
    return row | {"outcome": "right" if right else "WRONG"}


def child(name: str, options: argparse.Namespace) -> dict[str, Any]:
    """Ask a case in a process of its own."""
    command = [sys.executable, __file__, "--child", name, "--device", options.device]
    command += ["--repeats", str(options.repeats), "--threads", str(options.threads)]
    command += [x for folder in options.sounds for x in ("--sounds", folder)]
    try:
        made = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=options.limit
        )
    except subprocess.TimeoutExpired:
        return {"outcome": "FAILED", "why": f"took more than {options.limit} s"}
    lines = made.stdout.strip().splitlines()
    if made.returncode or not lines:
        return {"outcome": "FAILED", "why": made.stderr.strip()[-1500:]}
    found: dict[str, Any] = json.loads(lines[-1])
    return found


def main() -> int:
    """Run the cases that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("cases", nargs="*", help="parts of names; all without any")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--json", help="where to write the results")
    parser.add_argument("--sounds", action="append", default=[], help="a folder of alsa-utils")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    parser.add_argument("--threads", type=int, default=0, help="ONNX Runtime's; 0: as it likes")
    parser.add_argument("--limit", type=float, help="seconds that a case may take")
    parser.add_argument("--need", action="store_true", help="a case that is left out is a failure")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    known.SOUNDS += [Path(folder) for folder in options.sounds]
    if options.child:
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        case = next(case for case in CASES if case.name == options.child)
        row = one(case, options.device, options.repeats, options.threads)
        print()
        print(json.dumps(row, ensure_ascii=False, default=float))
        return 0
    rows = {}
    for case in CASES:
        if options.cases and not any(part in case.name for part in options.cases):
            continue
        row = rows[case.name] = child(case.name, options)
        times = ", ".join(
            f"{t['ms']} ms ({t['ratio']} of ONNX Runtime's)" for t in row.get("calls", ())
        )
        difference_text = f"; differs by {row['difference']:.1e}" if "difference" in row else ""
        print(f"{case.name}: {row['outcome']}: {row.get('answer', row.get('why'))}"
              f"{difference_text}; {times}", flush=True)  # fmt: skip
    report = {
        "date": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "command": shlex.join(["python", "integration-tests/real_models/run.py", *sys.argv[1:]]),
        "device": options.device,
        "description": calor.device(options.device).info.description,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "onnxruntime": metadata.version("onnxruntime"),
        "onnxruntime_threads": options.threads,
        "cases": rows,
    }
    if options.json:
        text = json.dumps(report, ensure_ascii=False, indent=1)
        Path(options.json).write_text(text + "\n", "utf-8")
    bad = {"WRONG", "FAILED"} | ({"absent"} if options.need else set())
    return int(any(row["outcome"] in bad for row in rows.values()))


if __name__ == "__main__":
    sys.exit(main())
