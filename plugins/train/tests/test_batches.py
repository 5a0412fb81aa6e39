"""What a learner takes as batches: lists, generators, arrays of NumPy and of other libraries."""

import numpy as np
import pytest

import calor
import calor_nn as nn
from calor.errors import ArgumentError
from calor_train import SGD, Learner

X = np.random.default_rng(0).normal(size=(10, 2)).astype(np.float32)
Y = (X @ np.array([[1.0], [2.0]], np.float32)).astype(np.float32)


def test_batches_are_of_anything_that_holds_arrays():
    def fitted(batches, epochs=2):
        model = nn.Linear(2, 1, bias=False)
        model.load_state_dict({"weight": np.array([[0.5, -0.5]], np.float32)})
        made = Learner(model, SGD(model, lr=0.1), nn.functional.mse_loss, display="quiet")
        made.fit(batches, epochs=epochs)
        return made

    class Lent:
        """An array of another library, which lends its memory by DLPack."""

        def __init__(self, array):
            self.array = array

        def __dlpack__(self, **options):
            return self.array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self.array.__dlpack_device__()

    expected = fitted([(calor.asarray(X), calor.asarray(Y))])
    for batches in ([(X, Y)], [(Lent(X.copy()), Lent(Y.copy()))], ((X, Y),)):
        assert fitted(batches).model.weight.tolist() == expected.model.weight.tolist()
    assert fitted(((X, Y) for _ in range(2)), epochs=1).steps == 2
    with pytest.raises(ArgumentError, match="train is a generator, which gives its batches once"):
        fitted((X, Y) for _ in range(2))
    whole = expected.predict([(calor.asarray(X),)]).tolist()
    assert expected.predict(X).tolist() == expected.predict(calor.asarray(X)).tolist() == whole
