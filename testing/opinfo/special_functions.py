"""Entries of OpInfo for special functions."""

from __future__ import annotations

from typing import Any

from .names import Names, Table

special = Names("calor.special")

_THEIRS = {
    "i0": "i0", "special.i0e": "i0e", "special.i1": "i1", "special.i1e": "i1e",
    "igamma": "gammainc", "igammac": "gammaincc", "special.zeta": "zeta", "special.entr": "entr",
    "special.ndtri": "ndtri", "special.airy_ai": "airy_ai", "special.bessel_j0": "j0",
    "special.bessel_j1": "j1", "special.bessel_y0": "y0", "special.bessel_y1": "y1",
    "special.modified_bessel_i0": "i0", "special.modified_bessel_i1": "i1",
    "special.modified_bessel_k0": "k0", "special.modified_bessel_k1": "k1",
    "special.scaled_modified_bessel_k0": "k0e", "special.scaled_modified_bessel_k1": "k1e",
    "special.spherical_bessel_j0": "spherical_j0",
    **{f"special.{name}": name for name in (
        *(f"{shifted}chebyshev_polynomial_{kind}" for shifted in ("", "shifted_")
          for kind in "tuvw"),
        "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l",
        "legendre_polynomial_p",
    )},
}  # fmt: skip


def _same(name: str) -> Any:
    return lambda *operands: getattr(special, name)(*operands)


def _polygamma(x: Any, n: int) -> Any:
    return special.polygamma(n, x)


TABLE: Table = {
    **{theirs: _same(ours) for theirs, ours in _THEIRS.items()},
    **{f"polygamma/polygamma_n_{n}": _polygamma for n in range(5)},
    "special.polygamma/special_polygamma_n_0": _polygamma,
    **{f"mvlgamma/mvlgamma_p_{p}": lambda x, p: special.multigammaln(x, p) for p in (1, 3, 5)},
}
