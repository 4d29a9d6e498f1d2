"""A script that profiles itself, for `benchmarks.collect_light`: MODE FOLDER. Prints what it found out."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.profiler import profile, schedule

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
MODE, FOLDER = sys.argv[1], Path(sys.argv[2])
model = nn.Sequential(*(nn.Linear(64, 64) for _ in range(4))).to(DEVICE)
optimizer = torch.optim.SGD(model.parameters(), 0.01)


def train(steps: int, after: Any = lambda: None) -> None:
    for _ in range(steps):
        model(torch.randn(8, 64, device=DEVICE)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        after()


def own(steps: int, name: str = "own") -> None:
    with profile() as profiler:
        train(steps)
    profiler.export_chrome_trace(str(FOLDER / f"{name}.json"))
    found = {event.name for event in profiler.events()}
    print(name, "aten::addmm" in found, any("gemm" in n.lower() or "sgemm" in n for n in found) or DEVICE == "cpu")


def around() -> None:
    own(150)


def before() -> None:
    own(10)
    train(150)


def during() -> None:
    for steps in (27, 20, 20):
        train(steps)
        own(5, f"own{steps}")
    train(150)


def by_schedule() -> None:
    made = []
    with profile(schedule=schedule(wait=20, warmup=2, active=3), on_trace_ready=made.append) as profiler:
        train(150, profiler.step)
    print(len(made))


def in_thread() -> None:
    train(70)
    thread = threading.Thread(target=own, args=(20,))
    thread.start()
    thread.join()
    train(100)
    own(5)


def in_fork() -> None:
    train(70)
    child = os.fork()
    if not child:
        from torch.profiler import ProfilerActivity

        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            torch.ones(3) + 1
        print(len(profiler.events()) > 0, flush=True)
        os._exit(3)
    print(os.waitpid(child, 0)[1])
    train(50)


def legacy() -> None:
    train(70)
    with torch.autograd.profiler.profile(use_kineto=True) as profiler:
        train(5)
    print(len(profiler.function_events) > 0)
    train(60)


def nvtx() -> None:
    train(70)
    with torch.autograd.profiler.emit_nvtx():
        train(5)
    train(60)


def graph() -> None:
    train(150)
    x = torch.randn(8, 64, device=DEVICE)
    with torch.no_grad():
        model(x)
        captured = torch.cuda.CUDAGraph()
        with torch.cuda.graph(captured):
            y = model(x)
    for number in range(2):
        with profile() as profiler:
            for _ in range(20):
                captured.replay()
        torch.cuda.synchronize()
        print(number, any(event.name == "cudaGraphLaunch" for event in profiler.events()), bool(y.isfinite().all()))
    train(20)


def compiled() -> None:
    fast = torch.compile(model, mode="reduce-overhead")
    with torch.no_grad():
        for number in range(3):
            for _ in range(60):
                y = fast(torch.randn(8, 64, device=DEVICE))
            with profile() as profiler:
                for _ in range(5):
                    y = fast(torch.randn(8, 64, device=DEVICE))
            print(number, len(profiler.events()) > 0, bool(y.isfinite().all()))


def with_lightning() -> None:
    import lightning
    from lightning.pytorch.profilers import PyTorchProfiler

    class Task(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def training_step(self, batch: Any) -> Any:
            return self.model(batch[0]).square().mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.01)

    data = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.randn(1200, 64)), batch_size=8)
    profiler = PyTorchProfiler(dirpath=FOLDER, filename="lightning", schedule=schedule(wait=20, warmup=1, active=3))
    quiet = {
        "logger": False,
        "enable_progress_bar": False,
        "enable_checkpointing": False,
        "enable_model_summary": False,
    }
    lightning.Trainer(max_epochs=1, profiler=profiler, **quiet).fit(Task(), data)
    print(len(list(FOLDER.glob("*lightning*"))))


def with_accelerate() -> None:
    from accelerate import Accelerator
    from accelerate.utils import ProfileKwargs

    made = []
    options = ProfileKwargs(
        activities=["cpu", *(["cuda"] if DEVICE == "cuda" else [])],
        schedule_option={"wait": 30, "warmup": 1, "active": 2, "repeat": 1, "skip_first": 0},
        on_trace_ready=made.append,
    )
    accelerator = Accelerator(kwargs_handlers=[options])
    network, steps = accelerator.prepare(model, optimizer)
    with accelerator.profile() as profiler:
        for _ in range(120):
            accelerator.backward(network(torch.randn(8, 64, device=DEVICE)).square().mean())
            steps.step()
            profiler.step()
    print(len(made))


def with_trainer() -> None:
    from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainerCallback, TrainingArguments

    made = []

    class Profiled(TrainerCallback):
        def on_train_begin(self, *args: Any, **kwargs: Any) -> None:
            self.profiler = profile(schedule=schedule(wait=25, warmup=1, active=2), on_trace_ready=made.append)
            self.profiler.start()

        def on_step_end(self, *args: Any, **kwargs: Any) -> None:
            self.profiler.step()

        def on_train_end(self, *args: Any, **kwargs: Any) -> None:
            self.profiler.stop()

    sizes = {"hidden_size": 64, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
    network = BertForSequenceClassification(BertConfig(**sizes, vocab_size=100))
    data = [{"input_ids": [1] * 16, "labels": i % 2} for i in range(960)]
    options = TrainingArguments(
        str(FOLDER / "out"), num_train_epochs=1, report_to=[], save_strategy="no", disable_tqdm=True
    )
    Trainer(network, options, train_dataset=data, callbacks=[Profiled()]).train()
    print(len(made) > 0)


MODES = {
    "around": around,
    "before": before,
    "during": during,
    "schedule": by_schedule,
    "thread": in_thread,
    "fork": in_fork,
    "legacy": legacy,
    "nvtx": nvtx,
    "graph": graph,
    "compiled": compiled,
    "lightning": with_lightning,
    "accelerate": with_accelerate,
    "trainer": with_trainer,
}

if __name__ == "__main__":
    MODES[MODE]()
    print("ended", flush=True)
