"""Language and sound: translated, tuned, sorted, heard and answered."""

import tempfile

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import heads, layers, mlp, noise, on_device, whole

LLAMA = "transformers.models.llama.modeling_llama"
T5 = "transformers.models.t5.modeling_t5"
DISTILBERT = "transformers.models.distilbert.modeling_distilbert"
PAD = 0
SMOOTHING = 0.1


def _smoothed(scores, wanted):
    """The loss of "The Annotated Transformer": a smoothed distribution is filled in for each word."""
    words = scores.shape[1]
    likely = scores.log_softmax(-1)
    smooth = torch.full_like(likely, SMOOTHING / (words - 2))
    smooth.scatter_(1, wanted[:, None], 1 - SMOOTHING)
    smooth[:, PAD] = 0
    smooth.masked_fill_((wanted == PAD)[:, None], 0)
    return F.kl_div(likely, smooth, reduction="sum") / (wanted != PAD).sum()


@pair("fuse_elementwise", found=True)
def translations_smoothed_by_hand(fixed):
    """A transformer learns to translate in bf16 autocast, 64 sentences of 128 words a step. The loss
    with smoothed labels is that of "The Annotated Transformer": it fills in a distribution over all
    32,000 words for each word. The remedy is `cross_entropy` with `label_smoothing`."""
    rows, length, words, width = n(64, 2), n(128, 6), n(32_000, 50), n(512, 16)
    table = on_device(lambda: nn.Embedding(words, width))
    reader = layers(width, n(3, 1))
    writer = layers(width, n(3, 1), causal=True)
    last = mlp(width, words)
    source, target = whole(words, rows, length), whole(words, rows, length + 1)

    def loss():
        with autocast():
            read = reader(table(source)).mean(1, keepdim=True)
            scores = last(writer(table(target[:, :-1]) + read)).flatten(0, 1)
        wanted = target[:, 1:].flatten()
        if fixed:
            scores = scores.float()
            return F.cross_entropy(scores, wanted, ignore_index=PAD, label_smoothing=SMOOTHING)
        return _smoothed(scores.float(), wanted)

    return train(nn.ModuleList((table, reader, writer, last)), loss)


@pair("fused_optimizer", found=True, libraries=(T5,))
def summaries_tuned_by_adafactor(fixed):
    """A T5 (small) of transformers learns to sum up 32 articles a step in bf16 autocast, with
    `torch.optim.Adafactor` as it comes: it goes from tensor to tensor, and reads two norms of each.
    Memory is free; the remedy is AdamW in its fused version."""
    from transformers import T5Config, T5ForConditionalGeneration

    size = {} if n(1, 0) else {"d_model": 32, "d_ff": 64, "num_heads": 2, "num_layers": 1}
    words = n(32_128, 60)
    config = T5Config(vocab_size=words, decoder_start_token_id=0, use_cache=False, **size)
    model = on_device(lambda: T5ForConditionalGeneration(config)).train()
    articles, summaries = whole(words, n(32, 2), n(384, 8)), whole(words, n(32, 2), n(64, 4))
    if fixed:
        optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    else:
        optimizer = torch.optim.Adafactor(model.parameters(), 1e-3)
    loss = autocast()(lambda: model(input_ids=articles, labels=summaries).loss)
    return train(optimizer, loss)


