"""Whole steps of calor and its peers in turns, after the results were found to agree."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np

from harness import report
from harness.gate import in_turn
from harness.timing import interleaved
from models.base import Array
from programs.ours import Ours
from programs.setting import Setting
from programs.unfused import Unfused

# A loss, and the norms of the parameters' gradients by name.
Gradients = tuple[float, Mapping[str, float]]
# The devices of calor that are the host's processor.
PROCESSORS = ("cpu", "numpy")
# The relative difference between two libraries' results by dtype: of scores, and of gradients.
TOLERANCES = {"float32": 1e-3, "tf32": 2e-2, "bfloat16": 1e-1}
# How long the steps of a sample take.
_SAMPLE_S = 0.05
# How much further from float64 a result may be than the peer's.
_FURTHER = 4.0
# Relative rounding errors of a layer's sums by dtype, four unit roundoffs, and how often they are
# drawn.
_ROUNDOFFS = {"float32": 2.0**-22, "tf32": 2.0**-9, "bfloat16": 2.0**-7}
_DRAWS = 3
# Steps whose losses are compared.
_STEPS = 3


def peer(name: str, setting: Setting, state: Mapping[str, Array], device: str) -> Any:
    """Return a peer's step; NotImplementedError with the reason why there is none."""
    gpu = device not in PROCESSORS
    if name == Unfused.name:
        return Unfused(setting, device, state)
    if name.startswith("torch"):
        from programs.torch_peer import FORMS

        return next(form for form in FORMS if form.name == name)(setting, state, gpu)
    if importlib.util.find_spec(name) is None:
        raise NotImplementedError(f"{name} is not installed")
    if name == "jax":
        from programs.jax_peer import JaxStep

        return JaxStep(setting, state, gpu)
    from programs.onnx_peer import OnnxStep

    return OnnxStep(setting, state, gpu)


def fresh_state(setting: Setting) -> dict[str, Array]:
    """Return weights as PyTorch draws them, by name."""
    from programs.torch_peer import TorchStep

    importlib.import_module("torch").manual_seed(0)
    step = TorchStep(replace(setting, dtype="float32"))
    step.calibrate()
    state = step.state()
    if setting.mode == "decoding" and setting.model.begin is not None:
        setting.model.begin(setting.size, state)
    return state


def reference(setting: Setting) -> tuple[Any, dict[str, Array]]:
    """Return PyTorch's step, or without PyTorch the one on "numpy", and its weights."""
    if importlib.util.find_spec("torch"):
        state = fresh_state(setting)
        return peer("torch-eager", setting, state, "cpu"), state
    step = Ours(setting, "numpy")
    # Reading the state computes it: a step afterwards must not change it.
    state = {name: x.numpy().copy() for name, x in step.module.state_dict().items()}
    if setting.mode == "decoding" and setting.model.begin is not None:
        setting.model.begin(setting.size, state)
        step = Ours(setting, "numpy", state)
    return step, state


def beside(
    ours: Ours,
    state: Mapping[str, Array],
    peers: Sequence[str],
    repeats: int,
    gate: Path | None = None,
) -> dict[str, Any]:
    """Return seconds a step of calor and its peers, ratios, and which do not agree.

    ``state``: the weights from which all begin. ``gate``: a file that processes on one device
    share, so that they measure in turns.
    """
    setting, device = ours.setting, ours.device
    gpu = device not in PROCESSORS
    judge = Judge(setting, state, gpu)
    gradients = None
    if setting.mode == "training" and "torch-eager" in peers:
        gradients = ours.gradients()
    start = perf_counter()
    expected = results(ours, setting)
    print(f"calor is ready after {perf_counter() - start:.1f} s", flush=True)
    calls: dict[str, Any] = {"calor": ours}
    found: dict[str, Any] = {"not_run": {}, "disagreements": {}, "peak_bytes": {}}
    for name in peers:
        try:
            step = peer(name, setting, state, device)
        except NotImplementedError as error:
            found["not_run"][name] = str(error)
            print(f"{name} is not run: {error}", flush=True)
            continue
        if gradients and name == "torch-eager":
            problem = judge.gradients(gradients, step.gradients())
            if problem:
                found["disagreements"][f"{name}, gradients"] = problem
        problem = judge.results(expected, results(step, setting))
        if problem:
            found["disagreements"][name] = problem
        calls[name] = step
        if hasattr(step, "peak_bytes"):
            found["peak_bytes"][name] = step.peak_bytes()
    for name, problem in found["disagreements"].items():
        print(f"DISAGREES with {name}: {problem}", flush=True)
    with in_turn(gate):
        found["seconds"] = timed(calls, repeats, computing=not gpu)
    found["peak_bytes"]["calor"] = ours.peak_bytes()
    taken = found["seconds"]["calor"]
    found["ratios"] = {n: s / taken for n, s in found["seconds"].items() if n != "calor"}
    print(shown(found), flush=True)
    return found


def shown(found: Mapping[str, Any]) -> str:
    """Return the line of a step."""
    parts = [f"calor {report.seconds(found['seconds']['calor'])}"]
    for name, ratio in found["ratios"].items():
        parts.append(f"{name} {report.seconds(found['seconds'][name])} ({ratio:.2f})")
    memory = {n: b for n, b in found["peak_bytes"].items() if b}
    if len(memory) > 1:
        parts.append("peak " + ", ".join(f"{n} {b / 2**20:.0f} MiB" for n, b in memory.items()))
    return "; ".join(parts)


