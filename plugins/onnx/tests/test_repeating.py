"""Runs on arrays of shapes that were run before."""

from typing import Any

import numpy as np
import onnx
import pytest

import calor
import calor_onnx
from calor_onnx.repeating import LIMIT
from calor_onnx.session.faults import InvalidArgument

HEAD = '<ir_version: 8, opset_import: ["" : 18]>'
SCALE = "f (float[N] x, float s) => (float[N] y, float[N] z) { y = Mul (x, s) z = Add (x, s) }"
SHAPED = "f (float[N] x, int64[K] s) => (float[M,L] y) { y = Reshape (x, s) }"


def session_of(text: str) -> calor_onnx.InferenceSession:
    proto = onnx.parser.parse_model(f"{HEAD} {text}")
    return calor_onnx.InferenceSession(proto.SerializeToString(), providers=["numpy"])


def feed_of(size: int, scale: float) -> dict[str, Any]:
    return {"x": np.arange(size, dtype=np.float32), "s": np.array(scale, np.float32)}


def repeats(session: calor_onnx.InferenceSession, feed: dict[str, Any]) -> bool:
    return session.calor_model.repeat(feed) is not None


def test_a_second_run_is_a_repeat() -> None:
    session = session_of(SCALE)
    assert not repeats(session, feed_of(3, 2.0))
    first = session.run(None, feed_of(3, 2.0))
    assert repeats(session, feed_of(3, 2.0))
    again = session.run(None, feed_of(3, 4.0))
    assert [a.tolist() for a in first] == [[0.0, 2.0, 4.0], [2.0, 3.0, 4.0]]
    assert [a.tolist() for a in again] == [[0.0, 4.0, 8.0], [4.0, 5.0, 6.0]]
    assert session.run(["z"], feed_of(3, 1.0))[0].tolist() == [1.0, 2.0, 3.0]


def test_outputs_of_repeats_are_their_callers() -> None:
    session = session_of(SCALE)
    session.run(None, feed_of(3, 2.0))
    mine, other = (session.run(None, feed_of(3, 2.0))[0] for _ in range(2))
    mine[:] = 7.0
    assert other.tolist() == [0.0, 2.0, 4.0]
    assert session.run(None, feed_of(3, 2.0))[0].tolist() == [0.0, 2.0, 4.0]


def test_what_differs_takes_the_usual_way() -> None:
    session = session_of(SCALE)
    session.run(None, feed_of(3, 2.0))
    wrong = {**feed_of(3, 2.0), "x": np.arange(3)}
    with pytest.raises(InvalidArgument, match="'x' is int64"):
        session.run(None, wrong)
    with pytest.raises(ValueError, match="missing"):
        session.run(None, {"x": wrong["x"]})
    with pytest.raises(InvalidArgument, match="output name"):
        session.run(["w"], feed_of(3, 2.0))
    other = {**feed_of(3, 2.0), "x": np.arange(6, dtype=np.float32)[::2]}
    assert not repeats(session, other)
    assert session.run(None, other)[0].tolist() == [0.0, 4.0, 8.0]
    assert session.run(None, {"x": [1.0, 2.0, 3.0], "s": 2.0})[0].tolist() == [2.0, 4.0, 6.0]
    assert session.run(None, feed_of(4, 1.0))[0].tolist() == [0.0, 1.0, 2.0, 3.0]


def test_elements_that_decide_a_shape_are_compared() -> None:
    session = session_of(SHAPED)
    x = np.arange(6, dtype=np.float32)
    for rows, columns in ((2, 3), (2, 3), (3, 2), (2, 3), (2, 3)):
        feed = {"x": x, "s": np.array([rows, columns])}
        assert session.run(None, feed)[0].shape == (rows, columns)
    assert repeats(session, {"x": x, "s": np.array([2, 3])})
    assert not repeats(session, {"x": x, "s": np.array([6, 1])})


def test_changed_weights_are_seen() -> None:
    text = "f (float[2] x) => (float[2] y) <float[2] w = {1.0, 2.0}> { y = Add (x, w) }"
    session = session_of(text)
    feed = {"x": np.zeros(2, np.float32)}
    parameters = session.calor_model.parameters
    assert [session.run(None, feed)[0].tolist() for _ in range(2)] == [[1.0, 2.0]] * 2
    assert repeats(session, feed)
    with calor.no_grad():
        parameters["w"] += 1.0
    assert session.run(None, feed)[0].tolist() == [2.0, 3.0]


def test_what_the_host_finishes_is_no_repeat() -> None:
    text = "f (float[2] x) => (uint4[2] y) { y = Cast <to = 21> (x) }"
    session = session_of(text)
    feed = {"x": np.ones(2, np.float32)}
    for _ in range(2):
        assert session.run(None, feed)[0].astype(int).tolist() == [1, 1]
    assert not repeats(session, feed)


def test_few_sets_of_shapes_are_remembered() -> None:
    session = session_of(SCALE)
    for size in range(1, LIMIT + 2):
        session.run(None, feed_of(size, 1.0))
    session.run(None, feed_of(LIMIT + 1, 1.0))
    assert len(session.calor_model._repeats._known) <= LIMIT
    assert repeats(session, feed_of(LIMIT + 1, 1.0))
