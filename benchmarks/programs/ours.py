"""Steps by calor: jitted and bound, as a user writes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from models.base import Array, Calor
from programs.setting import Setting


class Ours:
    """A step on a device of calor.

    ``state``: parameters and buffers by name, in place of fresh ones. ``run()`` makes steps; what
    it returns may not be computed yet. ``wait()`` waits for all steps.
    """

    name = "calor"

    def __init__(self, setting: Setting, device: Any, state: Mapping[str, Array] | None = None):
        import calor

        self.setting, self.device = setting, device
        self.library = Calor()
        with calor.device(device):
            make = setting.model.network
            if setting.mode == "decoding" and setting.model.decoder is not None:
                make = setting.model.decoder
            self.module = make(self.library, setting.size)
            if state is not None:
                self.module.load_state_dict(dict(state))
            if setting.dtype == "bfloat16":
                self.module.to(calor.bfloat16)
            self.inputs = tuple(map(self.given, setting.arrays()))
            self.module.train(setting.mode == "training")
            self.jitted, self.bound_to = self._jitted()
            calor.eval(*self.module.parameters(), *self.module.buffers(), *self.inputs)
        self._bound: Callable[[], Any] | None = None

    def given(self, array: Array) -> Any:
        """Return an array as a tensor of the step's dtype."""
        import calor

        made = calor.asarray(array)
        floating = np.issubdtype(array.dtype, np.floating)
        return made.astype(calor.bfloat16) if floating and self._half else made

    @property
    def _half(self) -> bool:
        return self.setting.dtype == "bfloat16"

    def precision(self) -> AbstractContextManager[Any]:
        """Return the context in which the step is traced."""
        import calor

        return calor.matmul_precision("high") if self.setting.dtype == "tf32" else nullcontext()

    def _jitted(self) -> tuple[Any, tuple[Any, ...]]:
        import calor

        model = self.setting.model
        if self.setting.mode == "training":
            optimizers = [
                self.library.optimizer(model.optimizer, part.parameters(), self.device)
                for part in model.parts(self.module)
            ]

            def train(module: Any, optimizers: Any, inputs: Any) -> Any:
                return model.step(self.library, model.loss, module, optimizers, inputs)

            return calor.jit(train), (self.module, optimizers, self.inputs)

        def infer(module: Any, inputs: Any) -> Any:
            with calor.no_grad():
                return module(*inputs)

        return calor.jit(infer), (self.module, self.inputs)

    def first(self) -> Any:
        """Make the first step, which traces and compiles."""
        import calor

        with calor.device(self.device), self.precision():
            made = self.jitted(*self.bound_to)
            self._bound = self.jitted.bind(*self.bound_to)
        return made

    def run(self, times: int = 1) -> Any:
        """Make steps, and return what the last one returns."""
        if self._bound is None:
            return self.first()
        # The precision belongs to a trace, so the calls are made within it too.
        with self.precision():
            for _ in range(times):
                made = self._bound()
        return made

    def host(self, made: Any) -> Array:
        """Return a result as a NumPy array."""
        import calor

        with calor.no_grad():
            found: Array = made.detach().astype(calor.float32).numpy()
        return found

    def wait(self) -> None:
        """Wait until all steps are made."""
        import calor

        calor.synchronize(self.device)

    def peak_bytes(self) -> int | None:
        """Return the most bytes that were in use during a step, of a device that runs kernels."""
        import calor
        from calor_kernel.runtime.backend import engine_of

        try:
            pool = engine_of(self.device, "it has no such figures").pool
        except calor.errors.UnsupportedError:
            return None
        self.wait()
        # The peak so far may be that of making the model.
        pool.peak = pool.in_use
        pool.set_limit(pool.limit)
        self.run()
        self.wait()
        return pool.peak

    def peak(self) -> Any:
        """Return what is in memory when a step needs the most, planned anew."""
        import calor
        import calor_kernel

        with calor.device(self.device), self.precision():
            return calor_kernel.peak(self.jitted, *self.bound_to)

    def gradients(self) -> tuple[float, dict[str, float]]:
        """Return the loss, and the norm of each parameter's gradient; no weight changes."""
        import calor

        model = self.setting.model

        @calor.jit
        def derive(module: Any, inputs: Any) -> Any:
            value = model.loss(self.library, module, inputs)
            value.backward()
            found = [p.grad for p in module.parameters()]
            module.zero_grad()
            norms = [calor.sqrt(calor.sum(calor.square(g.astype(calor.float32)))) for g in found]
            return value, calor.stack(norms)

        with calor.device(self.device), self.precision():
            loss, norms = derive(self.module, self.inputs)
            names = [name for name, _ in self.module.named_parameters()]
            return float(loss), dict(zip(names, norms.tolist(), strict=True))
