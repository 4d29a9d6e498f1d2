"""Programs of text, sound and tables, each at a setting at which people ask what another would take."""

import torch
import transformers
from torch import nn
from torch.nn import functional

from benchmarks.predict.language import WORDS, Written, decodes
from benchmarks.predict.program import (
    DEVICE,
    Program,
    Setting,
    Step,
    classes,
    n,
    program,
    serve,
    tokens,
    train,
)

CHUNK = n(64, 4)
"""Tokens that a Mamba-2 layer takes at once."""


def _qwen(size: int, inner: int, layers: int, heads: int) -> nn.Module:
    """A Qwen2 with two heads of keys and values."""
    config = transformers.Qwen2Config(
        vocab_size=n(151936, 500),
        hidden_size=size,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=2,
        tie_word_embeddings=True,
    )
    return transformers.Qwen2ForCausalLM(config)


@program(Setting(2, 2048), batch=(1, 4), length=(1024, 4096))
def qwen_train(setting: Setting) -> Step:
    """A Qwen2 of half a billion parameters trains."""
    model = _qwen(n(896, 64), n(4864, 128), layers=n(24, 2), heads=n(14, 4)).to(DEVICE)
    x = tokens(setting, model.config.vocab_size)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


@program(Setting(64, 1024), batch=(16, 128), length=(512, 4096))
def qwen_decodes(setting: Setting) -> Step:
    """A Qwen2 of 1.5 billion parameters takes one token for each sequence."""
    model = _qwen(n(1536, 64), n(8960, 128), layers=n(28, 2), heads=n(12, 4))
    return decodes(model.eval().to(DEVICE, torch.bfloat16), setting)


@program(Setting(2, 2048), batch=(1, 8), length=(1024, 4096))
def mistral_reads(setting: Setting) -> Step:
    """A Mistral of 2.6 billion parameters reads prompts."""
    config = transformers.MistralConfig(
        vocab_size=WORDS,
        hidden_size=n(3072, 64),
        intermediate_size=n(8192, 128),
        num_hidden_layers=n(24, 2),
        num_attention_heads=n(24, 4),
        num_key_value_heads=n(8, 2),
        max_position_embeddings=8192,
        sliding_window=None,
    )
    model = transformers.MistralForCausalLM(config).eval().to(DEVICE, torch.bfloat16)
    x = tokens(setting, WORDS)
    return serve(lambda: model(input_ids=x, logits_to_keep=1).logits, setting)


