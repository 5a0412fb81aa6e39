"""What of an entry's results is compared, where the results themselves are not unique.

Each function takes the results of PyTorch or of calor, and works with the operators of both.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import torch

import calor


def _first(made: Any) -> Any:
    return made[0]


def _svd(made: Any) -> Any:
    """The signs of singular vectors are free."""
    u, s, vh = made
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ vh[..., :k, :]


def _old_svd(made: Any) -> Any:
    u, s, v = made
    k = s.shape[-1]
    return s, (u[..., :k] * s[..., None, :]) @ v[..., :k].mT.conj()


def _eigh(made: Any) -> Any:
    w, v = made
    return w, (v * w[..., None, :]) @ v.mT.conj()


def _eig(made: Any) -> Any:
    """Eigenvectors are unique but for a factor."""
    w, v = made
    inverse = torch.linalg.inv if isinstance(v, torch.Tensor) else calor.linalg.inv
    return (*_powers(w), (v * w[..., None, :]) @ inverse(v))


def _powers(w: Any) -> Any:
    """Eigenvalues have no order: their sums of powers are compared."""
    return tuple(_sum(t) for t in (w, w * w, w * w * w))


def _sum(t: Any) -> Any:
    return t.sum(-1) if isinstance(t, torch.Tensor) else t.sum(axis=-1)


# The order of equal elements is not fixed, so their indices are not compared.
INVARIANTS: Final[dict[str, Callable[[Any], Any]]] = {
    "sort": _first, "topk": _first, "kthvalue": _first, "mode": _first,
    "median": lambda made: made[0] if isinstance(made, tuple) else made,
    "nanmedian": lambda made: made[0] if isinstance(made, tuple) else made,
    "max/reduction_with_dim": _first, "min/reduction_with_dim": _first,
    "linalg.svd": _svd, "svd": _old_svd, "linalg.eigh": _eigh,
    "linalg.eig": _eig, "linalg.eigvals": lambda w: _powers(w),
    "svd_lowrank": _old_svd, "pca_lowrank": _old_svd,
    **dict.fromkeys(("native_batch_norm", "_native_batch_norm_legit", "_batch_norm_with_update"),
                    lambda made: made[0] if isinstance(made, tuple | list) else made),
    "linalg.lstsq": _first, "linalg.lstsq/grad_oriented": _first,
}  # fmt: skip
# Entries of matrices that are Hermitian: both get the Hermitian part of a sample, and the Hermitian
# parts of gradients are compared.
HERMITIAN: Final = frozenset((
    "linalg.eigh", "linalg.eigvalsh", "linalg.pinv/hermitian", "linalg.matrix_rank/hermitian",
    "cholesky", "linalg.cholesky", "linalg.cholesky_ex",
))  # fmt: skip
