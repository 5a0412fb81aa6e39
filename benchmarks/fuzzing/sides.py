"""The two sides of a case: calor on a device, and torch, each with its own sets of operands.

A side holds some sets of operands. Weights are the same in all sets of a case without gradients,
as in inference, where libraries may keep what they prepared of them.
"""

from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import numpy as np

from fuzzing import graphs, queues
from fuzzing.cases import DTYPES, Operand, Sample, Work
from fuzzing.clocks import HostRunner, Runner
from fuzzing.families._common import library
from fuzzing.operands import array

Array = np.ndarray[Any, Any]
Call = Callable[[], Any]
# Devices on the host: their calls are over when they return, and operands stay in its caches.
HOSTS = ("cpu", "numpy")
_PLACES = 9973


def wanted(work: Work, gradient: bool) -> list[Operand]:
    """Return the operands of a call: the work's, and in a case with gradients the result's."""
    return [*work.operands, *[Operand(work.made)] * gradient]


def number_of(operand: Operand, place: int, group: int, gradient: bool, on_host: bool) -> int:
    """Return what numbers an operand of a set has; filters stay the same on GPUs too."""
    stays = operand.weight and not gradient and (on_host or len(operand.shape) > 2)
    return _PLACES * (0 if stays else group) + place


class Side:
    """One library with a case: ``results`` for the check, and a runner for the clock.

    ``first_s`` are the seconds of the first call, which compiles.
    """

    name: str
    first_s: float

    def results(self) -> list[Array]:
        """Return the results of the first set of operands, on the host."""
        raise NotImplementedError

    def runner(self, seconds: float, captured: bool) -> Runner:
        """Return a runner; ``seconds``: what a piece of work takes, roughly.

        ``captured``: in CUDA graphs, on a device that has them.
        """
        raise NotImplementedError


class Calor(Side):
    """calor on a device: a jitted function, bound to each set of operands."""

    def __init__(self, device: str, sample: Sample, work: Work, groups: int) -> None:
        self.name, self.device = "calor", device
        self.on_host = device.partition(":")[0] in HOSTS
        self.calor = library("calor")
        high = sample.dtype == "tf32" and not self.on_host

        def function(*given: Any) -> Any:
            with self.calor.matmul_precision("high" if high else "highest"):
                return _with_gradients(self.calor, work, given) if sample.gradient else work.ours(
                    *given
                )  # fmt: skip

        self.jitted = self.calor.jit(function)
        operands = wanted(work, sample.gradient)
        made: dict[int, Any] = {}
        self.sets: list[list[Any]] = []
        with self.calor.device(device):
            for group in range(groups):
                numbers = [
                    number_of(o, place, group, sample.gradient, self.on_host)
                    for place, o in enumerate(operands)
                ]
                for operand, number in zip(operands, numbers, strict=True):
                    if number not in made:
                        made[number] = self._tensor(operand, number, DTYPES[sample.dtype])
                self.sets.append([made[n] for n in numbers])
            self.calor.eval(*made.values())
            self.calor.synchronize(device)
            begin = perf_counter()
            self.first = self._listed(self.jitted(*self.sets[0]))
            self.calor.eval(*self.first)
            self.calor.synchronize(device)
            self.first_s = perf_counter() - begin

    def _tensor(self, operand: Operand, number: int, dtype: str) -> Any:
        tensor = self.calor.asarray(array(operand, number))
        if operand.kind == "index":
            return tensor
        return tensor.astype("float32" if operand.kind == "float32" else dtype)

    @staticmethod
    def _listed(made: Any) -> list[Any]:
        return list(made) if isinstance(made, list | tuple) else [made]

    def results(self) -> list[Array]:
        """Return the results of the first call."""
        made = [np.asarray(x.numpy()) for x in self.first]
        self.first = []
        return made

    def calls(self) -> list[Call]:
        """Return the bound calls, one for each set of operands."""
        with self.calor.device(self.device):
            bound = [self.jitted.bind(*given) for given in self.sets]
            for _ in range(2):
                for call in bound:
                    call()
        self.calor.synchronize(self.device)
        return bound

    def wait(self) -> None:
        """Wait for the device."""
        self.calor.synchronize(self.device)

    def runner(self, seconds: float, captured: bool) -> Runner:
        """Return a runner of captured launches, of calls on the host, or of programs elsewhere.

        A program does the work of all sets of operands, so that a queue gets it at once.

        Raises
        ------
        NotCaptured
            If launches are to be captured and cannot be.
        """
        if self.on_host:
            return HostRunner(self.calls(), lambda: None, computing=True)
        if not captured:
            return HostRunner([self._together()], self.wait, len(self.sets))
        calls = self.calls()
        kind = self.device.partition(":")[0]
        capture: Callable[..., Runner]
        capture = graphs.calor_graph if kind == "cuda" else queues.calor_queue
        return capture(self.device, calls, copies(len(calls), seconds))

    def _together(self) -> Call:
        count = len(self.sets[0])

        def every(*given: Any) -> Any:
            sets = [given[i : i + count] for i in range(0, len(given), count)]
            return [self.jitted.function(*one) for one in sets]

        with self.calor.device(self.device):
            bound: Call = self.calor.jit(every).bind(*(x for given in self.sets for x in given))
            for _ in range(3):
                bound()
        self.wait()
        return bound


