"""A small continuous-batching server, recorded on a GPU and timed without the profiler.

    python -m benchmarks.serving_record OUT [--small]

A decoder with random weights, a KV cache by slot, prefills in chunks that share an iteration with
decodes, and vLLM's marker around each iteration. Three servers: `eager`, `graph` (decodes replay
CUDA graphs, each batch the next larger one that was captured) and `overlap` (graphs, and an
iteration is submitted before the tokens of the one before it are read). `OUT/NAME.trace.json.gz` is
the recording. In `OUT/logs`, `NAME.profiled.log` is the iteration log of the same run, which goes
on behind the recording with batches that it does not have; `NAME.1.log` to `.3.log` are of the same
requests without the profiler. `capture.trace.json.gz` is the capture of the graphs,
`whole.trace.json.gz` one and replays together.
"""

from __future__ import annotations

import argparse
import json
import random
import tarfile
import time
from collections import deque
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple

import torch
from torch.nn import functional
from torch.profiler import ProfilerActivity, profile, record_function

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
WAVES = (
    (4, 10),
    (16, 10),
    (48, 10),
    (8, 10),
    (64, 10),
    (32, 10),
    (16, 10),
    (24, 10),
    (12, 10),
    (40, 10),
    (56, 10),
)
"""Requests at a time, and iterations of nothing but decodes until the next wave."""
RECORDED = 5
"""The waves behind these are in the logs alone."""
ROUNDS = 3
CAPTURED = (4, 8, 16, 24, 32, 48, 64)
WHOLE = ((4, 4), (12, 4))
"""Waves of the recording that has the capture, too."""
CHUNK = 256
"""Keys that a decode attends to at a time."""
PROMPTS = (32, 128, 512, 2048, 6000)


SIZE = {
    "layers": 12,
    "hidden": 4096,
    "heads": 32,
    "kept": 8,
    "wide": 12288,
    "length": 8192,
    "vocabulary": 32768,
}
"""`kept`: heads of keys and values; `length`: of the longest request."""
SMALL = {
    "layers": 2,
    "hidden": 64,
    "heads": 4,
    "kept": 2,
    "wide": 128,
    "length": 1024,
    "vocabulary": 1024,
}
BUDGET = 4096
"""New tokens of an iteration at most."""


class Attention(torch.nn.Module):
    def __init__(self, size: SimpleNamespace, slots: int) -> None:
        super().__init__()
        self.size = size
        kv = size.kept * size.d
        self.qkv, self.out = (
            _weight(size.hidden + 2 * kv, size.hidden),
            _weight(size.hidden, size.hidden),
        )
        self.cache = torch.zeros(
            2, slots * size.length, size.kept, size.d, device=DEVICE, dtype=torch.bfloat16
        )

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], given: Inputs, most: int
    ):
        size = self.size
        parts = functional.linear(x, self.qkv).split((size.hidden, *[size.kept * size.d] * 2), -1)
        q, k, v = (part.view(len(x), -1, size.d) for part in parts)
        place = given.token_slot * size.length + given.position
        self.cache[0].index_copy_(0, place, _turned(k, *turn))
        self.cache[1].index_copy_(0, place, v)
        attended = _attention(_turned(q, *turn), self.cache, given, most, size.length)
        return functional.linear(attended.reshape(len(x), -1), self.out)


class FeedForward(torch.nn.Module):
    def __init__(self, size: SimpleNamespace) -> None:
        super().__init__()
        self.up, self.down = _weight(2 * size.wide, size.hidden), _weight(size.hidden, size.wide)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        gate, value = functional.linear(x, self.up).chunk(2, -1)
        return functional.linear(functional.silu(gate) * value, self.down)


