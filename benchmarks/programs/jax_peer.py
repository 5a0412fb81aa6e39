"""Steps by JAX, of the models that have a program in it: one jitted function, state donated."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from models.base import ADAMW_RATE, SGD_RATE, Array
from programs.setting import Setting

_PRECISIONS = {"float32": "highest", "tf32": "tensorfloat32", "bfloat16": "default"}
_MOMENTUM, _DECAY, _BETAS, _EPS = 0.9, 0.01, (0.9, 0.999), 1e-8


class JaxStep:
    """A step of JAX on the processor or a GPU."""

    name = "jax"

    def __init__(self, setting: Setting, state: Mapping[str, Array], gpu: bool) -> None:
        model = setting.model
        if model.jax is None or setting.mode == "decoding":
            raise NotImplementedError("the model has no such program in JAX")
        self.jax = importlib.import_module("jax")
        if not gpu:
            self.jax.config.update("jax_platforms", "cpu")
        elif self.jax.default_backend() == "cpu":
            raise NotImplementedError("jax has no GPU here")
        self.setting, self.program = setting, model.jax
        arrays = self.jax.numpy
        self.float = arrays.bfloat16 if setting.dtype == "bfloat16" else arrays.float32
        self.parameters = {name: self.given(array) for name, array in state.items()}
        self.inputs = tuple(map(self.given, setting.arrays()))
        zeros = {name: arrays.zeros_like(x) for name, x in self.parameters.items()}
        self.held: Any = (zeros,)
        if model.optimizer == "adamw":
            second = {name: arrays.zeros_like(x) for name, x in self.parameters.items()}
            self.held = (zeros, second, arrays.zeros((), arrays.float32))
        step = self._train if setting.mode == "training" else self._infer
        donated = (0, 1) if setting.mode == "training" else ()
        self.step = self.jax.jit(step, donate_argnums=donated)

    def given(self, array: Array) -> Any:
        """Return an array on the device, in the step's dtype."""
        floating = np.issubdtype(array.dtype, np.floating)
        return self.jax.numpy.asarray(array, self.float if floating else self.jax.numpy.int32)

    def _infer(self, parameters: Any, held: Any, inputs: Any) -> Any:
        return self.program(self.setting.size, parameters, inputs)

    def _loss(self, parameters: Any, inputs: Any) -> Any:
        *given, classes = inputs
        scores = self.program(self.setting.size, parameters, given)
        rows = self.jax.nn.log_softmax(scores.reshape(-1, scores.shape[-1]).astype("float32"))
        chosen = self.jax.numpy.take_along_axis(rows, classes.reshape(-1, 1), 1)
        return -chosen.mean()

    def _train(self, parameters: Any, held: Any, inputs: Any) -> Any:
        loss, found = self.jax.value_and_grad(self._loss)(parameters, inputs)
        rule = _adamw if self.setting.model.optimizer == "adamw" else _sgd
        return loss, *rule(parameters, found, held)

    def run(self, times: int = 1) -> Any:
        """Make steps, and return what the last one returns."""
        with self.jax.default_matmul_precision(_PRECISIONS[self.setting.dtype]):
            for _ in range(times):
                made = self.step(self.parameters, self.held, self.inputs)
                if self.setting.mode == "training":
                    made, self.parameters, self.held = made
        self.made = made
        return made

    def wait(self) -> None:
        """Wait until all steps are made."""
        self.jax.block_until_ready((self.made, self.parameters))

    def host(self, made: Any) -> Array:
        """Return a result as a NumPy array."""
        return np.asarray(made, np.float32)


def _sgd(parameters: Any, gradients: Any, held: Any) -> Any:
    (speeds,) = held
    made = {k: _MOMENTUM * v + gradients[k] for k, v in speeds.items()}
    return {k: p - SGD_RATE * made[k] for k, p in parameters.items()}, (made,)


def _adamw(parameters: Any, gradients: Any, held: Any) -> Any:
    firsts, seconds, count = held
    (one, two), count = _BETAS, count + 1
    first = {k: one * v + (1 - one) * gradients[k] for k, v in firsts.items()}
    second = {k: two * v + (1 - two) * gradients[k] ** 2 for k, v in seconds.items()}
    by_first, by_second = 1 - one**count, 1 - two**count

    def changed(name: str, p: Any) -> Any:
        move = (first[name] / by_first) / ((second[name] / by_second) ** 0.5 + _EPS)
        return (p * (1 - ADAMW_RATE * _DECAY) - ADAMW_RATE * move).astype(p.dtype)

    return {k: changed(k, p) for k, p in parameters.items()}, (first, second, count)
