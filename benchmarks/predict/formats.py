"""Programs of text, sound, tables and graphs, each asked what another number format would take."""

import torch
import transformers
from torch import nn
from torch.nn import functional

from benchmarks.predict.language import WORDS
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

BANDS = n(80, 16)
"""Of a spectrogram."""
PATCH = n(16, 8)
"""Values of a series that make one token; patches overlap by half."""
FORECAST = n(96, 8)
FEATURES = n(39, 5)
"""Of an advertisement."""
NODES, BONDS = n(30, 6), n(64, 8)
"""Of a molecule."""


@program(Setting(16, 512, "fp32"), batch=(20,), length=(256,), precision=("tf32", "bf16"))
def electra_train(setting: Setting) -> Step:
    """ELECTRA base learns which words were replaced."""
    config = transformers.ElectraConfig(
        vocab_size=n(30522, 500),
        embedding_size=n(768, 64),
        hidden_size=n(768, 64),
        num_hidden_layers=n(12, 2),
        num_attention_heads=n(12, 4),
        intermediate_size=n(3072, 128),
        max_position_embeddings=512,
    )
    model = transformers.ElectraForPreTraining(config).to(DEVICE).train()
    x = tokens(setting, config.vocab_size)
    y = tokens(setting, 2)
    return train(model, lambda: model(input_ids=x, labels=y).loss, setting)


