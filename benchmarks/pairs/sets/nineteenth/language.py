"""Text and speech: tales, stories, prompts, summaries, calls; good: glossaries."""

import itertools
import math

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import heads, layers, noise, on_device, whole

PINNED = DEVICE == "cuda"
LLAMA = "transformers.models.llama.modeling_llama"


class _Teller(Module):
    """A language model in the manner of GPT-2: its table of words is also its last layer."""

    def __init__(self, words, width, depth):
        self.table = on_device(lambda: nn.Embedding(words, width))
        self.body = layers(width, depth, causal=True)

    def loss(self, text):
        told = F.linear(self.body(self.table(text[:, :-1])), self.table.weight)
        return F.cross_entropy(told.flatten(0, 1).float(), text[:, 1:].flatten())


@pair("pad_shapes", found=True)
def tales_told_in_50257_words(fixed):
    """A GPT (six layers, 512 wide) learns tales in bf16 autocast, from 16 of 512 words a step. Its vocabulary is
    GPT-2's, 50 257 words, which is an odd number, so that the products with the table of words are done by slow
    kernels, there and back. The remedy pads the vocabulary to 50 304, a multiple of 64."""
    words = n(50_257, 61)
    padded = n(50_304, 64) if fixed else words
    model = _Teller(padded, n(512, 16), n(6, 1)).train()
    tales = whole(words, n(16, 2), n(513, 7))
    return train(model, lambda: model.loss(tales), cast=True)


class _Joined:
    """Keys and values of what was read, as a library's dynamic cache keeps them: each word's are joined."""

    def __init__(self, keys, values):
        self.first = self.both = (keys, values)

    def restart(self):
        self.both = self.first

    def told(self, *more):
        self.both = tuple(torch.cat(two, -2) for two in zip(self.both, more, strict=True))
        return self.both


class _Written:
    """Keys and values in a buffer that has room for what comes: each word's are written in place."""

    def __init__(self, keys, values, *, more):
        self.both = [F.pad(one, (0, 0, 0, more)) for one in (keys, values)]
        self.begin = self.long = keys.shape[-2]

    def restart(self):
        self.long = self.begin

    def told(self, *more):
        begin, self.long = self.long, self.long + more[0].shape[-2]
        for kept, new in zip(self.both, more, strict=True):
            kept[..., begin : self.long, :] = new
        return [kept[..., : self.long, :] for kept in self.both]


class _Remembering(Module):
    """A layer of a decoder that is told a word at a time, and sees the words before in a cache."""

    def __init__(self, width):
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, cache):
        asked, *told = map(heads, self.qkv(self.before(x)).chunk(3, -1))
        seen = F.scaled_dot_product_attention(asked, *cache.told(*told))
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class _Decoder(Module):
    """A language model that writes word by word, in bf16."""

    def __init__(self, words, width, depth):
        self.table = nn.Embedding(words, width)
        self.body = nn.ModuleList(_Remembering(width) for _ in range(depth))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words, bias=False))

    def forward(self, word, caches):
        x = self.table(word)
        for layer, cache in zip(self.body, caches, strict=True):
            x = layer(x, cache)
        return self.last(x)[:, -1].float()


def _decoder(words, width, depth):
    """Such a model, ready to write."""
    model = on_device(lambda: _Decoder(words, width, depth)).bfloat16().eval()
    return model.requires_grad_(requires_grad=False)


def _read(rows, long, width, depth):
    """Keys and values of texts that each layer has read."""
    return [
        [heads(noise(rows, long, width).bfloat16()).contiguous() for _ in "kv"]
        for _ in range(depth)
    ]


