"""What calor costs beside the arithmetic: recording, evaluating a known trace, calling a jit.

Run on the `null` device, which compiles and runs nothing, so that only calor's own work is timed.
Peers compute for real on arrays of twelve elements, which is next to nothing. Times are per op,
per node or per call, as each name says.
"""

import importlib
from collections.abc import Callable
from typing import Any

from harness import Case

OPS = 256
CHAIN = 250
SHAPE = (3, 4)


def cases(device: str) -> list[Case]:
    return [*_recording(device), *_evaluating(device), *_calling(device)]


def _repeat(step: Callable[[], Any], times: int) -> Callable[[], None]:
    def call() -> None:
        for _ in range(times):
            step()

    return call


def _recording(device: str) -> list[Case]:
    import calor

    def equal() -> Callable[[], None]:
        a, b = _pair(calor, device)
        return _repeat(lambda: a + b, OPS)

    def number() -> Callable[[], None]:
        a, _ = _pair(calor, device)
        return _repeat(lambda: a * 2.5, OPS)

    def mixed() -> Callable[[], None]:
        with calor.device(device):
            a = calor.ones(SHAPE, requires_grad=True)
            b = calor.asarray([1, 2, 3, 4])
        calor.eval(a, b)
        return _repeat(lambda: a * b, OPS)

    return [
        Case(
            "record an op, equal shapes, per op",
            ours=equal,
            peers={"torch": lambda: _torch_equal(), "jax": lambda: _jax_equal()},
            units=OPS,
        ),
        Case(
            "record an op with a Python number, per op",
            ours=number,
            peers={"torch": lambda: _torch_number()},
            units=OPS,
        ),
        Case(
            "record an op with broadcasting, promotion and a gradient, per op",
            ours=mixed,
            peers={"torch": lambda: _torch_mixed()},
            units=OPS,
        ),
    ]


def _pair(calor: Any, device: str) -> tuple[Any, Any]:
    with calor.device(device):
        a, b = calor.ones(SHAPE), calor.ones(SHAPE)
    calor.eval(a, b)
    return a, b


def _torch_equal() -> Callable[[], None]:
    torch = importlib.import_module("torch")
    a, b = torch.ones(SHAPE), torch.ones(SHAPE)
    return _repeat(lambda: a + b, OPS)


def _torch_number() -> Callable[[], None]:
    torch = importlib.import_module("torch")
    a = torch.ones(SHAPE)
    return _repeat(lambda: a * 2.5, OPS)


def _torch_mixed() -> Callable[[], None]:
    torch = importlib.import_module("torch")
    a, b = torch.ones(SHAPE, requires_grad=True), torch.tensor([1, 2, 3, 4])
    return _repeat(lambda: a * b, OPS)


def _jax_equal() -> Callable[[], None]:
    jax = importlib.import_module("jax")
    a = jax.numpy.ones(SHAPE)
    add = jax.jit(lambda x, y: x + y)
    add(a, a)
    return _repeat(lambda: add(a, a), OPS)


def _evaluating(device: str) -> list[Case]:
    import calor

    def chain() -> Callable[[], None]:
        a, b = _pair(calor, device)

        def call() -> None:
            x = a
            for _ in range(CHAIN):
                x = x * b + a
            calor.eval(x)

        return call

    def torch_chain() -> Callable[[], None]:
        torch = importlib.import_module("torch")
        a, b = torch.ones(SHAPE), torch.ones(SHAPE)

        def call() -> None:
            x = a
            for _ in range(CHAIN):
                x = x * b + a

        return call

    # Evaluating alone is this less the case that only records.
    return [
        Case(
            "record and evaluate a chain that was seen before, per node",
            ours=chain,
            peers={"torch": torch_chain},
            units=2 * CHAIN,
        ),
    ]


def _calling(device: str) -> list[Case]:
    def one() -> Callable[[], None]:
        import calor

        a, _ = _pair(calor, device)
        double = calor.jit(lambda x: x * 2)
        double(a)
        return _repeat(lambda: double(a), OPS)

    def jax_one() -> Callable[[], None]:
        jax = importlib.import_module("jax")
        a = jax.numpy.ones(SHAPE)
        double = jax.jit(lambda x: x * 2)
        double(a)
        return _repeat(lambda: double(a), OPS)

    def torch_one() -> Callable[[], None]:
        torch = importlib.import_module("torch")
        a = torch.ones(SHAPE)
        return _repeat(lambda: a * 2, OPS)

    return [
        Case(
            "call a jitted function of one tensor, per call",
            ours=one,
            peers={"torch": torch_one, "jax": jax_one},
            units=OPS,
        ),
        *(_state_case(device, count) for count in (1, 10, 100)),
        _dictionary_case(device, 100),
    ]


def _state_case(device: str, count: int) -> Case:
    def ours() -> Callable[[], None]:
        import calor
        from calor.transforms.state import Stateful

        class Weights(Stateful):
            def __init__(self) -> None:
                with calor.device(device):
                    self.tensors = [calor.ones(SHAPE) for _ in range(count)]

        weights = Weights()
        x, _ = _pair(calor, device)

        @calor.jit
        def step(weights: Weights, x: Any) -> Any:
            for w in weights.tensors:
                w -= x * 0.1
            return x * 2

        step(weights, x)
        return _repeat(lambda: step(weights, x), OPS)

    def jax_step() -> Callable[[], None]:
        jax = importlib.import_module("jax")
        held = [[jax.numpy.ones(SHAPE) for _ in range(count)]]
        x = jax.numpy.ones(SHAPE)
        step = jax.jit(lambda weights, x: ([w - x * 0.1 for w in weights], x * 2))

        def call() -> None:
            held[0], _ = step(held[0], x)

        call()
        return _repeat(call, OPS)

    def torch_step() -> Callable[[], None]:
        torch = importlib.import_module("torch")
        weights = [torch.ones(SHAPE) for _ in range(count)]
        x = torch.ones(SHAPE)

        def call() -> None:
            for w in weights:
                w -= x * 0.1

        return _repeat(call, OPS)

    return Case(
        f"call a jitted update of {count} tensors of state, per call",
        ours=ours,
        peers={"torch": torch_step, "jax": jax_step},
        units=OPS,
    )


def _dictionary_case(device: str, count: int) -> Case:
    def ours() -> Callable[[], None]:
        import calor

        with calor.device(device):
            weights = {f"w{i}": calor.ones(SHAPE) for i in range(count)}
        calor.eval(weights)
        first = calor.jit(lambda weights: weights["w0"] * 2)
        first(weights)
        return _repeat(lambda: first(weights), OPS)

    def jax_call() -> Callable[[], None]:
        jax = importlib.import_module("jax")
        weights = {f"w{i}": jax.numpy.ones(SHAPE) for i in range(count)}
        first = jax.jit(lambda weights: weights["w0"] * 2)
        first(weights)
        return _repeat(lambda: first(weights), OPS)

    return Case(
        f"call a jitted function of a dictionary of {count} tensors, per call",
        ours=ours,
        peers={"jax": jax_call},
        units=OPS,
    )
