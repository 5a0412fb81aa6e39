"""Eigenvalues and eigenvectors of symmetric matrices by Jacobi rotations, two launches.

Requirements: a cube has a matrix, in shared memory if it fits. A round rotates disjoint pairs of
rows and columns, and every pair meets once in a sweep (Brent and Luk, "The solution of
singular-value and symmetric eigenvalue problems on multiprocessor arrays", 1985). The elements in
two pairs of rows and columns change together, so that a round waits for all units twice. Sweeps
repeat until what they remove is below rounding; a matrix that is not finite gives NaN. Rotations
are kept, and many cubes apply them to the rows of the eigenvectors, which do not depend on each
other.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, nan

import numpy as np

from calor.dtypes import DType, int32
from calor_kernel import language as kl
from calor_kernel.library.linalg.joins import Joined, joined, joined_size
from calor_kernel.library.linalg.matrices import keep_registers

# Sweeps at most; they converge quadratically, in 6 to 10.
SWEEPS = 20
# Rounds whose rotations a unit loads together.
_ROUNDS = 8


@dataclass(frozen=True, slots=True)
class JacobiPlan:
    """Matrices of up to ``room`` rows, an even number, by cubes of ``units`` units.

    ``inside``: matrices are in shared memory.
    """

    room: int
    units: int
    inside: bool

    @property
    def pitch(self) -> int:
        """The elements from row to row."""
        return self.room + 1

    @property
    def size(self) -> int:
        """The elements of a matrix."""
        return self.room * self.pitch

    def shared(self) -> tuple[int, ...]:
        """Return the elements of the pieces of shared memory, without the numbers of pairs."""
        pieces = (self.room // 2,) * 3 + (self.room, joined_size(self.units))
        return (self.size, *pieces) if self.inside else pieces


@dataclass(frozen=True, slots=True)
class Pairs:
    """The pairs of a round: rows p and q, cosine, sine, and the change of their eigenvalues."""

    p: kl.Pointer
    q: kl.Pointer
    cosines: kl.Pointer
    sines: kl.Pointer
    changes: kl.Pointer

    def rows(self, pair: kl.Index, dtype: DType) -> tuple[kl.Number, kl.Number]:
        """Return both rows of a pair."""
        return self.p[pair].to(dtype), self.q[pair].to(dtype)

    def rotation(self, pair: kl.Index) -> tuple[kl.Number, kl.Number]:
        """Return cosine and sine."""
        return self.cosines[pair], self.sines[pair]


@dataclass(frozen=True, slots=True)
class Square:
    """A symmetric matrix, of which the lower triangle is stored."""

    memory: kl.Pointer
    base: kl.Index
    pitch: int

    def at(self, row: kl.Index, column: kl.Index) -> kl.Index:
        """Return where an element is."""
        return self.base + kl.max(row, column) * self.pitch + kl.min(row, column)


@kl.kernel
def jacobi_values(
    x: kl.In,
    work: kl.InOut | None,
    values: kl.Out,
    turns: kl.Out,
    ranks: kl.Out,
    n: kl.Size,
    *,
    plan: JacobiPlan,
) -> None:
    """Write the eigenvalues of a matrix in ascending order, and its rotations to ``turns``.

    ``ranks``: the place of each eigenvalue in that order, and behind them the number of sweeps.
    ``work``: memory for a matrix where shared memory holds none. Only the lower triangle is read.
    An odd number of rows gets one of zeros.
    """
    keep_registers()
    dtype, unit, units, batch = x.dtype, kl.unit_index(), plan.units, kl.cube_position()
    half = (n + 1) // 2
    if plan.inside:
        base, rows = 0 * batch, kl.shared(plan.size, dtype)
    else:
        assert work is not None
        base, rows = batch * plan.size, work
    square = Square(rows, base, plan.pitch)
    lines = [kl.shared(plan.room // 2, dtype) for _ in range(3)]
    pairs = Pairs(kl.shared(plan.room // 2, int32), kl.shared(plan.room // 2, int32), *lines)
    places = kl.shared(plan.room, dtype)
    team = joined(units, dtype)
    source = batch * n * n
    largest = kl.constant(0.0, dtype)
    for i in kl.loop_range(unit, n * n, units):
        if i % n <= i // n:
            largest = kl.max(largest, abs(x[source + i]))
    largest = team.of(largest, "max")
    scale = kl.select((largest > 0.0) & (largest < inf), largest, 1.0)
    for i in kl.loop_range(unit, 4 * half * half, units):
        row, column = i // (2 * half), i % (2 * half)
        value = kl.constant(0.0, dtype)
        if (column <= row) & (row < n):
            value = x[source + row * n + column] / scale
        if column <= row:
            rows[square.at(row, column)] = value
    kl.barrier()
    away, whole = weights(square, n, team)
    epsilon = float(np.finfo(dtype.numpy).eps)
    limit = whole * (epsilon * epsilon)
    sweep = kl.constant(0, int32)
    rounds = 2 * half - 1
    while (away > limit) & (sweep < SWEEPS):
        for turn in kl.loop_range(0, rounds):
            choose(square, pairs, turn, half, units)
            kl.barrier()
            at = turns_of(batch, sweep.to(unit.dtype) * rounds + turn, half)
            for k in kl.loop_range(unit, half, units):
                turns[at + 2 * k], turns[at + 2 * k + 1] = pairs.cosines[k], pairs.sines[k]
            rotate(square, pairs, half, units)
            kl.barrier()
        away, whole = weights(square, n, team)
        sweep = sweep + 1
    # 0, and NaN where the matrix is not finite.
    spoilt = limit - limit
    for i in kl.loop_range(unit, n, units):
        places[i] = rows[square.at(i, i)]
    kl.barrier()
    for i in kl.loop_range(unit, n, units):
        value, rank = places[i], kl.constant(0, int32)
        for j in kl.loop_range(0, n):
            other = places[j]
            before = (other < value) | ((other == value) & (j < i))
            rank = kl.select(before, rank + 1, rank)
        rank = kl.select(spoilt == 0.0, rank, i.to(int32))
        values[batch * n + rank.to(unit.dtype)] = value * scale + spoilt
        ranks[batch * (n + 1) + i] = rank
    if unit == 0:
        ranks[batch * (n + 1) + n] = kl.select(spoilt == 0.0, sweep, -1)


def turns_of(batch: kl.Index, turn: kl.Index, half: kl.Index) -> kl.Index:
    """Return where the rotations of a round of a matrix begin."""
    return (batch * (SWEEPS * (2 * half - 1)) + turn) * (2 * half)


@kl.kernel
def jacobi_vectors(
    turns: kl.In,
    ranks: kl.In,
    vectors: kl.Out,
    n: kl.Size,
    tiles: kl.Size,
    *,
    plan: JacobiPlan,
    lines: int,
) -> None:
    """Write some rows of the eigenvectors, which are columns: the identity, rotated.

    A cube has ``lines`` rows, and a unit a pair of columns of all these.
    """
    keep_registers()
    dtype, unit, units, cube = vectors.dtype, kl.unit_index(), plan.units, kl.cube_position()
    batch, first, half = cube // tiles, cube % tiles * lines, (n + 1) // 2
    rows = kl.shared(lines * plan.pitch, dtype)
    for i in kl.loop_range(unit, lines * 2 * half, units):
        line, column = i // (2 * half), i % (2 * half)
        one = kl.select(first + line == column, kl.constant(1.0, dtype), 0.0)
        rows[line * plan.pitch + column] = one
    sweeps = ranks[batch * (n + 1) + n]
    rounds = 2 * half - 1
    end = kl.max(sweeps, 0).to(unit.dtype) * rounds
    for begin in kl.loop_range(0, end, _ROUNDS):
        mine = kl.min(unit, half - 1)
        places = [kl.min(begin + k, end - 1) for k in range(_ROUNDS)]
        starts = [turns_of(batch, place, half) + 2 * mine for place in places]
        loaded = [(turns[at], turns[at + 1]) for at in starts]
        for k in range(_ROUNDS):
            kl.barrier()
            p, q = met((begin + k) % rounds, mine, rounds)
            if (unit < half) & (begin + k < end):
                for line in range(lines):
                    left, right = line * plan.pitch + p, line * plan.pitch + q
                    made = turned(rows[left], rows[right], *loaded[k])
                    rows[left], rows[right] = made[0], made[1]
    kl.barrier()
    for i in kl.loop_range(unit, lines * n, units):
        line, column = i // n, i % n
        if first + line < n:
            place = ranks[batch * (n + 1) + column].to(unit.dtype)
            value = kl.select(sweeps < 0, nan, rows[line * plan.pitch + column])
            vectors[(batch * n + first + line) * n + place] = value


def met(turn: kl.Number, pair: kl.Number, rounds: kl.Number) -> tuple[kl.Number, kl.Number]:
    """Return the rows that are a pair in a round."""
    p, q = (turn + pair) % rounds, (turn + rounds - pair) % rounds
    return p, kl.select(pair == 0, rounds, q)


def turned(
    a: kl.Number, b: kl.Number, cosine: kl.Number, sine: kl.Number
) -> tuple[kl.Number, kl.Number]:
    """Return two numbers rotated."""
    return a * cosine - b * sine, a * sine + b * cosine


@kl.helper
def weights(square: Square, n: kl.Number, team: Joined) -> tuple[kl.Number, kl.Number]:
    """Return the sums of the squares of the elements off the diagonal, and of all."""
    dtype = square.memory.dtype
    away, middle = kl.constant(0.0, dtype), kl.constant(0.0, dtype)
    for i in kl.loop_range(kl.unit_index(), n * n, team.units):
        row, column = i // n, i % n
        value = square.memory[square.at(row, column)]
        if row == column:
            middle = middle + value * value
        else:
            away = away + value * value
    away = team.of(away, "add")
    kl.barrier()
    return away, away + team.of(middle, "add")


@kl.helper
def choose(square: Square, pairs: Pairs, turn: kl.Number, half: kl.Number, units: int) -> None:
    """Write the pairs of a round, and the rotations that make their elements diagonal.

    Golub and Van Loan, 8.5.2: the eigenvalues are α − t·|g| and β + t·|g|.
    """
    rows, dtype = square.memory, square.memory.dtype
    limits = np.finfo(dtype.numpy)
    least = float(limits.tiny / limits.eps)
    for k in kl.loop_range(kl.unit_index(), half, units):
        p, q = met(turn, k, 2 * half - 1)
        alpha, beta, g = (rows[square.at(*at)] for at in ((p, p), (q, q), (p, q)))
        size = abs(g)
        felt = size > least
        ratio = (beta - alpha) / (kl.select(felt, size, 1.0) * 2.0)
        root = abs(ratio) + kl.sqrt(ratio * ratio + 1.0)
        # Numbers alone would be of float32.
        one = kl.constant(1.0, dtype)
        t = kl.select(felt, kl.select(ratio >= 0.0, one, -one) / root, 0.0)
        cosine = 1.0 / kl.sqrt(t * t + 1.0)
        sine = t * cosine
        pairs.p[k], pairs.q[k] = p.to(int32), q.to(int32)
        pairs.cosines[k], pairs.sines[k] = cosine, kl.select(g < 0.0, -sine, sine)
        pairs.changes[k] = t * size


@kl.helper
def rotate(square: Square, pairs: Pairs, half: kl.Number, units: int) -> None:
    """Rotate rows and columns, by the four elements in two pairs of them.

    Rows of pairs are as long as their number, so one from each end make a line of the same length.
    """
    rows, unit = square.memory, kl.unit_index()
    for item in kl.loop_range(unit, (half + 1) // 2 * (half + 1), units):
        line, place = item // (half + 1), item % (half + 1)
        long = half - line
        upper = place < long
        i = kl.select(upper, half - 1 - line, line)
        j = kl.select(upper, place, place - long)
        # The line in the middle has one row.
        if upper | (2 * line + 1 < half):
            p, q = pairs.rows(i, unit.dtype)
            if i == j:
                change = pairs.changes[i]
                rows[square.at(p, p)] = rows[square.at(p, p)] - change
                rows[square.at(q, q)] = rows[square.at(q, q)] + change
                # What the rotation was made for is set, so that it converges below rounding.
                rows[square.at(p, q)] = kl.constant(0.0, rows.dtype)
            else:
                r, s = pairs.rows(j, unit.dtype)
                places = [square.at(*at) for at in ((p, r), (q, r), (p, s), (q, s))]
                a, b, c, d = (rows[at] for at in places)
                a, b = turned(a, b, *pairs.rotation(i))
                c, d = turned(c, d, *pairs.rotation(i))
                a, c = turned(a, c, *pairs.rotation(j))
                b, d = turned(b, d, *pairs.rotation(j))
                for at, value in zip(places, (a, b, c, d), strict=True):
                    rows[at] = value
