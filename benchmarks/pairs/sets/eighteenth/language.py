"""Text and speech: claims, novels, dialects, quizzes, letters, poems, interviews; good: fashions."""

import itertools

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.rnn import pad_sequence

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import (
    Layer,
    heads,
    layers,
    mlp,
    noise,
    on_device,
    whole,
)

PINNED = DEVICE == "cuda"
BERT = "transformers.models.bert.modeling_bert"
WHISPER = "transformers.models.whisper.modeling_whisper"
LLAMA = "transformers.models.llama.modeling_llama"


class _Collator:
    """Pads texts of a batch, to the longest of them or to all that the model can read."""

    def __init__(self, longest, *, dynamic):
        self.longest, self.dynamic = longest, dynamic

    def __call__(self, texts, labels):
        words = pad_sequence(texts, batch_first=True)
        long = (words.shape[1] + 7) // 8 * 8 if self.dynamic else self.longest
        words = F.pad(words, (0, long - words.shape[1]))
        batch = {"input_ids": words, "attention_mask": (words > 0).long(), "labels": labels}
        return {key: one.pin_memory() if PINNED else one for key, one in batch.items()}


@pair("less_padding", found=True, libraries=(BERT,))
def claims_padded_to_max_length(fixed):
    """A BERT of transformers (base) learns in bf16 autocast what an insurance claim is about, from 64 claims
    of 20 to 160 words a step. The tokenizer was told `padding="max_length"`, and all are padded to 512.
    The remedy is dynamic padding: a batch is padded to its longest text (`DataCollatorWithPadding`)."""
    from transformers import BertConfig, BertForSequenceClassification

    rows, longest, words = n(64, 3), n(512, 32), n(30_522, 50)
    config = BertConfig(
        vocab_size=words,
        hidden_size=n(768, 32),
        num_hidden_layers=n(12, 1),
        num_attention_heads=n(12, 2),
        intermediate_size=n(3072, 64),
        max_position_embeddings=longest,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
        num_labels=n(14, 3),
    )
    model = on_device(lambda: BertForSequenceClassification(config)).train()
    drawn = np.random.default_rng(3)
    lasts = drawn.integers(n(20, 4), n(161, 12), n(40, 2) * rows)
    claims = [torch.randint(1, words, (last,)) for last in lasts]
    about = torch.randint(config.num_labels, (len(claims),))
    collate = _Collator(longest, dynamic=fixed)

    def batches():
        while True:
            for begin in range(0, len(claims), rows):
                yield collate(claims[begin : begin + rows], about[begin : begin + rows])

    loader = batches()

    def loss():
        batch = {key: one.to(DEVICE, non_blocking=True) for key, one in next(loader).items()}
        return model(**batch).loss

    return train(model, loss, cast=True)


class _Attention(Module):
    """Attention that is told who sees whom, or that all see what was before."""

    def __init__(self, width):
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x, mask):
        q, k, v = map(heads, self.qkv(self.before(x)).chunk(3, -1))
        told = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=mask is None)
        x = x + self.out(told.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


def _expanded(seen, dtype):
    """A mask of numbers to add: what is padding, and what is later, is not seen."""
    long = seen.shape[1]
    least = torch.finfo(dtype).min
    causal = torch.full((long, long), least, dtype=dtype, device=seen.device).triu(1)
    padded = torch.zeros_like(seen, dtype=dtype).masked_fill(seen == 0, least)
    return torch.maximum(causal + padded[:, None, None], causal.new_tensor(least))


class _Novelist(Module):
    """A language model as repositories have it: `forward` takes words and which of them are padding."""

    def __init__(self, words, width, depth):
        self.words = nn.Embedding(words, width)
        self.body = nn.ModuleList(_Attention(width) for _ in range(depth))
        self.last = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, words, bias=False))

    def forward(self, words, seen=None):
        x = self.words(words)
        mask = None if seen is None else _expanded(seen, torch.bfloat16)
        for layer in self.body:
            x = layer(x, mask)
        return self.last(x)


