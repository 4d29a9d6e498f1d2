"""Counters as recorders take them, on a GPU host: `python -m benchmarks.counters_gpu OUT`. About four minutes.

One program with long matrix products, long additions, short kernels and a loader that reads files is recorded four
times: Nsight Systems with GPU counters, Nsight Systems with calls to the operating system, Nsight Compute with stalls,
torch.profiler with NVML. What each adds is printed; a recorder that is missing or may not count says so. To look at:

- the sampled kernels: long products with tensor cores active for most cycles, long additions with most of the DRAM
  bandwidth (what `sol` says), short kernels unsampled;
- whether ncu knows every stall counter by its name (`main_stall` of each kernel);
- `load`: power and utilisation plausible, CPU cores of the program about one.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

PROGRAM = """
import pathlib, sys, torch

class Files(torch.utils.data.Dataset):
    def __init__(self, folder):
        self.files = sorted(pathlib.Path(folder).glob("*.bin"))
    def __len__(self):
        return 4096
    def __getitem__(self, i):
        data = self.files[i % len(self.files)].read_bytes()
        return torch.frombuffer(bytearray(data), dtype=torch.uint8).float()

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(16384, 16384, dtype=torch.bfloat16, device="cuda"))
        self.large = torch.randn(1 << 29, device="cuda")
    def forward(self, x):
        y = self.weight @ self.weight
        z = self.large + 1.0
        for _ in range(50):
            x = x * 1.0001
        return y.float().mean() * 1e-9 + z[0] + x.mean()

folder = pathlib.Path(sys.argv[1])
for i in range(64):
    (folder / f"{i}.bin").write_bytes(bytes(1 << 20))
model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
loader = torch.utils.data.DataLoader(Files(folder), batch_size=16, num_workers=0)
for step, batch in zip(range(60), loader):
    model(batch.cuda()).backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
torch.cuda.synchronize()
"""
KERNEL = (
    *("name", "calls", "total_ms", "sol", "bound_by", "samples", "sampled_sm_share", "sampled_tensor_share"),
    *("sampled_dram_share", "achieved_occupancy_share", "tensor_active_share", "main_stall", "main_stall_share"),
)


def run(*words: object) -> str:
    """Output of a command of ours; its errors go to stderr as they are."""
    command = [sys.executable, "-m", "traceanalyzer", *map(str, words)]
    print("$", " ".join(command[2:]), flush=True)
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False).stdout


def shown(name: str, *words: object) -> list[dict[str, Any]]:
    """Rows of a table command; empty where it failed."""
    text = run(*words, "--format", "json")
    rows: list[dict[str, Any]] = json.loads(text)[name] if text else []
    return rows


def main(out: Path) -> None:
    """Record four times and print what each adds."""
    out.mkdir(parents=True, exist_ok=True)
    program, files = out / "program.py", out / "files"
    files.mkdir(exist_ok=True)
    program.write_text(PROGRAM)
    again = ("--", program, files)
    for name, options in {"sampled": ["--gpu-metrics"], "os_calls": ["--os-calls"]}.items():
        run("collect", "nsys", "-o", out / name, "--active", 6, *options, *again)
    run("collect", "torch", "-o", out / "torch", "--nvml", 0.05, *again)
    run("collect", "ncu", "-o", out / "ncu", "--trace", out / "torch", "--top", 4, "--stalls", *again)
    sampled, report = out / "sampled", run("analyze", out / "torch", "--format", "json")
    print(json.dumps(shown("counters", "counters", sampled), indent=1))
    for row in shown("kernels", "kernels", sampled)[:8]:
        print({key: row.get(key) for key in KERNEL})
    for row in shown("kernels", "kernels", out / "torch", "--ncu", out / "ncu" / "ncu.csv")[:8]:
        print({key: row.get(key) for key in KERNEL})
    tables = json.loads(report)["tables"] if report else {}
    print(json.dumps([tables.get("load"), tables.get("conditions")], indent=1))
    print(run("explain", "input-wait") and run("analyze", out / "os_calls", "-v"))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
