"""The tables of `docs/performance.md`, each a function of the result files.

`TABLES` names them; `tools/performance_page.py` writes them into the page.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence

from benchmark_results import (
    Ratio,
    Result,
    digits,
    duration,
    geometric_mean,
    latest,
    names_of,
    newest,
    ratios,
    setting,
    table,
)

# A ratio below this is set in bold: there calor takes over 1.1 times as long as the peer.
SLOW = 0.9
# The results that compare calor with a peer, in the order of the overview.
GPU = ("gpu", "gpu-attention", "gpu-convolution", "gpu-convolution-tf32", "gpu-convolution-f32")
GPU_RESULTS = tuple(f"{name}-cuda-h200" for name in (*GPU, "families"))
OTHER_APIS = tuple(
    f"{name}-{api}-beside-cuda-h200"
    for api in ("opencl", "wgpu")
    for name in ("gpu", "gpu-convolution-f32")
)
CPU = ("matmul", "linear", "convolution", "pooling", "attention", "elementwise", "rows", "moving")
CPU_SUITES = (*CPU, "models")
DIRECTIONS = ("forward", "gradient of the image", "gradient of the weights")
CONVOLUTIONS = {"bf16": "", "tf32": "-tf32", "f32": "-f32"}
# The quantiles of a result of the fuzzer.
QUANTILES = ("min", "5%", "25%", "50%", "75%", "95%")
# The results of steps with and without fusers.
FUSION = "census-fusion-"
REAL_MODELS = ("cpu", "cuda-h200", "opencl-h200", "wgpu-h200")


def ratio(value: float) -> str:
    return f"**{value:.2f}**" if value < SLOW else f"{value:.2f}"


def summaries(names: Iterable[str]) -> Iterator[str]:
    """One row for each result and peer: the geometric mean of its ratios, and the extremes."""
    rows = []
    for name in names:
        result = newest(name)
        for peer in dict.fromkeys(row.peer for row in ratios(result)):
            values = [row.ratio for row in ratios(result, peer)]
            cells = (geometric_mean(values), min(values), max(values))
            rows.append((f"`{name}`", peer, str(len(values)), *map(ratio, cells)))
    head = ("result", "beside", "cases", "geometric mean", "least", "greatest")
    return table(head, rows, numbers_from=2)


def times(*names: str) -> Iterator[str]:
    """Every case of some results: both times and their ratio."""
    for index, name in enumerate(names):
        result = newest(name)
        if index:
            yield ""
        yield from setting(result)
        yield ""
        several = len({row.peer for row in ratios(result)}) > 1
        yield from table(
            ("case", "calor", "peer", "ratio"),
            (
                (
                    f"{row.case}, beside {row.peer}" if several else row.case,
                    duration(row.ours),
                    duration(row.theirs),
                    ratio(row.ratio),
                )
                for row in ratios(result)
            ),
        )


def pivot(
    rows: Iterable[Ratio], pattern: str, corner: str, columns: Sequence[str] = ()
) -> Iterator[str]:
    """Ratios as a table of two directions: the groups `row` and `column` of a case's name."""
    cells: dict[str, dict[str, float]] = {}
    for row in rows:
        found = re.fullmatch(pattern, row.case)
        if found:
            cells.setdefault(found["row"], {})[found["column"]] = row.ratio
    columns = columns or list(dict.fromkeys(c for line in cells.values() for c in line))
    lines = (
        (name, *(ratio(line[c]) if c in line else "" for c in columns))
        for name, line in cells.items()
    )
    return table((corner, *columns), lines)


def pivoted(
    name: str, pattern: str, corner: str, peer: str | None = None, columns: Sequence[str] = ()
) -> Iterator[str]:
    result = newest(name)
    yield from setting(result)
    yield ""
    yield from pivot(ratios(result, peer), pattern, corner, columns)


def attention() -> Iterator[str]:
    pattern = r"attention (?P<row>d \d+ T \d+(?: causal)?) (?P<column>\w+ beside \w+)"
    return pivoted("gpu-attention-cuda-h200", pattern, "head size d, tokens T")


def convolution() -> Iterator[str]:
    columns = [f"batch {batch} {direction}" for batch in (1, 32) for direction in DIRECTIONS]
    for index, (dtype, suffix) in enumerate(CONVOLUTIONS.items()):
        if index:
            yield ""
        pattern = rf"conv2d {dtype} (?P<row>.+) (?P<column>batch \d+ .+)"
        name = f"gpu-convolution{suffix}-cuda-h200"
        corner = f"{dtype}: channels, image, kernel, stride"
        yield from pivoted(name, pattern, corner, columns=columns)


