"""What reads cost whose values go back to the GPU as numbers: `python -m benchmarks.reads_given_back` (one GPU, 20 s).

A search by conjugate gradients takes two numbers a round from the GPU. Timed without a profiler, in turns: with both
read, with the same arithmetic left on the GPU, with both at once (arithmetic on the GPU, and the values read all the
same), and with operators that broadcast a tensor without dimensions instead of taking a number, which is read in
advance. So the wait, the launches and the broadcast are told apart. Milliseconds a step, each round's, and launches.
"""

from __future__ import annotations

import statistics
import time
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable

    Step = Callable[[], object]

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
SIDE, ROUNDS = (768, 150) if DEVICE == "cuda" else (12, 3)
TURNS, STEPS = 7, 12


def laplace(x: torch.Tensor) -> torch.Tensor:
    """The flow's operator: four neighbours."""
    y = x * 4.0
    y[1:] -= x[:-1]
    y[:-1] -= x[1:]
    y[:, 1:] -= x[:, :-1]
    y[:, :-1] -= x[:, 1:]
    return y


def search(*, numbers: bool, read: bool, known: float | None = None) -> Step:
    """A step: with numbers of Python's or tensors, values read or not; `known` takes the place of both values."""
    right = torch.randn(SIDE, SIDE, device=DEVICE)
    constant = None if known is None else torch.tensor(known, device=DEVICE)

    def dot(one: torch.Tensor, other: torch.Tensor) -> Any:
        value = one.flatten().dot(other.flatten())
        if constant is not None:
            return known if numbers else constant
        number = float(value) if read else 0.0
        return number if numbers else value

    def step() -> torch.Tensor:
        x, r, p = torch.zeros_like(right), right.clone(), right.clone()
        square = dot(r, r)
        for _ in range(ROUNDS):
            q = laplace(p)
            share = dot(p, q) if constant is not None else square / dot(p, q)
            if numbers:
                x.add_(p, alpha=share)
                r.sub_(q, alpha=share)
            else:
                x.addcmul_(p, share)
                r.addcmul_(q, share, value=-1.0)
            before, square = square, dot(r, r)
            p.mul_(square if constant is not None else square / before).add_(r)
        return x

    return step


VARIANTS: dict[str, Step] = {
    "numbers, read": search(numbers=True, read=True),
    "tensors, not read": search(numbers=False, read=False),
    "tensors, read all the same": search(numbers=False, read=True),
    "a constant number, nothing read": search(numbers=True, read=False, known=0.4),
    "a constant tensor, nothing read": search(numbers=False, read=False, known=0.4),
}


def timed_ms(step: Step) -> float:
    """Milliseconds a step."""
    synchronize()
    begin = time.perf_counter()
    for _ in range(STEPS):
        step()
    synchronize()
    return (time.perf_counter() - begin) / STEPS * 1e3


def synchronize() -> None:
    """Wait for the device."""
    if DEVICE == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    """Time the variants in turns, so that a host that slows down slows all of them."""
    times: dict[str, list[float]] = {name: [] for name in VARIANTS}
    for turn in range(TURNS + 1):
        for name, step in VARIANTS.items():
            one = timed_ms(step)
            if turn:
                times[name].append(one)
    for name, found in times.items():
        print(f"{name:34s} {statistics.median(found):7.2f} ms  {' '.join(f'{one:.1f}' for one in found)}")


if __name__ == "__main__":
    main()
