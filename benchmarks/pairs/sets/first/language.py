"""Programs that read, speak and listen: transformers' models, some of them under peft."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.nn.functional import cross_entropy

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def whisper_adam_loop(fixed: bool) -> Step:
    """Whisper (base) trained in bf16; AdamW goes from tensor to tensor."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        d_model=n(512, 64), encoder_layers=n(6, 1), decoder_layers=n(6, 1), encoder_attention_heads=8,
        decoder_attention_heads=8, encoder_ffn_dim=n(2048, 64), decoder_ffn_dim=n(2048, 64), num_mel_bins=80,
    )  # fmt: skip
    model = WhisperForConditionalGeneration(config).to(DEVICE)
    sound = torch.randn(n(8, 1), 80, 3000, device=DEVICE)
    words = torch.randint(0, 50000, (len(sound), 64), device=DEVICE)
    how: dict[str, Any] = {"fused": True} if fixed else {"foreach": False}

    def loss() -> Any:
        with autocast():
            return model(input_features=sound, labels=words).loss

    return train(model, loss, torch.optim.AdamW(model.parameters(), 1e-5, **how))


def wav2vec_fp32(fixed: bool) -> Step:
    """Wav2Vec2 trained in fp32 without TF32, for convolutions too."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification

    torch.set_float32_matmul_precision("high" if fixed else "highest")
    torch.backends.cudnn.allow_tf32 = fixed
    config = Wav2Vec2Config(num_hidden_layers=n(8, 1), mask_time_prob=0.0, layerdrop=0.0)
    model = Wav2Vec2ForSequenceClassification(config).to(DEVICE)
    sound, y = torch.randn(n(16, 1), n(48_000, 4_000), device=DEVICE), torch.randint(0, 2, (n(16, 1),), device=DEVICE)
    return train(model, lambda: model(sound, labels=y).loss)


def lora_checkpointed(fixed: bool) -> Step:
    """A Llama of 12 layers under peft's LoRA, every layer computed again in the backward pass."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=n(1024, 64), intermediate_size=n(2816, 128), num_hidden_layers=n(12, 2), num_attention_heads=16,
        vocab_size=n(32000, 100),
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16)
    if not fixed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    model = get_peft_model(model, LoraConfig(r=16, target_modules=["q_proj", "v_proj", "down_proj"])).train()
    tokens = torch.randint(0, n(32000, 100), (n(8, 1), n(1024, 16)), device=DEVICE)
    return train(model, lambda: model(input_ids=tokens, labels=tokens).loss)


def roberta_eager_attention(fixed: bool) -> Step:
    """RoBERTa trained in bf16 on 512 tokens, attention written out by transformers."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    config = RobertaConfig(
        num_hidden_layers=n(8, 1), max_position_embeddings=1026, vocab_size=n(50304, 128),
        attention_probs_dropout_prob=0.0, attn_implementation="sdpa" if fixed else "eager",
    )  # fmt: skip
    model = RobertaForMaskedLM(config).to(DEVICE)
    tokens = torch.randint(3, n(50000, 100), (n(16, 1), n(1000, 16)), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return model(tokens, labels=tokens).loss

    return train(model, loss)


def gpt_bigcode_gelu(fixed: bool) -> Step:
    """A GPT-2 whose GELU is written out in Python: transformers' "gelu_new" for "gelu_pytorch_tanh"."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=n(8, 1), n_embd=n(1024, 64), n_head=16, vocab_size=n(50304, 128),
        activation_function="gelu_pytorch_tanh" if fixed else "gelu_new",
    )  # fmt: skip
    model = GPT2LMHeadModel(config).to(DEVICE, torch.bfloat16)
    tokens = torch.randint(0, n(50000, 100), (n(12, 1), n(1024, 16)), device=DEVICE)
    return train(model, lambda: model(tokens, labels=tokens).loss)


def llama_eager(fixed: bool) -> Step:
    """A small Llama trained in bf16, its norms, rotations and gates eager; the remedy is torch.compile."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=n(1024, 64), intermediate_size=n(2816, 128), num_hidden_layers=n(4, 1), num_attention_heads=16,
        vocab_size=n(16384, 128), use_cache=False,
    )  # fmt: skip
    model = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16)
    tokens = torch.randint(0, n(16000, 100), (n(8, 1), n(1024, 16)), device=DEVICE)
    forward = torch.compile(model) if fixed else model
    return train(model, lambda: forward(input_ids=tokens, labels=tokens).loss)


def sentences_one_by_one(fixed: bool) -> Step:
    """An embedding service: BERT (6 layers) is called for each of 16 sentences; their vectors are read."""
    from transformers import BertConfig, BertModel

    config = BertConfig(hidden_size=n(384, 48), num_hidden_layers=n(6, 1), intermediate_size=n(1536, 48))
    model = BertModel(config).to(DEVICE, torch.float16 if DEVICE == "cuda" else torch.float32).eval()
    tokens = torch.randint(0, 30000, (16, 32), device=DEVICE)

    def step() -> None:
        with torch.inference_mode():
            for some in [tokens] if fixed else tokens.split(1):
                model(some).last_hidden_state[:, 0].cpu()

    return step


class Listener(nn.Module):
    """Convolutions, then a recurrent layer, then characters."""

    def __init__(self, fixed: bool) -> None:
        super().__init__()
        self.front = nn.Sequential(nn.Conv1d(80, 256, 5, 2, 2), nn.GELU())
        self.cell, self.layer = nn.GRUCell(256, 512), nn.GRU(256, 512, batch_first=True)
        self.head, self.fixed = nn.Linear(512, 64), fixed

    def forward(self, sound: torch.Tensor) -> torch.Tensor:
        x = self.front(sound).transpose(1, 2)
        if self.fixed:
            return self.head(self.layer(x)[0])
        state, out = x.new_zeros(len(x), 512), []
        for row in x.unbind(1):
            state = self.cell(row, state)
            out.append(state)
        return self.head(torch.stack(out, 1))


def speech_gru_cells(fixed: bool) -> Step:
    """A speech recogniser that loops over GRU cells."""
    model = Listener(fixed).to(DEVICE)
    sound = torch.randn(n(16, 2), 80, n(300, 20), device=DEVICE)
    y = torch.randint(0, 64, (len(sound), sound.shape[2] // 2), device=DEVICE)
    optimizer = torch.optim.SGD(list(model.parameters()), 0.01)
    return train(model, lambda: cross_entropy(model(sound).transpose(1, 2), y), optimizer)


PAIRS = (
    Pair("fused_optimizer", whisper_adam_loop, found=True),
    Pair("tf32", wav2vec_fp32, found=True),
    Pair("no_recompute", lora_checkpointed, found=True),
    Pair("fused_attention", roberta_eager_attention, found=True),
    Pair("fuse_elementwise", gpt_bigcode_gelu, found=True),
    Pair("batch_calls", sentences_one_by_one),
    Pair("fused_rnn", speech_gru_cells, found=True),
    Pair("compile", llama_eager, found=True),
)
