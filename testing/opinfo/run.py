"""Run calor on the samples of OpInfo: `python testing/opinfo/run.py [NAME ...] [--dtype float32]`

Each entry with a counterpart is run on the samples of PyTorch's own tests, in float32, bfloat16,
complex64, int64 and bool: its value, its gradient, its value under `calor.jit` and, mapped over two
samples, under `calor.vmap`. With `--results FILE` each entry and dtype is a line of the file, and a
run that finds its line there goes on with the next one; `testing/opinfo/tally.py` counts files.
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import calor
from opinfo.cases import cases_of, run_case
from opinfo.names import Missing
from opinfo.tables import TABLE
from opinfo.tally import Line, tally, told
from opinfo.without_meaning import WITHOUT_MEANING

DTYPES = ("float32", "bfloat16", "complex64", "int64", "bool")
DIFFERENTIABLE = ("float32", "bfloat16", "complex64")


def name_of(info: Any) -> str:
    return f"{info.name}/{info.variant_test_name}" if info.variant_test_name else str(info.name)


def entries(only: list[str]) -> Iterator[tuple[str, Any]]:
    for info in op_db:
        name = name_of(info)
        if not only or any(name == o or (name.startswith(o) and o.endswith(".")) for o in only):
            yield name, info


def run_entry(info: Any, name: str, kind: str, options: Any) -> Line:
    """Run the samples of an entry in a dtype."""
    right: Counter[str] = Counter()
    wrong: list[list[Any]] = []
    absent = None
    number = 0

    def report(step: str, error: str | None) -> None:
        if error is None:
            right[step] += 1
        else:
            wrong.append([step, number, error[:400]])

    try:
        with calor.device(options.device):
            for number, case in enumerate(
                cases_of(info, name, getattr(torch, kind), options.samples)
            ):
                further = {"jit", "vmap"} if number < options.further else set()
                if number < options.further and info.supports_autograd and kind in DIFFERENTIABLE:
                    further.add("gradient")
                run_case(case, frozenset(further), report)
    except Missing as lacking:
        absent = str(lacking)
    return {"entry": name, "dtype": kind, "device": options.device, "samples": options.samples,
            "right": dict(right), "wrong": wrong, "absent": absent}  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtype", action="append", choices=DTYPES)
    parser.add_argument("--device", default="numpy")
    parser.add_argument("--samples", type=int, default=12)
    parser.add_argument("--further", type=int, default=3, help="samples with gradient, jit, vmap")
    parser.add_argument("--results", type=Path, help="a file of lines, one an entry and dtype")
    parser.add_argument("--names", dest="list_names", action="store_true")
    parser.add_argument("--part", default="0/1", help="I/N: every N-th entry, from the I-th")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    known = {name_of(info) for info in op_db}
    for name in (*TABLE, *WITHOUT_MEANING):
        if name not in known:
            print(f"OpInfo has no {name}")
    if options.list_names:
        missing = [n for n in sorted(known) if n not in TABLE and n not in WITHOUT_MEANING]
        print(*missing, sep="\n")
        return 0
    lines: list[Line] = []
    if options.results is not None and options.results.exists():
        lines = [json.loads(line) for line in options.results.read_text().splitlines()]
    done = {(line["entry"], line["dtype"], line["device"]) for line in lines}
    index, parts = (int(n) for n in options.part.split("/"))
    for name, info in list(entries(options.names))[index::parts]:
        if name not in TABLE:
            continue
        for kind in options.dtype or DTYPES:
            if (name, kind, options.device) in done or (
                info.dtypes and getattr(torch, kind) not in info.dtypes
            ):
                continue
            line = run_entry(info, name, kind, options)
            lines.append(line)
            if options.results is not None:
                with options.results.open("a") as file:
                    file.write(json.dumps(line) + "\n")
    found = tally(lines, known)
    print(told(found))
    return bool(found["mismatches"] or found["absent"])


if __name__ == "__main__":
    sys.exit(main())