def results(step: Any, setting: Setting) -> list[Array]:
    """Return the losses of the first steps, or the scores."""
    times = _STEPS if setting.mode == "training" else 1
    if setting.mode == "decoding" and setting.dtype == "float32":
        # Otherwise rounding may choose another token, and the next scores are of other words.
        times = _STEPS
    return [np.array(step.host(step.run())) for _ in range(times)]


class Judge:
    """Says whether results agree: within a tolerance, or as near to PyTorch's in float64.

    Steps of networks with batch norms amplify rounding, so that nothing else can be asked of them.
    Batch norms of few values make them chaotic: by chance a peer's loss may be near the exact one.
    So a result may also be as far off as float64's is from rounded weights, in that step or before.
    """

    def __init__(self, setting: Setting, state: Mapping[str, Array], gpu: bool) -> None:
        self.setting, self.state, self.gpu = setting, state, gpu

    def exact(self, state: Mapping[str, Array] | None = None) -> Any:
        """Return PyTorch's step in float64, from other weights than all begin from if given."""
        from programs.torch_peer import TorchStep

        begin = self.state if state is None else state
        return TorchStep(replace(self.setting, dtype="float64"), begin, self.gpu)

    def rounding(self, exact: Sequence[Array]) -> list[float]:
        """Return how far float64's results are off at most, step by step, from rounded weights."""
        rng, furthest = np.random.default_rng(0), np.zeros(len(exact))
        for _ in range(_DRAWS):
            state = moved(self.state, _ROUNDOFFS[self.setting.dtype], rng)
            found = results(self.exact(state), self.setting)
            apart = [relative_error(a, b) for a, b in zip(found, exact, strict=True)]
            furthest = np.maximum(furthest, apart)
        return [float(most) for most in np.maximum.accumulate(furthest)]

    def results(self, ours: Sequence[Array], theirs: Sequence[Array]) -> str:
        """Return what differs between losses of steps, or scores."""
        pairs = zip(ours, theirs, strict=True)
        most = TOLERANCES[self.setting.dtype]
        wrong = [number for number, (a, b) in enumerate(pairs) if not relative_error(a, b) <= most]
        if not wrong:
            return ""
        exact = results(self.exact(), self.setting)
        if not any(apart(ours[number], theirs[number], exact[number]) for number in wrong):
            return ""
        rounding = self.rounding(exact)
        for number in wrong:
            problem = apart(ours[number], theirs[number], exact[number], rounding[number])
            if problem:
                return f"result {number}: {problem}"
        return ""

    def gradients(self, ours: Gradients, theirs: Gradients) -> str:
        """Return what differs between the norms of gradients."""
        a, b = ([found[name] for name in theirs[1]] for _, found in (ours, theirs))
        if relative_error(a, b) <= TOLERANCES[self.setting.dtype]:
            return ""
        _, exact = self.exact().gradients()
        return apart(a, b, [exact[name] for name in theirs[1]])


def moved(
    state: Mapping[str, Array], roundoff: float, rng: np.random.Generator
) -> dict[str, Array]:
    """Return the weights in float64, each off by a random part of a relative rounding error."""
    return {
        name: value * (1 + roundoff * rng.uniform(-1, 1, value.shape))
        if np.issubdtype(value.dtype, np.floating)
        else value
        for name, value in state.items()
    }


def apart(ours: Any, theirs: Any, exact: Any, rounding: float = 0.0) -> str:
    """Return how far a result is off, if that is much more than the peer's, or rounding's, is."""
    mine, yours = relative_error(ours, exact), relative_error(theirs, exact)
    if mine <= _FURTHER * max(yours, rounding):
        return ""
    more = f", of rounded weights {rounding:.2g}" if rounding else ""
    return f"the error is {mine:.2g} beside float64, the peer's {yours:.2g}{more}"


def relative_error(ours: Any, theirs: Any) -> float:
    """Return the norm of the difference in units of the norm of ``theirs``."""
    a, b = np.asarray(ours, np.float64), np.asarray(theirs, np.float64)
    if a.shape != b.shape:
        return float("nan")
    return float(np.linalg.norm(a - b) / max(float(np.linalg.norm(b)), 1e-30))


def timed(steps: Mapping[str, Any], repeats: int, *, computing: bool = False) -> dict[str, float]:
    """Return the median seconds of a step of each; several steps of a sample are in flight.

    ``computing``: the steps run on a processor, see :func:`harness.timing.interleaved`.
    """
    counts: dict[str, int] = {}
    for name, step in steps.items():
        step.run(2)
        step.wait()
        counts[name] = max(1, min(200, round(_SAMPLE_S / alone(step))))

    def sample(name: str) -> None:
        steps[name].run(counts[name])
        steps[name].wait()

    calls: dict[str, Callable[[], Any]] = {name: partial(sample, name) for name in steps}
    found = interleaved(calls, repeats, 1, computing=computing)
    return {name: seconds / counts[name] for name, seconds in found.items()}


def alone(step: Any) -> float:
    """Return the seconds of one step."""
    start = perf_counter()
    step.run()
    step.wait()
    return perf_counter() - start