class Cached(Written):
    """The layer for one token of each sequence: it reads a cache of fixed length."""

    def __init__(self, size: int, heads: int, setting: Setting) -> None:
        super().__init__(size, heads)
        shape = (2, setting.batch, heads, setting.length, size // heads)
        kept = torch.randn(shape, device=DEVICE, dtype=torch.bfloat16)
        self.register_buffer("kept", kept)
        self.register_buffer("last", torch.tensor([setting.length - 1], device=DEVICE))
        seen = torch.ones(1, 1, 1, setting.length, dtype=torch.bool, device=DEVICE)
        self.register_buffer("seen", seen)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer, shape (batch, 1, size)."""
        qkv = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        keys, values = self.kept
        keys.index_copy_(2, self.last, k)
        values.index_copy_(2, self.last, v)
        mixed = functional.scaled_dot_product_attention(q, keys, values, attn_mask=self.seen)
        x = x + self.out(mixed.transpose(1, 2).flatten(2))
        return x + self.narrow(functional.relu(self.wide(self.norms[1](x))))


@program(Setting(64, 1024), batch=(16, 256), length=(512, 2048))
def cached_decodes(setting: Setting) -> Step:
    """A decoder of 1.3 billion parameters takes one token, with a cache of fixed length."""
    size = n(2048, 64)
    words = nn.Embedding(WORDS, size)
    layers = [Cached(size, n(32, 4), setting) for _ in range(n(24, 2))]
    head = nn.Linear(size, WORDS, bias=False)
    model = nn.Sequential(words, *layers, nn.LayerNorm(size), head).to(DEVICE, torch.bfloat16)
    token = torch.randint(0, WORDS, (setting.batch, 1), device=DEVICE)
    return serve(lambda: token.copy_(model(token).argmax(-1)), setting)


@program(Setting(32, 256, "tf32"), batch=(16, 64), length=(512,), precision=("bf16",))
def deberta_tunes(setting: Setting) -> Step:
    """DeBERTa-v3 base is tuned to tag words."""
    config = transformers.DebertaV2Config(
        vocab_size=n(128100, 500),
        hidden_size=n(768, 64),
        num_hidden_layers=n(12, 2),
        num_attention_heads=n(12, 4),
        intermediate_size=n(3072, 128),
        max_position_embeddings=512,
        relative_attention=True,
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
        pos_att_type=["p2c", "c2p"],
        position_biased_input=False,
        num_labels=9,
    )
    model = transformers.DebertaV2ForTokenClassification(config).to(DEVICE)
    x = tokens(setting, config.vocab_size)
    y = tokens(setting, 9)
    return train(model, lambda: model(input_ids=x, labels=y).loss, setting)


@program(Setting(32, 256, "fp32"), batch=(8, 128), length=(512,), precision=("bf16",))
def documents_ranked(setting: Setting) -> Step:
    """An XLM-RoBERTa base scores pairs of a question and a document."""
    config = transformers.XLMRobertaConfig(
        vocab_size=n(250002, 500),
        hidden_size=n(768, 64),
        num_hidden_layers=n(12, 2),
        num_attention_heads=n(12, 4),
        intermediate_size=n(3072, 128),
        max_position_embeddings=514,
        num_labels=1,
    )
    model = transformers.XLMRobertaForSequenceClassification(config).eval().to(DEVICE)
    x = tokens(setting, config.vocab_size)
    return serve(lambda: model(input_ids=x).logits, setting)


def _decays(logs: torch.Tensor) -> torch.Tensor:
    """What is left at each position of each before it: shape (..., l) of summed logarithms becomes
    (..., l, l)."""
    later = torch.ones(logs.shape[-1], logs.shape[-1], dtype=torch.bool, device=logs.device).triu(1)
    return (logs[..., :, None] - logs[..., None, :]).masked_fill(later, -torch.inf).exp()


def _scanned(
    values: torch.Tensor, logs: torch.Tensor, keys: torch.Tensor, queries: torch.Tensor
) -> torch.Tensor:
    """The states' answers to the queries, in chunks as Mamba-2 does: `values` of shape (batch,
    length, heads, width), `logs` of the decays (batch, length, heads), the others (batch, length,
    states)."""
    parts = (one.unflatten(1, (-1, CHUNK)) for one in (values, logs, keys, queries))
    values, logs, keys, queries = parts
    sums = logs.permute(0, 3, 1, 2).cumsum(-1)
    scores = torch.einsum("bcls,bcms->bclm", queries, keys)[:, None] * _decays(sums)
    near = torch.einsum("bhclm,bcmhp->bclhp", scores, values)
    left = (sums[..., -1:] - sums).exp().permute(0, 2, 3, 1)[..., None]
    states = torch.einsum("bcls,bclhp->bchps", keys, values * left)
    ends = functional.pad(sums[..., -1], (1, 0)).cumsum(-1)
    states = torch.cat([torch.zeros_like(states[:, :1]), states], 1)
    states = torch.einsum("bhzc,bchps->bzhps", _decays(ends), states)[:, :-1]
    far = torch.einsum("bcls,bchps->bclhp", queries, states)
    return (near + far * sums.exp().permute(0, 2, 3, 1)[..., None]).flatten(1, 2)


class Mamba(nn.Module):
    """A Mamba-2 layer in plain PyTorch."""

    def __init__(self, size: int, heads: int, states: int) -> None:
        super().__init__()
        inner = 2 * size
        mixed = inner + 2 * states
        self.heads = heads
        self.parts = ([inner, mixed, heads], [inner, states, states])
        self.norms = nn.ModuleList([nn.RMSNorm(size), nn.RMSNorm(inner)])
        self.enter = nn.Linear(size, inner + mixed + heads, bias=False)
        self.mix = nn.Conv1d(mixed, mixed, 4, padding=3, groups=mixed)
        self.rate = nn.Parameter(torch.zeros(heads))
        self.leave = nn.Linear(inner, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer."""
        gate, mixed, steps = self.enter(self.norms[0](x)).split(self.parts[0], -1)
        mixed = functional.silu(self.mix(mixed.transpose(1, 2))[..., : x.shape[1]])
        values, keys, queries = mixed.transpose(1, 2).split(self.parts[1], -1)
        steps = functional.softplus(steps.float())
        values = values.unflatten(-1, (self.heads, -1)) * steps[..., None]
        found = _scanned(values, -steps * self.rate.exp(), keys, queries).flatten(2)
        return x + self.leave(self.norms[1](found * functional.silu(gate)))