@program(Setting(16, 512, "fp32"), batch=(8,), length=(256,), precision=("tf32", "bf16"))
def bart_train(setting: Setting) -> Step:
    """BART base learns summaries of a quarter of the text's length."""
    words = n(50265, 500)
    config = transformers.BartConfig(
        vocab_size=words,
        d_model=n(768, 64),
        encoder_layers=n(6, 2),
        decoder_layers=n(6, 2),
        encoder_attention_heads=n(12, 4),
        decoder_attention_heads=n(12, 4),
        encoder_ffn_dim=n(3072, 128),
        decoder_ffn_dim=n(3072, 128),
        max_position_embeddings=1024,
    )
    model = transformers.BartForConditionalGeneration(config).to(DEVICE).train()
    x = torch.randint(4, words, (setting.batch, setting.length), device=DEVICE)
    y = torch.randint(4, words, (setting.batch, setting.length // 4), device=DEVICE)
    return train(model, lambda: model(input_ids=x, labels=y).loss, setting)


@program(Setting(128, 512, "fp32"), batch=(32,), length=(1024,), precision=("tf32", "bf16"))
def code_decodes(setting: Setting) -> Step:
    """A GPTBigCode of 1.1 billion parameters, all heads with the same keys and values, takes one
    token for each sequence."""
    layers = n(24, 2)
    size = n(2048, 64)
    heads = n(16, 4)
    config = transformers.GPTBigCodeConfig(
        vocab_size=n(49152, 500),
        n_positions=2048,
        n_embd=size,
        n_layer=layers,
        n_head=heads,
        multi_query=True,
        bos_token_id=None,
        eos_token_id=None,
    )
    model = transformers.GPTBigCodeForCausalLM(config).eval().to(DEVICE)
    kept = torch.bfloat16 if setting.precision == "bf16" else torch.float32
    cache = transformers.DynamicCache()
    for layer in range(layers):
        shape = (setting.batch, 1, setting.length, size // heads)
        keys = torch.randn(shape, device=DEVICE, dtype=kept)
        cache.update(keys, keys.clone(), layer)
    token = torch.randint(0, config.vocab_size, (setting.batch, 1), device=DEVICE)

    def decode() -> None:
        logits = model(input_ids=token, past_key_values=cache, use_cache=True).logits
        token.copy_(logits[:, -1:].argmax(-1))
        cache.crop(-1)

    return serve(decode, setting)


def _turned(x: torch.Tensor, turns: torch.Tensor) -> torch.Tensor:
    """Heads turned by their positions' angles, shape (batch, heads, length, width)."""
    cosines, sines = turns.to(x.dtype)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cosines - second * sines, second * cosines + first * sines], -1)


class Attention(nn.Module):
    """Attention with rotary positions."""

    def __init__(self, size: int, heads: int, length: int, *, causal: bool) -> None:
        super().__init__()
        self.heads = heads
        self.causal = causal
        self.qkv = nn.Linear(size, 3 * size, bias=False)
        self.out = nn.Linear(size, size, bias=False)
        half = size // heads // 2
        angles = torch.arange(length)[:, None] * 1e4 ** (-torch.arange(half) / half)
        self.register_buffer("turns", torch.stack([angles.cos(), angles.sin()]))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer, shape (batch, length, size)."""
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        q, k = (_turned(one, self.turns) for one in (q, k))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Decoder(nn.Module):
    """A layer of a decoder."""

    def __init__(self, size: int, heads: int, length: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.RMSNorm(size), nn.RMSNorm(size)])
        self.mixer = Attention(size, heads, length, causal=True)
        self.wide = nn.Linear(size, 4 * size, bias=False)
        self.narrow = nn.Linear(4 * size, size, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer."""
        x = x + self.mixer(self.norms[0](x))
        return x + self.narrow(functional.gelu(self.wide(self.norms[1](x))))


@program(Setting(4, 1024), batch=(6,), length=(512,), precision=("tf32", "fp32"))
def decoder_train(setting: Setting) -> Step:
    """A plain decoder of 0.2 billion parameters, kept in fp32, trains."""
    size = n(1024, 64)
    layers = [Decoder(size, n(8, 2), setting.length) for _ in range(n(12, 2))]
    head = nn.Linear(size, WORDS, bias=False)
    model = nn.Sequential(nn.Embedding(WORDS, size), *layers, nn.RMSNorm(size), head).to(DEVICE)
    x = tokens(setting, WORDS)
    following = x.roll(-1, 1).flatten()
    return train(
        model, lambda: functional.cross_entropy(model(x).flatten(0, 1), following), setting
    )


def _feed_forward(size: int) -> nn.Sequential:
    """Half of a Conformer's two, with its norm."""
    wide = [nn.LayerNorm(size), nn.Linear(size, 4 * size), nn.SiLU(), nn.Dropout(0.1)]
    return nn.Sequential(*wide, nn.Linear(4 * size, size), nn.Dropout(0.1))


class Conformer(nn.Module):
    """A layer of a Conformer."""

    def __init__(self, size: int, heads: int, length: int) -> None:
        super().__init__()
        self.feeds = nn.ModuleList([_feed_forward(size), _feed_forward(size)])
        self.norms = nn.ModuleList([nn.LayerNorm(size) for _ in range(3)])
        self.mixer = Attention(size, heads, length, causal=False)
        self.enter = nn.Conv1d(size, 2 * size, 1)
        self.near = nn.Conv1d(size, size, 31, padding=15, groups=size)
        self.batch_norm = nn.BatchNorm1d(size)
        self.leave = nn.Conv1d(size, size, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer."""
        x = x + 0.5 * self.feeds[0](x)
        x = x + self.drop(self.mixer(self.norms[0](x)))
        sound = functional.glu(self.enter(self.norms[1](x).transpose(1, 2)), 1)
        sound = self.leave(functional.silu(self.batch_norm(self.near(sound))))
        x = x + self.drop(sound.transpose(1, 2))
        x = x + 0.5 * self.feeds[1](x)
        return self.norms[2](x)


class Speech(nn.Module):
    """A Conformer over a quarter of the frames of a spectrogram."""

    def __init__(self, size: int, frames: int) -> None:
        super().__init__()
        channels = size // 2
        self.enter = nn.Sequential(
            nn.Conv2d(1, channels, 3, 2, 1), nn.ReLU(), nn.Conv2d(channels, channels, 3, 2, 1)
        )
        self.project = nn.Linear(channels * BANDS // 4, size)
        self.layers = nn.Sequential(*[Conformer(size, 8, frames) for _ in range(n(12, 2))])
        self.leave = nn.Linear(size, n(1000, 50))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Scores of the words' pieces, shape (batch, frames, pieces)."""
        found = functional.relu(self.enter(x[:, None]))
        return self.leave(self.layers(self.project(found.transpose(1, 2).flatten(2))))


@program(Setting(8, 1600, "fp32"), batch=(12,), length=(2400,), precision=("tf32", "bf16"))
def conformer_train(setting: Setting) -> Step:
    """A Conformer writes down 16 s of speech; `length` is of frames."""
    frames = -(-setting.length // 4)
    model = Speech(n(512, 64), frames).to(DEVICE)
    pieces = n(60, 4)
    x = torch.randn(setting.batch, setting.length, BANDS, device=DEVICE)
    y = torch.randint(1, n(1000, 50), (setting.batch, pieces), device=DEVICE)
    lengths = ([frames] * setting.batch, [pieces] * setting.batch)

    def loss() -> torch.Tensor:
        scores = model(x).float().log_softmax(-1).transpose(0, 1)
        return functional.ctc_loss(scores, y, *lengths, zero_infinity=True)

    return train(model, loss, setting)


class Forecaster(nn.Module):
    """A layer of PatchTST: attention of patches, and norms over the batch."""

    def __init__(self, size: int, heads: int) -> None:
        super().__init__()
        self.mixer = nn.MultiheadAttention(size, heads, batch_first=True)
        self.norms = nn.ModuleList([nn.BatchNorm1d(size), nn.BatchNorm1d(size)])
        self.feed = nn.Sequential(nn.Linear(size, 2 * size), nn.GELU(), nn.Linear(2 * size, size))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The layer, shape (series, patches, size)."""
        patches = x.shape[1]
        x = x + self.mixer(x, x, x, need_weights=False)[0]
        flat = self.norms[0](x.flatten(0, 1))
        flat = self.norms[1](flat + self.feed(flat))
        return flat.unflatten(0, (-1, patches))


@program(Setting(16, 512, "tf32"), batch=(24,), length=(256,), precision=("bf16", "fp32"))
def forecaster_train(setting: Setting) -> Step:
    """PatchTST forecasts 96 hours of 321 clients' electricity; `length` is of hours before."""
    size = n(128, 32)
    series = n(321, 5)
    patches = setting.length * 2 // PATCH
    enter = nn.Linear(PATCH, size)
    places = nn.Embedding(patches, size)
    layers = nn.Sequential(*[Forecaster(size, n(16, 4)) for _ in range(n(3, 2))])
    head = nn.Linear(patches * size, FORECAST)
    model = nn.ModuleList([enter, places, layers, head]).to(DEVICE)
    x = torch.randn(setting.batch, series, setting.length, device=DEVICE)
    y = torch.randn(setting.batch * series, FORECAST, device=DEVICE)

    def loss() -> torch.Tensor:
        scaled = (x - x.mean(-1, keepdim=True)) / (x.std(-1, keepdim=True) + 1e-5)
        padded = functional.pad(scaled.flatten(0, 1), (0, PATCH // 2), value=0.0)
        hidden = enter(padded.unfold(-1, PATCH, PATCH // 2)) + places.weight
        return functional.mse_loss(head(layers(hidden).flatten(1)).float(), y)

    return train(model, loss, setting)


@program(Setting(16384, 0, "fp32"), batch=(4096, 32768), precision=("tf32", "bf16"))
def crosses_train(setting: Setting) -> Step:
    """DCN v2 learns clicks: one table of all features, three layers that cross them, and a
    perceptron."""
    size = n(64, 8)
    rows = n(50000, 100)
    given = FEATURES * size
    table = nn.Embedding(FEATURES * rows, size)
    crosses = nn.ModuleList([nn.Linear(given, given) for _ in range(3)])
    deep = nn.Sequential(
        nn.Linear(given, n(1024, 64)), nn.ReLU(), nn.Linear(n(1024, 64), n(1024, 64)), nn.ReLU()
    )
    last = nn.Linear(given + n(1024, 64), 1)
    model = nn.ModuleList([table, crosses, deep, last]).to(DEVICE)
    first = torch.arange(FEATURES, device=DEVICE) * rows
    ids = torch.randint(0, rows, (setting.batch, FEATURES), device=DEVICE)
    clicks = torch.rand(setting.batch, device=DEVICE)

    def loss() -> torch.Tensor:
        found = table(ids + first).flatten(1)
        crossed = found
        for cross in crosses:
            crossed = found * cross(crossed) + crossed
        score = last(torch.cat([crossed, deep(found)], 1))[:, 0]
        return functional.binary_cross_entropy_with_logits(score.float(), clicks)

    return train(model, loss, setting)


class Messages(nn.Module):
    """A layer of GINE: atoms sum what their neighbours say, by the kind of the bond."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.bonds = nn.Embedding(4, size)
        self.own = nn.Parameter(torch.zeros(1))
        self.feed = nn.Sequential(
            nn.Linear(size, 2 * size),
            nn.BatchNorm1d(2 * size),
            nn.ReLU(),
            nn.Linear(2 * size, size),
        )
        self.norm = nn.BatchNorm1d(size)

    def forward(self, x: torch.Tensor, ends: torch.Tensor, kinds: torch.Tensor) -> torch.Tensor:
        """The layer: atoms (atoms, size), the two `ends` and the kinds of the bonds."""
        said = functional.relu(x.index_select(0, ends[0]) + self.bonds(kinds))
        heard = said.new_zeros(x.shape).index_add(0, ends[1], said)
        return functional.relu(self.norm(self.feed((1 + self.own) * x + heard)))


@program(Setting(2048, 0, "fp32"), batch=(512, 4096), precision=("tf32", "bf16"))
def molecules_train(setting: Setting) -> Step:
    """Five layers of GINE learn properties of molecules of 30 atoms and 64 bonds."""
    size = n(256, 32)
    atoms = nn.Embedding(119, size)
    layers = nn.ModuleList([Messages(size) for _ in range(5)])
    head = nn.Linear(size, 12)
    model = nn.ModuleList([atoms, layers, head]).to(DEVICE)
    x = torch.randint(0, 119, (setting.batch * NODES,), device=DEVICE)
    molecule = torch.arange(setting.batch, device=DEVICE)
    ends = torch.randint(0, NODES, (2, setting.batch, BONDS), device=DEVICE)
    ends = (ends + NODES * molecule[:, None]).flatten(1)
    kinds = torch.randint(0, 4, (setting.batch * BONDS,), device=DEVICE)
    owner = molecule.repeat_interleave(NODES)
    y = classes(setting, 12)

    def loss() -> torch.Tensor:
        hidden = atoms(x)
        for layer in layers:
            hidden = layer(hidden, ends, kinds)
        summed = hidden.new_zeros(setting.batch, size).index_add(0, owner, hidden)
        return functional.cross_entropy(head(summed / NODES), y)

    return train(model, loss, setting)


PROGRAMS: tuple[Program, ...] = (
    electra_train,
    bart_train,
    code_decodes,
    decoder_train,
    conformer_train,
    forecaster_train,
    crosses_train,
    molecules_train,
)
