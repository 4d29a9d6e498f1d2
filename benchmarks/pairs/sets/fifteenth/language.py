"""Text and speech: translators, chats, passages, assistants, transcripts."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import noise, on_device, whole

BERT = "transformers.models.bert.modeling_bert"
LLAMA = "transformers.models.llama.modeling_llama"
T5 = "transformers.models.t5.modeling_t5"
WHISPER = "transformers.models.whisper.modeling_whisper"


def _all_finite(weights):
    """Whether all gradients are finite, asked weight by weight."""
    return not any(
        torch.isnan(weight.grad).any() or torch.isinf(weight.grad).any() for weight in weights
    )


@pair("remove_syncs", found=True, libraries=(T5,))
def translator_gradients_asked_whether_finite(fixed):
    """A T5 of transformers (small) learns to translate 16 passages a step in bf16 autocast. Before each
    update an `if` asks every weight's gradient for NaN and infinity, and the update is skipped if
    there are any. The remedy leaves the question to GradScaler, with a scale of 1: a fused
    optimizer reads the answer on the GPU."""
    from transformers import T5Config, T5ForConditionalGeneration

    rows, long, short = n(16, 2), n(256, 8), n(96, 4)
    small = {"d_model": 32, "d_kv": 16, "d_ff": 64, "num_heads": 2, "num_layers": 1}
    config = T5Config(
        vocab_size=n(32128, 50), decoder_start_token_id=0, **({} if n(1, 0) else small)
    )
    model = on_device(lambda: T5ForConditionalGeneration(config)).train()
    weights = [*model.parameters()]
    optimizer = torch.optim.AdamW(weights, 1e-4, fused=True)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=1.0, growth_interval=10**6)
    asked, told = whole(config.vocab_size, rows, long), whole(config.vocab_size, rows, short)

    def step():
        with torch.autocast(DEVICE, torch.bfloat16):
            loss = model(input_ids=asked, labels=told).loss
        if fixed:
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
        else:
            loss.backward()
            if _all_finite(weights):
                optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


class _Speaker(Module):
    """A layer that speaks a token a call, with the keys and values of a ring of tokens."""

    def __init__(self, width, heads, rows, ring):
        self.heads = heads
        self.asked = nn.Linear(width, 3 * width, bias=False)
        self.joined = nn.Linear(width, width, bias=False)
        self.gated = nn.Linear(width, 6 * width, bias=False)
        self.lowered = nn.Linear(3 * width, width, bias=False)
        shape = rows, heads, ring, width // heads
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def forward(self, x, place):
        heads = self.asked(F.rms_norm(x, x.shape[-1:])).unflatten(-1, (3, self.heads, -1))
        query, key, value = (part.unsqueeze(2) for part in heads.unbind(1))
        self.keys.index_copy_(2, place, key)
        self.values.index_copy_(2, place, value)
        seen = F.scaled_dot_product_attention(query, self.keys, self.values)
        x = x + self.joined(seen.flatten(1))
        gate, lifted = self.gated(F.rms_norm(x, x.shape[-1:])).chunk(2, -1)
        return x + self.lowered(F.silu(gate) * lifted)


class _Voice(Module):
    """A language model that speaks a token a call."""

    def __init__(self, words, width, depth, rows, ring):
        self.ring = ring
        self.words = nn.Embedding(words, width)
        self.body = nn.ModuleList(_Speaker(width, n(16, 2), rows, ring) for _ in range(depth))
        self.last = nn.Linear(width, words, bias=False)
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, token):
        x = self.words(token)
        for layer in self.body:
            x = layer(x, self.place)
        self.place.add_(1).remainder_(self.ring)
        return self.last(F.rms_norm(x, x.shape[-1:]))


def _voice(words, rows):
    """A voice in bf16."""
    width, depth, ring = n(2048, 32), n(8, 1), n(1024, 6)
    return on_device(lambda: _Voice(words, width, depth, rows, ring)).bfloat16().eval()


def _drawn_by_numpy(logits, luck, share):
    """Tokens drawn from the likeliest ones that have a share of the probability, on the host."""
    drawn = []
    for row, lucky in zip(logits.float().cpu().numpy(), luck.cpu().numpy(), strict=True):
        likely = np.exp(row - row.max())
        likely /= likely.sum()
        order = np.argsort(-likely, kind="stable")
        summed = np.cumsum(likely[order])
        kept = np.searchsorted(summed, share) + 1
        drawn.append(order[np.searchsorted(summed[:kept], lucky * summed[kept - 1])])
    return torch.tensor(np.array(drawn)).to(DEVICE)


def _drawn(logits, luck, share):
    """The same on the device."""
    likely, order = logits.float().softmax(-1).sort(dim=-1, descending=True, stable=True)
    summed = likely.cumsum(-1)
    kept = torch.searchsorted(summed, torch.full_like(luck, share)[:, None])
    kept = kept.clamp_max(summed.shape[-1] - 1)
    chosen = torch.searchsorted(summed, luck[:, None] * summed.gather(-1, kept))
    return order.gather(-1, torch.minimum(chosen, kept)).squeeze(-1)


@pair("move_host_work")
def chats_words_drawn_by_numpy(fixed):
    """A language model (8 layers, 2048 wide) answers 12 chats in bf16, a token of each a step, with a
    cache of keys and values. The logits are fetched to the host, and numpy sorts the 32000 of each
    chat to draw from the likeliest that have 90 % of the probability (top-p). The remedy sorts and
    draws on the GPU."""
    words, rows = n(32000, 50), n(12, 2)
    model = _voice(words, rows)
    luck = torch.rand(64, rows, device=DEVICE)
    draw = _drawn if fixed else _drawn_by_numpy
    token, turn = [whole(words, rows)], [0]

    @torch.no_grad()
    def step():
        token[0] = draw(model(token[0]), luck[turn[0] % len(luck)], 0.9)
        turn[0] += 1
        return token[0]

    return step


@pair("low_precision", libraries=(BERT,))
def passages_embedded_in_fp32(fixed):
    """A service makes vectors of 64 passages of 256 tokens a step for a search, by a BERT of transformers
    (base) as it was loaded: its weights are float32, and its products TF32. The remedy has the
    weights in bf16."""
    from transformers import BertConfig, BertModel

    torch.set_float32_matmul_precision("high")
    rows, long = n(64, 2), n(256, 8)
    small = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 2}
    size = {} if n(1, 0) else {**small, "num_hidden_layers": 1}
    config = BertConfig(vocab_size=n(30522, 50), **size)
    model = on_device(lambda: BertModel(config, add_pooling_layer=False)).eval()
    model = model.bfloat16() if fixed else model
    passages = whole(config.vocab_size, rows, long)

    @torch.no_grad()
    def step():
        told = model(input_ids=passages).last_hidden_state
        return F.normalize(told.float().mean(1), dim=-1)

    return step


@pair("no_recompute", found=True, libraries=(LLAMA, "peft"))
def assistant_recomputed_for_no_need(fixed):
    """A Llama of transformers (12 layers, 1024 wide) is fitted to eight dialogues of 1024 tokens a step by
    LoRA of peft, weights in bf16. The recipe was made for a GPU of 8 GB, and turns gradient
    checkpointing on; here most of the memory is free. The remedy turns it off."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    rows, long = n(8, 2), n(1024, 8)
    config = LlamaConfig(
        vocab_size=n(32000, 50),
        hidden_size=n(1024, 32),
        intermediate_size=n(2816, 64),
        num_hidden_layers=n(12, 1),
        num_attention_heads=n(16, 2),
        num_key_value_heads=n(8, 1),
        use_cache=False,
    )
    model = on_device(lambda: LlamaForCausalLM(config)).bfloat16()
    if not fixed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    adapted = ["q_proj", "k_proj", "v_proj", "o_proj"]
    how = LoraConfig(r=16, lora_alpha=32, target_modules=adapted, task_type="CAUSAL_LM")
    model = get_peft_model(model, how).train()
    tokens = whole(config.vocab_size, rows, long)
    return train(model, lambda: model(input_ids=tokens, labels=tokens).loss, cast=True)


