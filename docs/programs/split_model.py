"""Two halves of a model on two devices, such as those of two servers.

python -m calor_http serve --devices cpu --no-token --port 8471 --peers http://127.0.0.1:8472 &
python -m calor_http serve --devices cpu --no-token --port 8472 --peers http://127.0.0.1:8471 &
python docs/programs/split_model.py http://127.0.0.1:8471/cpu http://127.0.0.1:8472/cpu
"""

import sys

import numpy as np

import calor
from calor import nn, train
from calor.nn import functional as F


def main(first_name: str, second_name: str, steps: int = 60) -> float:
    """Learn whether two numbers have one sign; return the last loss."""
    first_device, second_device = calor.device(first_name), calor.device(second_name)
    calor.random.seed(0)
    first = nn.Sequential(nn.Linear(2, 64), nn.ReLU()).to(first_device)
    second = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2)).to(second_device)
    optimizers = [train.AdamW(half, lr=3e-3) for half in (first, second)]
    numbers = np.random.default_rng(0).normal(size=(256, 2)).astype(np.float32)
    x = calor.asarray(numbers, device=first_device)
    labels = calor.asarray(np.int64(numbers.prod(axis=1) > 0), device=second_device)
    for number in range(steps):
        # Activations go from server to server here, and their gradients go back.
        hidden = first(x).to(second_device)
        loss = F.cross_entropy(second(hidden), labels)
        for optimizer in optimizers:
            optimizer.zero_grad()
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        if number % 20 == 19:
            print(f"step {number + 1}: loss {loss.item():.3f}")
    return loss.item()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