@pair("preallocate")
def stories_cache_joined_for_each_word(fixed):
    """A decoder (12 layers, 1024 wide) in bf16 goes on with 16 stories of 4096 words, by eight words a step. Its
    cache grows by `torch.cat`: for each word and layer, all keys and values are copied to a new tensor. The
    remedy is a static cache, a buffer with room for what comes, into which each word's are written."""
    rows, long, width, depth, more = n(16, 2), n(4096, 9), n(1024, 16), n(12, 2), n(8, 3)
    model = _decoder(n(32_000, 40), width, depth)
    read = _read(rows, long, width, depth)
    caches = [_Written(*two, more=more) if fixed else _Joined(*two) for two in read]
    begin = whole(n(32_000, 40), rows, 1)

    def step():
        word, written = begin, []
        for cache in caches:
            cache.restart()
        for _ in range(more):
            word = model(word, caches).argmax(-1, keepdim=True)
            written.append(word)
        return torch.cat(written, 1).tolist()

    return step


@pair("freeze_parameters", found=True, libraries=(LLAMA,))
def prompts_learnt_by_an_unfrozen_llama(fixed):
    """Prompt tuning: 32 vectors are learnt that are put before eight questions of 480 words, so that a Llama of
    transformers (eight layers, 2048 wide, bf16) answers them. The optimizer has the 32 vectors only, but all
    weights of the Llama still want gradients, and get them in each backward pass. The remedy is
    `model.requires_grad_(False)`."""
    from transformers import LlamaConfig, LlamaForCausalLM

    rows, long, words, width, before = n(8, 2), n(480, 6), n(32_000, 40), n(2048, 32), n(32, 3)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=n(5632, 64),
        num_hidden_layers=n(8, 2),
        num_attention_heads=n(16, 2),
        num_key_value_heads=n(8, 2),
        use_cache=False,
    )
    model = on_device(lambda: LlamaForCausalLM(config)).bfloat16().train()
    if fixed:
        model.requires_grad_(requires_grad=False)
    prompt = nn.Parameter(0.02 * noise(before, width))
    optimizer = torch.optim.AdamW([prompt], 1e-3, fused=True)
    asked = whole(words, rows, long)

    def loss():
        begin = prompt.bfloat16().expand(rows, -1, -1)
        both = torch.cat((begin, model.get_input_embeddings()(asked)), 1)
        told = model(inputs_embeds=both).logits[:, before - 1 : -1]
        return F.cross_entropy(told.flatten(0, 1).float(), asked.flatten())

    return train(optimizer, loss)


def _banned_by_dicts(texts, size):
    """The row and the word of all that would say a sequence of `size` words again: [2, how many]."""
    banned = []
    for row, text in enumerate(texts.tolist()):
        after = {}
        for *before, last in zip(*(text[begin:] for begin in range(size)), strict=False):
            after.setdefault(tuple(before), []).append(last)
        banned += [(row, word) for word in after.get(tuple(text[1 - size :]), ())]
    return torch.tensor(banned, dtype=torch.long, device=DEVICE).view(-1, 2).t()


def _without_repeats_by_dicts(scores, texts, size):
    """Scores without words that would repeat a sequence; sequences are looked up on the host."""
    rows, words = _banned_by_dicts(texts, size)
    scores[rows, words] = -math.inf
    return scores


def _without_repeats(scores, texts, size):
    """The same, all sequences compared at once on the GPU."""
    said = texts.unfold(1, size, 1)
    again = (said[..., :-1] == texts[:, None, 1 - size :]).all(-1)
    most = torch.full_like(again, math.inf, dtype=scores.dtype).masked_fill(again, -math.inf)
    return scores.scatter_reduce(1, said[..., -1], most, "amin")


@pair("move_host_work")
def summaries_ngrams_banned_in_python(fixed):
    """A decoder (six layers, 512 wide) in bf16 writes 64 summaries of 256 words so far, by four words a step, and
    must not say three words again that it said before (`no_repeat_ngram_size=3`). As libraries do it, Python
    collects all threes of each text in a dict, for each new word, while the GPU waits. The remedy
    compares all threes at once on the GPU."""
    rows, long, width, depth, more = n(64, 2), n(256, 9), n(512, 16), n(6, 1), n(4, 2)
    words, size = n(32_000, 5), 3
    model = _decoder(words, width, depth)
    caches = [_Written(*two, more=more) for two in _read(rows, long, width, depth)]
    texts = F.pad(whole(words, rows, long), (0, more))
    allowed = _without_repeats if fixed else _without_repeats_by_dicts

    def step():
        for cache in caches:
            cache.restart()
        for now in range(long, long + more):
            scores = model(texts[:, now - 1 : now], caches)
            texts[:, now] = allowed(scores, texts[:, :now], size).argmax(-1)
        return texts[:, long:].tolist()

    return step