def convolution_summary() -> Iterator[str]:
    rows = []
    for dtype, suffix in CONVOLUTIONS.items():
        measured = ratios(newest(f"gpu-convolution{suffix}-cuda-h200"))
        for direction in DIRECTIONS:
            values = [row.ratio for row in measured if row.case.endswith(direction)]
            cells = (geometric_mean(values), min(values), max(values))
            rows.append((dtype, direction, str(len(values)), *map(ratio, cells)))
    head = ("dtype", "direction", "cases", "geometric mean", "least", "greatest")
    return table(head, rows, numbers_from=2)


def fuzzed() -> Iterator[str]:
    """Quantiles of the ratios of drawn cases, a row for each result, and what did not run."""
    rows = []
    for name in latest("fuzz-"):
        result = newest(name)
        wrong = len(result["failures"]) + len(result["disagreements"])
        found = result["quantiles"]["all"]
        peer = result["rows"][0]["peer"]
        cells = (str(found["cases"]), *(ratio(found[q]) for q in QUANTILES), str(wrong))
        rows.append((f"`{name}`", peer, *cells))
    return table(("result", "beside", "cases", *QUANTILES, "failed"), rows, numbers_from=2)


def fuzzed_launches() -> Iterator[str]:
    """What launches do to the ratios beside a device of calor: three rows for each result."""
    rows = []
    kinds = {
        "as timed": "quantiles",
        "without launches": "quantiles_without_launches",
        "CUDA's kernels, launches of this device": "quantiles_with_equal_kernels",
    }
    for name in latest("fuzz-"):
        result = newest(name)
        if "quantiles_with_equal_kernels" in result:
            for kind, key in kinds.items():
                found = result[key]["all"]
                rows.append((f"`{name}`", kind, *(ratio(found[q]) for q in QUANTILES)))
    return table(("result", "ratio", *QUANTILES), rows, numbers_from=2)


def fuzzed_families() -> Iterator[str]:
    """The same quantiles by family, a table for each result."""
    for index, name in enumerate(latest("fuzz-")):
        result = newest(name)
        if index:
            yield ""
        yield from setting(result)
        yield ""
        rows = (
            (family, str(found["cases"]), *(ratio(found[q]) for q in QUANTILES))
            for family, found in result["quantiles"].items()
            if family != "all"
        )
        yield from table(("family", "cases", *QUANTILES), rows)


def launches() -> Iterator[str]:
    result = newest("launches-cuda-h200")
    yield from setting(result)
    yield ""
    yield from table(
        ("call", "time of the host"), ((k, duration(v)) for k, v in result["seconds"].items())
    )


def real_models() -> Iterator[str]:
    """Milliseconds of one call of each file beside ONNX Runtime on the host's processor."""
    results = [newest(f"real-models-{name}") for name in REAL_MODELS]
    for result in results:
        yield from setting(result)
        yield ""
    rows = []
    for model, case in results[0]["cases"].items():
        for index in range(len(case.get("calls", ()))):
            several = len(case["calls"]) > 1
            label = f"{model}, file {index + 1}" if several else model
            rows.append((label, *(call_times(result, model, index) for result in results)))
    yield from table(("model", *(str(r["device"]) for r in results)), rows)


def call_times(result: Result, model: str, index: int) -> str:
    calls = result["cases"][model].get("calls", ())
    if index >= len(calls):
        return ""
    ours, theirs = calls[index]["ms"], calls[index]["onnxruntime_ms"]
    return f"{digits(ours)} / {digits(theirs)} ({ratio(theirs / ours)})"


def onnx_tests() -> Iterator[str]:
    names = (
        "numpy",
        "cpu",
        "cuda-h200",
        "opencl-h200",
        "opencl-pocl",
        "wgpu-h200",
        "wgpu-lavapipe",
    )
    rows = []
    for name in names:
        result = newest(f"onnx-tests-{name}")
        for runner, run in result["runs"].items():
            if runner.startswith("calor") or name == "numpy":
                where = result["description"] if runner.startswith("calor") else ""
                counts = (str(run["passed"]), str(run["tests"]))
                rows.append((runner, where, *counts, result["date"][:10]))
    return table(("runner", "on", "passed", "of", "date"), rows, numbers_from=2)


