"""Connectionist temporal classification: the loss of sequences without alignment."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from calor.dtypes import int64
from calor.errors import ArgumentError, DTypeError, ShapeError
from calor.functions.activation import floating
from calor.functions.manipulation import expand_dims, reshape
from calor.functions.operands import as_tensor, pair, select, single
from calor.functions.statistics import mean
from calor.ops import elementwise as e
from calor.ops.composites import wide
from calor.ops.indexing import take_along
from calor.ops.movement import concat, expand, number_like, pad, slice_
from calor_nn.functional.loss import reduced

if TYPE_CHECKING:
    from calor.tensor.tensor import Operand, Tensor
    from calor_nn.functional.loss import Reduction

# Stands for log 0 where sums of exponentials are taken: far below any log-probability, and finite,
# so that no gradient is inf − inf.
_NEVER = -1e30


def ctc_loss(
    log_probs: Operand,
    targets: Operand,
    input_lengths: Operand,
    target_lengths: Operand,
    *,
    blank: int = 0,
    reduction: Reduction = "mean",
    zero_infinity: bool = False,
) -> Tensor:
    """Return minus the log-probability of label sequences, summed over all alignments.

    Parameters
    ----------
    log_probs : Tensor, ndarray or number
        Log-probabilities, shape (T, N, C); real.
    targets : Tensor, ndarray or number
        Class numbers, shape (N, S); integers. Labels beyond a target's length are not read.
    input_lengths : Tensor, ndarray or number
        How many of the T steps count, shape (N,); integers.
    target_lengths : Tensor, ndarray or number
        How many of the S labels count, shape (N,); integers.
    blank : int
        The class of the blank.
    reduction : {"mean", "sum", "none"}
        "mean" divides each loss by its target's length and averages; "sum" adds the losses; "none"
        returns each of them.
    zero_infinity : bool
        Give a target that is longer than its input allows a loss of 0, and no gradient, in place of
        infinity.

    Returns
    -------
    Tensor
        A scalar, or shape (N,) if `reduction` is "none"; the dtype of `log_probs`, float32 for half
        types.

    Raises
    ------
    ShapeError
        If `log_probs` does not have 3 axes, `targets` does not have 2, or the batch sizes differ.
    DTypeError
        If `targets` or a length is not of an integer dtype, or `log_probs` is complex or float8.
    ArgumentError
        If `blank` is not a class, T is 0, or `reduction` is unknown.

    References
    ----------
    Graves et al., "Connectionist Temporal Classification", 2006.

    Examples
    --------
    >>> import calor
    >>> from calor.nn import functional
    >>> x = calor.log_softmax(calor.zeros((2, 1, 2)))
    >>> lengths = calor.asarray([2]), calor.asarray([1])
    >>> round(functional.ctc_loss(x, calor.asarray([[1]]), *lengths).item(), 4)
    0.2877
    """
    what = "ctc_loss"
    logs: Tensor = wide(floating(log_probs, what))
    targets, inputs, outputs = (
        _whole(t, logs, what) for t in (targets, input_lengths, target_lengths)
    )
    if logs.ndim != 3 or targets.ndim != 2:
        raise ShapeError(
            f"{what}: log_probs {logs.shape} must be (T, N, C) and targets {targets.shape} (N, S)"
        )
    if not targets.shape[0] == inputs.size == outputs.size == logs.shape[1]:
        raise ShapeError(
            f"{what}: log_probs have a batch of {logs.shape[1]}, targets of {targets.shape[0]}, "
            f"lengths of {inputs.size} and {outputs.size}"
        )
    if not 0 <= blank < logs.shape[2] or not logs.shape[0]:
        raise ArgumentError(
            f"{what}: blank {blank} does not fit log_probs {logs.shape}; give a class"
        )
    loss = _losses(logs, targets, inputs, outputs, blank)
    impossible = pair(e.greater, loss, -_NEVER / 2)
    loss = select(impossible, 0.0 if zero_infinity else math.inf, loss)
    if reduction == "mean":
        count = e.cast(pair(e.maximum, outputs, 1), dtype=loss.dtype)
        return mean(pair(e.div, loss, count))
    return reduced(loss, reduction, what)


def _whole(x: Any, like: Tensor, what: str) -> Tensor:
    x = as_tensor(x, like)
    if not x.dtype.is_integer:
        raise DTypeError(f"{what}: targets and lengths must be integers, not {x.dtype.name}")
    made: Tensor = x if x.dtype is int64 else e.cast(x, dtype=int64)
    return made


def _losses(logs: Tensor, targets: Tensor, inputs: Tensor, outputs: Tensor, blank: int) -> Tensor:
    """Return the loss of each sequence by the forward recursion over (blank, label, …, blank)."""
    from calor.functions.ranges import arange
    from calor.transforms.control import scan

    n, labels = targets.shape
    states = 2 * labels + 1
    place = arange(states, device=logs.device)
    inside = pair(e.less, arange(labels, device=logs.device), expand_dims(outputs, 1))
    symbols = _interleaved(select(inside, targets, blank), blank)
    # A label may follow the previous one without a blank between them if the two differ.
    skips = pair(e.not_equal, symbols, _moved(symbols, 2, blank))
    skips = pair(e.bit_and, skips, pair(e.equal, pair(e.remainder, place, 2), 1))
    skips = pair(e.bit_and, skips, pair(e.greater, place, 1))
    # States beyond the target are never entered.
    valid = pair(e.less_equal, place, pair(e.mul, expand_dims(outputs, 1), 2))
    start = select(pair(e.bit_and, pair(e.less, place, 2), valid), 0.0, _NEVER)
    start = e.cast(start, dtype=logs.dtype)
    # What steps add, picked at once: a step is one launch on a GPU, and its gradient has no sums by
    # class.
    steps = logs.shape[0]
    places = expand(expand_dims(symbols, 0), shape=(steps, n, states))
    picked = take_along(logs, places, axis=2)
    added = select(valid, pair(e.maximum, picked, _NEVER), _NEVER)
    times = expand_dims(arange(steps, device=logs.device), (1, 2))
    lives = pair(e.less, times, expand_dims(inputs, 1))

    def behind(alpha: Tensor) -> Tensor:
        """Return the states behind as many that are never entered: shifted ones are parts."""
        made: Tensor = concat(pair(e.minimum, alpha, _NEVER), alpha, axis=1)
        return made

    def step(both: Tensor, x: Any) -> tuple[Tensor, None]:
        row, live = x
        moved = alpha = _part(both, states, states)
        if labels:
            moved = pair(e.logaddexp, alpha, _part(both, states - 1, states))
            skipped = select(skips, _part(both, states - 2, states), _NEVER)
            moved = pair(e.logaddexp, moved, skipped)
        kept = select(live, pair(e.add, moved, row), alpha)
        return behind(pair(e.maximum, kept, 2 * _NEVER)), None

    first = select(lives[0], pair(e.add, start, added[0]), start)
    last, _ = scan(step, behind(first), (added[1:], lives[1:]))
    last = _part(last, states, states)
    end = expand_dims(pair(e.mul, outputs, 2), 1)
    on_blank = take_along(last, end, axis=1)
    on_label = take_along(last, pair(e.maximum, pair(e.sub, end, 1), 0), axis=1)
    on_label = select(pair(e.greater, end, 0), on_label, _NEVER)
    return reshape(single(e.neg, pair(e.logaddexp, on_blank, on_label)), (n,))


def _interleaved(targets: Tensor, blank: int) -> Tensor:
    """Return targets (N, S) as (N, 2 · S + 1) with the blank around each label."""
    if not targets.shape[1]:
        from calor.functions.creation import full

        return full((targets.shape[0], 1), blank, dtype=int64, device=targets.device)
    made: Tensor = pad(
        targets, number_like(targets, blank), low=(0, 1), high=(0, 1), interior=(0, 1)
    )
    return made


def _moved(x: Tensor, by: int, fill: float) -> Tensor:
    """Return x (N, S) shifted to the right by ``by`` elements, filled on the left."""
    wide: Tensor = pad(x, number_like(x, fill), low=(0, by), high=(0, 0), interior=(0, 0))
    return _part(wide, 0, x.shape[1])


def _part(x: Tensor, begin: int, count: int) -> Tensor:
    """Return some columns of x (N, S)."""
    made: Tensor = slice_(x, starts=(0, begin), stops=(x.shape[0], begin + count), steps=(1, 1))
    return made
