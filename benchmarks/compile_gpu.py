"""Six faults of torch.compile on a GPU, each with its remedy: log, trace and stopwatch of both.

    python benchmarks/compile_gpu.py OUT_FOLDER [CASE...]

Writes `OUT_FOLDER/compile_gpu.tar.gz`: for each case and variant (`fault`, `fixed`) the structured log of each start
(`TORCH_TRACE`), a trace of four steady steps, and `truth.json` with the stopwatch's times and dynamo's counters.
`benchmarks/compile_proof.py` holds the predictions of `traceanalyzer compile` against them. Needs torch alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROUNDS, STEPS, FIRST_STEPS = 5, 33, 12
START_TIMEOUT_S = 150
CASES: dict[str, dict[str, Any]] = {
    "dynamic_batch": {"what": "another batch size each step with dynamic=False; fixed: mark_dynamic"},
    "print": {"what": "a print in forward; fixed: without"},
    "item": {"what": "a value read with .item() in forward; fixed: kept on the GPU"},
    "cache_bypass": {"what": "a pass without uuid keeps graphs out of the cache; fixed: without the pass", "starts": 2},
    "autotune": {"what": "max-autotune with an empty cache at each start; fixed: the cache is kept", "starts": 2},
    "cudagraphs": {"what": "reduce-overhead, and the input is changed in place; fixed: it is not"},
    "cudagraphs_cpu": {"what": "reduce-overhead with a tensor on the CPU in the graph; fixed: on the GPU"},
    "no_log": {"what": "the plain program without TORCH_TRACE (fault: with), for the cost of the log"},
}


def run_variant(case: str, variant: str, out: Path) -> None:  # noqa: C901 (a program and its faults)
    """One start of the program in this process."""
    import torch
    import torch._dynamo
    import torch.nn.functional as F  # noqa: N812

    fault = variant == "fault"
    train = case in ("print", "item", "no_log", "cache_bypass")
    device, width, layers = torch.device("cuda"), 1024, 8
    torch.manual_seed(0)

    class Block(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)
            self.norm = torch.nn.LayerNorm(width)

        def forward(self, x: Any) -> Any:
            return x + self.down(F.gelu(self.up(self.norm(x))))

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first = torch.nn.Sequential(*(Block() for _ in range(layers // 2)))
            self.second = torch.nn.Sequential(*(Block() for _ in range(layers // 2)))
            self.scale = torch.rand(1024)

        def forward(self, x: Any) -> Any:
            if case == "cudagraphs":
                x = x.mul_(0.999) if fault else x * 0.999
            x = self.first(x)
            if case == "print" and fault:
                print("half way")
            if case == "item":
                mean = x.float().abs().mean()
                x = x * (1.0 / (1.0 + (mean.item() if fault else mean)))
            x = self.second(x)
            return x * self.scale.to(x.device) if case == "cudagraphs_cpu" else x

    options: dict[str, Any] = {"dynamic": False if case == "dynamic_batch" and fault else None}
    if case == "cache_bypass" and fault:
        import torch._inductor.config as inductor

        def left_alone(graph: Any) -> None:
            """A pass that the cache cannot tell from another one."""

        inductor.post_grad_custom_post_pass = left_alone
    if case.startswith("cudagraphs"):
        options["mode"] = "reduce-overhead"
    if case == "autotune":
        options["mode"] = "max-autotune-no-cudagraphs"
    model = Model().to(device)
    model.scale = model.scale.to("cpu" if fault else device)
    compiled = torch.compile(model, **options)
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    sizes = (
        [32 * (i + 1) for i in range(11)] if case == "dynamic_batch" else [64 if case.startswith("cudagraphs") else 256]
    )
    if case == "autotune":
        sizes = [2048]
    batches = [torch.randn(size, width, device=device, dtype=torch.float32) for size in sizes]
    if case == "dynamic_batch" and not fault:
        for batch in batches:
            torch._dynamo.mark_dynamic(batch, 0)
    turn = [0]

    def step(run: Any) -> None:
        batch = batches[turn[0] % len(batches)]
        turn[0] += 1
        with torch.autocast("cuda", torch.bfloat16), contextlib.ExitStack() as modes:
            if not train:
                modes.enter_context(torch.no_grad())
            result = run(batch)
            loss = result.float().pow(2).mean() if train else None
        if train:
            assert loss is not None
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

    def timed(run: Any, count: int) -> float:
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(count):
            step(run)
        torch.cuda.synchronize()
        return (time.perf_counter() - begin) * 1e3 / count

    first = [timed(compiled, 1) for _ in range(FIRST_STEPS)]
    truth: dict[str, Any] = {"case": case, "variant": variant, "what": CASES[case]["what"], "first_steps_ms": first}
    truth["before_steps_s"] = time.perf_counter()
    if os.environ.get("COMPILE_GPU_START_ONLY") != "1":
        timed(compiled, STEPS)
        truth["steady_ms_all"] = [timed(compiled, STEPS) for _ in range(ROUNDS)]
        truth["steady_ms"] = statistics.median(truth["steady_ms_all"])
        trace_steps(lambda: step(compiled), out / f"{case}.{variant}.trace.json.gz")
        truth["steady_after_ms_all"] = [timed(compiled, STEPS) for _ in range(ROUNDS)]
        timed(model, 3)
        truth["eager_ms_all"] = [timed(model, STEPS) for _ in range(3)]
    truth["counters"] = {str(k): {str(a): b for a, b in v.items()} for k, v in torch._dynamo.utils.counters.items()}
    truth |= {"torch": torch.__version__, "gpu": torch.cuda.get_device_name()}
    start = os.environ.get("COMPILE_GPU_START", "1")
    (out / f"{case}.{variant}.start{start}.truth.json").write_text(json.dumps(truth, default=str))


def trace_steps(step: Any, path: Path) -> None:
    """Record four steady steps."""
    import torch
    from torch.profiler import ProfilerActivity, profile, schedule

    def save(profiler: Any) -> None:
        profiler.export_chrome_trace(str(path))

    with profile(
        activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
        schedule=schedule(wait=1, warmup=2, active=4),
        on_trace_ready=save,
        record_shapes=True,
    ) as profiler:
        for _ in range(7):
            step()
            profiler.step()
        torch.cuda.synchronize()


def start(case: str, variant: str, number: int, out: Path, work: Path, *, only_start: bool) -> None:
    """One start in a process of its own, with its log and caches."""
    cache = work / f"cache.{case}.{variant}"
    if case == "autotune" and variant == "fault":
        cache = work / f"cache.{case}.{variant}.{number}"
    log = out / f"{case}.{variant}.log"
    log.mkdir(exist_ok=True)
    environment = {
        **os.environ,
        "TORCHINDUCTOR_CACHE_DIR": str(cache),
        "TRITON_CACHE_DIR": str(cache / "triton"),
        "TORCH_TRACE": str(log),
        "COMPILE_GPU_START": str(number),
        "COMPILE_GPU_START_ONLY": "1" if only_start else "0",
        "TORCHINDUCTOR_MAX_AUTOTUNE_GEMM_BACKENDS": "ATEN,TRITON",
    }
    if case == "no_log" and variant == "fixed":
        del environment["TORCH_TRACE"]
    begin = time.perf_counter()
    with (out / f"{case}.{variant}.start{number}.out").open("w") as text:
        try:
            code: object = subprocess.run(
                [sys.executable, __file__, "--one", case, variant, str(out)],
                env=environment, stdout=text, stderr=subprocess.STDOUT, timeout=START_TIMEOUT_S, check=False,
            ).returncode  # fmt: skip
        except subprocess.TimeoutExpired:
            code = "timed out"
    print(f"{case} {variant} start {number}: exit {code}, {time.perf_counter() - begin:.1f} s", flush=True)


def main(arguments: list[str]) -> None:
    """Record all cases, or those named."""
    if arguments and arguments[0] == "--one":
        run_variant(arguments[1], arguments[2], Path(arguments[3]))
        return
    target = Path(arguments[0])
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work, out = Path(folder), Path(folder) / "compile_gpu"
        out.mkdir()
        planned = [(case, variant) for case in arguments[1:] or CASES for variant in ("fault", "fixed")]
        again = [(case, variant) for case, variant in planned if CASES[case].get("starts", 1) > 1]
        with ThreadPoolExecutor(max(len(again), 1)) as pool:  # first starts fill caches; nothing of them is timed
            list(pool.map(lambda one: start(one[0], one[1], 1, out, work, only_start=True), again))
        for case, variant in planned:
            start(case, variant, CASES[case].get("starts", 1), out, work, only_start=False)
            _pack(out, target)
        shutil.rmtree(out, ignore_errors=True)


def _pack(out: Path, target: Path) -> None:
    """Everything recorded so far as one archive: a run that is cut off keeps what it has."""
    with tarfile.open(target / "compile_gpu.tar.gz", "w:gz") as archive:
        archive.add(out, arcname="compile_gpu")


if __name__ == "__main__":
    main(sys.argv[1:])
