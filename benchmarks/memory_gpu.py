"""Ground truth for `traceanalyzer memory` on a GPU: staged failures and changes whose peaks are measured.

    python benchmarks/memory_gpu.py FOLDER

Each case runs in a process of its own, under a memory fraction where it has to fail. FOLDER gets `snapshots.tar` (one
`NAME.snapshot.pickle.gz` a case) and `truth.json`: measured peaks (`torch.cuda.max_memory_allocated`) of each phase and
step, what failed, whether the fragmented case fits with expandable segments, what recording the history costs a step.
`benchmarks/memory_accuracy.py FOLDER` holds the predictions against them.
"""

from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
import tarfile
import time
from pathlib import Path

GIB = 1 << 30
STEPS = 5
TIMED_STEPS = 60
LIMIT = 240


def limit_memory(torch, gib):
    total = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(gib * GIB / total)


def make_model(torch, width=1024, layers=8, vocabulary=32000, checkpoint=False):
    from torch import nn
    from torch.utils.checkpoint import checkpoint as run_again

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = nn.LayerNorm(width)
            self.up = nn.Linear(width, 4 * width)
            self.down = nn.Linear(4 * width, width)

        def forward(self, x):
            y = self.norm(x)
            y = self.up(y)
            y = nn.functional.gelu(y)
            y = self.down(y)
            return x + y

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(vocabulary, width)
            self.blocks = nn.ModuleList(Block() for _ in range(layers))
            self.head = nn.Linear(width, vocabulary, bias=False)

        def forward(self, tokens):
            x = self.embed(tokens)
            for block in self.blocks:
                x = run_again(block, x, use_reentrant=False) if checkpoint else block(x)
            return self.head(x)

    return Model()


def whole_loss(torch, logits_of, x, targets):
    return torch.nn.functional.cross_entropy(logits_of(x).float(), targets)


class Phases:
    """Runs the phases of a step and writes down the peak of each."""

    def __init__(self, torch):
        self.torch, self.peaks, self.after = torch, {}, []

    def run(self, phase, function):
        self.torch.cuda.synchronize()
        self.torch.cuda.reset_peak_memory_stats()
        result = function()
        self.torch.cuda.synchronize()
        self.peaks.setdefault(phase, []).append(self.torch.cuda.max_memory_allocated())
        return result


