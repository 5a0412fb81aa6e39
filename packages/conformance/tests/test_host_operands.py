"""NumPy arrays beside a tensor go to its device, whichever device is current."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest

import calor
from calor.errors import CalorError, DeviceError, DTypeError
from calor_conformance.rows.functions.comparing import quiet
from calor_conformance.rows.recorded.store import read
from calor_conformance.rows.recorded.subjects import subjects
from calor_conformance.rows.recorded.variations import arguments

# Records every function, computes nothing, and is never the current device here.
AWAY = "null"
SUBJECTS = subjects()
# A buffer of a module is a tensor.
REFUSED = {"calor_nn.CrossEntropyLoss"}


def _places(given):
    """Yield where arrays are: positional, in a sequence of arrays, or by name."""
    positional, options = given
    for number, one in enumerate(positional):
        if isinstance(one, np.ndarray):
            yield number, None
        elif isinstance(one, list | tuple) and one and _all_arrays(one):
            yield from ((number, inner) for inner in range(len(one)))
    yield from ((name, None) for name, one in options.items() if isinstance(one, np.ndarray))


def _all_arrays(sequence):
    return all(isinstance(one, np.ndarray) for one in sequence)


def _put(given, host):
    """Return arguments whose arrays are tensors away, but for those at the places of ``host``."""

    def put(one, place):
        if isinstance(one, np.ndarray):
            return one if (place, None) in host else calor.asarray(one, device=AWAY)
        if isinstance(one, list | tuple) and one and _all_arrays(one):
            return type(one)(
                each if (place, inner) in host else calor.asarray(each, device=AWAY)
                for inner, each in enumerate(one)
            )
        return one

    positional, options = given
    return [put(one, number) for number, one in enumerate(positional)], {
        name: put(one, name) for name, one in options.items()
    }


def _heads(made):
    tensors = (t for t in calor.tree.leaves(made) if isinstance(t, calor.Tensor))
    return [(t.dtype, t.shape, t.device) for t in tensors]


def _calls():
    for label, calls in read().items():
        subject = SUBJECTS.get(label)
        if subject is None or label.endswith("by names") or "-of " in label:
            continue
        for call in islice(calls, 2):
            given = arguments(subject, call.number)
            if given is not None and len(places := [*_places(given)]) > 1:
                yield label, subject, given, places


def test_arrays_follow_the_first_operand():
    asked, wrong = set(), {}
    with calor.device("numpy"), quiet():
        for label, subject, given, places in _calls():
            try:
                positional, options = _put(given, ())
                want = _heads(subject.call(*positional, **options))
            except (CalorError, TypeError, ValueError):
                continue  # It is refused for its values, or reads what this device does not hold.
            asked.add(label)
            positional, options = _put(given, places[1:])
            try:
                got = _heads(subject.call(*positional, **options))
            except (DeviceError, DTypeError) as error:
                got = str(error)
            if got != want:
                wrong[label] = got
    assert len(asked) > 250
    assert set(wrong) <= REFUSED, wrong


def test_the_error_tells_how_to_place_an_array():
    with calor.device("numpy"), pytest.raises(DeviceError, match='device="numpy:0"'):
        calor.take(np.arange(3), calor.asarray([0], device=AWAY))
