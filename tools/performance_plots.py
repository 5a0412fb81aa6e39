"""The plots of `docs/performance.md`, drawn from the result files.

`PLOTS` names them; `tools/performance_page.py` writes them to `docs/images/`.
"""

import re
from collections.abc import Callable, Sequence

from benchmark_results import Ratio, newest, ratios
from performance_tables import CONVOLUTIONS, CPU_SUITES, DIRECTIONS, GPU_RESULTS, REAL_MODELS
from strip_plot import Strip, svg

H200 = "NVIDIA H200"
TITLES = {
    "gpu": "products and elementwise work",
    "gpu-attention": "attention, bfloat16",
    "gpu-convolution": "convolution, bfloat16",
    "gpu-convolution-tf32": "convolution, TF32",
    "gpu-convolution-f32": "convolution, float32",
    "families": "other operations",
}


def ratios_of(name: str, peer: str | None = None) -> list[float]:
    return [row.ratio for row in ratios(newest(name), peer)]


def gpu_overview() -> str:
    strips = [
        Strip(TITLES[name.removesuffix("-cuda-h200")], {"torch": ratios_of(name)})
        for name in GPU_RESULTS
    ]
    return svg(
        f"cuda on an {H200} beside PyTorch, all cases; the mark is the mean", strips, means=True
    )


def cpu_overview() -> str:
    strips = [
        Strip(
            f"{suite}, beside {peer}",
            {
                "1 thread": ratios_of(f"{suite}-cpu-1-thread", peer),
                "2 threads": ratios_of(f"{suite}-cpu-2-threads", peer),
            },
        )
        for suite in CPU_SUITES
        for peer in peers(f"{suite}-cpu-1-thread")
    ]
    return svg("cpu on two cores of an AMD EPYC, all cases", strips)


def peers(name: str) -> list[str]:
    return list(dict.fromkeys(row.peer for row in ratios(newest(name))))


def families() -> str:
    return svg(
        f"operations on an {H200} beside PyTorch, by number of elements",
        grouped(ratios(newest("families-cuda-h200")), r"(?P<label>.+) (?P<series>\d+)", powers),
    )


def powers(number: str) -> str:
    return f"1e{len(number) - 1}"


def attention() -> str:
    pattern = r"attention d (?P<d>\d+) T \d+(?P<causal> causal)? (?P<what>\w+) beside (?P<peer>\w+)"
    cells: dict[str, dict[str, list[float]]] = {}
    for row in ratios(newest("gpu-attention-cuda-h200")):
        found = re.fullmatch(pattern, row.case)
        assert found, row.case
        label = f"{found['what']}, d {found['d']}{',' if found['causal'] else ''}"
        label += found["causal"] or ""
        series = {"flash": "FlashAttention of PyTorch", "cudnn": "cuDNN"}[found["peer"]]
        cells.setdefault(label, {}).setdefault(series, []).append(row.ratio)
    strips = [Strip(label, series) for label, series in sorted(cells.items(), reverse=True)]
    return svg(f"attention in bfloat16 on an {H200}, 512 to 8192 tokens", strips)


def convolution() -> str:
    strips = []
    for dtype, suffix in CONVOLUTIONS.items():
        rows = ratios(newest(f"gpu-convolution{suffix}-cuda-h200"))
        for direction in DIRECTIONS:
            of_direction = [row for row in rows if row.case.endswith(direction)]
            series = {
                f"batch {n}": [row.ratio for row in of_direction if f" batch {n} " in row.case]
                for n in (1, 32)
            }
            strips.append(Strip(f"{dtype}, {direction}", series))
    return svg(f"convolutions of ResNet-50 on an {H200} beside PyTorch (cuDNN)", strips, means=True)


def grouped(rows: Sequence[Ratio], pattern: str, named: Callable[[str], str] = str) -> list[Strip]:
    cells: dict[str, dict[str, list[float]]] = {}
    for row in rows:
        found = re.fullmatch(pattern, row.case)
        if found:
            strip = cells.setdefault(found["label"], {})
            strip.setdefault(named(found["series"]), []).append(row.ratio)
    return [Strip(label, series) for label, series in cells.items()]


def collectives() -> str:
    cells: dict[str, dict[str, list[float]]] = {}
    for n in (2, 4):
        for row in ratios(newest(f"collectives-cuda-h200-x{n}")):
            cells.setdefault(row.case, {})[f"{n} GPUs"] = [row.ratio]
    strips = [Strip(label, series) for label, series in cells.items()]
    return svg(f"all_reduce over {H200}s beside torch.distributed (NCCL)", strips)


def real_models() -> str:
    results = {name: newest(f"real-models-{name}") for name in REAL_MODELS}
    models = [m for m, case in results["cpu"]["cases"].items() if case.get("calls")]
    strips = [
        Strip(
            model,
            {
                name.replace("-h200", " (H200)").replace("cpu", "cpu (EPYC)"): [
                    call["onnxruntime_ms"] / call["ms"] for call in r["cases"][model]["calls"]
                ]
                for name, r in results.items()
            },
        )
        for model in models
    ]
    return svg("ONNX models, one input at a time, beside ONNX Runtime on the host's CPU", strips)


PLOTS: dict[str, Callable[[], str]] = {
    "gpu-overview": gpu_overview,
    "cpu-overview": cpu_overview,
    "families": families,
    "attention": attention,
    "convolution": convolution,
    "collectives": collectives,
    "real-models": real_models,
}