def array_api() -> Iterator[str]:
    rows = []
    for name in ("array-api", "array-api-cpu"):
        result = newest(name)
        counted = {f"calor on {result['device']}": result["calor"], **(result["peer"] or {})}
        for library, counts in counted.items():
            cells = (str(counts[key]) for key in ("passed", "failed", "skipped", "total"))
            rows.append((library, *cells, result["date"][:10]))
    return table(("library", "passed", "failed", "skipped", "total", "date"), rows)


def cold_start() -> Iterator[str]:
    result = newest("cold-start")
    yield from setting(result)
    yield ""
    columns = {
        "weights_s": "weights made",
        "first_s": "first call",
        "third_s": "third call",
        "cpu_s": "processor time in all",
    }
    yield from table(
        ("start", *columns.values()),
        (
            (case, *(duration(medians[key]) for key in columns))
            for case, medians in result["medians"].items()
        ),
    )


def model_server() -> Iterator[str]:
    for name in names_of("model-server"):
        result = newest(name)
        yield from setting(result)
        yield ""
        rows = []
        for row in result["rows"]:
            ours, found = row["ours"], row["ratios"]
            cells = (f"{ours['per_second']:.0f}", duration(ours["p50_s"]), duration(ours["p99_s"]))
            more = (f"{found[figure]:.2f}" for figure in ("per_second", "p50_s", "p99_s"))
            rows.append((row["model"], row["encoding"], str(row["clients"]), *cells, *more))
        head = ("model", "tensors", "clients", "requests/s", "p50", "p99")
        yield from table((*head, "ratio", "of p50", "of p99"), rows, numbers_from=2)
        yield ""


def memory() -> Iterator[str]:
    result = newest("peak-memory")
    yield from setting(result)
    yield ""
    rows = []
    for row in result["rows"]:
        ours, theirs = row["bytes"]["calor"], row["bytes"]["torch"]
        cells = (f"{ours / 2**20:.0f} MiB", f"{theirs / 2**20:.0f} MiB", f"{ours / theirs:.2f}")
        rows.append((row["case"], *cells))
    yield from table(("training step of", "calor", "torch", "calor / torch"), rows)


def census() -> Iterator[str]:
    """Whole steps of models: times, launches and peak memory of calor, and its peers' ratios."""
    names = [name for name in names_of("census-") if name not in names_of(FUSION)]
    if not names:
        yield "No result is kept yet; `benchmarks/README.md` has the command."
    for name in names:
        result = newest(name)
        yield from setting(result)
        yield ""
        if all("seconds" not in row and "cold_s" in row for row in result["rows"]):
            columns = ("step", "first call, empty caches", "first call in another process")
            yield from table(columns, map(first_calls_of, result["rows"]))
        else:
            peers = dict.fromkeys(p for row in result["rows"] for p in row.get("ratios", ()))
            head = ("step", "calor", "launches", "memory beside torch", *(f"/ {p}" for p in peers))
            yield from table(head, (step_of(row, list(peers)) for row in result["rows"]))
        if name != names[-1]:
            yield ""


def fusion() -> Iterator[str]:
    """Steps without fusers beside those with them, of each device in one table."""
    results = [newest(name) for name in names_of(FUSION)]
    for result in results:
        yield from setting(result)
        yield ""
    steps: dict[str, dict[int, str]] = {}
    for number, result in enumerate(results):
        for row in result["rows"]:
            title, _, _ = row["case"].partition(f" {row['dtype']}, ")
            taken, gain = row["seconds"]["calor"], row["ratios"]["calor-unfused"]
            steps.setdefault(title, {})[number] = f"{ratio(gain)} of {duration(taken)}"
    heads = (f"{r['device']}, {r['rows'][0]['dtype']}" for r in results)
    yield from table(
        ("step", *heads),
        (
            (title, *(found.get(n, "") for n in range(len(results))))
            for title, found in steps.items()
        ),
    )


def routers() -> Iterator[str]:
    """Steps on routers beside their members alone, and how they were cut."""
    names = names_of("routers-")
    for name in names:
        result = newest(name)
        yield from setting(result)
        yield ""
        rows = []
        for row in result["rows"]:
            members = [side for side in row["seconds"] if side not in row["ratios"]]
            for router, gain in row["ratios"].items():
                parts = row["parts"][router]["members"]
                cut = ", ".join(f"{count} on {member}" for member, count in parts.items())
                alone = ", ".join(f"{m} {duration(row['seconds'][m])}" for m in members)
                taken = duration(row["seconds"][router])
                rows.append((row["case"], f"`{router}`", cut, alone, taken, ratio(gain)))
        head = ("step", "router", "parts", "alone", "on the router", "ratio")
        yield from table(head, rows, numbers_from=4)
        if name != names[-1]:
            yield ""


