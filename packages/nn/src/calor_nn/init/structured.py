"""Initial values with a structure: orthonormal rows, kernels that pass channels through."""

from __future__ import annotations

import math
from typing import Any

import calor
from calor import Tensor
from calor.errors import ShapeError
from calor_nn.init.distributions import Shape, normal, zeros


def orthogonal(
    shape: Shape,
    gain: float = 1.0,
    *,
    key: Tensor | None = None,
    dtype: Any = None,
    device: Any = None,
) -> Tensor:
    """Return a random matrix with orthonormal rows, or columns if it has more rows than columns.

    Parameters
    ----------
    shape : sequence of int
        Two axes or more; the axes after the first count as one.
    gain : float
        What the matrix is multiplied by; see :func:`gain`.
    key : Tensor, optional
        The key to draw with (`calor.random.key`); the global generator if left out.
    dtype : DType or str, optional
        Its dtype; float32 by default.
    device : Device or str, optional
        Where it lives; the default device if left out.

    Returns
    -------
    Tensor
        The matrix in this shape.

    Raises
    ------
    ShapeError
        If the shape has fewer than two axes.

    References
    ----------
    - Saxe et al., "Exact Solutions to the Nonlinear Dynamics of Learning in Deep Linear Neural
      Networks", 2013.
    - Mezzadri, "How to Generate Random Matrices from the Classical Compact Groups", 2007.

    Examples
    --------
    >>> from calor import nn
    >>> w = nn.init.orthogonal((2, 4))
    >>> bool(calor.allclose(w @ w.T, calor.eye(2), atol=1e-5))
    True
    """
    if len(shape) < 2:
        raise ShapeError(f"orthogonal: shape {tuple(shape)} must have 2 axes or more")
    rows, columns = shape[0], math.prod(shape[1:])
    tall = (max(rows, columns), min(rows, columns))
    drawn = normal(tall, key=key, dtype=dtype, device=device)
    q, r = calor.linalg.qr(drawn)
    # The signs of r's diagonal make the distribution uniform (Mezzadri, 2007).
    q = q * calor.sign(calor.linalg.diagonal(r))
    return calor.reshape((q.T if rows < columns else q) * gain, tuple(shape))


def dirac(shape: Shape, groups: int = 1, *, dtype: Any = None, device: Any = None) -> Tensor:
    """Return a convolution weight that passes its input channels through.

    Parameters
    ----------
    shape : sequence of int
        (O, C / groups, *K), with one to three axes of the kernel.
    groups : int
        The groups of the convolution; each passes through its own channels.
    dtype : DType or str, optional
        Its dtype; float32 by default.
    device : Device or str, optional
        Where it lives; the default device if left out.

    Returns
    -------
    Tensor
        1 at the kernels' centres where input and output channel agree, 0 elsewhere.

    Raises
    ------
    ShapeError
        If the shape does not have 3 to 5 axes, or O does not divide into the groups.

    Examples
    --------
    >>> from calor import nn
    >>> nn.init.dirac((1, 1, 3)).tolist()
    [[[0.0, 1.0, 0.0]]]
    """
    if groups < 1 or not 3 <= len(shape) <= 5 or shape[0] % groups:
        raise ShapeError(
            f"dirac: the shape must be (O, C, *K) with O divisible by {groups} groups, not "
            f"{tuple(shape)}"
        )
    part = shape[0] // groups
    made = zeros(shape, dtype=dtype, device=device)
    centre = tuple(n // 2 for n in shape[2:])
    for group in range(groups):
        for channel in range(min(part, shape[1])):
            made[(group * part + channel, channel, *centre)] = 1.0
    return made
