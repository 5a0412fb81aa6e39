"""What comes out when tensors meet NumPy, pandas and other array libraries."""

import operator
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import calor
from calor import from_dlpack
from calor.errors import DTypeError, ExchangeError, ShapeError, UnsupportedError
from calor.functions.dlpack import CODES, _Once, type_in
from calor.methods.interop import _OPERATORS

OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.add,
    operator.sub,
    operator.mul,
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
    operator.eq,
    operator.ne,
]
# Operands, and the dtype that float32 tensors give with them.
PARTNERS: list[tuple[Any, str]] = [
    (np.float32(2), "float32"),
    (np.float64(2), "float32"),
    (np.int64(2), "float32"),
    (np.bool_(True), "float32"),
    (np.array([4.0, 5.0, 6.0], np.float32), "float32"),
    (np.array([4, 5, 6]), "float32"),
    (np.array([4.0, 5.0, 6.0]), "float64"),
    (np.array(2.0, np.float32), "float32"),
]


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize(("partner", "dtype"), PARTNERS)
def test_numpy_operands(function: Any, partner: Any, dtype: str) -> None:
    array = np.array([1.0, 2.0, 3.0], np.float32)
    x = calor.asarray(array)
    for made, expected in (
        (function(x, partner), function(array, np.asarray(partner, dtype))),
        (function(partner, x), function(np.asarray(partner, dtype), array)),
    ):
        assert isinstance(made, calor.Tensor)
        assert made.dtype.name == ("bool" if expected.dtype == bool else dtype)
        np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6)


def test_numpy_matrix_products() -> None:
    a, b = np.ones((2, 3), np.float32), np.ones((3, 2), np.float32)
    for made in (calor.asarray(a) @ b, a @ calor.asarray(b)):
        assert isinstance(made, calor.Tensor)
        assert made.tolist() == [[3.0, 3.0], [3.0, 3.0]]


def test_numpy_functions_of_operators_are_the_operators() -> None:
    x = calor.asarray([1, 6, 3])
    array = np.array([4, 5, 2])
    for name in _OPERATORS:
        ufunc = getattr(np, name)
        for made, expected in (
            (ufunc(array, x), ufunc(array, x.numpy())),
            (ufunc(x, array), ufunc(x.numpy(), array)),
            (ufunc(x, x), ufunc(x.numpy(), x.numpy())),
        ):
            assert isinstance(made, calor.Tensor), name
            np.testing.assert_allclose(made.numpy(), expected, rtol=1e-6, err_msg=name)


def test_numpy_arrays_take_no_tensor_in_place() -> None:
    x = calor.asarray([1.0, 2.0])
    array = np.ones(2)
    with pytest.raises(TypeError, match=r"write array = array \+ x .* or array \+= x\.numpy\(\)"):
        array += x  # type: ignore[misc]
    with pytest.raises(TypeError, match=r"result of @ with a tensor"):
        np.matmul(np.ones((2, 2)), x, out=array)
    assert array.tolist() == [1.0, 1.0]
    array += x.numpy()
    assert array.tolist() == [2.0, 3.0]


def test_numpy_makes_arrays_of_tensors() -> None:
    x = calor.asarray([1.0, 2.0])
    assert np.asarray(x).dtype == np.float32
    assert np.array([x, x]).dtype == np.float32


@pytest.mark.parametrize("other", [np.array(["a", "b"]), np.array([None, 1])])
def test_arrays_of_no_numbers_raise(other: Any) -> None:
    x = calor.asarray([1.0, 2.0])
    for call in (lambda: x * other, lambda: other * x):
        with pytest.raises(DTypeError, match="no dtype|is not a dtype"):
            call()


@pytest.mark.parametrize("other", [[1.0, 2.0], "a", None, object()])
def test_foreign_operands_raise(other: Any) -> None:
    x = calor.asarray([1.0, 2.0])
    for call in (lambda: x + other, lambda: other + x, lambda: x @ other):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("function", OPERATORS)
@pytest.mark.parametrize("kind", ["Series", "Index", "DataFrame"])
def test_pandas_operands(function: Any, kind: str) -> None:
    pandas = pytest.importorskip("pandas")
    array = np.array([1.0, 2.0, 3.0])
    partner = np.array([4.0, 5.0, 6.0])
    held = getattr(pandas, kind)([partner] if kind == "DataFrame" else partner)
    x = calor.asarray(array)
    for made, expected in (
        (function(x, held), function(array, partner)),
        (function(held, x), function(partner, array)),
    ):
        assert isinstance(made, calor.Tensor)
        np.testing.assert_allclose(made.numpy().reshape(3), expected)


