"""Sizes that are not known: what they compute, what they ask, and that guards say all of it."""

import random
from math import ceil, prod

import pytest

from calor.sizes import Size, Trace
from calor.varying_sizes import getter
from calor_kernel.contract.choices import choice, exceeds, greatest, hinted, least, nearby
from calor_kernel.contract.work import Build
from calor_kernel.language import FastDivmod
from calor_kernel.planning.template import Numbers, Opened, function_of


@choice()
def tallest(n, most):
    """Return the largest divisor of n up to a limit."""
    return max(k for k in range(1, most + 1) if n % k == 0)


FORMULAS = {
    "sum": lambda a, b: a + 3 * b - 1,
    "product": lambda a, b: a * b * 4 // 4,
    "rounded up": lambda a, b: -(-a // 16) * 16,
    "rounded up by a size": lambda a, b: -(-a * 7 // b),
    "rest": lambda a, b: (a * 8 + b) % 4 + a % 3,
    "rest of a size": lambda a, b: (a * b + 5) % a,
    "shifts": lambda a, b: (a << 3) + (a >> 1) + (b & 7),
    "bits": lambda a, b: (a - 1).bit_length() + (1 << b % 5),
    "power": lambda a, b: a**2 + abs(a - b),
    "shape": lambda a, b: prod((a, b, 2)),
    "extremes": lambda a, b: greatest(a, b, 12) - least(a, 3 * b, 40),
    "bounded extremes": lambda a, b: greatest(1, a) + least(0, b),
    "divisor": lambda a, b: sum(FastDivmod.arguments(a)) + b,
    "choice": lambda a, b: tallest(a * b, 8),
    "branches": lambda a, b: a * 2 if a < b else b * 3 if a * b % 4 else a + b,
    "maximum": lambda a, b: max(a, 9) * min(b, 11),
    "index": lambda a, b: len(range(b)) + a,
    "equal": lambda a, b: 1 if a == b else 2,
    "member": lambda a, b: 5 if a in (4, 8, 16) else a,
    "ceiling": lambda a, b: ceil(a) + round(b),
    "float": lambda a, b: int(a * 0.5) + b,
}


def scope(trace):
    return {f"f{k}": function for k, function in enumerate(trace.functions)}


def atoms(trace, values):
    """Return every atom's value, by name."""
    known = dict(zip((f"a{k}" for k in range(len(values))), values, strict=True))
    for number in range(len(values), len(trace.atoms)):
        known[f"a{number}"] = eval(trace.atoms[number].text, scope(trace), known)
    return known


@pytest.mark.parametrize("name", FORMULAS)
def test_where_guards_hold_a_formula_is_what_python_computes(name):
    formula = FORMULAS[name]
    generator = random.Random(name)
    held = 0
    for _ in range(12):
        hints = [generator.randint(2, 40) for _ in range(2)]
        trace = Trace(hints)
        found = formula(*trace.symbols)
        assert hinted(found) == formula(*hints)
        for _ in range(40):
            values = [generator.choice([h, generator.randint(2, 40)]) for h in hints]
            known = atoms(trace, values)
            if all(eval(guard, {}, known) for guard in trace.guards):
                held += 1
                made = eval(found.text, {}, known) if isinstance(found, Size) else found
                assert made == formula(*values), (hints, values, list(trace.guards))
    assert held >= 12


@pytest.mark.parametrize(
    "question",
    [
        lambda a, b: a * b == b * a,
        lambda a, b: a > 1,
        lambda a, b: a != 0,
        lambda a, b: bool(a),
        lambda a, b: (a * 8) % 8 == 0,
        lambda a, b: (a * b * 3) // b == 3 * a,
        lambda a, b: a + b > b,
        lambda a, b: -(-a // 16) >= 1,
        lambda a, b: greatest(a, 7) >= 7,
    ],
)
def test_what_bounds_and_polynomials_say_is_no_guard(question):
    trace = Trace([5, 6])
    assert question(*trace.symbols)
    assert not trace.guards


@pytest.mark.parametrize(
    ("question", "guard"),
    [
        (lambda a, b: a < 100, "-100+a0<0"),
        (lambda a, b: a * 4 < 400, "-100+a0<0"),
        (lambda a, b: a * b == 3 * b, "-3+a0!=0"),
        (lambda a, b: [0] * a, "a0==5"),
        (lambda a, b: {a: 1}, "a0==5"),
        (lambda a, b: float(b), "a1==6"),
        (lambda a, b: a == b, "a0-a1!=0"),
    ],
)
def test_what_is_asked_is_a_guard(question, guard):
    trace = Trace([5, 6])
    question(*trace.symbols)
    assert list(trace.guards) == [guard]


def waste(step, n):
    """Return what rounding up to a multiple of a step adds, beside a little for each step."""
    return -(-n // step) * (step + 0.5)


@choice(cost=waste)
def rounded(n):
    """Return the step that wastes least."""
    return min((4, 5, 6), key=lambda step: waste(step, n))


@pytest.mark.parametrize("habits", [True, False])
def test_a_choice_keeps_to_what_was_chosen_where_that_is_nearly_as_good(habits):
    trace = Trace([12], {} if habits else None)
    (n,) = trace.symbols
    assert rounded(n).hint == 6
    (function,) = trace.functions
    made = [function(n) for n in range(7, 200)]
    best = [rounded(n) for n in range(7, 200)]
    assert (made == best) is not habits
    for n, step, fitting in zip(range(7, 200), made, best, strict=True):
        assert waste(step, n) <= 1.4 * waste(fitting, n)
    # What was worth having is kept to later.
    assert set(made) == ({4, 6} if habits else {4, 5, 6})


def test_choices_of_equal_sizes_are_one_and_have_habits_of_their_own():
    trace = Trace([12, 24], {})
    a, b = trace.symbols
    assert rounded(a) is rounded(a)
    assert rounded(b) is not rounded(a)
    assert len(trace.functions) == 2


@pytest.mark.parametrize(("hint", "answer"), [(100, True), (20, False)])
def test_what_only_costs_time_is_asked_roughly(hint, answer):
    trace = Trace([hint], {})
    (n,) = trace.symbols
    assert exceeds(n, 50) is answer
    ((condition, _),) = trace.guards.items()
    holds = [a0 for a0 in range(2, 400) if eval(condition)]
    assert holds == (list(range(13, 400)) if answer else list(range(2, 201)))


def test_without_habits_it_is_asked_exactly():
    trace = Trace([100])
    (n,) = trace.symbols
    assert exceeds(n, 50)
    ((condition, _),) = trace.guards.items()
    assert [a0 for a0 in range(2, 400) if eval(condition)] == list(range(51, 400))
    assert exceeds(51, 50)
    assert not exceeds(50, 50)


@pytest.mark.parametrize("hint", [2, 5, 40])
def test_a_number_near_a_size_is_its_hint_for_sizes_like_it(hint):
    trace = Trace([hint], {})
    assert nearby(trace.symbols[0]) == hint
    held = [n for n in range(2, 300) if all(eval(guard, {}, {"a0": n}) for guard in trace.guards)]
    assert held == [n for n in range(2, 300) if hint <= 4 * n and n <= 4 * hint]


def test_where_choices_depend_on_sizes_alone_no_number_is_near_one():
    (n,) = Trace([5]).symbols
    assert nearby(n) is n
    assert nearby(7) == 7


class _Loading:
    """Kernels that are their keywords."""

    def load(self, builds):
        return [dict(build.keywords) for build in builds]


@pytest.mark.parametrize("size", [4, 5, 9])
def test_kernels_are_built_from_negative_sizes_too(size):
    trace, numbers = Trace([4]), Numbers()
    (taps,) = trace.symbols
    build = Build(None, (), (("back", 1 - taps), ("taps", taps)))
    places = [numbers.place(n).place for n in (1 - taps, taps)]
    opened = Opened({0: build}, getter(places), _Loading())
    found = opened.functions(function_of(trace, [*numbers.texts], numbers.atoms)(size))
    assert found == {0: {"back": 1 - size, "taps": size}}
