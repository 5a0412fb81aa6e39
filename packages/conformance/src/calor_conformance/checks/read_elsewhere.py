"""What is stored and read in another process: runs, models, graphs, pickles and random streams.

One process draws a model, trains it and stores it in each form; another one, which knows the
classes alone, reads the files, goes on, and writes what it computed. Both end at the same bits.
"""

from __future__ import annotations

import inspect
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

import calor
from calor.dtypes import bool_, float32, int64, uint32
from calor.errors import DeviceError
from calor.graph.file import load, save

from .base import Array, Check, Place, compiled

CONTRACT: Final = "what was stored is read in another process, which goes on as this one does"
_SECONDS: Final = 120
_OPTIMIZERS: Final = ("Adam", "AdamW", "SGD", "RMSprop", "Lion", "NAdam", "Adagrad")
Rng = np.random.Generator
Results = dict[str, Array]


def _packages() -> tuple[Any, Any] | None:
    """Return the packages of layers and of training, if both are installed."""
    names = ("calor_nn", "calor_train")
    if any(find_spec(name) is None for name in names):
        return None
    return import_module(names[0]), import_module(names[1])


def _learner(seed: int, start: bool) -> tuple[Any, Any]:
    """Return a learner and its loader; they begin otherwise where a file is read into them."""
    found = _packages()
    assert found is not None, "the packages of this check are not installed"
    nn, train = found
    rng = np.random.default_rng([seed, 971])
    width = int(rng.integers(3, 6))
    layers = [nn.Linear(4, width), nn.BatchNorm1d(width), nn.Tanh(), nn.Dropout(0.3),
              nn.Linear(width, 3)]  # fmt: skip
    model = nn.Sequential(*layers)
    name = str(rng.choice(_OPTIMIZERS))
    groups = [{"params": list(layers[0].parameters()), "lr": 0.02}, {"params": [
        p for layer in layers[1:] for p in layer.parameters()
    ]}]  # fmt: skip
    optimizer = getattr(train, name)(groups, 0.01)
    x = rng.normal(size=(12, 4)).astype(np.float32)
    loader = train.DataLoader(
        train.ArrayDataset(x, rng.integers(0, 3, 12)), 3, shuffle=True, seed=5 if start else 1
    )
    learner = train.Learner(
        model, optimizer, nn.functional.cross_entropy, metrics=[train.Accuracy()], display="quiet",
        jit=False, accumulate=int(rng.integers(1, 3)),
        schedule=train.Scheduler(optimizer, lr=train.Exponential(0.9)),
        callbacks=[train.EarlyStopping("loss", 50)],
    )  # fmt: skip
    return learner, loader


def _of_tensors(tensors: Any) -> Results:
    return {name: t.detach().numpy() for name, t in tensors.items()}


def _gone_on(learner: Any, loader: Any, path: Path, rng: Rng) -> Results:
    """Go on from a checkpoint to the third epoch, and return what the learner has then."""
    learner.fit(loader, epochs=3, resume=path)
    made = {f"model {n}": a for n, a in _of_tensors(learner.model.state_dict()).items()}
    rows = [[row["loss"], row["accuracy"], row["lr"]] for row in learner.history]
    made["history"] = np.asarray(rows)
    made["steps"] = np.asarray([learner.steps, learner.samples, learner.epoch])
    learner.model.eval()
    x = calor.asarray(rng.normal(size=(3, 4)).astype(np.float32))
    made["outputs"] = learner.model(x).detach().numpy()
    return made


def _program(x: Any, n: Any) -> Any:
    """A program with constants, a branch, a loop and integers."""
    turned = calor.cond(n > 2, lambda v: calor.tanh(v) * 1.1, lambda v: v - 0.3, x)
    sums = calor.fori_loop(0, 3, lambda i, c: c * 0.5 + turned * (i + 1), turned)
    return sums @ calor.reshape(calor.arange(9, dtype=float32), (3, 3)), n * 7


def _operands(rng: Rng) -> tuple[Array, Array]:
    return rng.normal(size=(2, 3)).astype(np.float32), np.asarray(rng.integers(0, 5), np.int32)


def _streams(generator: Any) -> Results:
    """Draw numbers of a stream, and of the key and the streams that are made of it."""
    return {
        "uniform": generator.uniform(5).numpy(), "normal": generator.normal((2, 2)).numpy(),
        "integers": calor.random.integers(0, 9, (4,), generator=generator).numpy(),
    }  # fmt: skip