class CalorBeside(Calor):
    """calor on another device as the peer."""

    def __init__(self, device: str, sample: Sample, work: Work, groups: int) -> None:
        super().__init__(device, sample, work, groups)
        self.name = f"calor-{device}"


class Torch(Side):
    """torch: eager on the host, captured in CUDA graphs on a GPU."""

    def __init__(self, device: str, sample: Sample, work: Work, groups: int) -> None:
        self.name = "torch"
        self.torch = torch = library("torch")
        self.on_host = device.partition(":")[0] in HOSTS
        self.sample, self.work = sample, work
        high = sample.dtype == "tf32" and not self.on_host
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = high
        torch.backends.cudnn.benchmark = True
        self.on_gpu = not self.on_host and torch.cuda.is_available()
        where = "cuda" if self.on_gpu else "cpu"
        self.sets = [self._tensors(group, where, DTYPES[sample.dtype]) for group in range(groups)]
        # The gradients that are views: of a number for many places, of the cotangent.
        self.views: tuple[int, ...] = ()
        begin = perf_counter()
        self.first = self.call(self.sets[0])
        self.wait()
        self.first_s = perf_counter() - begin
        if sample.gradient:
            self.views = self._views(self.first[1:], self.sets[0][-1])

    def _views(self, gradients: Sequence[Any], cotangent: Any) -> tuple[int, ...]:
        """Return which gradients have no memory of their own."""
        taken, found = {cotangent.untyped_storage().data_ptr()}, []
        for number, x in enumerate(gradients):
            spread = any(s == 0 and n > 1 for n, s in zip(x.shape, x.stride(), strict=True))
            memory = x.untyped_storage().data_ptr()
            if spread or memory in taken:
                found.append(number)
            taken.add(memory)
        return tuple(found)

    def _tensors(self, group: int, where: str, dtype: str) -> list[Any]:
        operands = wanted(self.work, self.sample.gradient)
        return [
            self._tensor(
                o, number_of(o, p, group, self.sample.gradient, self.on_host), where, dtype
            )
            for p, o in enumerate(operands)
        ]

    def _tensor(self, operand: Operand, number: int, where: str, dtype: str) -> Any:
        # A copy: slices of the drawn numbers lie at odd addresses.
        tensor = self.torch.from_numpy(array(operand, number).copy()).to(where)
        if operand.kind == "index":
            return tensor
        return tensor.to(
            getattr(self.torch, "float32" if operand.kind == "float32" else dtype)
        )  # fmt: skip

    def call(self, given: Sequence[Any]) -> list[Any]:
        """Return the results of a call, in a list."""
        if not self.sample.gradient:
            with self.torch.no_grad():
                made = self.work.theirs(*given)
            return list(made) if isinstance(made, list | tuple) else [made]
        *operands, cotangent = given
        leaves = [
            t.detach().requires_grad_() if o.differentiable else t
            for t, o in zip(operands, self.work.operands, strict=True)
        ]
        made = self.work.theirs(*leaves)
        floats = [t for t in leaves if t.requires_grad]
        gradients = list(self.torch.autograd.grad(made, floats, cotangent.to(made.dtype)))
        # As `backward` does where it makes them a parameter's `grad`.
        for number in self.views:
            gradients[number] = gradients[number].clone(memory_format=self.torch.contiguous_format)
        return [made.detach(), *gradients]

    def results(self) -> list[Array]:
        """Return the results of the first call."""
        made = [self._on_host(x) for x in self.first]
        self.first = []
        return made

    def _on_host(self, x: Any) -> Array:
        x = x.detach().cpu()
        made: Array = (x.float() if x.dtype == self.torch.bfloat16 else x).numpy()
        return made

    def wait(self) -> None:
        """Wait for the GPU, where there is one."""
        if self.on_gpu:
            self.torch.cuda.synchronize()

    def exact(self) -> list[Array]:
        """Return the results of the first set computed in float64 on the host."""
        given = [
            t.detach().cpu().double() if t.is_floating_point() else t.cpu() for t in self.sets[0]
        ]
        return [self._on_host(x) for x in self.call(given)]

    def runner(self, seconds: float, captured: bool) -> Runner:
        """Return a runner of eager calls on the host, of a CUDA graph on a GPU."""
        calls: list[Call] = [lambda given=given: self.call(given) for given in self.sets]  # type: ignore[misc]
        if not captured or not self.on_gpu:
            return HostRunner(calls, self.wait, computing=self.on_host)
        return graphs.torch_graph(calls, copies(len(calls), seconds))


def copies(groups: int, seconds: float) -> int:
    """Return how many calls a graph has: some of all sets, for a third of a millisecond."""
    rounds = max(1, min(40 // groups, round(3e-4 / max(seconds, 1e-7) / groups)))
    return groups * rounds


def _with_gradients(calor: Any, work: Work, given: Sequence[Any]) -> list[Any]:
    *operands, cotangent = given
    places = [i for i, o in enumerate(work.operands) if o.differentiable]

    def of_floats(*floats: Any) -> Any:
        every = list(operands)
        for place, value in zip(places, floats, strict=True):
            every[place] = value
        return work.ours(*every)

    made, pull = calor.vjp(of_floats, *(operands[i] for i in places))
    return [made, *pull(cotangent.astype(made.dtype))]
