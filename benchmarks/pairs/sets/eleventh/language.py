"""Language models: tuned, aligned, scored and sampled."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.eleventh.parts import Block, Language, blocks, by_head, ids_below, normal

LLAMA = "transformers.models.llama.modeling_llama"


def _llama(width, depth, words):
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=n(11 * width // 4, 2 * width),
        num_hidden_layers=depth,
        num_attention_heads=width // n(128, 8),
        num_key_value_heads=width // n(256, 16),
        use_cache=False,
    )
    with torch.device(DEVICE):
        return LlamaForCausalLM(config).bfloat16()


@pair("no_recompute", found=True, libraries=("peft", LLAMA))
def support_desk_lora(fixed):
    """A Llama in bf16 learns a help desk's answers through LoRA (peft), its layers checkpointed as
    a recipe for small GPUs has it; the remedy keeps the activations, there is room for them."""
    from peft import LoraConfig, get_peft_model

    words = n(32_000, 50)
    whole = _llama(n(2048, 32), n(8, 2), words)
    model = get_peft_model(whole, LoraConfig(r=16, lora_alpha=32, target_modules="all-linear"))
    if not fixed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    text = ids_below(words, n(4, 2), n(1024, 12))
    return train(model.train(), lambda: model(input_ids=text, labels=text).loss)


def _told(model, ids, answered):
    """The log-probability of each row's answer."""
    every = model(ids[:, :-1]).float().log_softmax(-1)
    each = every.gather(-1, ids[:, 1:, None]).squeeze(-1)
    return (each * answered[:, 1:]).sum(1)


