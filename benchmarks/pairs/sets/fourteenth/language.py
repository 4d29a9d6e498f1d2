"""Language and speech: heard, rewarded, answered, written; and codons."""

from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import (
    HEAD,
    heads,
    layers,
    mlp,
    noise,
    on_device,
    whole,
)

LLAMA = "transformers.models.llama.modeling_llama"
BLANK = 0
"""The word that a transducer tells where nothing more is said."""
MOST = 2
"""So many words are told for a frame at most."""


class Transducer(Module):
    """Tells words by what is heard and by what was told before."""

    def __init__(self, width, words):
        self.words = nn.Embedding(words, width)
        self.cell = nn.GRUCell(width, width)
        self.heard = nn.Linear(width, width)
        self.told = nn.Linear(width, width)
        self.last = nn.Linear(width, words)
        nn.init.constant_(self.last.bias[BLANK], 0.7)

    def forward(self, frame, state):
        """The next word of each row, and the state after it; a blank leaves the state as it was."""
        both = torch.tanh(self.heard(frame) + self.told(state))
        word = self.last(both).argmax(-1)
        later = self.cell(self.words(word), state)
        return word, torch.where((word == BLANK)[:, None], state, later)


def _texts_row_by_row(transducer, heard, state):
    """What each row says; whether a word is blank is asked of the GPU row by row."""
    texts = [[] for _ in heard]
    for frame in heard.unbind(1):
        for _ in range(MOST):
            words, state = transducer(frame, state)
            blank = words == BLANK
            for row, text in enumerate(texts):
                if not blank[row]:
                    text.append(words[row].item())
    return texts


def _texts_at_the_end(transducer, heard, state):
    """The same; all words are read at once."""
    told = []
    for frame in heard.unbind(1):
        for _ in range(MOST):
            words, state = transducer(frame, state)
            told.append(words)
    rows = torch.stack(told, 1).tolist()
    return [[word for word in row if word != BLANK] for row in rows]


@pair("remove_syncs")
def dictations_blanks_asked_row_by_row(fixed):
    """A transducer (RNN-T) writes down what an encoder in bf16 hears of 16 dictations, 24 frames a step,
    at most two words a frame. After each word the loop asks of each dictation whether the word is
    blank, and reads it if not. The remedy keeps the words on the GPU, and reads all at the end."""
    torch.set_float32_matmul_precision("high")
    rows, frames, width, words = n(16, 2), n(24, 3), n(512, 16), n(1024, 12)
    cut, body = mlp(320, width), layers(width, n(6, 1))
    transducer = on_device(lambda: Transducer(width, words))
    nn.ModuleList((cut, body)).bfloat16().eval()
    sounds = noise(rows, frames, 320, dtype=torch.bfloat16)
    start = torch.zeros(rows, width, device=DEVICE)
    texts_of = _texts_at_the_end if fixed else _texts_row_by_row

    @torch.no_grad()
    def step():
        return texts_of(transducer, body(cut(sounds)).float(), start)

    return step


def _log_odds(model, text, length):
    """How likely a model finds each of the last words of a text."""
    scores = model(input_ids=text, logits_to_keep=length + 1).logits[:, :-1]
    wanted = text[:, -length:]
    lost = F.cross_entropy(scores.flatten(0, 1).float(), wanted.flatten(), reduction="none")
    return -lost.view_as(wanted)


@pair("no_recompute", found=True, libraries=(LLAMA,))
def proofs_old_odds_computed_again(fixed):
    """A Llama of transformers in bf16 learns by GRPO from 16 proofs of 512 words that it wrote, and is
    held near a frozen reference. The odds before the step come from a forward pass of their own,
    although each proof is learnt from once, so that the pass for the loss gives the same odds. The
    remedy detaches those."""
    from transformers import LlamaConfig, LlamaForCausalLM

    rows, asked, told, words = n(16, 4), n(256, 4), n(512, 6), n(32_000, 50)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=n(1024, 32),
        intermediate_size=n(2816, 64),
        num_hidden_layers=n(8, 1),
        num_attention_heads=n(16, 2),
        num_key_value_heads=n(8, 1),
        use_cache=False,
    )
    policy = on_device(lambda: LlamaForCausalLM(config)).bfloat16()
    reference = on_device(lambda: LlamaForCausalLM(config)).bfloat16()
    reference.requires_grad_(requires_grad=False)
    proofs, worth = whole(words, rows, asked + told), noise(rows, 1)

    def old_odds():
        with torch.no_grad():
            return _log_odds(policy, proofs, told)

    def loss():
        known = _log_odds(reference, proofs, told)
        now = _log_odds(policy, proofs, told)
        old = now.detach() if fixed else old_odds()
        ratio = (now - old).exp()
        gain = torch.minimum(ratio * worth, ratio.clamp(0.8, 1.2) * worth)
        apart = (known - now).exp() - (known - now) - 1
        return (0.04 * apart - gain).mean()

    return train(policy, loss)