@pair("larger_batch", found=True, libraries=("peft", LLAMA))
def recipes_tuned_one_by_one(fixed):
    """A Llama of transformers in bf16 (6 layers, 2048 wide) learns recipes through LoRA (peft). A step
    adds up the gradients of 8 recipes of 256 words, one at a time, as a small GPU needed it. The
    remedy takes all 8 in one batch."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    words, rows = n(32_000, 50), n(8, 2)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=n(2048, 32),
        intermediate_size=n(5504, 64),
        num_hidden_layers=n(6, 1),
        num_attention_heads=n(16, 2),
        num_key_value_heads=n(16, 2),
        use_cache=False,
    )
    model = on_device(lambda: LlamaForCausalLM(config)).bfloat16()
    model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj"])).train()
    recipes = whole(words, rows, n(256, 8))
    parts = recipes.split(rows if fixed else 1)
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, 2e-4, fused=True)

    def step():
        for part in parts:
            (model(input_ids=part, labels=part).loss / len(parts)).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


@pair("avoid_allocations", found=True, libraries=(DISTILBERT,))
def tickets_sorted_with_an_emptied_cache(fixed):
    """A DistilBERT of transformers learns which team a ticket is for, 64 tickets of 128 words a step,
    with the steps of transformers' `Trainer` in bf16. `torch_empty_cache_steps=1` was set after
    memory ran out once, on another GPU. The remedy leaves it out."""
    from transformers import (
        DistilBertConfig,
        DistilBertForSequenceClassification,
        Trainer,
        TrainingArguments,
    )

    size = {} if n(1, 0) else {"dim": 32, "hidden_dim": 64, "n_layers": 1, "n_heads": 2}
    words, teams, rows = n(30_522, 50), n(24, 3), n(64, 2)
    config = DistilBertConfig(vocab_size=words, num_labels=teams, **size)
    model = on_device(lambda: DistilBertForSequenceClassification(config))
    arguments = TrainingArguments(
        output_dir=tempfile.gettempdir(),
        bf16=True,
        optim="adamw_torch_fused",
        torch_empty_cache_steps=None if fixed else 1,
        report_to=[],
        use_cpu=DEVICE == "cpu",
    )
    trainer = Trainer(model=model, args=arguments)
    trainer.current_gradient_accumulation_steps = 1
    model, optimizer = trainer.accelerator.prepare(model, trainer.create_optimizer())
    tickets = {"input_ids": whole(words, rows, n(128, 8)), "labels": whole(teams, rows)}

    def step():
        trainer.training_step(model, tickets)
        optimizer.step()
        optimizer.zero_grad()

    return step


class Heard(Module):
    """A layer of a transformer whose attention is PyTorch's module."""

    def __init__(self, width, *, weights):
        self.weights = weights
        self.before = nn.LayerNorm(width)
        self.attend = nn.MultiheadAttention(width, max(width // 64, 1), batch_first=True)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        h = self.before(x)
        told, _ = self.attend(h, h, h, need_weights=self.weights)
        x = x + told
        return x + self.down(F.gelu(self.up(self.between(x))))


@pair("fused_attention", found=True)
def noises_attended_with_unread_weights(fixed):
    """A transformer learns in bf16 autocast which of 527 noises are heard in 16 spectrograms of 1024
    patches. `nn.MultiheadAttention` returns its weights by default, so that it cannot use fused
    attention; nobody reads them. The remedy is `need_weights=False`."""
    rows, places, width, kinds = n(16, 2), n(1024, 6), n(512, 16), n(527, 5)
    cut = mlp(256, width)
    body = on_device(
        lambda: nn.Sequential(*(Heard(width, weights=not fixed) for _ in range(n(6, 1))))
    )
    last = mlp(width, kinds)
    sounds = noise(rows, places, 256)
    heard = (torch.rand(rows, kinds, device=DEVICE) < 0.01).float()

    def loss():
        told = last(body(cut(sounds)).mean(1))
        return F.binary_cross_entropy_with_logits(told.float(), heard)

    return train(nn.ModuleList((cut, body, last)), loss, cast=True)


class Paged(Module):
    """A layer that reads keys and values from pages, as each chat's table lists them."""

    def __init__(self, width, pages, page, *, together):
        self.together = together
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.register_buffer("cache", torch.randn(2, pages, page, width))

    def of_pages(self, cache, table):
        """What the pages of all chats hold: a row for each chat."""
        if self.together:
            return cache[table].flatten(1, 2)
        return torch.stack([cache[pages].flatten(0, 1) for pages in table])

    def forward(self, x, table, last, place, seen):
        q, k, v = self.qkv(self.before(x)).chunk(3, -1)
        self.cache[0][last, place] = k[:, 0]
        self.cache[1][last, place] = v[:, 0]
        k, v = (heads(self.of_pages(cache, table)) for cache in self.cache)
        told = F.scaled_dot_product_attention(heads(q), k, v, attn_mask=seen)
        x = x + self.out(told.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


@pair("batch_calls")
def chats_pages_joined_chat_by_chat(fixed):
    """A server continues 32 chats by a word each, in bf16. Keys and values lie in pages of 16 words; in
    each of 12 layers a loop over the chats gathers the pages of one chat at a time. The remedy
    gathers those of all chats with one index."""
    width, words, rows, page, many = n(1024, 16), n(32_000, 50), n(32, 3), n(16, 2), n(24, 3)
    table = torch.randperm(rows * many, device=DEVICE).view(rows, many)
    body = on_device(
        lambda: nn.ModuleList(
            Paged(width, rows * many, page, together=fixed) for _ in range(n(12, 2))
        )
    )
    of_words, head = on_device(lambda: nn.Embedding(words, width)), mlp(width, words)
    nn.ModuleList((body, of_words, head)).bfloat16().eval()
    length = torch.randint(page, many * page, (rows,), device=DEVICE)
    places = torch.arange(many * page, device=DEVICE)
    word = whole(words, rows, 1)

    @torch.no_grad()
    def step():
        nonlocal word
        last = table.gather(1, (length // page)[:, None])[:, 0]
        seen = (places <= length[:, None])[:, None, None]
        h = of_words(word)
        for layer in body:
            h = layer(h, table, last, length % page, seen)
        word = head(h)[:, -1].argmax(-1, keepdim=True)
        length.add_(1).clamp_(max=many * page - 1)

    return step


class Cached(Module):
    """A layer that keeps keys and values at fixed places."""

    def __init__(self, width, rows, length):
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.register_buffer("keys", torch.zeros(rows, length, width))
        self.register_buffer("values", torch.zeros(rows, length, width))

    def forward(self, x, place, seen):
        q, k, v = self.qkv(self.before(x)).chunk(3, -1)
        self.keys.index_copy_(1, place, k)
        self.values.index_copy_(1, place, v)
        keys, values = heads(self.keys), heads(self.values)
        told = F.scaled_dot_product_attention(heads(q), keys, values, attn_mask=seen)
        x = x + self.out(told.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


@good("remove_syncs", "pinned_memory")
def good_chat(version):
    """Eight chats are continued by 16 words a step, in bf16, each word by the replay of a CUDA graph
    with fixed places for keys and values; whether all chats have ended is read once in 16 words."""
    rows, length, width, words = n(8, 2), n(2048, 32), n(2048, 16), n(32_000, 50)
    body = on_device(lambda: nn.ModuleList(Cached(width, rows, length) for _ in range(n(16, 1))))
    table, head = on_device(lambda: nn.Embedding(words, width)), mlp(width, words)
    nn.ModuleList((body, table, head)).bfloat16().eval()
    word, place = whole(words, rows, 1), torch.zeros(1, dtype=torch.int64, device=DEVICE)
    ended = torch.zeros(rows, dtype=torch.bool, device=DEVICE)
    places = torch.arange(length, device=DEVICE)
    read = torch.zeros((), dtype=torch.bool, pin_memory=DEVICE == "cuda")

    @torch.no_grad()
    def write():
        h = table(word)
        seen = (places <= place)[None]
        for layer in body:
            h = layer(h, place, seen)
        word.copy_(head(h)[:, -1].argmax(-1, keepdim=True))
        ended.logical_or_(word[:, 0] == 1)
        place.add_(1).remainder_(length)

    write = graphed(write)

    def step():
        for _ in range(n(16, 2)):
            write()
        if version == "remove_syncs":
            return
        if version == "pinned_memory":
            read.copy_(ended.all())
            return
        ended.all().item()

    return step


@good("remove_syncs", "cuda_graph", found=True)
def good_captions(version):
    """A vision transformer and a language model learn in bf16 autocast to caption 48 photos a step; the
    loss is read for the log in every step, at the end of a long backward pass on a full GPU."""
    rows, places, length, words, width = n(48, 2), n(196, 4), n(64, 4), n(32_000, 50), n(1024, 16)
    eye = layers(width, n(8, 1))
    writer = layers(width, n(8, 1), causal=True)
    cut, last = mlp(768, width), mlp(width, words)
    table = on_device(lambda: nn.Embedding(words, width))
    model = nn.ModuleList((eye, writer, cut, last, table))
    patches, text = noise(rows, places, 768), whole(words, rows, length)
    captured = version == "cuda_graph" and DEVICE == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=captured)

    def learn():
        with autocast():
            seen = eye(cut(patches))
            told = writer(torch.cat((seen, table(text)), 1))[:, places:-1]
            scores = last(told).flatten(0, 1)
        loss = F.cross_entropy(scores.float(), text[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not captured)
        return loss.detach()

    if captured:
        return graphed(learn)

    def step():
        loss = learn()
        if version == "base":
            loss.item()

    return step