def train(torch, *, batch=8, length=512, steps=STEPS, optimizer=None, set_to_none=True, keep=None, chunks=1, **model):
    from torch.utils.checkpoint import checkpoint as run_again

    net = make_model(torch, **model).to("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, **(optimizer or {}))
    tokens = torch.randint(0, 1000, (batch, length), device="cuda")
    targets = tokens.flatten()
    phases = Phases(torch)

    def hidden():
        x = net.embed(tokens)
        for block in net.blocks:
            x = block(x)
        return x.flatten(0, 1)

    def forward():
        if chunks == 1:
            logits = net(tokens).flatten(0, 1)
            if keep is not None:
                keep.append(logits * 0.5)
            return torch.nn.functional.cross_entropy(logits, targets)
        x = hidden()
        total = 0.0
        for piece, wanted in zip(x.chunk(chunks), targets.chunk(chunks), strict=True):
            total = total + run_again(piece_loss, piece, wanted, use_reentrant=False)
        return total / len(targets)

    def piece_loss(piece, wanted):
        return torch.nn.functional.cross_entropy(net.head(piece), wanted, reduction="sum")

    for _ in range(steps):
        loss = phases.run("forward", forward)
        phases.run("backward", loss.backward)
        phases.run("optimizer", optimizer.step)
        phases.run("zero_grad", lambda: optimizer.zero_grad(set_to_none=set_to_none))
        phases.after.append(torch.cuda.memory_allocated())
        del loss
    sizes = [p.numel() * p.element_size() for p in net.parameters()]
    state = [t for s in optimizer.state.values() for t in s.values() if torch.is_tensor(t) and t.is_cuda]
    return {
        "phase_peaks": phases.peaks,
        "allocated_after_step": phases.after,
        "peak": max(max(p) for p in phases.peaks.values()),
        "parameters": sum(sizes),
        "optimizer_state": sum(t.numel() * t.element_size() for t in state),
    }


def fragmented(torch):
    """Large cached segments are cut up; small tensors stay in each, and no hole is large enough."""
    limit_memory(torch, 8)
    cached = [torch.empty(GIB, dtype=torch.uint8, device="cuda") for _ in range(6)]
    del cached
    kept, passing = [], []
    for _ in range(6):
        passing.append(torch.empty(480 << 20, dtype=torch.uint8, device="cuda"))
        kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
        passing.append(torch.empty(470 << 20, dtype=torch.uint8, device="cuda"))
    del passing
    asked = torch.empty(3 * GIB, dtype=torch.uint8, device="cuda")
    return {"allocated": int(asked.numel()) + len(kept)}


def leaking(torch):
    limit_memory(torch, 6)
    return train(torch, steps=100, keep=[], batch=2, length=512, layers=4)


def one_activation(torch):
    """Attention scores written out: one tensor takes more than there is."""
    limit_memory(torch, 6)
    q = torch.nn.Linear(256, 256).to("cuda")
    x = torch.randn(16, 8192, 256, device="cuda", requires_grad=True)
    for length in (1024, 8192):
        part = q(x[:, :length])
        scores = part @ part.transpose(1, 2)
        scores.softmax(-1).sum().backward()
    return {}


def first_optimizer_step(torch):
    limit_memory(torch, 5.0)
    return train(torch, batch=1, length=64, width=2048, layers=10)


STAGED = {
    "oom_fragmentation": (fragmented, "fragmentation"),
    "oom_leak": (leaking, "leak"),
    "oom_large_activation": (one_activation, "large_allocation"),
    "oom_optimizer_state": (first_optimizer_step, "optimizer_state"),
}
TRAINED = {
    "base": {},
    "fused": {"optimizer": {"fused": True}},
    "kept_gradients": {"set_to_none": False, "optimizer": {"fused": True}},
    "checkpointed": {"checkpoint": True},
    "chunked": {"chunks": 8},
    "double_batch": {"batch": 16},
    "half_batch": {"batch": 4},
    "many_small_logits": {"vocabulary": 2000, "layers": 16, "batch": 16},
    "many_small_logits_checkpointed": {"vocabulary": 2000, "layers": 16, "batch": 16, "checkpoint": True},
    "wide": {"width": 2048, "batch": 2, "length": 128, "vocabulary": 8000},
    "wide_fused": {"width": 2048, "batch": 2, "length": 128, "vocabulary": 8000, "optimizer": {"fused": True}},
    "kept_forward": {"set_to_none": False, "vocabulary": 16000, "batch": 32, "optimizer": {"fused": True}, "layers": 4},
    "kept_forward_none": {"vocabulary": 16000, "batch": 32, "optimizer": {"fused": True}, "layers": 4},
    "ring": {},
    "expandable": {},
    "late": {},
    "all_stacks": {},
}


def run_case(name, folder):
    """One case in this process; its truth to standard output, its snapshot to the folder."""
    import torch

    torch.manual_seed(0)
    history = {
        "stacks": "all" if name == "all_stacks" else "python",
        "max_entries": 1200 if name == "ring" else 400_000,
    }
    if name == "late":
        torch.cuda.init()
        before = make_model(torch).to("cuda")
    torch.cuda.memory._record_memory_history(**history)
    truth = {"case": name}
    try:
        if name in STAGED:
            truth["expected"] = STAGED[name][1]
            truth.update(STAGED[name][0](torch))
            truth["failed"] = False
        else:
            truth.update(train(torch, **TRAINED[name]))
    except torch.OutOfMemoryError as error:
        truth.update(failed=True, message=str(error)[:600])
    truth["reserved"] = torch.cuda.memory_reserved()
    truth["end"] = torch.cuda.memory_allocated()
    if name == "late":
        truth["before"] = sum(p.numel() * p.element_size() for p in before.parameters())
    torch.cuda.memory._dump_snapshot(f"{folder}/{name}.pickle")
    raw = Path(f"{folder}/{name}.pickle").read_bytes()
    Path(f"{folder}/{name}.snapshot.pickle.gz").write_bytes(gzip.compress(raw, 6))
    truth["snapshot_bytes"] = len(raw)
    print(json.dumps(truth))


def history_cost():
    """Milliseconds a step without history, with Python stacks, and with all stacks, and of writing the snapshot."""
    import torch

    net = make_model(torch, width=512, layers=12, vocabulary=2000).to("cuda")
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    tokens = torch.randint(0, 1000, (4, 128), device="cuda")

    def timed():
        torch.cuda.synchronize()
        start = time.perf_counter()
        for _ in range(TIMED_STEPS):
            loss = net(tokens).flatten(0, 1).square().mean()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.cuda.synchronize()
        return (time.perf_counter() - start) / TIMED_STEPS * 1e3

    timed()
    result = {}
    for label, options in (
        ("none", None),
        ("python", {"stacks": "python", "max_entries": 100_000}),
        ("all", {"stacks": "all", "max_entries": 100_000}),
        ("none_again", None),
    ):
        if options is not None:
            torch.cuda.memory._record_memory_history(**options)
        result[label] = [round(timed(), 4) for _ in range(5)]
        if options is not None:
            start = time.perf_counter()
            raw = pickle.dumps(torch.cuda.memory._snapshot())
            result[f"{label}_snapshot_ms"] = round((time.perf_counter() - start) * 1e3, 1)
            result[f"{label}_snapshot_bytes"] = len(raw)
            torch.cuda.memory._record_memory_history(enabled=None)
    print(json.dumps(result))


def child(*arguments, **environment):
    done = subprocess.run(
        [sys.executable, __file__, *arguments],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=LIMIT,
        check=False,
    )
    try:
        return json.loads(done.stdout.strip().splitlines()[-1])
    except (IndexError, ValueError):
        return {"error": done.stderr[-1500:]}


def main(folder):
    folder.mkdir(parents=True, exist_ok=True)
    scratch = folder / "scratch"
    scratch.mkdir(exist_ok=True)
    import torch

    truth = {"torch": torch.__version__, "gpu": torch.cuda.get_device_name(0), "cases": {}}
    begun = time.monotonic()
    for name in [*STAGED, *TRAINED]:
        environment = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"} if name == "expandable" else {}
        truth["cases"][name] = child("--case", name, str(scratch), **environment)
        print(name, f"{time.monotonic() - begun:.0f} s", json.dumps(truth["cases"][name])[:300], flush=True)
        (folder / "truth.json").write_text(json.dumps(truth, indent=1))
    confirmed = child(
        "--case", "oom_fragmentation", str(scratch / ".."), PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True"
    )
    truth["fragmentation_with_expandable_segments"] = confirmed
    truth["history_cost_ms"] = child("--cost")
    print(json.dumps(truth["history_cost_ms"]), json.dumps(confirmed)[:300])
    (folder / "truth.json").write_text(json.dumps(truth, indent=1))
    for left in folder.glob("*.pickle*"):
        left.unlink()
    with tarfile.open(folder / "snapshots.tar", "w") as tar:
        for file in sorted(scratch.glob("*.gz")):
            tar.add(file, file.name)
    for file in scratch.iterdir():
        file.unlink()
    scratch.rmdir()


if __name__ == "__main__":
    if sys.argv[1] == "--case":
        run_case(sys.argv[2], sys.argv[3])
    elif sys.argv[1] == "--cost":
        history_cost()
    else:
        main(Path(sys.argv[1]))
