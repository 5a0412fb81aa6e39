"""A few lowerings for tests of the planner, of dense operands, an element a turn."""

from calor.dtypes import int32, int64
from calor.errors import ElementIndexError
from calor_kernel.contract.failures import Failure
from calor_kernel.contract.work import Build, Input, Launch, Output, Request, Scratch, Status, Work
from calor_kernel.language import Buffer, Scalar, cube_position, kernel, loop_range

CHUNK = 64
SIZE = Scalar(int64, nonnegative=True)
STATUS = Buffer(int32)


@kernel
def elementwise(*arguments, function):
    *operands, y, n = arguments
    start = cube_position() * CHUNK
    for i in loop_range(start, min(start + CHUNK, n)):
        y[i] = function(*[x[i] for x in operands])


@kernel
def pick(x, indices, y, status, n, m):
    for i in loop_range(m):
        place = indices[i]
        if (place < 0) | (place >= n):
            status[0] = 1
        else:
            y[i] = x[place]


@kernel
def total(x, partial, y, n):
    partial[0] = x[0]
    for i in loop_range(1, n):
        partial[0] = partial[0] + x[i]
    y[0] = partial[0]


FUNCTIONS = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
}


def _elementwise(request: Request):
    result = request.outputs[0]
    function = _casts(result.dtype) if request.op == "cast" else FUNCTIONS[request.op]
    keywords = (("function", function),)
    views = request.inputs
    signature = (*(Buffer(v.dtype, writable=False) for v in views), Buffer(result.dtype), SIZE)
    arguments = (*(Input(i, v.offset) for i, v in enumerate(views)), Output(), result.size)
    build = Build(elementwise, signature, keywords)
    cubes = (-(-result.size // CHUNK), 1, 1)
    nbytes = sum(v.size * v.dtype.itemsize for v in views) + result.nbytes
    launch = Launch(build, cubes, arguments, result.size, nbytes, request.op)
    return (Work((launch,), in_place=tuple((i, 0) for i in range(len(views)))),)


_CASTS = {}


def _casts(dtype):
    return _CASTS.setdefault(dtype, lambda a: a.to(dtype))


def _gather(request: Request):
    x, indices = request.inputs
    signature = (Buffer(x.dtype), Buffer(indices.dtype), Buffer(x.dtype), STATUS, SIZE, SIZE)
    arguments = (
        Input(0, x.offset),
        Input(1, indices.offset),
        Output(),
        Status(),
        x.size,
        indices.size,
    )
    launch = Launch(Build(pick, signature), (1, 1, 1), arguments)
    return (Work((launch,), failures=(Failure(ElementIndexError, "an index is out of range"),)),)


def _sum(request: Request):
    (x,) = request.inputs
    signature = (Buffer(x.dtype), Buffer(x.dtype), Buffer(x.dtype), SIZE)
    arguments = (Input(0, x.offset), Scratch(0), Output(), x.size)
    launch = Launch(Build(total, signature), (1, 1, 1), arguments)
    return (Work((launch,), scratch=(100,)),)


SMALL = dict.fromkeys((*FUNCTIONS, "cast"), _elementwise) | {"gather": _gather, "sum": _sum}