def _write(folder: Path, place: Place) -> Results:
    """Store everything, and return what this process computes after that."""
    rng = np.random.default_rng([place.seed, 972])
    calor.random.seed(int(rng.integers(1000)))
    tree = {"a": calor.asarray(rng.normal(size=(2, 3)).astype(np.float32)), "b": [
        calor.asarray(rng.integers(0, 9, 4)), 2.5, "text", None, True,
    ]}  # fmt: skip
    calor.save(tree, folder / "tree.calor")
    generator = calor.random.Generator(int(rng.integers(1000)))
    generator.normal(3)
    weight = calor.asarray(rng.normal(size=3).astype(np.float32), requires_grad=True)
    (folder / "objects.pkl").write_bytes(pickle.dumps((weight, generator, {"t": weight})))
    operands = _operands(rng)
    graph = calor.trace(_program, *(calor.asarray(a) for a in operands))
    (folder / "graph.calor").write_bytes(save(graph))
    np.savez(folder / "operands.npz", x=operands[0], n=operands[1])
    made = {f"graph {n}": a for n, a in enumerate(_run_graph(graph, operands, place))}
    results = {str(name): a for name, a in made.items()}
    if _packages() is not None:
        learner, loader = _learner(place.seed, True)
        learner.fit(loader, epochs=int(rng.integers(1, 3)))
        learner.save(folder / "run.ckpt")
        calor.save(learner.model.state_dict(), folder / "model.safetensors")
        held = _of_tensors(learner.model.state_dict())
        results |= {f"weights {n}": a for n, a in held.items()}
        results |= _gone_on(learner, loader, folder / "run.ckpt", np.random.default_rng(place.seed))
    results |= {f"tree {n}": a for n, a in _of_tree(tree).items()}
    results |= {"weight": weight.detach().numpy()}
    return {**results, **_streams(generator)}


def _of_tree(tree: Any) -> Results:
    numbers, *plain = tree["b"]
    assert plain == [2.5, "text", None, True], f"beside the tensors is {plain}"
    return {"a": tree["a"].numpy(), "b": numbers.numpy()}


def _run_graph(graph: Any, operands: tuple[Array, ...], place: Place) -> list[Array]:
    backend, index = place.plain.backend, place.plain.index
    buffers = compiled(place, graph)([backend.upload(index, a) for a in operands])
    specs = graph.output_specs
    return [np.array(backend.download(index, b, s)) for b, s in zip(buffers, specs, strict=True)]


def _read(folder: Path, place: Place) -> Results:
    """Read everything in a process that made none of it, and go on."""
    weight, generator, held = pickle.loads((folder / "objects.pkl").read_bytes())
    assert held["t"] is weight, "a tensor that was pickled twice is two"
    assert weight.requires_grad, "a pickled tensor has lost its mark"
    graph = load((folder / "graph.calor").read_bytes())
    with np.load(folder / "operands.npz") as stored:
        operands = stored["x"], stored["n"]
    made = _run_graph(graph, operands, place)
    results: Results = {f"graph {n}": a for n, a in enumerate(made)}
    if _packages() is not None:
        calor.random.seed(99)
        learner, loader = _learner(place.seed, False)
        learner.model.load_state_dict(calor.load(folder / "model.safetensors"))
        held = _of_tensors(learner.model.state_dict())
        results |= {f"weights {n}": a for n, a in held.items()}
        results |= _gone_on(learner, loader, folder / "run.ckpt", np.random.default_rng(place.seed))
    tree = calor.load(folder / "tree.calor")
    results |= {f"tree {n}": a for n, a in _of_tree(tree).items()}
    results |= {"weight": weight.detach().numpy()}
    return {**results, **_streams(generator)}


def main(folder: str, name: str, seed: str) -> None:
    """Read what another process stored, and write what this one computes of it.

    Parameters
    ----------
    folder : str
        Where the files are.
    name : str
        The device.
    seed : str
        The seed of the check.
    """
    device = calor.device(name)
    with calor.device(device):
        made = _read(Path(folder), Place(device, device, int(seed)))
    np.savez(Path(folder) / "made.npz", allow_pickle=False, **made)


def _run(place: Place) -> None:
    name = place.plain.name
    try:
        calor.device(name)
    except DeviceError:
        # A device that is in no registry cannot be asked for in another process.
        return
    state = calor.random.default_generator.state
    try:
        with tempfile.TemporaryDirectory() as folder:
            wants = _write(Path(folder), place)
            code = f"from {__name__} import main; main(*__import__('sys').argv[1:])"
            command = [sys.executable, "-c", code, folder, name, str(place.seed)]
            paths = os.pathsep.join(p for p in sys.path if p)
            done = subprocess.run(
                command, capture_output=True, check=False, text=True, timeout=_SECONDS,
                env={**os.environ, "PYTHONPATH": paths},
            )  # fmt: skip
            assert done.returncode == 0, f"another process reads nothing: {done.stderr[-900:]}"
            with np.load(Path(folder) / "made.npz") as made:
                _same({n: made[n] for n in made.files}, wants)
    finally:
        calor.random.default_generator.set_state(state)


def _same(made: Results, wants: Results) -> None:
    assert set(made) == set(wants), f"{set(made) ^ set(wants)} is in one process alone"
    for name, want in wants.items():
        got = made[name]
        same = (got.dtype, got.shape) == (want.dtype, want.shape)
        same = same and got.tobytes() == np.ascontiguousarray(want).tobytes()
        assert same, f"{name} in another process is {got.tolist()}, not {want.tolist()}"


def read_elsewhere() -> Iterator[Check]:
    """Yield the check of what another process reads."""
    yield Check(
        kind="transfers",
        subject="read-in-another-process",
        tier="training",
        contract=CONTRACT,
        run=_run,
        text=partial(inspect.getsource, _write),
        dtypes=(float32, int64, uint32, bool_),
        looks=True,
    )
