"""Programs of language models."""

import torch
import transformers
from torch import nn
from torch.nn import functional

from benchmarks.predict.program import (
    DEVICE,
    Program,
    Setting,
    Step,
    n,
    program,
    serve,
    tokens,
    train,
)

WORDS = n(32000, 500)


def gpt2(size: int, layers: int, heads: int) -> transformers.GPT2LMHeadModel:
    """A GPT-2."""
    config = transformers.GPT2Config(
        vocab_size=WORDS,
        bos_token_id=None,
        eos_token_id=None,
        n_positions=2048,
        n_embd=size,
        n_layer=layers,
        n_head=heads,
    )
    return transformers.GPT2LMHeadModel(config).to(DEVICE)


def small_gpt2() -> transformers.GPT2LMHeadModel:
    """A GPT-2 of 8 layers."""
    return gpt2(n(768, 64), layers=n(8, 2), heads=n(12, 4))


@program(Setting(8, 512), batch=(2, 32), length=(256, 1024), both=((16, 1024),))
def gpt2_train(setting: Setting) -> Step:
    """GPT-2 trains."""
    model = small_gpt2()
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


def llama(
    size: int, inner: int, layers: int, heads: tuple[int, int], positions: int
) -> transformers.LlamaForCausalLM:
    """A Llama; `heads`: of queries, and of keys and values."""
    config = transformers.LlamaConfig(
        vocab_size=WORDS,
        hidden_size=size,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        max_position_embeddings=positions,
    )
    return transformers.LlamaForCausalLM(config)


def small_llama(size: int, key_value_heads: int, positions: int) -> transformers.LlamaForCausalLM:
    """A Llama of 8 layers."""
    heads = (n(16, 4), key_value_heads)
    return llama(size, size * 3, layers=n(8, 2), heads=heads, positions=positions)


@program(Setting(4, 1024), batch=(1, 2, 16), length=(512, 2048))
def llama_train(setting: Setting) -> Step:
    """A Llama with grouped queries trains."""
    model = small_llama(n(1024, 64), n(4, 2), positions=4096).to(DEVICE)
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


def bert(size: int, inner: int, layers: int, heads: int) -> nn.Module:
    """A BERT that fills in words."""
    config = transformers.BertConfig(
        vocab_size=WORDS,
        hidden_size=size,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        intermediate_size=inner,
        max_position_embeddings=1024,
    )
    return transformers.BertForMaskedLM(config).to(DEVICE)


def _small_bert(layers: int) -> nn.Module:
    return bert(n(768, 64), n(3072, 128), layers, heads=n(12, 4))


@program(Setting(16, 128, "fp32"), batch=(4, 64), length=(256, 512), precision=("bf16", "tf32"))
def bert_train(setting: Setting) -> Step:
    """BERT trains in fp32."""
    model = _small_bert(n(8, 2))
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


@program(Setting(8, 128), batch=(1, 32, 128), length=(64, 512))
def bert_serves(setting: Setting) -> Step:
    """BERT answers."""
    model = _small_bert(n(12, 2)).eval().to(torch.bfloat16)
    x = tokens(setting, WORDS)
    return serve(lambda: model(input_ids=x).logits, setting)


def t5(
    size: int, inner: int, layers: int, heads: int, *, dropout: float
) -> transformers.T5ForConditionalGeneration:
    """A T5, its attention written out."""
    config = transformers.T5Config(
        vocab_size=WORDS,
        d_model=size,
        d_kv=n(64, 16),
        d_ff=inner,
        num_layers=layers,
        num_heads=heads,
        dropout_rate=dropout,
        decoder_start_token_id=0,
    )
    return transformers.T5ForConditionalGeneration(config).to(DEVICE)


@program(Setting(8, 256), batch=(2, 32), length=(128, 512))
def t5_train(setting: Setting) -> Step:
    """T5 trains."""
    model = t5(n(512, 64), n(2048, 128), layers=n(6, 2), heads=n(8, 4), dropout=0.0)
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


