"""Scaling of the loss, so that small gradients in float16 do not vanish.

Requirements: the interface, the numbers and the saved state are those of `torch.amp.GradScaler`.
A step whose gradients are not finite changes nothing, and that is decided on the device: no number
is read back, so a whole training step is one jitted function.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import calor
from calor import Tensor
from calor.errors import ArgumentError
from calor.transforms.state import Stateful, named_leaves
from calor_train.optimizers import Optimizer
from calor_train.optimizers.group import assign

# An optimizer has a bit of an int32 that is not its sign.
_BITS: Final = 31


class GradScaler(Stateful):
    """Multiplies losses by a scale that adapts, and skips steps with gradients that overflowed.

    After each step the scale is multiplied by `growth_factor` if the last `growth_interval` steps
    were finite, and by `backoff_factor` if this one was not. Bfloat16, which has the range of
    float32, needs none.

    Parameters
    ----------
    init_scale : float
        The first scale.
    growth_factor : float
        Above 1.
    backoff_factor : float
        Within (0, 1).
    growth_interval : int
        Finite steps in a row before the scale grows.
    enabled : bool
        False scales nothing and steps as usual, so that one program serves every precision.
    device : Device or str, optional
        Where its state lives; the default device if left out.

    Raises
    ------
    ArgumentError
        If a number is out of its range.

    References
    ----------
    Micikevicius et al., "Mixed Precision Training", 2018.

    Examples
    --------
    >>> import calor
    >>> from calor import nn, train
    >>> model = nn.Linear(2, 1)
    >>> optimizer, scaler = train.SGD(model, 0.1), train.GradScaler(1024.0)
    >>> @calor.jit
    ... def step(model, optimizer, scaler, x):
    ...     with calor.autocast("float16"):
    ...         loss = (model(x) ** 2).mean()
    ...     scaler.scale(loss).backward()
    ...     scaler.step(optimizer)
    ...     scaler.update()
    ...     optimizer.zero_grad()
    ...     return loss.detach()
    >>> step(model, optimizer, scaler, calor.ones((4, 2))).dtype, scaler.get_scale()
    (calor.float32, 1024.0)
    """

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        *,
        enabled: bool = True,
        device: Any = None,
    ) -> None:
        if not (init_scale > 0 and growth_factor > 1 and 0 < backoff_factor < 1):
            raise ArgumentError(
                f"GradScaler: init_scale {init_scale} must be above 0, growth_factor "
                f"{growth_factor} above 1 and backoff_factor {backoff_factor} within (0, 1)"
            )
        if growth_interval < 1:
            raise ArgumentError(f"GradScaler: growth_interval is {growth_interval}; at least 1")
        self.growth_factor = float(growth_factor)
        self.backoff_factor = float(backoff_factor)
        self.growth_interval = int(growth_interval)
        self.enabled = enabled
        options: dict[str, Any] = {"device": device}
        self.factor = calor.asarray(float(init_scale), dtype=calor.float32, **options)
        self.finite_steps = calor.zeros((), dtype=calor.int32, **options)
        # Whether a gradient since the last update was not finite.
        self.overflowed = calor.zeros((), dtype=calor.bool_, **options)
        # The same of each optimizer, in a bit of its own: one that overflowed holds up no other.
        self.overflows = calor.zeros((), dtype=calor.int32, **options)
        self._unscaled = _Optimizers()

    def scale(self, outputs: Any) -> Any:
        """Return losses multiplied by the scale, in float32.

        Parameters
        ----------
        outputs : Tensor or tree of Tensor
            The losses.

        Returns
        -------
        Tensor or tree of Tensor
            What to call ``backward()`` on.
        """
        if not self.enabled:
            return outputs
        factor = self.factor.detach()
        return calor.tree.map(lambda x: x.astype(_wide(x)) * factor.to(x.device), outputs)

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer's parameters by the scale, before they are clipped.

        Parameters
        ----------
        optimizer : Optimizer
            The optimizer; `step` does this where it was not called.

        Raises
        ------
        ArgumentError
            If it was called for this optimizer since the last `update`.
        """
        if not self.enabled:
            return
        if self._unscaled.holds(optimizer):
            raise ArgumentError(
                "unscale_() was called for this optimizer already; call update() after step()"
            )
        self._unscaled.add(optimizer)
        with calor.no_grad():
            rate = 1.0 / self.factor
            bad = calor.zeros_like(self.overflowed)
            for p in optimizer.params:
                if p.grad is not None:
                    wide = p.grad.astype(_wide(p.grad))
                    bad = bad | ~calor.all(calor.isfinite(wide))
                    p.grad = (wide * rate.to(wide.device)).astype(p.grad.dtype)
            bit = self._unscaled.bit(optimizer)
            others = self.overflows & ~bit
            assign(self.overflows, calor.where(bad, others | bit, others))
            assign(self.overflowed, self.overflowed | bad)

    def step(self, optimizer: Optimizer) -> None:
        """Step an optimizer; nothing changes if a gradient of its parameters is not finite.

        Parameters
        ----------
        optimizer : Optimizer
            The optimizer. Its gradients are unscaled unless they were.
        """
        if not self.enabled:
            optimizer.step()
            return
        if not self._unscaled.holds(optimizer):
            self.unscale_(optimizer)
        with calor.no_grad():
            held = {id(x): x for _, _, _, x in named_leaves(optimizer) if isinstance(x, Tensor)}
            # A number of a traced optimizer keeps the dtype in which the trace holds it.
            before = {number: x.detach().astype(x.dtype, copy=True) for number, x in held.items()}
            optimizer.step()
            bad = (self.overflows & self._unscaled.bit(optimizer)) != 0
            for number, x in held.items():
                after = x.detach().astype(x.dtype)
                assign(x, calor.where(bad.to(x.device), before[number], after))

    def update(self, new_scale: float | None = None) -> None:
        """Adapt the scale to what the steps since the last update met.

        Parameters
        ----------
        new_scale : float, optional
            The scale from now on, in place of the adapted one.

        Raises
        ------
        ArgumentError
            If `new_scale` is not above 0.
        """
        if new_scale is not None and not new_scale > 0:
            raise ArgumentError(f"update: new_scale {new_scale} must be above 0")
        self._unscaled.clear()
        if not self.enabled:
            return
        with calor.no_grad():
            bad, none = self.overflowed.copy(), calor.zeros_like(self.finite_steps)
            steps = calor.where(bad, none, self.finite_steps + 1)
            grows = steps >= self.growth_interval
            grown = calor.where(grows, self.factor * self.growth_factor, self.factor)
            # A scale that would overflow stays.
            grown = calor.where(calor.isfinite(grown), grown, self.factor)
            found = calor.where(bad, self.factor * self.backoff_factor, grown)
            if new_scale is not None:
                found = calor.full_like(self.factor, float(new_scale))
            assign(self.factor, found)
            assign(self.finite_steps, calor.where(grows, none, steps))
            assign(self.overflowed, calor.zeros_like(bad))
            assign(self.overflows, calor.zeros_like(self.overflows))

    def forget(self) -> None:
        """Forget the steps since the last update, of which one ended in an error.

        The scale stays. `unscale_` may be called again for every optimizer.

        Examples
        --------
        >>> import calor
        >>> from calor import train
        >>> w = calor.ones(1, requires_grad=True)
        >>> optimizer, scaler = train.SGD([w], 0.1), train.GradScaler()
        >>> scaler.unscale_(optimizer)
        >>> scaler.forget()
        >>> scaler.unscale_(optimizer)
        """
        self._unscaled.clear()
        with calor.no_grad():
            for held in (self.overflowed, self.overflows):
                assign(held, calor.zeros_like(held))

    def get_scale(self) -> float:
        """Return the scale, which is read back from the device.

        Returns
        -------
        float
            The scale; 1 if not enabled.
        """
        scale: Any = self.factor.item()
        return float(scale) if self.enabled else 1.0

    def is_enabled(self) -> bool:
        """Return whether losses are scaled.

        Returns
        -------
        bool
            What was given as `enabled`.
        """
        return self.enabled

    def state_dict(self) -> dict[str, Any]:
        """Return scale, factors and progress, laid out as in PyTorch.

        Returns
        -------
        dict of str to Any
            Empty if not enabled.
        """
        if not self.enabled:
            return {}
        tracker: Any = self.finite_steps.item()
        return {
            "scale": self.get_scale(),
            "growth_factor": self.growth_factor,
            "backoff_factor": self.backoff_factor,
            "growth_interval": self.growth_interval,
            "_growth_tracker": int(tracker),
        }

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` returned.

        Raises
        ------
        ArgumentError
            If it is the state of a scaler that was not enabled.
        """
        if not self.enabled:
            return
        if not state_dict:
            raise ArgumentError("the state is of a scaler that was not enabled; make one likewise")
        self.growth_factor = float(state_dict["growth_factor"])
        self.backoff_factor = float(state_dict["backoff_factor"])
        self.growth_interval = int(state_dict["growth_interval"])
        assign(self.factor, calor.full_like(self.factor, float(state_dict["scale"])))
        tracker = int(state_dict["_growth_tracker"])
        assign(self.finite_steps, calor.full_like(self.finite_steps, tracker))


class _Optimizers:
    """The optimizers whose gradients were unscaled; no state of a jitted function."""

    def __init__(self) -> None:
        self.numbers: set[int] = set()
        self.places: dict[int, int] = {}

    def holds(self, optimizer: Optimizer) -> bool:
        return id(optimizer) in self.numbers

    def add(self, optimizer: Optimizer) -> None:
        self.numbers.add(id(optimizer))

    def bit(self, optimizer: Optimizer) -> int:
        """Return an optimizer's bit, which stays its own, as programs that were traced hold it."""
        number = id(optimizer)
        if number not in self.places:
            self.places[number] = self._place()
        return 1 << self.places[number]

    def _place(self) -> int:
        """Return a place that is free, or that of an optimizer whose step is over."""
        if len(self.places) < _BITS:
            return len(self.places)
        over = next((n for n in self.places if n not in self.numbers), None)
        if over is None:
            raise ArgumentError(
                f"a GradScaler serves {_BITS} optimizers between two updates; make another one"
            )
        return self.places.pop(over)

    def clear(self) -> None:
        self.numbers.clear()


def _wide(x: Tensor) -> Any:
    return calor.float32 if x.dtype.itemsize == 2 else x.dtype