@pair("batch_calls", found=True)
def preferences_answer_by_answer(fixed):
    """A chat model learns preferences (DPO) from 4 prompts: each of the 8 answers goes through it
    and through the frozen reference alone, for none is as long as another. The remedy pads them to
    one batch."""
    words = n(32_000, 50)
    count = n(8, 4)
    longest = n(320, 12)
    sizes = (words, n(1024, 16), n(6, 1), longest)
    with torch.device(DEVICE):
        policy = Language(*sizes)
        reference = Language(*sizes).bfloat16().requires_grad_(False)
    of_lengths = np.random.default_rng(11).permutation(np.arange(longest // 2, longest + 1))
    lengths = of_lengths[:count].tolist()
    ids = ids_below(words, count, max(lengths))
    place = torch.arange(max(lengths), device=DEVICE)
    answered = (place >= longest // 4) & (place < torch.tensor(lengths, device=DEVICE)[:, None])

    def scores(model):
        if fixed:
            return _told(model, ids, answered)
        rows = (
            _told(model, ids[row : row + 1, :length], answered[row : row + 1, :length])
            for row, length in enumerate(lengths)
        )
        return torch.cat([*rows])

    def loss():
        with autocast():
            with torch.no_grad():
                known = scores(reference)
            gained = scores(policy) - known
        chosen, rejected = gained.chunk(2)
        return -F.logsigmoid(0.1 * (chosen - rejected)).mean()

    return train(policy, loss)


class Choosing(Module):
    """A mixture of experts, each of which chooses as many of the tokens as the others."""

    def __init__(self, width, inner, experts, *, together):
        self.together = together
        self.gate = nn.Linear(width, experts, bias=False)
        up = torch.randn(experts, width, inner) * 0.02
        down = torch.randn(experts, inner, width) * 0.02
        if together:
            self.up, self.down = nn.Parameter(up), nn.Parameter(down)
        else:
            self.up, self.down = (
                nn.ParameterList(one.clone() for one in all_) for all_ in (up, down)
            )

    def forward(self, x):
        shares = self.gate(x).float().softmax(-1)
        capacity = 2 * len(x) // shares.shape[1]
        share, chosen = shares.t().topk(capacity, 1)
        if self.together:
            told = torch.bmm(F.silu(torch.bmm(x[chosen], self.up)), self.down)
            return x.index_add(0, chosen.flatten(), (told * share[..., None]).flatten(0, 1))
        out = x.clone()
        for expert, (up, down) in enumerate(zip(self.up, self.down, strict=True)):
            told = F.silu(x[chosen[expert]] @ up) @ down
            out.index_add_(0, chosen[expert], told * share[expert][:, None])
        return out


@pair("batched_matmul", found=True)
def experts_choose_in_turn(fixed):
    """A language model whose 64 experts choose their tokens; the experts compute one after the
    other. The remedy keeps their weights stacked and multiplies in one batched product."""
    width = n(512, 16)
    words = n(16_000, 50)
    with torch.device(DEVICE):
        table = nn.Embedding(words, width)
        attention = nn.ModuleList(Block(width, causal=True) for _ in range(2))
        experts = nn.ModuleList(
            Choosing(width, n(1024, 16), n(64, 4), together=fixed) for _ in attention
        )
        head = nn.Linear(width, words, bias=False)
    text = ids_below(words, n(8, 2), n(1025, 9))

    def loss():
        h = table(text[:, :-1])
        for block, mixture in zip(attention, experts, strict=True):
            h = block(h)
            h = mixture(h.flatten(0, 1).float()).view_as(h)
        return F.cross_entropy(head(h).flatten(0, 1).float(), text[:, 1:].flatten())

    return train(nn.ModuleList((table, attention, experts, head)), loss, cast=True)


class Decoder(Module):
    """A decoder that reads a token of each row at a time, its keys and values in a cache of fixed
    size."""

    def __init__(self, words, width, depth, rows, length):
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)
        self.register_buffer(
            "cache", torch.zeros(depth, 2, rows, width // n(64, 8), length, n(64, 8))
        )
        self.register_buffer("slots", torch.arange(length))

    def forward(self, token, at):
        h = (self.words(token) + self.places(at))[:, None]
        seen = (self.slots <= at)[None, None, None]
        for block, (keys, values) in zip(self.blocks, self.cache, strict=True):
            q, k, v = map(by_head, block.qkv(block.before(h)).chunk(3, -1))
            keys.index_copy_(2, at, k)
            values.index_copy_(2, at, v)
            told = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
            h = h + block.out(told.transpose(1, 2).flatten(2))
            h = h + block.down(F.gelu(block.up(block.between(h))))
        return self.head(self.norm(h)).squeeze(1).float()

    def follow(self, rows):
        """Let each row go on from another."""
        self.cache = self.cache.index_select(2, rows)


def _nucleus(told, share):
    """A token of the likeliest that make `share` together."""
    ordered, words = told.softmax(-1).sort(-1, descending=True)
    ordered = ordered.masked_fill(ordered.cumsum(-1) - ordered > share, 0.0)
    drawn = (ordered / torch.empty_like(ordered).exponential_()).argmax(-1, keepdim=True)
    return words.gather(-1, drawn).squeeze(-1)


@pair("cuda_graph")
def stories_token_by_token(fixed):
    """Eight stories are sampled with top-p from a decoder of 24 layers with a static cache, a token
    a step; the remedy captures the decoder in a CUDA graph."""
    length = n(1024, 16)
    words = n(32_000, 50)
    rows = n(8, 2)
    with torch.device(DEVICE):
        decoder = Decoder(words, n(1024, 16), n(24, 2), rows, length).bfloat16().eval()
    token = ids_below(words, rows)
    at = torch.zeros(1, dtype=torch.long, device=DEVICE)
    told = torch.zeros(rows, words, device=DEVICE)

    @torch.no_grad()
    def read():
        told.copy_(decoder(token, at))

    read = graphed(read) if fixed else read

    @torch.no_grad()
    def step():
        read()
        token.copy_(_nucleus(told / 0.8, 0.9))
        at.add_(1).remainder_(length)

    return step


class Beams:
    """What a search keeps of every sentence's beams: their scores and the best that has ended."""

    def __init__(self, sentences, beams):
        self.beams = beams
        self.scores = torch.zeros(sentences, beams, device=DEVICE)
        self.first = torch.arange(sentences, device=DEVICE)[:, None] * beams

    def candidates(self, told):
        """The best that could follow, twice as many as there are beams."""
        words = told.shape[-1]
        total = (told.log_softmax(-1) + self.scores.view(-1, 1)).view(len(self.scores), -1)
        scores, places = total.topk(2 * self.beams, 1)
        return scores, places // words, places % words


class CountedBeams(Beams):
    """Beams that are chosen candidate by candidate, in Python."""

    def __init__(self, sentences, beams):
        super().__init__(sentences, beams)
        self.best = [float("-inf")] * sentences

    def choose(self, told, end):
        scores, beams, words = self.candidates(told)
        source, token = torch.zeros_like(beams), torch.zeros_like(words)
        for sentence in range(len(scores)):
            kept = 0
            for rank in range(2 * self.beams):
                if words[sentence, rank].item() == end:
                    if rank < self.beams:
                        ended = scores[sentence, rank].item()
                        self.best[sentence] = max(self.best[sentence], ended)
                    continue
                self.scores[sentence, kept] = scores[sentence, rank]
                source[sentence, kept] = beams[sentence, rank]
                token[sentence, kept] = words[sentence, rank]
                kept += 1
                if kept == self.beams:
                    break
        kept = slice(self.beams)
        return (source[:, kept] + self.first).flatten(), token[:, kept].flatten()


class DeviceBeams(Beams):
    """Beams that are chosen on the device, of all sentences at once."""

    def __init__(self, sentences, beams):
        super().__init__(sentences, beams)
        self.best = torch.full((sentences,), float("-inf"), device=DEVICE)

    def choose(self, told, end):
        scores, beams, words = self.candidates(told)
        ended = words == end
        over = scores.masked_fill(~ended, float("-inf"))[:, : self.beams]
        self.best = torch.maximum(self.best, over.amax(1))
        kept = ended.to(torch.uint8).argsort(dim=1, stable=True)[:, : self.beams]
        self.scores = scores.gather(1, kept)
        source = beams.gather(1, kept) + self.first
        return source.flatten(), words.gather(1, kept).flatten()


@pair("remove_syncs")
def subtitles_beams_counted(fixed):
    """Eight subtitles are translated with four beams each, a token a step; which candidates go on
    is read from the GPU one by one. The remedy chooses them there."""
    length = n(256, 16)
    words = n(32_000, 50)
    sentences, beams = n(8, 2), n(4, 2)
    with torch.device(DEVICE):
        decoder = Decoder(words, n(512, 16), n(6, 2), sentences * beams, length).bfloat16().eval()
    search = (DeviceBeams if fixed else CountedBeams)(sentences, beams)
    token = ids_below(words, sentences * beams)
    at = torch.zeros(1, dtype=torch.long, device=DEVICE)

    @torch.no_grad()
    def step():
        nonlocal token
        rows, token = search.choose(decoder(token, at), end=2)
        decoder.follow(rows)
        at.add_(1).remainder_(length)

    return step


@pair("compile", early=("fix",), libraries=(LLAMA,))
def essays_scored_eagerly(fixed):
    """The perplexity of eight essays under a Llama of transformers in bf16, whose norms, rotations
    and gates are written out in small operations; the remedy compiles the model."""
    words = n(32_000, 50)
    model = _llama(n(1024, 32), n(4, 1), words).eval()
    run = torch.compile(model, dynamic=False) if fixed else model
    text = ids_below(words, n(8, 2), n(1024, 12))

    @torch.no_grad()
    def step():
        told = run(input_ids=text).logits[:, :-1]
        return F.cross_entropy(told.flatten(0, 1), text[:, 1:].flatten()).exp()

    return step


@good("remove_syncs", "larger_batch")
def good_reranker(version):
    """A cross-encoder in bf16 scores 128 passages a step, and the scores are read: the GPU is full,
    so that a pause at the step's end is all that reading costs."""
    width = n(1024, 16)
    rows = n(128, 4) * (2 if version == "larger_batch" else 1)
    encoder = nn.Sequential(blocks(width, n(6, 1)), nn.Linear(width, 1, device=DEVICE))
    encoder = encoder.bfloat16().eval()
    passages = normal(rows, n(256, 4), width, dtype=torch.bfloat16)
    waiting = []

    @torch.no_grad()
    def step():
        scores = encoder(passages)[:, 0, 0]
        if version != "remove_syncs":
            return scores.tolist()
        waiting.append(scores)
        if len(waiting) < 32:
            return []
        told = torch.stack(waiting).tolist()
        waiting.clear()
        return told

    return step