def test_pandas_text_raises() -> None:
    pandas = pytest.importorskip("pandas")
    x = calor.asarray([1.0, 2.0])
    text = pandas.Series(["a", "b"])
    for call in (lambda: x * text, lambda: text * x):
        with pytest.raises(TypeError):
            call()
    assert pandas.Series(x).dtype == np.float32
    assert calor.asarray(pandas.Series([1.0, 2.0])).dtype is calor.float64


@pytest.mark.parametrize("dtype", calor.dtypes.ALL, ids=str)
def test_numpy_takes_dtypes(dtype: calor.DType) -> None:
    assert np.zeros(2, dtype=dtype).dtype == dtype.numpy
    # What versions of NumPy before 2.4 ask for.
    assert np.dtype(SimpleNamespace(dtype=dtype.dtype)) == dtype.numpy


def test_array_namespace() -> None:
    x = calor.asarray([1.0])
    assert x.__array_namespace__() is calor
    assert x.__array_namespace__(api_version="2024.12") is calor
    with pytest.raises(ValueError, match=r"array API standard of .* not '1066.10'"):
        x.__array_namespace__(api_version="1066.10")


def test_transposes() -> None:
    x = calor.asarray(np.arange(6).reshape(1, 2, 3))
    assert x.mT.shape == (1, 3, 2)
    assert x[0].T.tolist() == [[0, 3], [1, 4], [2, 5]]
    with pytest.raises(ShapeError, match=r"x.T is for 2 axes, .* \(1, 2, 3\); x.mT"):
        x.T
    with pytest.raises(ShapeError, match="x.mT needs two axes"):
        x[0, 0].mT


def test_to_device_is_the_tensor_itself_at_home() -> None:
    x = calor.asarray([1.0])
    assert x.to_device("numpy:0") is x
    assert x.to("numpy") is x
    assert x.to(x.device) is x


class Foreign:
    """An array of another library: its DLPack methods and nothing else."""

    def __init__(self, array: Any, *, old: bool = False) -> None:
        self.array = array
        self.old = old

    def __dlpack__(self, **options: Any) -> Any:
        if self.old:
            if options.keys() - {"stream"}:
                raise TypeError("unexpected keyword")
            return self.array.__dlpack__()
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


@pytest.mark.parametrize("old", [False, True])
@pytest.mark.parametrize("dtype", [t.name for t in calor.dtypes.ALL])
def test_dlpack_round_trip(dtype: str, old: bool) -> None:
    x = calor.asarray([[0, 1, 1], [1, 0, 1]], dtype=dtype)
    y = from_dlpack(Foreign(x, old=old))
    assert y.dtype is x.dtype
    assert y.tolist() == x.tolist()
    leaf = calor.asarray(Foreign(x, old=old), dtype="complex64", requires_grad=True)
    assert leaf.requires_grad
    assert leaf.detach().tolist() == x.astype("complex64").tolist()


def test_dlpack_exports_share_read_only_memory_or_copy() -> None:
    x = calor.asarray([1.0, 2.0])
    shared = np.from_dlpack(x)
    assert np.shares_memory(shared, x.numpy())
    assert not shared.flags.writeable
    copied = np.from_dlpack(x, copy=True)
    # What NumPy imports is read-only whatever it is told, before 2.2.
    assert copied.flags.writeable or np.lib.NumpyVersion(np.__version__) < "2.2.0"
    assert not np.shares_memory(copied, x.numpy())
    old = np.from_dlpack(Foreign(Foreign(x, old=True)))
    assert not np.shares_memory(old, x.numpy())


def test_dlpack_refusals() -> None:
    x = calor.asarray([1.0, 2.0])
    with pytest.raises(BufferError, match=r"cannot be exported to device \(2, 0\)"):
        x.__dlpack__(dl_device=(2, 0))
    assert x.__dlpack_device__() == (1, 0)


def test_complex_memory_off_the_host_is_exported_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    x = calor.asarray(np.ones(2, np.complex128))
    backend, given = x.device.backend, []

    def dlpack(self: Any, index: int, buffer: Any, described: Any, **options: Any) -> Any:
        given.append(described)
        return np.ones(2).__dlpack__()

    monkeypatch.setattr(type(backend), "dlpack_device", lambda *_: (2, 0))
    monkeypatch.setattr(type(backend), "dlpack", dlpack, raising=False)
    x.__dlpack__(max_version=(1, 0))
    assert [described.dtype for described in given] == [calor.complex128]