@pair("fused_attention", found=True)
def novels_masked_without_padding(fixed):
    """A language model (six layers, 768 wide) learns in bf16 autocast from four pieces of novels of 4096
    words, none of which is padded. Yet an attention mask of ones is handed over, of which `forward` makes
    a mask of numbers for each pair of words, so that `scaled_dot_product_attention` cannot use flash
    attention. The remedy hands no mask over, and `is_causal=True` says the same."""
    rows, long, words = n(4, 2), n(4096, 8), n(16_000, 20)
    model = on_device(lambda: _Novelist(words, n(768, 16), n(6, 1))).train()
    novels = whole(words, rows, long + 1)
    seen = None if fixed else torch.ones(rows, long, dtype=torch.long, device=DEVICE)

    def loss():
        told = model(novels[:, :-1], seen)
        return F.cross_entropy(told.flatten(0, 1).float(), novels[:, 1:].flatten())

    return train(model, loss, cast=True)


class _Listener(Module):
    """An encoder of speech: two convolutions take a quarter of the frames, layers hear them."""

    def __init__(self, bins, width, depth, kinds):
        self.less = nn.Sequential(
            nn.Conv1d(bins, width, 3, 2, 1), nn.GELU(), nn.Conv1d(width, width, 3, 2, 1), nn.GELU()
        )
        self.body = nn.Sequential(*(Layer(width) for _ in range(depth)))
        self.last = nn.Linear(width, kinds)

    def forward(self, x):
        return self.last(self.body(self.less(x).transpose(1, 2)).mean(1))


RECIPE = {"precision": "bf16", "activation_checkpointing": True, "clip": 1.0}
"""What a recipe for a card of 16 GB says."""


def _prepared(model, recipe):
    """The model as the recipe wants it."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import (
        apply_activation_checkpointing,
    )

    if recipe["activation_checkpointing"]:
        apply_activation_checkpointing(model, check_fn=lambda part: isinstance(part, Layer))
    return model


@pair("no_recompute", found=True)
def dialects_checkpointed_by_a_recipe(fixed):
    """An encoder of speech (12 layers, 1024 wide) learns in bf16 autocast which of 40 dialects is spoken, from
    32 recordings of 16 seconds. Its recipe was written for a small GPU: `activation_checkpointing` wraps
    each layer, although most of this GPU's memory is free. The remedy turns activation (gradient)
    checkpointing off."""
    rows, bins, frames, kinds = n(32, 2), n(80, 8), n(1600, 16), n(40, 3)
    recipe = RECIPE | {"activation_checkpointing": not fixed}
    listener = on_device(lambda: _Listener(bins, n(1024, 16), n(12, 2), kinds)).train()
    model = _prepared(listener, recipe)
    heard, spoken = noise(rows, bins, frames), whole(kinds, rows)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step():
        with autocast():
            told = model(heard)
        F.cross_entropy(told.float(), spoken).backward()
        nn.utils.clip_grad_norm_(model.parameters(), recipe["clip"])
        optimizer.step()
        optimizer.zero_grad()

    return step


class _Evaluator:
    """Says how often a model's best next word is the true one, as evaluation loops of libraries do:
    what the model says is gathered on the host, and the metric is computed there."""

    def __init__(self, model, preprocess=None):
        self.model, self.preprocess = model, preprocess
        self.right = self.all = 0

    @torch.no_grad()
    def prediction_step(self, words):
        with autocast():
            told = self.model(words[:, :-1])
        told = told.float()
        if self.preprocess is not None:
            told = self.preprocess(told)
        return told.cpu(), words[:, 1:].cpu()

    def add_batch(self, words):
        told, true = self.prediction_step(words)
        best = told.argmax(-1) if told.dim() == true.dim() + 1 else told
        self.right += int((best == true).sum())
        self.all += true.numel()
        return self.right / self.all


@pair("copy_less")
def quizzes_logits_gathered_on_the_host(fixed):
    """A language model (eight layers, 768 wide) is evaluated in bf16 autocast on four quizzes of 257 words a
    step. The loop gathers the logits of 32 000 words on the host, and takes the best there. The remedy is
    `preprocess_logits_for_metrics`: argmax on the GPU, so that only whole numbers are copied."""
    words, rows, long = n(32_000, 30), n(4, 2), n(257, 6)
    model = on_device(lambda: _Novelist(words, n(768, 16), n(8, 1))).eval()
    quizzes = itertools.cycle(whole(words, n(8, 2), rows, long))
    best = (lambda told: told.argmax(-1)) if fixed else None
    evaluator = _Evaluator(model, best)
    return lambda: evaluator.add_batch(next(quizzes))


def _with_adapters(words):
    """A Llama of transformers in bf16, and LoRA adapters of peft in all its projections."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=words,
        hidden_size=n(1024, 32),
        intermediate_size=n(2816, 64),
        num_hidden_layers=n(8, 1),
        num_attention_heads=n(16, 2),
        num_key_value_heads=n(8, 2),
        use_cache=False,
    )
    adapted = ["q_proj", "k_proj", "v_proj", "o_proj"]
    lora = LoraConfig(r=n(16, 2), lora_alpha=32, lora_dropout=0.0, target_modules=adapted)
    model = on_device(lambda: LlamaForCausalLM(config)).bfloat16()
    return get_peft_model(model, lora).to(DEVICE).train()