class Norm(torch.nn.Module):
    def __init__(self, size: SimpleNamespace) -> None:
        super().__init__()
        self.weight = torch.ones(size.hidden, device=DEVICE, dtype=torch.bfloat16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.rms_norm(x, self.weight.shape, self.weight)


class Layer(torch.nn.Module):
    def __init__(self, size: SimpleNamespace, slots: int) -> None:
        super().__init__()
        self.first, self.second = Norm(size), Norm(size)
        self.attention, self.feed = Attention(size, slots), FeedForward(size)

    def forward(
        self, x: torch.Tensor, turn: tuple[torch.Tensor, torch.Tensor], given: Inputs, most: int
    ):
        x = x + self.attention(self.first(x), turn, given, most)
        return x + self.feed(self.second(x))


def _weight(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=torch.bfloat16) * 0.02


class Model(torch.nn.Module):
    """A decoder like Llama's; `forward` takes the new tokens of all requests one behind the
    other."""

    def __init__(self, size: SimpleNamespace, slots: int) -> None:
        super().__init__()
        self.size = size
        torch.manual_seed(0)
        size.d = size.hidden // size.heads
        self.embedding, self.head = (
            _weight(size.vocabulary, size.hidden),
            _weight(size.vocabulary, size.hidden),
        )
        self.norm = Norm(size)
        self.layers = torch.nn.ModuleList(Layer(size, slots) for _ in range(size.layers))
        turn = 10000 ** (torch.arange(0, size.d, 2, device=DEVICE) / size.d)
        angle = torch.arange(size.length, device=DEVICE)[:, None] / turn
        self.cos, self.sin = angle.cos().bfloat16()[:, None], angle.sin().bfloat16()[:, None]
        self.last_token = torch.zeros(slots, device=DEVICE, dtype=torch.long)

    def bytes(self) -> int:
        """Of the weights that an iteration reads."""
        of = [
            w
            for layer in self.layers
            for w in (layer.attention.qkv, layer.attention.out, *vars(layer.feed).values())
        ]
        return 2 * sum(w.numel() for w in (self.head, *of) if isinstance(w, torch.Tensor))

    def forward(self, given: Inputs, most: int) -> torch.Tensor:
        """The next token of each request, which is kept in `last_token`, too; `most`: new tokens of
        a request."""
        ids = torch.where(given.ids < 0, self.last_token[given.token_slot], given.ids)
        turn = self.cos[given.position], self.sin[given.position]
        x = functional.embedding(ids, self.embedding)
        for layer in self.layers:
            x = layer(x, turn, given, most)
        token = functional.linear(self.norm(x[given.last]), self.head).argmax(-1)
        self.last_token.index_copy_(0, given.slot, token)
        return token


def _turned(x: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    a, b = x.chunk(2, -1)
    return torch.cat((a * cos - b * sin, b * cos + a * sin), -1)


def _attention(
    q: torch.Tensor, cache: torch.Tensor, given: Inputs, most: int, length: int
) -> torch.Tensor:
    if most > 1:
        return _flash(q, cache, given.query_start, given.key_start, given.used, most, length)[0]
    count = length // CHUNK  # of a request, so that long ones keep no part of the GPU waiting
    first = torch.arange(count, device=DEVICE, dtype=torch.int32) * CHUNK
    used = (given.used[:, None] - first).clamp(0, CHUNK).flatten()
    starts = (given.key_start[:-1, None] + first).flatten()
    queries = torch.arange(len(starts) + 1, device=DEVICE, dtype=torch.int32)
    parts, weight = _flash(
        q.repeat_interleave(count, 0),
        cache,
        queries,
        torch.cat((starts, starts[-1:])),
        used,
        2,
        CHUNK,
    )
    weight = torch.where(used > 0, weight, -torch.inf).view(q.shape[1], len(q), count).softmax(-1)
    return (
        (parts.view(len(q), count, *q.shape[1:]) * weight.permute(1, 2, 0)[..., None])
        .sum(1)
        .to(q.dtype)
    )


def _flash(
    q: torch.Tensor,
    cache: torch.Tensor,
    q_start: torch.Tensor,
    k_start: torch.Tensor,
    used: torch.Tensor,
    *most: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of each request's new tokens, and the logarithm of what it is divided by, (heads,
    tokens)."""
    if GPU:
        causal = most[1] > CHUNK
        args = (q_start, k_start, *most, 0.0)
        found = torch.ops.aten._flash_attention_forward(
            q, cache[0], cache[1], *args, causal, False, seqused_k=used
        )
        return found[0], found[1].reshape(q.shape[1], -1)
    parts = []
    weights = []
    for i, n in enumerate(used.tolist()):
        mine = q[q_start[i] : q_start[i + 1]].float()
        start = int(k_start[i])
        keys, values = (
            c[start : start + n].float().repeat_interleave(q.shape[1] // c.shape[1], 1)
            for c in cache
        )
        seen = torch.ones(len(mine), n, dtype=torch.bool).tril(n - len(mine))
        scores = (
            torch.einsum("qhd,khd->hqk", mine, keys).div(q.shape[2] ** 0.5).where(seen, -torch.inf)
        )
        parts.append(torch.einsum("hqk,khd->qhd", scores.softmax(-1).nan_to_num(), values))
        weights.append(scores.logsumexp(-1))
    return torch.cat(parts).to(q.dtype), torch.cat(weights, 1)


class Inputs(NamedTuple):
    """Of an iteration, on the device: by new token, by request, and where requests begin."""

    ids: torch.Tensor
    """-1: the token that the request's slot has last."""
    position: torch.Tensor
    token_slot: torch.Tensor
    slot: torch.Tensor
    last: torch.Tensor
    query_start: torch.Tensor
    key_start: torch.Tensor
    used: torch.Tensor


def moved(columns: list[list[int]], into: Inputs | None = None) -> Inputs:
    """The columns on the device."""
    host = [
        torch.tensor(c, dtype=torch.long if i < 5 else torch.int32) for i, c in enumerate(columns)
    ]
    host = [t.pin_memory() for t in host] if GPU else host
    if into is None:
        return Inputs(*(t.to(DEVICE, non_blocking=True) for t in host))
    for t, target in zip(host, into, strict=True):
        target.copy_(t, non_blocking=True)
    return into


def _told(of: list[tuple[int, int]]) -> str:
    """Requests and the sums of their query and key lengths, as vLLM writes them; of pairs of key
    and query length."""
    sums = (
        sum(q for _, q in of),
        sum(k for k, _ in of),
        sum(q * q for _, q in of),
        sum(q * k for k, q in of),
    )
    return "{}(sq{}sk{}sqsq{}sqsk{})".format(len(of), *sums)


@dataclass
class Request:
    slot: int
    prompt: list[int]
    done: int = 0
    """Tokens whose keys and values are kept."""
    text: list[str] = field(default_factory=list)


class Server:
    def __init__(self, model: Model, graphs: bool, overlap: bool) -> None:
        self.model = model
        self.overlap = overlap
        self.graphs: dict[int, tuple[torch.cuda.CUDAGraph, Inputs, torch.Tensor]] = {}
        self.graphed = graphs and GPU
        self.reset()

    def reset(self) -> None:
        self.random = random.Random(1)  # noqa: S311
        self.running: list[Request] = []
        self.free = list(range(max(CAPTURED)))
        self.pending: deque = deque()
        self.lines: list[str] = []

    def capture(self) -> None:
        for batch in CAPTURED if self.graphed else ():
            columns = [[-1] * batch, [0] * batch, *([list(range(batch))] * 3), [*range(batch + 1)]]
            given = moved(
                [*columns, [i * self.model.size.length for i in range(batch + 1)], [1] * batch]
            )
            with record_function(f"warmup_{batch}"):
                self.model(given, 1)
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with record_function(f"capture_{batch}_FULL"), torch.cuda.graph(graph):
                token = self.model(given, 1)
            self.graphs[batch] = graph, given, token

    def schedule(self, most: int) -> list[tuple[Request, int]]:
        """The requests of the next iteration, each with its new tokens: decodes first, then chunks
        of prompts."""
        while len(self.running) > most:
            gone = self.running.pop(self.random.randrange(len(self.running)))
            self.free.append(gone.slot)
        longest = self.model.size.length - 200
        while len(self.running) < most:
            prompt = list(range(min(self.random.choice(PROMPTS), longest)))
            self.running.append(Request(self.free.pop(0), prompt))
        left = BUDGET
        chosen = []
        for request in sorted(self.running, key=lambda r: r.done < len(r.prompt)):
            new = (
                min(len(request.prompt) - request.done, left)
                if request.done < len(request.prompt)
                else 1
            )
            if new > 0:
                chosen.append((request, new))
                left -= new
        return chosen

    def inputs(self, chosen: list[tuple[Request, int]], padded: int) -> list[list[int]]:
        """Columns of `Inputs`, with one-token requests in the last slot, which is no one's, up to a
        graph's batch."""
        ids = [i for r, new in chosen for i in r.prompt[r.done : r.done + new] or [-1]]
        position = [p for r, new in chosen for p in range(r.done, r.done + new)]
        token_slot = [r.slot for r, new in chosen for _ in range(new)]
        query_start = [0, *accumulate(new for _, new in chosen)]
        slots = [r.slot for r, _ in chosen]
        starts = [s * self.model.size.length for s in (*slots, slots[-1])]
        used = [r.done + new for r, new in chosen]
        more = max(padded - len(chosen), 0)
        none = max(CAPTURED)
        query_start += [query_start[-1] + i + 1 for i in range(more)]
        starts = [*starts[:-1], *[none * self.model.size.length] * (more + 1)] if more else starts
        ids = ids + [-1] * more
        position = position + [0] * more
        used = used + [1] * more
        token_slot = token_slot + [none] * more
        slots = slots + [none] * more
        return [
            ids,
            position,
            token_slot,
            slots,
            [e - 1 for e in query_start[1:]],
            query_start,
            starts,
            used,
        ]

    def step(self, most: int) -> bool:
        """One iteration; whether it had nothing but decodes."""
        began = time.perf_counter()
        with record_function("scheduler: schedule"):
            chosen = self.schedule(most)
            context = [(r.done + n, n) for r, n in chosen if r.done < len(r.prompt)]
            decodes = [(r.done + n, n) for r, n in chosen if r.done >= len(r.prompt)]
        with record_function("model_runner: prepare_inputs"):
            fits = (
                next((n for n in CAPTURED if n in self.graphs and n >= len(decodes)), 0)
                if not context
                else 0
            )
            columns = self.inputs(chosen, fits)
            graph = self.graphs.get(fits)
            given = moved(columns, graph and graph[1])
        with record_function(
            f"execute_{sum(n for _, n in chosen)}_context_{_told(context)}_generation_{_told(decodes)}"
        ):
            if graph:
                graph[0].replay()
                token = graph[2][: len(chosen)]
            else:
                token = self.model(given, max(n for _, n in chosen))
        with record_function("sampler: sample"):
            host = torch.empty(len(chosen), dtype=torch.long, pin_memory=GPU)
            host.copy_(token, non_blocking=True)
            event = torch.cuda.Event() if GPU else None
            _ = event and event.record()
        for request, new in chosen:
            request.done += new
        self.pending.append((chosen, host, event))
        if not self.overlap or len(self.pending) > 1:
            self.output()
        told = (
            f"{len(context)} context requests, {sum(n for _, n in context)} context tokens, "
            f"{len(decodes)} generation requests, {len(decodes)} generation tokens"
        )
        elapsed = (time.perf_counter() - began) * 1000
        self.lines.append(
            f"Iteration({len(self.lines)}): {told}, iteration elapsed time: {elapsed:.4f} ms"
        )
        return not context

    def output(self) -> None:
        """Read the tokens of the oldest iteration, and make text of them."""
        chosen, host, event = self.pending.popleft()
        with record_function("output_processor: wait"):
            _ = event and event.synchronize()
        with record_function("detokenizer: process_outputs"):
            for (request, _), token in zip(chosen, host.tolist(), strict=True):
                request.text.append(f"<{token}>")
                json.dumps(
                    {"slot": request.slot, "text": request.text[-20:], "tokens": len(request.text)}
                )

    def run(self, recorder: object = None, waves: tuple[tuple[int, int], ...] = WAVES) -> None:
        """All waves; the recorder runs with those that are recorded."""
        self.reset()
        for i, (most, decodes) in enumerate(waves):
            if recorder is not None and i in (0, RECORDED):
                (recorder.start if i == 0 else recorder.stop)()
            while decodes:
                decodes -= self.step(most)
        while self.pending:
            self.output()


def _recorder(**options: bool) -> profile:
    return profile(
        activities=[ProfilerActivity.CPU, *[ProfilerActivity.CUDA] * GPU],
        record_shapes=True,
        **options,
    )


def record(out: Path, model: Model, name: str) -> None:
    """One server: its recordings and its logs."""
    server = Server(model, name != "eager", name == "overlap")
    server.run()
    with _recorder(with_stack=True) if name == "graph" else nullcontext() as recorder:
        server.capture()
    _ = recorder and recorder.export_chrome_trace(str(out / "capture.trace.json.gz"))
    server.run()
    for i in range(ROUNDS):
        server.run()
        (out / "logs" / f"{name}.{i + 1}.log").write_text("\n".join(server.lines) + "\n")
    recorder = _recorder()
    server.run(recorder)
    (out / "logs" / f"{name}.profiled.log").write_text("\n".join(server.lines) + "\n")
    recorder.export_chrome_trace(str(out / f"{name}.trace.json.gz"))


def record_whole(out: Path, model: Model) -> None:
    """Capture and replays in one recording."""
    server = Server(model, graphs=True, overlap=False)
    with _recorder() as recorder:
        server.capture()
        server.run(waves=WHOLE)
    recorder.export_chrome_trace(str(out / "whole.trace.json.gz"))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("out", type=Path)
    parser.add_argument("--small", action="store_true")
    asked = parser.parse_args()
    (asked.out / "logs").mkdir(parents=True, exist_ok=True)
    size = SimpleNamespace(**SMALL if asked.small else SIZE)
    model = Model(size, max(CAPTURED) + 1)
    for name in ("eager", "graph", "overlap"):
        record(asked.out, model, name)
    record_whole(asked.out, model)
    machine = torch.cuda.get_device_name() if GPU else "cpu"
    about = {
        "gpu": machine,
        "torch": torch.__version__,
        "weight_bytes": model.bytes(),
        **vars(size),
    }
    about["kv_bytes_per_token"] = 4 * size.layers * size.kept * size.d
    (asked.out / "logs" / "manifest.json").write_text(json.dumps(about, indent=1))
    with tarfile.open(asked.out / "logs.tar.gz", "w:gz") as packed:
        packed.add(asked.out / "logs", "logs")


if __name__ == "__main__":
    with torch.inference_mode():
        main()