class _Hearing(Module):
    """A layer of a streaming Conformer: hears a piece of a call, and remembers what was just before."""

    def __init__(self, width, kept, *, rows, long=15):
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(3))
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.gate, self.mix = nn.Linear(width, 2 * width), nn.Linear(width, width)
        self.along = nn.Conv1d(width, width, long, groups=width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.register_buffer("before", torch.zeros(2, rows, kept, width))
        self.register_buffer("just_before", torch.zeros(rows, long - 1, width))

    @staticmethod
    def remembered(memory, now):
        """What was before and what is now; the last of it is kept."""
        seen = torch.cat((memory, now), -2)
        memory.copy_(seen[..., -memory.shape[-2] :, :])
        return seen

    def forward(self, x):
        asked, *told = self.qkv(self.norms[0](x)).chunk(3, -1)
        seen = self.remembered(self.before, torch.stack(told))
        heard = F.scaled_dot_product_attention(heads(asked), *map(heads, seen))
        x = x + self.out(heard.transpose(1, 2).flatten(2))
        seen = self.remembered(self.just_before, F.glu(self.gate(self.norms[1](x))))
        x = x + self.mix(F.silu(self.along(seen.transpose(1, 2)).transpose(1, 2)))
        return x + self.down(F.silu(self.up(self.norms[2](x))))


@pair("cuda_graph")
def calls_heard_chunk_by_chunk(fixed):
    """A service writes down eight calls while they are spoken: a streaming Conformer (12 layers, 512 wide, bf16)
    hears eight chunks of 16 frames a step, one after the other, and each layer keeps what it heard before in
    buffers. A chunk is some 300 small kernels, launched one by one. The remedy captures the
    encoder of a chunk in a CUDA graph."""
    rows, frames, bins, width, signs = n(8, 2), n(16, 3), n(80, 5), n(512, 16), n(1024, 9)

    def made():
        body = (_Hearing(width, n(64, 5), rows=rows) for _ in range(n(12, 2)))
        return nn.Sequential(nn.Linear(bins, width), *body, nn.Linear(width, signs))

    model = on_device(made).bfloat16().eval().requires_grad_(requires_grad=False)
    calls = noise(n(8, 2), rows, frames, bins).bfloat16()
    chunk, said = torch.zeros_like(calls[0]), whole(signs, rows, frames)

    @torch.no_grad()
    def hear():
        said.copy_(model(chunk).argmax(-1))

    hear = graphed(hear) if fixed else hear

    def step():
        heard = []
        for now in calls:
            chunk.copy_(now)
            hear()
            heard.append(said.clone())
        return torch.stack(heard).tolist()

    return step


@good("pinned_memory", "larger_batch", found=True)
def good_glossaries(version):
    """A language model (ten layers, 1024 wide) learns glossaries in bf16 autocast, from 32 of 512 words, with the
    fused AdamW. Words come from ordinary memory, but are few; kernels are long. Pinned memory brings
    nothing, and a batch of 64 hardly more for each word."""
    rows = n(32, 2) * (2 if version == "larger_batch" else 1)
    words = n(32_000, 40)
    model = _Teller(words, n(1024, 16), n(10, 1)).train()
    texts = torch.randint(words, (n(8, 2), rows, n(513, 7)))
    batches = itertools.cycle(
        texts.pin_memory() if version == "pinned_memory" and PINNED else texts
    )
    return train(model, lambda: model.loss(next(batches).to(DEVICE, non_blocking=True)), cast=True)
