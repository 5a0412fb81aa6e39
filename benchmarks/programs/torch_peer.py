"""Steps by PyTorch: eager, by torch.compile, and captured in a CUDA graph."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from models.base import Array, Torch
from programs.setting import Setting


class TorchStep:
    """A step of PyTorch, eager, on the processor or a GPU, with the parameters of ``state``.

    ``run(times)`` makes steps and returns what the last one returns, ``wait()`` waits for all.
    """

    name = "torch-eager"

    def __init__(
        self, setting: Setting, state: Mapping[str, Array] | None = None, gpu: bool = False
    ) -> None:
        self.torch = importlib.import_module("torch")
        if gpu and not self.torch.cuda.is_available():
            raise NotImplementedError("torch has no GPU here")
        self.setting, self.library = setting, Torch()
        self.device = "cuda" if gpu else "cpu"
        self.held_before = self.torch.cuda.memory_allocated() if gpu else 0
        model = setting.model
        make = model.decoder if setting.mode == "decoding" and model.decoder else model.network
        self.module = make(self.library, setting.size)
        if state is not None:
            given = {k: self.torch.from_numpy(v.copy()) for k, v in state.items()}
            self.module.load_state_dict(given)
        names = {"bfloat16": "bfloat16", "float64": "float64"}
        self.dtype = getattr(self.torch, names.get(setting.dtype, "float32"))
        self.module.to(self.device, self.dtype)
        self.module.train(setting.mode == "training")
        self.inputs = tuple(map(self.given, setting.arrays()))
        training = setting.mode == "training"
        parts = model.parts(self.module) if training else ()
        self.optimizers = [
            self.library.optimizer(model.optimizer, part.parameters(), self.device)
            for part in parts
        ]
        self.prepare()

    def given(self, array: Array) -> Any:
        """Return an array as a tensor of the step's dtype."""
        made = self.torch.from_numpy(array).to(self.device)
        return made.to(self.dtype) if made.is_floating_point() else made

    def prepare(self) -> None:
        """Make ready what the form of the step needs."""

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """Let products of float32 be computed in TF32, or not."""
        backends = self.torch.backends
        rounded = self.setting.dtype == "tf32"
        matmul, cudnn = backends.cuda.matmul, backends.cudnn
        before = matmul.allow_tf32, cudnn.allow_tf32
        matmul.allow_tf32 = cudnn.allow_tf32 = rounded
        try:
            yield
        finally:
            matmul.allow_tf32, cudnn.allow_tf32 = before

    def step(self) -> Any:
        """Make one step; what it returns is on the device."""
        if self.setting.mode == "training":
            model = self.setting.model
            return model.step(self.library, model.loss, self.module, self.optimizers, self.inputs)
        with self.torch.no_grad():
            return self.module(*self.inputs)

    def run(self, times: int = 1) -> Any:
        """Make steps, and return what the last one returns."""
        with self.precision():
            for _ in range(times):
                made = self.step()
        return made

    def wait(self) -> None:
        """Wait until all steps are made."""
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def host(self, made: Any) -> Array:
        """Return a result as a NumPy array."""
        found: Array = made.detach().double().cpu().numpy()
        return found

    def state(self) -> dict[str, Array]:
        """Return parameters and buffers by name, before the step's dtype rounds any more."""
        found = self.module.state_dict()
        return {k: self._array(v) for k, v in found.items()}

    def _array(self, tensor: Any) -> Array:
        tensor = tensor.detach().cpu()
        found: Array = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
        return found

    def calibrate(self) -> None:
        """Give batch norms the moments of the inputs: with others, activations vanish."""
        norms = [m for m in self.module.modules() if hasattr(m, "running_mean")]
        if not norms or self.setting.mode != "inference":
            return
        before = [norm.momentum for norm in norms]
        for norm in norms:
            norm.momentum = 1.0
        self.module.train()
        with self.torch.no_grad():
            self.module(*self.inputs)
        self.module.eval()
        for norm, momentum in zip(norms, before, strict=True):
            norm.momentum = momentum

    def gradients(self) -> tuple[float, dict[str, float]]:
        """Return the loss, and the norm of each parameter's gradient; no weight changes."""
        with self.precision():
            loss = self.setting.model.loss(self.library, self.module, self.inputs)
            loss.backward()
        found = {n: float(p.grad.float().norm()) for n, p in self.module.named_parameters()}
        self.module.zero_grad()
        return float(loss.detach()), found

    def peak_bytes(self) -> int | None:
        """Return the most bytes that it had in use during a step, of a GPU; others keep theirs."""
        if self.device != "cuda":
            return None
        self.wait()
        self.torch.cuda.reset_peak_memory_stats()
        self.run()
        self.wait()
        return int(self.torch.cuda.max_memory_allocated()) - self.held_before


class CompiledStep(TorchStep):
    """A step whose model torch.compile has compiled; on a GPU with CUDA graphs."""

    name = "torch-compile"

    def prepare(self) -> None:
        """Compile the module, or each of its parts."""
        how = {"mode": "reduce-overhead"} if self.device == "cuda" else {}
        for part in self.setting.model.parts(self.module):
            part.compile(**how)


class GraphStep(TorchStep):
    """A step that is captured in a CUDA graph and replayed."""

    name = "torch-graphs"

    def prepare(self) -> None:
        """Capture a step, after steps beside the main stream."""
        torch = self.torch
        if self.device != "cuda":
            raise NotImplementedError("CUDA graphs need a GPU")
        before = {k: v.clone() for k, v in self.module.state_dict().items()}
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), self.precision():
            for _ in range(3):
                super().step()
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        mode = {"capture_error_mode": "thread_local"}
        with self.precision(), torch.cuda.graph(self.graph, **mode):
            self.made = super().step()
        # As before the steps that prepared the capture.
        self.module.load_state_dict(before)
        for optimizer in self.optimizers:
            for held in optimizer.state.values():
                for value in held.values():
                    if isinstance(value, torch.Tensor):
                        value.zero_()

    def peak_bytes(self) -> int | None:
        """Return None: what a captured step needs is not counted as allocated."""
        return None

    def step(self) -> Any:
        """Replay the graph."""
        self.graph.replay()
        return self.made


FORMS: Sequence[type[TorchStep]] = (TorchStep, CompiledStep, GraphStep)
