"""Text: chess, mails, answers, tunes, passages; good: experts."""

import itertools

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import heads, layers, mlp, noise, on_device, whole

BERT = "transformers.models.bert.modeling_bert"


class _Block(Module):
    """A layer of a transformer; how it attends is told to it."""

    def __init__(self, width):
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, attend):
        q, k, v = map(heads, self.qkv(self.before(x)).chunk(3, -1))
        x = x + self.out(attend(q, k, v).transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


class _Writer(Module):
    """A language model: words and places, layers, words."""

    def __init__(self, words, places, width, depth):
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(places, width)
        self.body = nn.ModuleList(_Block(width) for _ in range(depth))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words, bias=False))
        self.register_buffer("numbers", torch.arange(places))

    def begin(self, words, place=0):
        """Words and where they are."""
        places = self.numbers[place : place + words.shape[1]]
        return self.words(words) + self.places(places)


@pair("fused_attention", found=True)
def games_attended_as_in_min_gpt(fixed):
    """A GPT (eight layers, 512 wide) learns chess in bf16 autocast, from 32 games of 512 moves. Its attention
    is copied from minGPT: a product, `masked_fill` of a triangle that is kept, a softmax, and a product.
    The remedy is `scaled_dot_product_attention`."""
    rows, long, words, width = n(32, 2), n(512, 6), n(1968, 20), n(512, 16)
    model = on_device(lambda: _Writer(words, long, width, n(8, 1))).train()
    games = whole(words, rows, long + 1)
    seen = torch.ones(long, long, dtype=torch.bool, device=DEVICE).tril()

    def written_out(q, k, v):
        scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
        return scores.masked_fill(~seen, float("-inf")).softmax(-1).to(v.dtype) @ v

    def together(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    attend = together if fixed else written_out

    def loss():
        x = model.begin(games[:, :-1])
        for block in model.body:
            x = block(x, attend)
        return F.cross_entropy(model.last(x).flatten(0, 1).float(), games[:, 1:].flatten())

    return train(model, loss, cast=True)


class _Kept:
    """Attention to the keys and values of a layer so far, which it keeps."""

    def __init__(self):
        self.keys = self.values = None

    def __call__(self, q, k, v):
        begun = self.keys is None
        self.keys = k if begun else torch.cat((self.keys, k), 2)
        self.values = v if begun else torch.cat((self.values, v), 2)
        return F.scaled_dot_product_attention(q, self.keys, self.values, is_causal=begun)


class _NotKept:
    """Attention to the words of a call."""

    def __call__(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


@pair("no_recompute")
def mails_read_again_for_each_word(fixed):
    """A language model (six layers, 1024 wide) in bf16 continues 16 mails of 512 words by eight words a step.
    `generate` is that of a teaching repository: for each word it reads the mail and what was written so
    far from the beginning. The remedy keeps the keys and values of what was read."""
    rows, long, more, words, width = n(16, 2), n(512, 5), n(8, 3), n(32_000, 20), n(1024, 16)
    model = on_device(lambda: _Writer(words, long + more, width, n(6, 2))).bfloat16().eval()
    mails = whole(words, rows, long)

    @torch.no_grad()
    def step():
        written = mails
        kept = [_Kept() if fixed else _NotKept() for _ in model.body]
        for number in range(more):
            old = written.shape[1] - 1 if fixed and number else 0
            x = model.begin(written[:, old:], old)
            for block, attend in zip(model.body, kept, strict=True):
                x = block(x, attend)
            best = model.last(x[:, -1:]).argmax(-1)
            written = torch.cat((written, best), 1)
        return written

    return step


@pair("fused_optimizer", found=True)
def answers_preferred_with_default_adamw(fixed):
    """A reward model (24 layers, 1024 wide) learns in bf16 autocast which of two answers people like better,
    from eight pairs of 192 words. All 300 million weights learn, and `AdamW` as it comes goes through
    them in many kernels; the remedy is `fused=True`."""
    rows, long, words, width = n(8, 2), n(192, 5), n(32_000, 20), n(1024, 16)
    table, body = on_device(lambda: nn.Embedding(words, width)), layers(width, n(24, 1))
    last = mlp(width, 1)
    model = nn.ModuleList((table, body, last))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=fixed or None)
    answers = whole(words, 2 * rows, long)

    def loss():
        better, worse = last(body(table(answers))[:, -1]).float().chunk(2)
        return -F.logsigmoid(better - worse).mean()

    return train(optimizer, loss, cast=True)


def _leaned(count, long):
    """ALiBi's mask, on the host: what is later is not seen, what is far less."""
    slopes = 2.0 ** (-8 * torch.arange(1, count + 1) / count)
    places = torch.arange(long)
    far = (places[None, :] - places[:, None]).float()
    later = torch.triu(torch.full((long, long), float("-inf")), 1)
    return slopes[:, None, None] * far + later


@pair("keep_on_device", found=True)
def tunes_mask_made_in_forward(fixed):
    """A transformer (six layers, 512 wide) learns tunes in bf16 autocast, from eight tunes of 768 notes. Where
    notes are is told by ALiBi: `forward` makes the mask of eight heads on the host, and sends it to the GPU.
    The remedy makes it once, and keeps it on the GPU."""
    rows, long, notes, width = n(8, 2), n(768, 6), n(512, 20), n(512, 16)
    model = on_device(lambda: _Writer(notes, long, width, n(6, 1))).train()
    count = width // n(64, 8)
    kept = _leaned(count, long).to(DEVICE)
    tunes = whole(notes, rows, long + 1)

    def loss():
        mask = kept if fixed else _leaned(count, long).to(DEVICE)
        mask = mask.bfloat16()
        x = model.words(tunes[:, :-1])
        for block in model.body:
            x = block(x, lambda q, k, v: F.scaled_dot_product_attention(q, k, v, attn_mask=mask))
        return F.cross_entropy(model.last(x).flatten(0, 1).float(), tunes[:, 1:].flatten())

    return train(model, loss, cast=True)


@pair("larger_batch", as_much=16.0, libraries=(BERT,))
def manuals_embedded_eight_at_a_time(fixed):
    """Passages of manuals are made into vectors for a search by a small BERT of transformers (12 layers, 384
    wide) in bf16, 128 words each. Somebody took eight passages a call, which keep a large GPU waiting for
    the host; the remedy takes 128."""
    from transformers import BertConfig, BertModel

    rows, long = n(8, 2) * (16 if fixed else 1), n(128, 6)
    config = BertConfig(
        vocab_size=n(30_522, 50),
        hidden_size=n(384, 32),
        num_hidden_layers=n(12, 1),
        num_attention_heads=n(12, 2),
        intermediate_size=n(1536, 64),
    )
    reader = on_device(lambda: BertModel(config, add_pooling_layer=False)).bfloat16().eval()
    batches = itertools.cycle(whole(config.vocab_size, n(8, 2), rows, long))

    @torch.no_grad()
    def step():
        told = reader(input_ids=next(batches)).last_hidden_state
        return F.normalize(told.mean(1), dim=-1)

    return step


class _Chosen(Module):
    """Experts that each choose the tokens they want; they compute in turn, or in batched products."""

    def __init__(self, width, experts, share, *, together):
        self.share, self.together = share, together
        self.norm, self.router = nn.LayerNorm(width), nn.Linear(width, experts, bias=False)
        up = torch.randn(experts, width, 4 * width) * width**-0.5
        down = torch.randn(experts, 4 * width, width) * 0.5 * width**-0.5
        if together:
            self.ups, self.downs = nn.Parameter(up), nn.Parameter(down)
        else:
            self.ups = nn.ParameterList(one.clone() for one in up)
            self.downs = nn.ParameterList(one.clone() for one in down)

    def forward(self, x):
        seen = self.norm(x)
        likes, chosen = self.router(seen).softmax(-1).t().topk(self.share, -1)
        rows = seen.bfloat16()[chosen]
        if self.together:
            told = torch.bmm(F.gelu(torch.bmm(rows, self.ups)), self.downs)
        else:
            each = zip(rows, self.ups, self.downs, strict=True)
            told = torch.stack([F.gelu(row @ up) @ down for row, up, down in each])
        told = (told * likes[..., None]).flatten(0, 1)
        return x.index_add(0, chosen.flatten(), told.to(x.dtype))


@good("batched_matmul", found=True)
def good_experts(version):
    """Three layers of eight experts (1024 wide) learn in bf16 autocast from 16 384 tokens; each expert takes
    the 4096 tokens it likes best, and the experts compute in turn. Their products are large, and fill
    the GPU one by one; batched products bring nothing."""
    tokens, width = n(16_384, 12), n(1024, 8)
    how = {"experts": n(8, 3), "share": n(4096, 4), "together": version == "batched_matmul"}
    model = on_device(lambda: nn.Sequential(*(_Chosen(width, **how) for _ in range(n(3, 1)))))
    told, wanted = noise(tokens, width), noise(tokens, width)
    return train(model, lambda: F.mse_loss(model(told).float(), wanted), cast=True)