def test_dlpack_imports_are_copies_unless_asked() -> None:
    array = np.array([1.0, 2.0])
    copied = from_dlpack(array)
    shared = from_dlpack(array, copy=False)
    array[0] = 9
    assert copied.tolist() == [1.0, 2.0]
    assert shared.tolist() == [9.0, 2.0]
    assert from_dlpack(np.arange(6.0).reshape(2, 3).T).shape == (3, 2)


def test_what_was_recorded_does_not_see_later_writes() -> None:
    array = np.array([1.0, 2.0])
    doubled = from_dlpack(array) * 2
    array[:] = 0
    assert doubled.tolist() == [2.0, 4.0]


def test_imports_without_a_copy_are_shared_or_refused() -> None:
    array = np.arange(6.0).reshape(2, 3)
    shared = from_dlpack(Foreign(array), copy=False)
    assert np.shares_memory(shared.numpy(), array)
    assert np.shares_memory(from_dlpack(Foreign(array, old=True), copy=False).numpy(), array)
    shared += 1
    assert array[0, 0] == 0.0
    for kind in (BufferError, ValueError, ExchangeError):
        with pytest.raises(kind, match="copy=False needs dense row-major memory"):
            from_dlpack(array.T, copy=False)
    with pytest.raises(ExchangeError, match="which null:0 does not; pass copy=None"):
        from_dlpack(array, copy=False, device="null")
    with pytest.raises(ExchangeError, match=r"to null:0; pass copy=None"):
        from_dlpack(calor.ones(1), copy=False, device="null")
    x = calor.ones(3)
    assert np.shares_memory(from_dlpack(x, copy=False).numpy(), x.numpy())


def test_imports_from_another_device() -> None:
    class Elsewhere(Foreign):
        def __dlpack__(self, **options: Any) -> Any:
            if self.old or options.get("dl_device") != (1, 0):
                raise TypeError("unexpected keyword")
            return self.array.__dlpack__(copy=True)

        def __dlpack_device__(self) -> tuple[int, int]:
            return (2, 1)

    array = np.array([1.0, 2.0])
    assert from_dlpack(Elsewhere(array)).tolist() == [1.0, 2.0]
    with pytest.raises(ExchangeError, match=r"the Elsewhere is on DLPack device \(2, 1\)"):
        from_dlpack(Elsewhere(array), copy=False)
    with pytest.raises(UnsupportedError, match="move it to the host first"):
        from_dlpack(Elsewhere(array, old=True))


def test_dlpack_memory_is_freed_with_the_last_user() -> None:
    import gc
    import weakref

    array = np.ones(3)
    held = weakref.ref(array)
    x = from_dlpack(array, copy=False)
    del array
    gc.collect()
    assert held() is not None
    del x
    gc.collect()
    assert held() is None


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool", "complex64", "bfloat16"])
def test_dlpack_with_torch(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    x = calor.asarray([0, 1, 1], dtype=dtype)
    theirs = torch.from_dlpack(x)
    assert theirs.tolist() == x.tolist()
    back = from_dlpack(theirs)
    assert back.dtype is x.dtype
    assert back.tolist() == x.tolist()


@pytest.mark.parametrize("export", [np.from_dlpack, np.asarray, lambda x: x.numpy()])
def test_views_outside_mark_the_buffer(export: Any) -> None:
    x = calor.ones(3)
    calor.eval(x)
    buffer = x._value.buffer
    assert not buffer.exported
    view = export(x)
    assert buffer.exported
    del view
    assert not buffer.exported


@pytest.mark.parametrize("name", ["bfloat16", "float8_e5m2"])
def test_types_of_no_code_in_numpy_share_memory(name: str) -> None:
    x = calor.asarray([1.0, 2.0], dtype=name)
    with pytest.raises(ExchangeError, match="pass copy=None"):
        x.__dlpack__(copy=False)
    capsule = x.__dlpack__(max_version=(1, 0))
    there = np.asarray(x.numpy()).view(f"u{x.dtype.itemsize}")
    code = type_in(capsule)
    assert (code.code, code.bits) == (CODES[x.dtype], 8 * x.dtype.itemsize)
    code.code = 1
    array = np.from_dlpack(_Once(capsule))
    assert np.shares_memory(array, there)


def test_read_only_memory_is_not_for_consumers_that_may_write() -> None:
    array = np.arange(3.0)
    array.flags.writeable = False
    x = calor.asarray(array, copy=False)
    with pytest.raises(ExchangeError, match="pass copy=None"):
        x.__dlpack__(copy=False)
    assert np.from_dlpack(x).tolist() == [0.0, 1.0, 2.0]
