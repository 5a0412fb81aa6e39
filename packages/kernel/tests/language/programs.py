"""Programs that mean the same in Python and in a kernel: Python itself says what is right.

Each takes ``y`` to write into, ``x`` to read from, ``n``, a number of the device, and ``make``,
which returns an array of zeros with indices known at build time.
"""

# The programs try what people write, not what a linter likes.
# ruff: noqa: B007, RUF021, SIM222, SIM113

from __future__ import annotations

from .program_table import program


# Branches.
@program
def if_else(y, x, n, *, make):
    if n > 2:
        r = n * 2
    else:
        r = n - 1
    y[0] = r


@program
def if_alone(y, x, n, *, make):
    r = 7
    if n > 2:
        r = n
    y[0] = r


@program
def elif_chain(y, x, n, *, make):
    if n == 0:
        r = 10
    elif n == 1:
        r = 20
    elif n == 2:
        r = x[1]
    else:
        r = 40
    y[0] = r


@program
def nested_ifs(y, x, n, *, make):
    a = b = 0
    if n > 0:
        a = 1
        if x[0] > 3:
            b = n
        else:
            a = x[1]
            if n == 2:
                b = -1
    y[0] = a
    y[1] = b


@program
def if_of_the_build(y, x, n, *, make):
    flag = True
    if flag and not False:
        y[0] = n
    elif n > 3:
        y[0] = 9
    if None is not None:
        y[1] = 1


@program
def stores_in_branches(y, x, n, *, make):
    if n > 1:
        y[n] = 5
    else:
        pass
    if n < 2:
        y[3] = x[n]


@program
def name_of_one_branch(y, x, n, *, make):
    if n > 1:
        t = n * n
        y[0] = t
    t = 3
    y[1] = t


@program
def value_or_number(y, x, n, *, make):
    a, b = 3, 3
    if n > 1:
        a = n
    if n > 2:
        b = 3
    y[0] = a
    y[1] = b + 1


@program
def condition_with_a_name(y, x, n, *, make):
    small = n < 3
    odd = n % 2 == 1
    if small:
        y[0] = 1
    if odd & small:
        y[1] = 2
    if odd or not small:
        y[2] = 3


# Conditions.
@program
def ternary(y, x, n, *, make):
    y[0] = n if n > 2 else 2 - n
    y[1] = 1 if n == 0 else 2 if n == 1 else x[n]
    y[2] = 5 if make else n


@program
def logic(y, x, n, *, make):
    y[0] = 1 if n > 0 and n < 5 else 0
    y[1] = 1 if n == 0 or n == 5 else 0
    y[2] = 1 if not (n > 0 and not n > 4) else 0
    y[3] = 1 if n > 0 and x[0] > 1 and n < 3 or n == 5 else 0
    y[4] = 1 if True and n > 1 else 0
    y[5] = 1 if n > 1 and True else 0
    y[6] = 1 if n > 1 or True else 0
    y[7] = 1 if False or n > 1 else 0


@program
def chained_comparison(y, x, n, *, make):
    y[0] = 1 if 0 < n < 5 else 0
    y[1] = 1 if 0 <= n <= x[0] < 10 else 0
    y[2] = 1 if 1 < 2 < 3 else 0
    y[3] = 1 if n == n != 3 else 0


@program
def guarded_read(y, x, n, *, make):
    i = n * 3
    y[0] = 1 if i < 7 and x[i] > 2 else 0
    y[1] = 1 if i >= 7 or x[i] > 2 else 0
    if n != 0 and 12 // n > 4:
        y[2] = 1


@program
def guarded_walk(y, x, n, *, make):
    i = 0
    while i < 8 and x[i] != n:
        i += 1
    y[0] = i


# Loops.
@program
def total(y, x, n, *, make):
    t = 0
    for i in range(n):
        t += x[i]
    y[0] = t


@program
def ranges(y, x, n, *, make):
    a = b = c = d = 0
    for i in range(2, n):
        a += i
    for i in range(n, 0, -1):
        b = b * 3 + i
    for i in range(n - 1, -1, -2):
        c = c * 3 + x[i]
    for i in range(0, n * 3, n + 1):
        d = d * 5 + i
    y[0] = a
    y[1] = b
    y[2] = c
    y[3] = d


@program
def nested_loops(y, x, n, *, make):
    best = -1
    for i in range(n):
        row = 0
        for j in range(i):
            row += x[j] * i
        if row > best:
            best = row
        y[i] = row
    y[7] = best