@pair("fused_attention", found=True, libraries=(WHISPER,))
def transcripts_with_eager_attention(fixed):
    """A Whisper of transformers (base) is fitted to eight recordings of 30 s a step in bf16 autocast. It
    was loaded with `attn_implementation="eager"`, as a notebook has it that looks at attentions, so
    that scores of 1500 x 1500 frames are written for every head. The remedy is "sdpa"."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    rows, frames, long = n(8, 2), n(3000, 20), n(96, 4)
    parts = "encoder", "decoder"
    config = WhisperConfig(
        vocab_size=n(51865, 60),
        d_model=n(512, 32),
        max_source_positions=frames // 2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        attn_implementation="sdpa" if fixed else "eager",
        **{f"{part}_layers": n(6, 1) for part in parts},
        **{f"{part}_attention_heads": n(8, 2) for part in parts},
        **{f"{part}_ffn_dim": n(2048, 64) for part in parts},
    )
    model = on_device(lambda: WhisperForConditionalGeneration(config)).train()
    sounds = noise(rows, config.num_mel_bins, frames)
    told = whole(config.vocab_size, rows, long)
    return train(model, lambda: model(input_features=sounds, labels=told).loss, cast=True)


@good("cuda_graph", "larger_batch")
def good_prompts(version):
    """A service reads four prompts of 2048 tokens a step with the first four layers (4096 wide) of a
    language model in bf16: large products, causal attention that is fused, and normalisation, too."""
    rows, long, width = n(4, 2) * (2 if version == "larger_batch" else 1), n(2048, 6), n(4096, 32)
    heads = n(32, 2)

    def layer():
        sizes = (width, 3 * width), (width, width), (width, 6 * width), (3 * width, width)
        return nn.ModuleList(nn.Linear(*size, bias=False) for size in sizes)

    body = on_device(lambda: nn.ModuleList(layer() for _ in range(n(4, 1)))).bfloat16().eval()
    prompts = noise(rows, long, width, dtype=torch.bfloat16)

    @torch.no_grad()
    def step():
        x = prompts
        for asked, joined, gated, lowered in body:
            told = asked(F.rms_norm(x, (width,))).unflatten(-1, (3, heads, -1))
            seen = F.scaled_dot_product_attention(*told.permute(2, 0, 3, 1, 4), is_causal=True)
            x = x + joined(seen.transpose(1, 2).flatten(2))
            gate, lifted = gated(F.rms_norm(x, (width,))).chunk(2, -1)
            x = x + lowered(F.silu(gate) * lifted)
        return x[:, -1]

    return graphed(step) if version == "cuda_graph" else step


@good("remove_syncs")
def good_answers(version):
    """A language model (8 layers, 2048 wide) in bf16 writes 16 tokens a step for each of 32 chats, by a
    CUDA graph of a token that it replays. After the 16 tokens they are fetched, to be shown."""
    words, rows = n(32000, 50), n(32, 2)
    model, token = _voice(words, rows), whole(words, rows)
    written = torch.zeros(n(16, 2), rows, dtype=torch.long, device=DEVICE)

    @torch.no_grad()
    def speak():
        token.copy_(model(token).argmax(-1))

    spoken = graphed(speak)

    def step():
        for row in written:
            spoken()
            row.copy_(token)
        return written if version == "remove_syncs" else written.tolist()

    return step