def first_calls_of(row: Result) -> tuple[str, ...]:
    return row["case"], duration(row["cold_s"]), duration(row["warm_s"])


def step_of(row: Result, peers: Sequence[str]) -> tuple[str, ...]:
    taken, ratios = row.get("seconds", {}).get("calor"), row.get("ratios", {})
    memory = row.get("peak_bytes", {})
    both = memory.get("calor") and memory.get("torch-eager")
    return (
        row["case"],
        duration(taken) if taken else "",
        str(row.get("launches", "")),
        f"{memory['calor'] / memory['torch-eager']:.2f}" if both else "",
        *(ratio(ratios[peer]) if peer in ratios else "" for peer in peers),
    )


def counters() -> Iterator[str]:
    """The launches far from their ceilings: what the hardware counted, and why they are slow."""
    for name in names_of("counters-"):
        result = newest(name)
        yield from setting(result)
        yield ""
        if result["device"] == "cpu":
            parts = {"ports": "ports", "L2": "from L2", "behind L2": "from behind L2"}
            head = ("step", "launch", "why", "share", "of the ceiling", "time", *parts.values())
            yield from table(head, stepped(result, list(parts)), numbers_from=3)
            continue
        units = {"dram": "DRAM", "l2": "L2", "l1": "L1", "tensor": "matrix units", "issue": "issue"}
        head = ("step", "launch", "why", "share", "of the ceiling", "time", *units.values())
        yield from table(head, counted(result, list(units)), numbers_from=3)