@program
def triangle_of_locals(y, x, n, *, make):
    out = 0
    for i in range(n):
        a = 0
        for j in range(n):
            b = 0
            for k in range(j):
                b = b + k * i
            a = max(a, b)
        out = out + a
    y[0] = out


@program
def no_round_keeps_values(y, x, n, *, make):
    a, b = 5, x[0]
    for i in range(n, n):
        a = i
        b = b + a
    y[0] = a
    y[1] = b


@program
def fibonacci(y, x, n, *, make):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    y[0] = a


@program
def rotation(y, x, n, *, make):
    a, b, c = 1, 2, 3
    for i in range(n):
        a, b, c = c, a, b
        y[i] = a
    y[7] = a * 100 + b * 10 + c


@program
def swap_of_device_values(y, x, n, *, make):
    a, b = x[0], x[1]
    for i in range(n):
        a, b = b, a
    y[0] = a
    y[1] = b


@program
def last_of_several(y, x, n, *, make):
    found = False
    where = -1
    for i in range(n):
        if x[i] == 4:
            found = True
            where = i
        found = found or x[i] == 1
    y[0] = 1 if found else 0
    y[1] = where


@program
def changes_from_invariant(y, x, n, *, make):
    a = 1
    k = x[2]
    for i in range(n):
        a = k
    y[0] = a


@program
def set_before_read(y, x, n, *, make):
    t = 100
    for i in range(n):
        t = x[i]
        t = t + 1
        y[i] = t


@program
def number_local_to_the_body(y, x, n, *, make):
    acc = make((3,))
    for i in range(n):
        k = 0
        for j in range(3):
            acc[k] = acc[k] + i
            k += 1
    y[0] = acc[0]
    y[1] = acc[2]


@program
def structure_local_to_the_body(y, x, n, *, make):
    parts = (1,)
    for i in range(n):
        parts = (i, i + 1)
        a, b = parts
        y[i] = a * b
    y[7] = n


@program
def shadowed_names(y, x, n, *, make):
    i = 1
    for j in range(n):
        i = i + j
        for j in range(2):
            i = i + j
    y[0] = i


@program
def loop_variable_after_an_unrolled_loop(y, x, n, *, make):
    i = 9
    for i in range(3):
        y[i] = n
    y[4] = i
    for k, v in enumerate([3, 4]):
        pass
    y[5] = k * v + n


@program
def collatz(y, x, n, *, make):
    steps, v = 0, n + 6
    while v != 1:
        if v % 2 == 0:
            v = v // 2
        else:
            v = 3 * v + 1
        steps += 1
    y[0] = steps


@program
def while_with_arrays(y, x, n, *, make):
    a = make((2,))
    a[0] = n
    while a[0] > 0:
        a[0] = a[0] - 1
        a[1] = a[1] + a[0]
    y[0] = a[1]


@program
def while_of_the_build(y, x, n, *, make):
    k, m = 8, n
    while k > 1:
        k //= 2
        m = m + k
    y[0] = m
    y[1] = k


@program
def while_that_starts_at_build_time(y, x, n, *, make):
    i = 0
    while i < 3:
        i = i + x[0] - x[0] + 1
    y[0] = i


@program
def while_of_a_constant_name(y, x, n, *, make):
    a, k = 0, n + 2
    while a < k:
        a += 2
        k = k
    y[0] = a * 10 + k


@program
def loop_in_branch_in_loop(y, x, n, *, make):
    t = 0
    for i in range(n):
        if x[i] > 1:
            for j in range(i):
                t += x[j]
                if t > 20:
                    t = t - 20
        else:
            t = t + 1
    y[0] = t


# What leaves.
@program
def break_and_continue(y, x, n, *, make):
    t = n
    for j in range(10):
        if j == 1:
            continue
        if j > 4:
            break
        t = t + j
    else_ = 0
    while True:
        else_ += 1
        if else_ == 3:
            break
    y[0] = t
    y[1] = else_ + j


def first_above(values, limit):
    for v in values:
        if v > limit:
            return v
    return -1


@program
def return_in_helpers(y, x, n, *, make):
    def pick(kind, a):
        if kind == "double":
            return a * 2
        if kind == "half":
            return a // 2
        return a

    y[0] = pick("double", n)
    y[1] = pick("half", n)
    y[2] = pick("", n)
    y[3] = first_above([1, 5, 9], 3) + n
