"""Which device has which type of number: a table made of conformance reports, and of nothing else.

A report says of each check what came of it, and most checks are of a dtype. A cell is *full* when
every check of the dtype passed; *partial n of m* when n of the m did; *partial (why)* when all did
of a type that the device declares to be so, and is asked accordingly; *storage only* for types
without arithmetic, whose checks are of moving and converting; *no* when the device has the type
declared impossible or not yet there, so that none passed; and *not run* where no report speaks of
it. TF32 is no type but a way to multiply float32; reports do not ask for it yet.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from calor.dtypes import ALL, as_dtype

Report = Mapping[str, Any]
# Columns: heading to dtypes.
TYPES: Mapping[str, tuple[str, ...]] = {
    "f16": ("float16",),
    "bf16": ("bfloat16",),
    "tf32": (),
    "f32": ("float32",),
    "f64": ("float64",),
    "fp8": ("float8_e4m3fn", "float8_e5m2"),
    "int8": ("int8",),
}
# Rows: the name of a device to its heading, in this order; devices of others come after them.
KINDS: Mapping[str, str] = {
    "cuda": "CUDA",
    "hip": "ROCm",
    "metal": "Metal",
    "wgpu": "WebGPU, Vulkan",
    "opencl": "OpenCL",
    "cpu": "CPU",
    "numpy": "reference",
}
NOT_RUN = "not run"


def by_dtype(rows: Iterable[Report]) -> dict[str, dict[str, int]]:
    """For each dtype that checks are of, how many of them had which outcome."""
    known = {dtype.name for dtype in ALL}
    counts: dict[str, Counter[str]] = {}
    for row in rows:
        dtype = row["name"].rpartition("/")[2]
        if dtype in known:
            counts.setdefault(dtype, Counter())[row["outcome"]] += 1
    return {d.name: dict(counts[d.name].most_common()) for d in ALL if d.name in counts}


def dtype_table(reports: Sequence[Report]) -> Iterator[str]:
    """The lines of the table: a row for each report, and one for each device that has none."""
    yield "| device | as | " + " | ".join(TYPES) + " | date |"
    yield "| --- " * (len(TYPES) + 3) + "|"
    counted = [r for r in reports if "by_dtype" in r]
    kinds = [*KINDS, *sorted({kind_of(r) for r in counted} - KINDS.keys())]
    for kind in kinds:
        found = sorted((r for r in counted if kind_of(r) == kind), key=lambda r: str(r["date"]))
        heading = KINDS.get(kind, f"`{kind}`")
        if not found:
            yield f"| {heading} | " + f"| {NOT_RUN} " * (len(TYPES) + 1) + "|"
        for report in found:
            cells = [cell(report, names) for names in TYPES.values()]
            row = [heading, report["device"]["description"], *cells, report["date"][:10]]
            yield f"| {' | '.join(row)} |"


def declared(report: Report, names: Sequence[str]) -> str:
    """How a device that passed every check calls what it has: *full*, or where it is less."""
    states = [str(report["device"].get("dtypes", {}).get(name, "full")) for name in names]
    return next((state for state in states if state != "full"), "full")


def kind_of(report: Report) -> str:
    return str(report["device"]["name"]).partition(":")[0]


def cell(report: Report, names: Sequence[str]) -> str:
    """What a report says of some dtypes together."""
    outcomes: Counter[str] = Counter()
    for name in names:
        outcomes.update(report["by_dtype"].get(name, {}))
    asked = sum(outcomes.values())
    passed = outcomes["passed"]
    if not asked or outcomes["not_run"] == asked:
        return NOT_RUN
    if not passed:
        return "no" if not outcomes["failed"] else f"partial 0 of {asked:,}"
    stored = all(as_dtype(name).kind == "storage" for name in names)
    if passed == asked:
        return "storage only" if stored else declared(report, names)
    return f"{'storage only, ' * stored}partial {passed:,} of {asked:,}"