def stepped(result: Result, parts: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for row in result["rows"]:
        for launch in row["launches"]:
            model = launch["counters"]["seconds"]
            yield (
                *counted_launch(row, launch),
                duration(launch["seconds"]),
                *(duration(model[part]) if part in model else "" for part in parts),
            )


def counted_launch(row: Result, launch: Result) -> tuple[str, ...]:
    return (
        row["case"],
        f"{launch['op']}, {launch['kernel']}: {', '.join(launch['results'][:1])}",
        launch["why"],
        f"{launch['share']:.1%}",
        f"{launch['of_ceiling']:.2f}",
    )


def counted(result: Result, units: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for row in result["rows"]:
        for launch in row["launches"]:
            found = launch["counters"]
            yield (
                *counted_launch(row, launch),
                duration(found["seconds"]),
                *("" if found[unit] is None else f"{found[unit]:.0%}" for unit in units),
            )


def replanning() -> Iterator[str]:
    result = newest("replanning")
    yield from setting(result)
    yield ""
    rows = (
        (case, str(r["nodes"]), f"{r['us_a_node']:.2f} µs", f"{r['anew_us']:.0f} µs")
        for case, r in result["cases"].items()
    )
    yield from table(
        ("graph", "nodes", "known graph at new sizes, per node", "new graph, per node"), rows
    )


def many_sizes() -> Iterator[str]:
    result = newest("many-sizes")
    yield from setting(result)
    yield ""
    rows = (
        (f"{r['sizes']:,}", f"{r['resident_bytes'] / 2**20:.0f} MiB", str(r["kernels"]))
        for r in result["rows"]
    )
    yield from table(("sizes met", "resident memory", "kernels compiled"), rows, numbers_from=0)


def onnx_import() -> Iterator[str]:
    result = newest("onnx-import")
    yield from setting(result)
    yield ""
    kinds = {"whole": "in the model's file", "apart": "in a file of their own"}
    rows = (
        (
            kinds[r["file"]],
            f"{r['weights_mib']} MiB",
            f"{r['load_s'] * 1e3:.0f} ms",
            f"{r['peak_ratio']:.2f}",
        )
        for r in result["rows"]
    )
    yield from table(("weights", "size", "load", "peak memory / weights"), rows)


def promised(result: Result) -> Iterator[str]:
    """The bars of a result, and whether they hold."""
    bars = (
        (b["bar"], f"{b['value']:.3g}", f"{b['limit']:.3g}", "yes" if b["met"] else "**no**")
        for b in result["bars"]
    )
    yield from table(("promised", "measured", "limit", "holds"), bars)


def soaked() -> Iterator[str]:
    """What servers survived, each run with its setting."""
    for place, name in enumerate(names_of("soak-")):
        result = newest(name)
        if place:
            yield ""
        yield from setting(result)
        yield ""
        yield from promised(result)


def parsed(name: str = "wire-parsers-zen3") -> Iterator[str]:
    """What reading and writing on the wire costs beside libraries."""
    result = newest(name)
    yield from setting(result)
    yield ""
    known = (
        (r.case, r.peer, duration(r.ours), duration(r.theirs), ratio(r.ratio))
        for r in ratios(result)
    )
    yield from table(("case", "beside", "calor", "peer", "ratio"), known, numbers_from=2)


def remote(name: str = "remote-cpu-zen3") -> Iterator[str]:
    """What devices of another machine cost, and what is promised of them."""
    result = newest(name)
    yield from setting(result)
    yield ""
    known = (
        (r.case, r.peer, duration(r.ours), duration(r.theirs), ratio(r.ratio))
        for r in ratios(result)
    )
    yield from table(("case", "beside", "calor there", "peer", "ratio"), known, numbers_from=2)
    yield ""
    yield from promised(result)
    grown = result["memory"]
    client, server = (f"{grown['bytes_per_call'][side]:.3f}" for side in ("client", "server"))
    yield ""
    yield f"Growth in {grown['calls']:,} calls, in bytes a call: client {client}, server {server}."


def quickstart() -> Iterator[str]:
    result = newest("quickstart-epochs")
    yield from setting(result)
    yield ""
    keys = ("first_s", "median_s", "least_s")
    yield from table(
        ("device", "first epoch", "median epoch", "fastest epoch"),
        ((name, *(duration(s[k]) for k in keys)) for name, s in result["summary"].items()),
    )


def on_processors(suites: Sequence[str]) -> tuple[str, ...]:
    """Return the results of suites on processors, whichever were stored."""
    return tuple(name for suite in suites for name in names_of(f"{suite}-cpu-"))


TABLES: dict[str, Callable[[], Iterator[str]]] = {
    "overview-gpu": lambda: summaries((*GPU_RESULTS, *OTHER_APIS)),
    "overview-cpu": lambda: summaries(on_processors(CPU_SUITES)),
    "fuzz": fuzzed,
    "fuzz-families": fuzzed_families,
    "fuzz-launches": fuzzed_launches,
    "gpu": lambda: times("gpu-cuda-h200"),
    "families": lambda: pivoted(
        "families-cuda-h200", r"(?P<row>.+) (?P<column>\d+)", "operation, by elements"
    ),
    "attention": attention,
    "convolution-summary": convolution_summary,
    "convolution": convolution,
    "launches": launches,
    "collectives": lambda: times("collectives-cuda-h200-x2", "collectives-cuda-h200-x4"),
    "other-apis": lambda: times(*OTHER_APIS),
    "models": lambda: times(*on_processors(["models"])),
    "cpu-products": lambda: times(*on_processors(["matmul", "linear"])),
    "cpu-attention": lambda: times(*on_processors(["attention"])),
    "cpu-convolution": lambda: times(*on_processors(["convolution", "pooling"])),
    "cpu-elementwise": lambda: pivoted(
        "elementwise-cpu-1-thread",
        r"(?P<row>\w+) (?P<column>\d+)",
        "function, by elements",
        "torch",
    ),
    "cpu-rows": lambda: pivoted(
        "rows-cpu-1-thread", r"(?P<row>.+) (?P<column>\d+x\d+)", "operation, by shape"
    ),
    "cpu-moving": lambda: pivoted(
        "moving-cpu-1-thread", r"(?P<row>.+?),? (?P<column>\d+)", "operation, by elements", "torch"
    ),
    "real-models": real_models,
    "onnx-tests": onnx_tests,
    "array-api": array_api,
    "overhead": lambda: times("overhead"),
    "cold-start": cold_start,
    "model-server": model_server,
    "quickstart": quickstart,
    "memory": memory,
    "census": census,
    "fusion": fusion,
    "routers": routers,
    "counters": counters,
    "replanning": replanning,
    "many-sizes": many_sizes,
    "onnx-import": onnx_import,
    "remote": remote,
    "remote-gpu": lambda: remote("remote-cuda-h200"),
    "soaks": soaked,
    "wire": parsed,
}