@pair("larger_batch", found=True, libraries=(LLAMA, "peft"))
def letters_accumulated_one_by_one(fixed):
    """A Llama (eight layers, 1024 wide) learns through LoRA (peft) to answer letters, in bf16 autocast, eight
    of 256 words for each optimizer step. They are taken as on a small GPU: `per_device_train_batch_size`
    is 1, and gradients are accumulated over eight micro-batches. The remedy is one batch of eight without
    gradient accumulation, which is the same step."""
    rows, long, words = n(8, 2), n(256, 6), n(32_000, 40)
    accumulated = 1 if fixed else rows
    model = _with_adapters(words)
    learnt = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learnt, 1e-4, fused=True)
    batches = itertools.cycle(whole(words, n(4, 2), rows, long))

    def step():
        for letters in next(batches).chunk(accumulated):
            with autocast():
                loss = model(input_ids=letters, labels=letters).loss
            (loss / accumulated).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


class _Watcher:
    """What a board of experiments is told of each weight: norms of it and of its gradient, and whether all
    is finite."""

    def __init__(self, model, *, together):
        self.named, self.together = dict(model.named_parameters()), together
        self.board = {}

    def watch(self):
        if self.together:
            self.watch_together()
            return
        for name, weight in self.named.items():
            self.board[f"gradient/{name}"] = weight.grad.norm().item()
            self.board[f"weight/{name}"] = weight.detach().norm().item()
            if not torch.isfinite(weight.grad).all():
                raise ValueError(f"the gradient of {name} is not finite")

    def watch_together(self):
        grads = [weight.grad for weight in self.named.values()]
        weights = [weight.detach() for weight in self.named.values()]
        norms = torch.stack(torch._foreach_norm(grads) + torch._foreach_norm(weights)).tolist()
        if not np.isfinite(norms).all():
            raise ValueError("a gradient is not finite")
        for number, name in enumerate(self.named):
            self.board[f"gradient/{name}"] = norms[number]
            self.board[f"weight/{name}"] = norms[number + len(grads)]