class Answering(Module):
    """A layer that keeps keys and values of what was written, in bf16 and in places of their own."""

    def __init__(self, width, rows, places):
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        written = torch.randn(2, rows, width // HEAD, places, HEAD, dtype=torch.bfloat16)
        self.register_buffer("written", written)

    def forward(self, x, place):
        q, k, v = map(heads, self.qkv(self.before(x)).chunk(3, -1))
        self.written[0, :, :, place : place + 1] = k
        self.written[1, :, :, place : place + 1] = v
        k, v = self.written[:, :, :, : place + 1]
        told = F.scaled_dot_product_attention(q, k, v)
        x = x + self.out(told.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class Answerer(Module):
    """A language model that writes a word for each row."""

    def __init__(self, words, width, depth, rows, places):
        self.words = nn.Embedding(words, width)
        self.body = nn.ModuleList(Answering(width, rows, places) for _ in range(depth))
        self.norm = nn.LayerNorm(width)

    def forward(self, word, place):
        h = self.words(word)
        for layer in self.body:
            h = layer(h, place)
        return F.linear(self.norm(h), self.words.weight).argmax(-1)


@pair("low_precision")
def replies_weights_cast_for_each_word(fixed):
    """A language model of six layers, 4096 wide, continues eight replies by eight words a step. Its
    weights are in fp32, and each word is written in an autocast to bf16 of its own, which casts all
    weights anew. The remedy keeps the weights in bf16."""
    rows, begin, written, words = n(8, 2), n(256, 4), n(8, 2), n(32_000, 50)
    width, depth = n(4096, 16), n(6, 1)
    model = on_device(lambda: Answerer(words, width, depth, rows, begin + written)).eval()
    model = model.bfloat16() if fixed else model
    word = whole(words, rows, 1)

    @torch.no_grad()
    def step():
        nonlocal word
        for place in range(begin, begin + written):
            with nullcontext() if fixed else autocast():
                word = model(word, place)

    return step


class Novelist(Module):
    """A layer of a causal transformer, which is told by a mask or by a word that it is causal."""

    def __init__(self, width, mask):
        self.mask = mask
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        q, k, v = map(heads, self.qkv(self.before(x)).chunk(3, -1))
        how = {"is_causal": True} if self.mask is None else {"attn_mask": self.mask}
        told = F.scaled_dot_product_attention(q, k, v, **how)
        x = x + self.out(told.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


@pair("fused_attention", found=True)
def novels_causal_by_a_mask(fixed):
    """A transformer learns novels letter by letter in bf16 autocast, from four pages of 4096 letters a
    step. `scaled_dot_product_attention` gets a triangle of booleans as its mask, with which it cannot
    use flash attention, and looks at what is masked, too. The remedy is `is_causal=True`."""
    rows, length, width, letters = n(4, 2), n(4096, 8), n(1024, 16), n(512, 20)
    mask = None
    if not fixed:
        mask = torch.ones(length, length, dtype=torch.bool, device=DEVICE).tril()
    body = on_device(lambda: nn.Sequential(*(Novelist(width, mask) for _ in range(n(6, 1)))))
    table, last = on_device(lambda: nn.Embedding(letters, width)), mlp(width, letters)
    pages = whole(letters, rows, length + 1)

    def loss():
        scores = last(body(table(pages[:, :-1]))).flatten(0, 1)
        return F.cross_entropy(scores.float(), pages[:, 1:].flatten())

    return train(nn.ModuleList((table, body, last)), loss, cast=True)


@good("pad_shapes", "remove_syncs", found=True)
def good_codons(version):
    """A transformer in bf16 autocast learns which codons are hidden in 64 genes of 512, a word of 69
    for each codon and sign. The number is odd, but the layer that tells words is small next to the
    others; the loss is read at the end of a long step, with the GPU full."""
    rows, length, width = n(64, 2), n(512, 6), n(768, 16)
    words = 72 if version == "pad_shapes" else 69
    table, body, last = (
        on_device(lambda: nn.Embedding(words, width)),
        layers(width, n(8, 1)),
        mlp(width, words),
    )
    genes, hidden = whole(69, rows, length), whole(69, rows, length)
    model = nn.ModuleList((table, body, last))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step():
        with autocast():
            scores = last(body(table(genes))).flatten(0, 1)
        loss = F.cross_entropy(scores.float(), hidden.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if version != "remove_syncs":
            loss.item()

    return step