def decodes(model: nn.Module, setting: Setting) -> Step:
    """A step that takes one token for each sequence, with a cache of as many as `length`."""
    config = model.config
    heads = config.num_key_value_heads
    width = config.hidden_size // config.num_attention_heads
    shape = (setting.batch, heads, setting.length, width)
    cache = transformers.DynamicCache()
    for layer in range(config.num_hidden_layers):
        keys = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)
        cache.update(keys, keys.clone(), layer)
    token = torch.randint(0, config.vocab_size, (setting.batch, 1), device=DEVICE)

    def decode() -> None:
        logits = model(input_ids=token, past_key_values=cache, use_cache=True).logits
        token.copy_(logits[:, -1:].argmax(-1))
        cache.crop(-1)

    return serve(decode, setting)


@program(Setting(8, 1024), batch=(1, 32, 128), length=(256, 4096))
def llama_decodes(setting: Setting) -> Step:
    """A Llama takes one token for each sequence, with a cache of as many as `length`."""
    model = small_llama(n(2048, 64), n(8, 2), positions=8192)
    return decodes(model.eval().to(DEVICE, torch.bfloat16), setting)


class Written(nn.Module):
    """A transformer layer whose attention is written out."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([nn.LayerNorm(size), nn.LayerNorm(size)])
        self.qkv = nn.Linear(size, 3 * size)
        self.out = nn.Linear(size, size)
        self.wide = nn.Linear(size, 4 * size)
        self.narrow = nn.Linear(4 * size, size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer."""
        batch, length, size = x.shape
        parts = self.qkv(self.norms[0](x)).view(batch, length, 3, self.heads, size // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        scores = (q @ k.transpose(-1, -2)) * (size // self.heads) ** -0.5
        mixed = (scores.softmax(-1) @ v).transpose(1, 2).reshape(batch, length, size)
        x = x + self.out(mixed)
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x))))


@program(Setting(8, 256), batch=(2, 32), length=(512, 1024), precision=("fp32",), both=((16, 512),))
def attention_written_out(setting: Setting) -> Step:
    """Layers with softmax(q k) v written out train."""
    size = n(640, 64)
    layers = [Written(size, n(10, 4)) for _ in range(n(8, 2))]
    model = nn.Sequential(nn.Embedding(n(8000, 500), size), *layers).to(DEVICE)
    x = tokens(setting, n(8000, 500))
    return train(model, lambda: model(x).float().square().mean(), setting)


@program(Setting(32, 100, "fp32"), batch=(8, 128, 512), precision=("tf32",))
def lstm_train(setting: Setting) -> Step:
    """A two-layer LSTM trains."""
    size = n(512, 64)
    words = nn.Embedding(n(10000, 500), size)
    model = nn.LSTM(size, size, 2, batch_first=True)
    head = nn.Linear(size, n(10000, 500))
    every = nn.ModuleList([words, model, head]).to(DEVICE)
    x = tokens(setting, n(10000, 500))
    return train(
        every,
        lambda: functional.cross_entropy(head(model(words(x))[0]).flatten(0, 1), x.flatten()),
        setting,
    )


@program(Setting(16, 256), batch=(4, 64), length=(128, 1024))
def experts_train(setting: Setting) -> Step:
    """A layer of experts, each on the tokens that a router gives it, trains."""
    size = n(512, 64)
    experts = nn.ModuleList(
        [nn.Sequential(nn.Linear(size, 2048), nn.GELU(), nn.Linear(2048, size)) for _ in range(4)]
    )
    router = nn.Linear(size, 4)
    words = nn.Embedding(n(10000, 500), size)
    model = nn.ModuleList([words, experts, router]).to(DEVICE)
    x = tokens(setting, n(10000, 500))

    def loss() -> torch.Tensor:
        hidden = words(x).flatten(0, 1)
        weights = router(hidden).softmax(-1)
        mixed = sum(expert(hidden) * weights[:, i : i + 1] for i, expert in enumerate(experts))
        return mixed.float().square().mean()

    return train(model, loss, setting)


PROGRAMS: tuple[Program, ...] = (
    gpt2_train,
    llama_train,
    bert_train,
    bert_serves,
    t5_train,
    llama_decodes,
    attention_written_out,
    lstm_train,
    experts_train,
)
