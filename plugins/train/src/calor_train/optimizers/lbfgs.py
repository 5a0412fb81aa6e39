"""L-BFGS: Newton's method with a Hessian of the last steps, which evaluates the loss itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, Final, Literal

import calor
from calor import Tensor
from calor.errors import ArgumentError, DTypeError
from calor_train.optimizers.base import Optimizer, Parameters
from calor_train.optimizers.group import ParameterGroup, assign
from calor_train.optimizers.line_search import Point, search
from calor_train.optimizers.working import enter, leave

LineSearch = Literal["strong_wolfe"]
# The least product of a step and its change of the gradient that enters the history.
_CURVED: Final = 1e-10
_VECTORS: Final = ("d", "prev_flat_grad")
_LISTS: Final = ("old_dirs", "old_stps", "ro")
_NUMBERS: Final = ("func_evals", "n_iter", "t", "H_diag", "prev_loss")


class LBFGSGroup(ParameterGroup):
    """The parameters of L-BFGS, as one vector, with the history of its steps."""

    dynamic = ("lr",)
    optional = ()
    pairs = True

    def __init__(
        self,
        params: Sequence[Tensor],
        names: Sequence[str],
        *,
        max_iter: int,
        max_eval: int | None,
        history_size: int,
        line_search_fn: LineSearch | None,
        **options: Any,
    ) -> None:
        self.max_iter = max_iter
        self.max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        self.history_size = history_size
        for name in ("max_iter", "max_eval", "history_size"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise ArgumentError(f"LBFGS: {name} must be a whole number above 0")
        if line_search_fn not in (None, "strong_wolfe"):
            raise ArgumentError(
                f"LBFGS: line_search_fn must be 'strong_wolfe' or None, not {line_search_fn!r}"
            )
        self.line_search_fn = line_search_fn
        for name, p in zip(names, params, strict=True):
            if p.dtype is not params[0].dtype or p.device is not params[0].device:
                raise DTypeError(
                    f"LBFGS: parameter {name!r} is {p.dtype.name} on {p.device.name}, the first "
                    f"one {params[0].dtype.name} on {params[0].device.name}; all are one vector"
                )
        for name in ("tolerance_grad", "tolerance_change"):
            setattr(self, name, self.checked(name, options.pop(name)))
        super().__init__(
            params, names, slots=(), counted=False, maximize=False, master_weights=False,
            state_dtype=None, **options,
        )  # fmt: skip

    tolerance_grad: float
    tolerance_change: float

    def hyperparameters(self) -> tuple[str, ...]:
        """Return the names that ``state_dict`` holds."""
        return (
            "lr", "max_iter", "max_eval", "tolerance_grad", "tolerance_change", "history_size",
            "line_search_fn",
        )  # fmt: skip

    def vector(self) -> Tensor:
        """Return the parameters as one vector."""
        return calor.concat([enter(p.detach(), True).reshape((-1,)) for p in self.params])

    def gradient(self) -> Tensor:
        """Return the gradients as one vector; those that are missing are zero."""
        parts = [calor.zeros_like(p) if p.grad is None else p.grad for p in self.params]
        made = calor.concat([enter(g.detach(), True).reshape((-1,)) for g in parts])
        calor.eval(made)
        return made

    def put(self, vector: Tensor) -> None:
        """Give the parameters the values of a vector."""
        first = 0
        for p in self.params:
            shape = (*p.shape, 2) if p.dtype.is_complex else p.shape
            part = vector[first : first + prod(shape)].reshape(shape)
            assign(p, leave(part, p, True))
            first += prod(shape)
        calor.eval(*self.params)


class LBFGS(Optimizer):
    """L-BFGS: steps along −H · g, with an inverse Hessian H from the last steps.

    A call of `step(closure)` does up to `max_iter` steps, each of which evaluates the closure: at
    once with the rate `lr`, or in a line search until the loss and its slope have decreased enough
    (the strong Wolfe conditions). It is meant for whole data sets and few parameters, whose losses
    have no noise. The closure may be a jitted function; the step itself, whose course depends on
    losses, may not. Names, defaults and formulas are those of torch.optim.LBFGS.

    Parameters
    ----------
    params : Module, iterable of Tensor or one dict in a list
        The parameters, in one group, of one dtype and device.
    lr : float
        The rate of steps, and the first length that a line search tries.
    max_iter : int
        The most steps of a call.
    max_eval : int, optional
        The most evaluations of a call; by default 5 / 4 of `max_iter`.
    tolerance_grad : float
        A largest element of the gradient that ends the call.
    tolerance_change : float
        A change of parameters or of the loss that ends the call.
    history_size : int
        How many steps the Hessian is made of, each of which takes the memory of two gradients.
    line_search_fn : {"strong_wolfe"}, optional
        The line search. By default steps have the rate `lr`.

    Raises
    ------
    ArgumentError
        If there are no parameters, several groups, or a number is out of its range.
    DTypeError
        If parameters have several dtypes or devices.
    GradientError
        If a parameter is computed from other tensors.

    References
    ----------
    Nocedal and Wright, "Numerical Optimization", 2006, algorithms 7.4, 3.5 and 3.6.

    Examples
    --------
    >>> import calor
    >>> from calor_train import LBFGS
    >>> w = calor.zeros(2, requires_grad=True)
    >>> optimizer = LBFGS([w], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = ((w - calor.asarray([1.0, -2.0])) ** 2 * calor.asarray([1.0, 10.0])).sum()
    ...     loss.backward()
    ...     return loss
    >>> optimizer.step(closure).item()
    41.0
    >>> [round(x, 3) for x in w.tolist()]
    [1.0, -2.0]
    """

    group_type = LBFGSGroup

    def __init__(
        self,
        params: Parameters,
        lr: float = 1.0,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: LineSearch | None = None,
    ) -> None:
        super().__init__(
            params,
            {
                "lr": lr,
                "max_iter": max_iter,
                "max_eval": max_eval,
                "tolerance_grad": tolerance_grad,
                "tolerance_change": tolerance_change,
                "history_size": history_size,
                "line_search_fn": line_search_fn,
            },
        )
        self.history: dict[str, Any] = {"func_evals": 0, "n_iter": 0}

    def add_param_group(self, options: Mapping[str, Any]) -> None:
        """Add the only group of parameters.

        Parameters
        ----------
        options : mapping of str to Any
            The parameters under "params", and hyper-parameters by name.

        Raises
        ------
        ArgumentError
            If there is a group already.
        """
        if self.param_groups:
            raise ArgumentError("LBFGS: all parameters are one group; pass them in one iterable")
        super().add_param_group(options)

    def update(self, model: Any, grads: Any) -> None:
        """Refuse: a step needs gradients of other points than the present one.

        Parameters
        ----------
        model : Any
            The model.
        grads : Any
            Gradients at the present point.

        Raises
        ------
        ArgumentError
            In any case.
        """
        raise ArgumentError("LBFGS evaluates the loss itself; call step(closure)")

    def step(self, closure: Callable[[], Tensor] | None = None) -> Tensor:  # type: ignore[override]
        """Do up to `max_iter` steps.

        Parameters
        ----------
        closure : callable
            Drops the gradients, computes the loss, calls its `backward()` and returns it.

        Returns
        -------
        Tensor
            The loss before the first step.

        Raises
        ------
        ArgumentError
            If there is no closure.
        """
        if closure is None:
            raise ArgumentError(
                "LBFGS: step needs a closure that computes the loss and its gradients anew; call "
                "step(closure) in a loop of your own"
            )
        run = _Run(self.param_groups[0], self.history, closure)
        with calor.no_grad():
            return run.steps()

    def state_dict(self) -> dict[str, Any]:
        """Return copies of history and hyper-parameters, laid out as in PyTorch.

        Returns
        -------
        dict of str to Any
            The keys "state", whose entry "0" is the history, and "param_groups".
        """
        made = super().state_dict()
        made["state"]["0"] = {name: _copied(value) for name, value in self.history.items()}
        return made

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Restore a state, for the same parameters in the same order.

        Parameters
        ----------
        state_dict : mapping of str to Any
            What `state_dict` returned.

        Raises
        ------
        ArgumentError
            If hyper-parameters or parameters differ; nothing is changed.
        """
        state = {str(k): v for k, v in state_dict["state"].items()}
        saved = dict(state.get("0", {}))
        unknown = sorted(set(saved) - {*_VECTORS, *_LISTS, *_NUMBERS})
        group: Any = self.param_groups[0]
        like: Tensor = group.vector()
        vectors = [saved[n] for n in _VECTORS if n in saved]
        vectors += [v for n in ("old_dirs", "old_stps") for v in saved.get(n, ())]
        if unknown or any(tuple(v.shape) != like.shape for v in vectors):
            what = (
                f"it holds {unknown}" if unknown else f"vectors of other lengths than {like.size}"
            )
            raise ArgumentError(f"the saved state is of another optimizer: {what}")

        def own(v: Any) -> Tensor:
            return calor.asarray(v, dtype=like.dtype, device=like.device).copy()

        empty: dict[str, Any] = {str(n): {} for n in range(len(group.params))}
        super().load_state_dict({**state_dict, "state": empty})
        history: dict[str, Any] = {"func_evals": 0, "n_iter": 0}
        for name, value in saved.items():
            if name in _VECTORS:
                history[name] = own(value)
            elif name in ("old_dirs", "old_stps"):
                history[name] = [own(v) for v in value]
            else:
                history[name] = [float(v) for v in value] if name == "ro" else value
        self.history = history


def _copied(value: Any) -> Any:
    """Return a vector, a list or a number of the history, apart from the history."""
    if isinstance(value, list):
        return [_copied(v) for v in value]
    return value.copy() if isinstance(value, Tensor) else value


class _Run:
    """One call of a step: the loss and gradient at the present point, and the history."""

    def __init__(self, group: Any, history: dict[str, Any], closure: Callable[[], Tensor]) -> None:
        self.group, self.history, self.closure = group, history, closure
        self.evaluations = 0

    def evaluate(self) -> tuple[Tensor, Tensor]:
        """Return the loss and the gradient of the present parameters."""
        with calor.enable_grad():
            loss = self.closure()
        self.evaluations += 1
        self.history["func_evals"] += 1
        return loss.detach(), self.group.gradient()

    def steps(self) -> Tensor:
        """Do the steps of a call; return the first loss."""
        group, history = self.group, self.history
        first, grad = self.evaluate()
        loss = _number(first)
        if _largest(grad) <= group.tolerance_grad:
            return first
        for number in range(1, group.max_iter + 1):
            history["n_iter"] += 1
            d = self.direction(grad)
            history["prev_flat_grad"], history["prev_loss"] = grad, loss
            t = float(group.lr)
            if history["n_iter"] == 1:
                t *= min(1.0, 1.0 / _number(calor.abs(grad).sum()))
            history["d"], history["t"] = d, t
            slope = _dot(grad, d)
            if slope > -group.tolerance_change:
                break
            before = loss
            loss, grad, t = self.move(d, t, loss, grad, slope, number == group.max_iter)
            history["t"] = t
            if (
                number == group.max_iter
                or self.evaluations >= group.max_eval
                or _largest(grad) <= group.tolerance_grad
                or _largest(d) * abs(t) <= group.tolerance_change
                or abs(loss - before) < group.tolerance_change
            ):
                break
        return first

    def direction(self, grad: Tensor) -> Tensor:
        """Return −H · g by the two loops over the history, which gets the last step."""
        history, group = self.history, self.group
        if history["n_iter"] == 1:
            history.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -grad
        dirs, stps, ro = (history[name] for name in _LISTS)
        y, s = grad - history["prev_flat_grad"], history["d"] * history["t"]
        curved = _dot(y, s)
        if curved > _CURVED:
            if len(dirs) == group.history_size:
                for held in (dirs, stps, ro):
                    held.pop(0)
            dirs.append(y)
            stps.append(s)
            ro.append(1.0 / curved)
            history["H_diag"] = curved / _dot(y, y)
        q, shares = -grad, []
        for y, s, r in zip(reversed(dirs), reversed(stps), reversed(ro), strict=True):
            shares.append(_dot(s, q) * r)
            q = q - y * shares[-1]
        d: Tensor = q * history["H_diag"]
        for y, s, r, share in zip(dirs, stps, ro, reversed(shares), strict=True):
            d = d + s * (share - _dot(y, d) * r)
        calor.eval(d)
        return d

    def move(
        self, d: Tensor, t: float, loss: float, grad: Tensor, slope: float, last: bool
    ) -> tuple[float, Tensor, float]:
        """Move the parameters along a direction; return loss and gradient there, and the length."""
        group = self.group
        x: Tensor = group.vector()
        if group.line_search_fn is None:
            group.put(x + d * t)
            if last:
                # What follows the last step is the next call's.
                return loss, grad, t
            value, grad = self.evaluate()
            return _number(value), grad, t

        def at(length: float) -> Point:
            group.put(x + d * length)
            value, g = self.evaluate()
            return Point(length, _number(value), g, _dot(g, d))

        most = group.max_eval - self.evaluations
        # What a search may be too short for is a length of nearly nothing.
        least = 1e-9 / max(_largest(d), 1e-300)
        found, _ = search(at, Point(0.0, loss, grad, slope), t, least, most)
        group.put(x + d * found.length)
        return found.loss, found.grad, found.length


def _number(x: Tensor) -> float:
    value: Any = x.item()
    return float(value)


def _dot(a: Tensor, b: Tensor) -> float:
    return _number((a * b).sum())


def _largest(x: Tensor) -> float:
    return _number(calor.max(calor.abs(x))) if x.size else 0.0
