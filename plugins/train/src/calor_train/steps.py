"""The functions that a learner repeats: a training step, its two halves, and an evaluation step.

Requirements: each is one jitted function of model, optimizer, metrics and batch, all of whose state
is in tensors. No value is read inside.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor.transforms.state import Stateful
from calor_train.clipping import clip_grad_norm_, clip_grad_value_
from calor_train.metrics import Metric, batch_length
from calor_train.optimizers import Optimizer
from calor_train.optimizers.group import assign
from calor_train.optimizers.working import working_dtype
from calor_train.scaling import GradScaler

Precision = Literal["float32", "bfloat16", "float16"]
Forward = Callable[[Any, Any], tuple[Any, Any]]


def default_forward(model: Any, batch: Any) -> tuple[Any, Any]:
    """Return outputs and targets of a batch whose last part are the targets: (x, …, y)."""
    if not isinstance(batch, tuple | list) or len(batch) < 2:
        raise ArgumentError(
            f"a batch must be (inputs, targets), not {type(batch).__name__}; "
            f"for other batches pass forward=, a function (model, batch) -> (outputs, targets)"
        )
    *inputs, targets = batch
    return model(*inputs), targets


class GradientSum(Stateful):
    """Gradients added up over several batches, weighted by their samples.

    The mean over all samples is exact, also when the last batch is smaller than the others.
    """

    def __init__(self, params: Sequence[Tensor]) -> None:
        self.sums = [
            calor.zeros(p.shape, dtype=working_dtype(p.dtype), device=p.device) for p in params
        ]
        device = params[0].device
        self.weight = calor.zeros((), dtype=calor.float32, device=device)

    def add(self, params: Sequence[Tensor], count: int) -> tuple[bool, ...]:
        """Add ``.grad`` of the parameters; return which of them have one."""
        present = []
        with calor.no_grad():
            for held, p in zip(self.sums, params, strict=True):
                present.append(p.grad is not None)
                if p.grad is not None:
                    assign(held, held + p.grad.astype(held.dtype) * count)
            assign(self.weight, self.weight + count)
        return tuple(present)

    def give(self, params: Sequence[Tensor], present: Sequence[bool]) -> None:
        """Set ``.grad`` of the parameters to the mean, and set the sums to zero."""
        with calor.no_grad():
            for held, p, there in zip(self.sums, params, present, strict=True):
                p.grad = (held / self.weight).astype(p.dtype) if there else None
        self.clear()

    def clear(self) -> None:
        """Set the sums to zero."""
        for held in (*self.sums, self.weight):
            assign(held, calor.zeros_like(held))


class Steps:
    """The functions of one learner, jitted or plain."""

    def __init__(
        self,
        forward: Forward,
        *,
        jit: bool,
        clip_norm: float | None,
        clip_value: float | None,
        precision: Precision = "float32",
        scaler: GradScaler | None = None,
    ) -> None:
        half = precision != "float32"
        low = precision if half else "bfloat16"

        def losses(model: Any, loss: Any, batch: Any) -> tuple[Any, Any, Tensor]:
            with calor.autocast(low, enabled=half):
                outputs, targets = forward(model, batch)
                found: Tensor = loss(outputs, targets)
            if found.shape != ():
                raise ArgumentError(
                    f"the loss has shape {found.shape}; return the mean over the batch"
                )
            return outputs, targets, found

        def measure(metrics: Sequence[Metric], outputs: Any, targets: Any, loss: Tensor) -> None:
            with calor.no_grad():
                for metric in metrics:
                    metric.update(outputs, targets, loss.detach())

        def backward(found: Tensor) -> None:
            (found if scaler is None else scaler.scale(found)).backward()

        def apply(optimizer: Optimizer) -> None:
            if scaler is not None:
                scaler.unscale_(optimizer)
            if clip_value is not None:
                clip_grad_value_(optimizer.params, clip_value)
            if clip_norm is not None:
                clip_grad_norm_(optimizer.params, clip_norm)
            if scaler is None:
                optimizer.step()
            else:
                scaler.step(optimizer)
                scaler.update()
            optimizer.zero_grad()

        def train(
            model: Any, optimizer: Optimizer, metrics: Sequence[Metric], loss: Any, batch: Any
        ) -> Tensor:
            outputs, targets, found = losses(model, loss, batch)
            backward(found)
            apply(optimizer)
            measure(metrics, outputs, targets, found)
            return found.detach()

        def collect(
            model: Any,
            optimizer: Optimizer,
            sums: GradientSum,
            metrics: Sequence[Metric],
            loss: Any,
            batch: Any,
        ) -> tuple[Tensor, tuple[bool, ...]]:
            outputs, targets, found = losses(model, loss, batch)
            backward(found)
            present = sums.add(optimizer.params, batch_length(batch))
            optimizer.zero_grad()
            measure(metrics, outputs, targets, found)
            return found.detach(), present

        def change(optimizer: Optimizer, sums: GradientSum, present: tuple[bool, ...]) -> None:
            sums.give(optimizer.params, present)
            apply(optimizer)

        def evaluate(model: Any, metrics: Sequence[Metric], loss: Any, batch: Any) -> None:
            outputs, targets, found = losses(model, loss, batch)
            measure(metrics, outputs, targets, found)

        def predict(model: Any, batch: Any) -> Any:
            with calor.autocast(low, enabled=half):
                if isinstance(batch, Tensor):
                    return model(batch)
                if isinstance(batch, tuple | list) and len(batch) == 1:
                    return model(batch[0])
                return forward(model, batch)[0]

        if jit:
            self.train = calor.jit(train)
            self.collect = calor.jit(collect)
            self.change = calor.jit(change, static_argnames=("present",))
            self.evaluate = calor.jit(evaluate)
            self.predict = calor.jit(predict)
        else:
            self.train, self.collect, self.change = train, collect, change
            self.evaluate, self.predict = evaluate, predict
