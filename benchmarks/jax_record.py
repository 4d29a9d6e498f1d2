"""Records a training loop in JAX on whatever device there is: `python benchmarks/jax_record.py
FOLDER [STEPS]`.

Needs `pip install "jax[cuda12]"` (or `jax` for a CPU). FOLDER gets
`plugins/profile/TIME/HOST.xplane.pb` and the JSON beside it, for `traceanalyzer analyze`, and
`stopwatch.json`: the same steps timed before without the profiler.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path

WIDTH = 2048
DEPTH = 6
BATCH = 4096


def main(folder: Path, steps: int) -> None:
    """Train, time `steps` steps, then record as many."""
    import jax
    import jax.numpy as jnp

    def loss(weights: list[jax.Array], batch: jax.Array) -> jax.Array:
        for weight in weights:
            batch = jnp.tanh(batch @ weight)
        return jnp.mean(batch**2)

    @jax.jit
    def train_step(weights: list[jax.Array], batch: jax.Array) -> tuple[list[jax.Array], jax.Array]:
        value, gradients = jax.value_and_grad(loss)(weights, batch)
        return [
            weight - 0.1 * gradient for weight, gradient in zip(weights, gradients, strict=True)
        ], value

    keys = jax.random.split(jax.random.key(0), DEPTH + 1)
    weights = [jax.random.normal(key, (WIDTH, WIDTH), jnp.bfloat16) * 0.02 for key in keys[1:]]
    batch = jax.random.normal(keys[0], (BATCH, WIDTH), jnp.bfloat16)
    times_ms = []
    for i in range(2 * steps):
        begun = time.perf_counter()
        weights, value = train_step(weights, batch)
        float(value)
        if i >= steps:  # the first ones compile and warm up
            times_ms.append((time.perf_counter() - begun) * 1e3)
    with jax.profiler.trace(str(folder), create_perfetto_trace=True):
        for i in range(steps):
            with jax.profiler.StepTraceAnnotation("train", step_num=i):
                weights, value = train_step(weights, batch)
                float(value)
    measured = {
        "median_step_ms": statistics.median(times_ms),
        "steps_ms": times_ms,
        "device": str(jax.devices()[0]),
    }
    (folder / "stopwatch.json").write_text(json.dumps(measured, indent=1))
    sys.stdout.write(f"{measured['median_step_ms']:.3f} ms a step on {measured['device']}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 20)