@pair("remove_syncs", found=True)
def poems_norms_logged_weight_by_weight(fixed):
    """A language model (16 layers, 512 wide) learns poems in bf16 autocast, from eight of 256 words. A board
    is told the norm of each weight and of its gradient in every step, and whether it is finite: some 580
    times a step `.item()` or an `if` waits for the GPU. The remedy computes all norms at once
    (`torch._foreach_norm`), and fetches them by one `tolist()`."""
    rows, long, words = n(8, 2), n(256, 6), n(8000, 20)
    model = on_device(lambda: _Novelist(words, n(512, 16), n(16, 1))).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-4, fused=True)
    watcher = _Watcher(model, together=fixed)
    poems = whole(words, rows, long + 1)

    def step():
        with autocast():
            told = model(poems[:, :-1])
        F.cross_entropy(told.flatten(0, 1).float(), poems[:, 1:].flatten()).backward()
        watcher.watch()
        optimizer.step()
        optimizer.zero_grad()

    return step


class _Service:
    """Makes vectors of recordings, by an encoder as it was loaded."""

    def __init__(self, encoder):
        self.encoder = encoder.eval()
        self.dtype = next(encoder.parameters()).dtype

    @torch.inference_mode()
    def __call__(self, spectrograms):
        heard = spectrograms.to(DEVICE, non_blocking=True).to(self.dtype)
        told = self.encoder(heard).last_hidden_state
        return F.normalize(told.float().mean(1), dim=-1).cpu()


@pair("low_precision", libraries=(WHISPER,))
def interviews_encoded_in_loaded_fp32(fixed):
    """The encoder of a Whisper of transformers (six layers, 512 wide) makes vectors of 16 pieces of interviews,
    30 seconds each. `from_pretrained` was not told a type, so that weights and all products are in fp32.
    The remedy loads the model in bf16 (`dtype=torch.bfloat16`)."""
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder

    torch.set_float32_matmul_precision("highest")
    bins, places = n(80, 8), n(1500, 8)
    config = WhisperConfig(
        vocab_size=n(51_865, 50),
        num_mel_bins=bins,
        d_model=n(512, 16),
        encoder_layers=n(6, 1),
        encoder_attention_heads=n(8, 2),
        encoder_ffn_dim=n(2048, 32),
        max_source_positions=places,
        pad_token_id=0,
    )
    encoder = on_device(lambda: WhisperEncoder(config))
    service = _Service(encoder.bfloat16() if fixed else encoder)
    heard = torch.randn(n(16, 2), bins, 2 * places)
    heard = heard.pin_memory() if PINNED else heard
    return lambda: service(heard)


@good("batch_calls", "fused_optimizer", found=True)
def good_fashions(version):
    """A CLIP learns in bf16 autocast which of 128 texts goes with which of 128 pictures of clothes: a transformer
    for each (12 layers, 768 wide, and eight, 512 wide), and a loss of all pairs. The tower for pictures is
    called for each of two views. Its products fill the GPU, so that one call with both views brings
    nothing; nor does a fused AdamW bring much."""
    rows, patch, words = n(128, 3), n(16, 4), n(16_000, 30)
    side, long = n(14, 2), n(64, 4)
    wide, width = n(768, 16), n(512, 16)
    eyes = mlp(3 * patch**2, wide)
    see, seen = layers(wide, n(12, 1)), mlp(wide, width)
    table, read = on_device(lambda: nn.Embedding(words, width)), layers(width, n(8, 1))
    model = nn.ModuleList((eyes, see, seen, table, read))
    fused = version == "fused_optimizer" or None
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=fused)
    views = noise(2, rows, side**2, 3 * patch**2)
    texts = whole(words, rows, long)

    def told_of(pictures):
        return F.normalize(seen(see(eyes(pictures)).mean(1)).float(), dim=-1)

    def loss():
        if version == "batch_calls":
            first, second = told_of(views.flatten(0, 1)).chunk(2)
        else:
            first, second = told_of(views[0]), told_of(views[1])
        said = F.normalize(read(table(texts)).mean(1).float(), dim=-1)
        true = torch.arange(rows, device=DEVICE)
        return sum(F.cross_entropy(20 * one @ said.t(), true) for one in (first, second))

    return train(optimizer, loss, cast=True)