@program(Setting(4, 2048), batch=(2, 8), length=(1024, 4096))
def mamba_train(setting: Setting) -> Step:
    """A Mamba-2 of 24 layers, its scan written out, trains."""
    size = n(768, 64)
    words = n(50280, 500)
    layers = [Mamba(size, n(24, 4), n(128, 16)) for _ in range(n(24, 2))]
    head = nn.Linear(size, words, bias=False)
    model = nn.Sequential(nn.Embedding(words, size), *layers, nn.RMSNorm(size), head).to(DEVICE)
    x = tokens(setting, words)
    following = x.roll(-1, 1).flatten()
    return train(
        model, lambda: functional.cross_entropy(model(x).flatten(0, 1), following), setting
    )


@program(Setting(8, 160000), batch=(4, 16), length=(320000,), precision=("tf32",))
def wav2vec_tunes(setting: Setting) -> Step:
    """wav2vec 2.0 base is tuned to write down 10 s of speech; `length` is of samples."""
    config = transformers.Wav2Vec2Config(
        hidden_size=n(768, 64),
        num_hidden_layers=n(12, 2),
        num_attention_heads=n(12, 4),
        intermediate_size=n(3072, 128),
        conv_dim=(n(512, 32),) * 7,
        num_conv_pos_embedding_groups=n(16, 4),
        layerdrop=0.0,
        ctc_loss_reduction="mean",
        ctc_zero_infinity=True,
    )
    model = transformers.Wav2Vec2ForCTC(config).to(DEVICE).train()
    model.freeze_feature_encoder()
    x = torch.randn(setting.batch, setting.length, device=DEVICE)
    y = torch.randint(1, 32, (setting.batch, n(150, 4)), device=DEVICE)
    return train(model, lambda: model(input_values=x, labels=y).loss, setting)


@program(Setting(4096, 0, "fp32"), batch=(1024, 16384), precision=("tf32", "bf16"))
def tables_train(setting: Setting) -> Step:
    """A transformer over 32 columns of a table trains."""
    size = n(192, 32)
    columns = 32
    values = n(1000, 50)
    layer = nn.TransformerEncoderLayer(
        size, 8, 4 * size, activation="gelu", batch_first=True, norm_first=True
    )
    encoder = nn.TransformerEncoder(layer, n(4, 2), enable_nested_tensor=False)
    cells = nn.Embedding(columns * values, size)
    head = nn.Linear(size, 2)
    model = nn.ModuleList([cells, encoder, head]).to(DEVICE)
    first = torch.arange(columns, device=DEVICE) * values
    x = torch.randint(0, values, (setting.batch, columns), device=DEVICE) + first
    y = classes(setting, 2)

    def loss() -> torch.Tensor:
        return functional.cross_entropy(head(encoder(cells(x)).mean(1)), y)

    return train(model, loss, setting)


PROGRAMS: tuple[Program, ...] = (
    qwen_train,
    qwen_decodes,
    mistral_reads,
    cached_decodes,
    deberta_tunes,
    documents_ranked,
    mamba_train,
    wav2vec_tunes,
    tables_train,
)
