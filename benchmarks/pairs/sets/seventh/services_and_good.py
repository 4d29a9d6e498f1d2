"""Services, and programs that are good already, of the seventh set."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train

HALF = torch.float16 if DEVICE == "cuda" else torch.float32


# A layer of a language model without attention (RWKV): it remembers its last input and two sums
class Recurrent(Module):
    def __init__(self, width, texts):
        self.r, self.k, self.v, self.out, self.gate = (
            nn.Linear(width, width, bias=False) for _ in range(5)
        )
        self.up, self.down = (
            nn.Linear(width, 4 * width, bias=False),
            nn.Linear(4 * width, width, bias=False),
        )
        self.mix = nn.Parameter(torch.rand(5, width))
        self.decay, self.bonus = nn.Parameter(torch.rand(width)), nn.Parameter(torch.zeros(width))
        self.register_buffer("past", torch.zeros(4, texts, width))

    def forward(self, x):
        before, above, below, inner = self.past
        now = F.layer_norm(x, x.shape[-1:])
        size = x.shape[-1:]
        r, k, v = (
            product(torch.lerp(before, now, mix))
            for product, mix in zip((self.r, self.k, self.v), self.mix, strict=False)
        )
        weight = k.clamp(max=8).exp()
        here = (self.bonus + k).clamp(max=8).exp()
        x = x + self.out(r.sigmoid() * (above + here * v) / (below + here + 0.001))
        before.copy_(now)
        above.mul_(self.decay).add_(weight * v)
        below.mul_(self.decay).add_(weight)
        second = F.layer_norm(x, size)
        wide = self.up(torch.lerp(inner, second, self.mix[3])).relu().square()
        x = x + self.gate(torch.lerp(inner, second, self.mix[4])).sigmoid() * self.down(wide)
        inner.copy_(second)
        return x


@pair("cuda_graph")
def stories_word_by_word(fixed):
    """A recurrent language model (RWKV) continues 16 stories by four words, eagerly; the remedy is
    a CUDA graph."""
    width = n(1024, 32)
    words = n(16_384, 64)
    many = n(16, 2)
    with torch.device(DEVICE):
        layers = (
            nn.Sequential(*(Recurrent(width, many) for _ in range(n(20, 2))))
            .to(torch.bfloat16)
            .eval()
        )
        table = torch.randn(words, width, dtype=torch.bfloat16)
        head = nn.Linear(width, words, dtype=torch.bfloat16)
        word = torch.zeros(many, dtype=torch.long)

    def write():
        with torch.no_grad():
            word.copy_(head(F.layer_norm(layers(table[word]), (width,))).argmax(-1))

    once = graphed(write) if fixed else write

    def step():
        told = []
        for _ in range(4):
            once()
            told.append(word.clone())
        return torch.stack(told, 1).tolist()

    return step


def snake(x, rate):  # A periodic activation, with a rate for each channel
    return x + (rate * x).sin() ** 2 / (rate + 0.0001)


class Stage(Module):  # A stage of a vocoder: more samples, fewer channels, and three residual units
    def __init__(self, channels, factor, activation):
        self.activation = activation
        after = channels // 2
        self.before = nn.Parameter(torch.ones(1, channels, 1))
        self.longer = nn.ConvTranspose1d(channels, after, 2 * factor, factor, factor // 2)
        self.rates = nn.ParameterList(nn.Parameter(torch.ones(1, after, 1)) for _ in range(6))
        self.wide = nn.ModuleList(
            nn.Conv1d(after, after, 7, padding=3 * d, dilation=d) for d in (1, 3, 5)
        )
        self.near = nn.ModuleList(nn.Conv1d(after, after, 1) for _ in range(3))

    def forward(self, x):
        x = self.longer(self.activation(x, self.before))
        for number, (wide, near) in enumerate(zip(self.wide, self.near, strict=True)):
            inner = wide(self.activation(x, self.rates[2 * number]))
            x = x + near(self.activation(inner, self.rates[2 * number + 1]))
        return x


@pair("fuse_elementwise", early=("fix",))
def voices_snake_by_hand(fixed):
    """A vocoder in half precision voices 16 texts, its periodic activation written out; the remedy
    compiles that."""
    activation = torch.compile(snake, dynamic=False) if fixed else snake
    channels = n(512, 16)
    factors = (8, 8, 2, 2)[: n(4, 2)]
    with torch.device(DEVICE):
        first = nn.Conv1d(80, channels, 7, padding=3)
        stages = [
            Stage(channels >> number, factor, activation) for number, factor in enumerate(factors)
        ]
        last = nn.Conv1d(channels >> len(stages), 1, 7, padding=3)
        model = nn.Sequential(first, *stages, last, nn.Tanh()).to(HALF).eval()
        spectra = torch.randn(n(16, 1), 80, n(256, 16), dtype=HALF)
    return torch.no_grad()(lambda: model(spectra))


@pair("batch_calls", libraries=("torchvision.models.segmentation",))
def fields_tile_by_tile(fixed):
    """torchvision's LR-ASPP finds fields on 16 tiles of a picture, called for each; the remedy
    calls it once."""
    from torchvision.models.segmentation import lraspp_mobilenet_v3_large

    with torch.device(DEVICE):
        model = lraspp_mobilenet_v3_large(weights=None, weights_backbone=None, num_classes=12)
    model = model.to(HALF, memory_format=torch.channels_last).eval()
    tiles = torch.randn(n(16, 2), 3, n(320, 64), n(320, 64), device=DEVICE, dtype=HALF)
    tiles = tiles.contiguous(memory_format=torch.channels_last)

    def step():
        with torch.inference_mode():
            parts = (tiles,) if fixed else tiles.split(1)
            return torch.cat([model(part)["out"].argmax(1).to(torch.uint8).cpu() for part in parts])

    return step


@pair("batch_calls")
def doses_drawn_in_turn(fixed):
    """How sure a dose is: 30 passes with dropout through residual layers, one by one; the remedy
    has one of all."""
    torch.set_float32_matmul_precision("high")
    width = n(512, 16)
    samples = n(30, 3)
    with torch.device(DEVICE):
        layers = [
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, width),
                nn.SiLU(),
                nn.Dropout(0.1),
                nn.Linear(width, width),
            )
            for _ in range(n(10, 2))
        ]
        last = nn.Linear(width, 4)
        patients = torch.randn(n(256, 2), width)

    def told(x):
        for layer in layers:
            x = x + layer(x)
        return last(x)

    def step():
        with torch.inference_mode():
            if fixed:
                drawn = told(patients.repeat(samples, 1)).unflatten(0, (samples, -1))
            else:
                drawn = torch.stack([told(patients) for _ in range(samples)])
            return [one.cpu() for one in torch.std_mean(drawn, 0)]

    return step


@pair("keep_on_device", libraries=("timm",))
def names_sent_for_each_batch(fixed):
    """timm's ViT names pictures by 40,000 names' vectors, sent with each batch; the remedy keeps
    them on the GPU."""
    import timm

    with torch.device(DEVICE):
        model = timm.create_model("vit_small_patch16_224", num_classes=0).to(HALF).eval()
        pictures = torch.randn(n(96, 1), 3, 224, 224, dtype=HALF)
    names = torch.randn(n(40_000, 50), model.num_features)
    names = names.to(DEVICE) if fixed else names

    def step():
        with torch.inference_mode():
            return (
                F.linear(F.normalize(model(pictures), dim=-1), names.to(DEVICE).to(HALF))
                .topk(5)
                .indices.cpu()
            )

    return step


@good("cuda_graph", "larger_batch", found=True, libraries=("torchvision.models",))
def good_photographs(version):
    """torchvision's ResNet-50 on 160 photographs a step, in bf16 with channels last and a fused
    AdamW."""
    from torchvision.models import resnet50

    batch = n(160, 2) * (2 if version == "larger_batch" else 1)
    side = n(224, 32)
    with torch.device(DEVICE):
        model = resnet50(num_classes=1000).to(memory_format=torch.channels_last)
        photographs = torch.randn(batch, 3, side, side).contiguous(
            memory_format=torch.channels_last
        )
        labels = torch.randint(0, 1000, (batch,))
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=DEVICE == "cuda")
    step = train(optimizer, lambda: F.cross_entropy(model(photographs), labels), cast=True)
    return graphed(step) if version == "cuda_graph" else step


class Layer(Module):  # A layer of a transformer, its attention fused
    def __init__(self, width, *, causal):
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = (
            nn.Linear(width, 3 * width, bias=False),
            nn.Linear(width, width, bias=False),
        )
        self.up, self.down = (
            nn.Linear(width, 4 * width, bias=False),
            nn.Linear(4 * width, width, bias=False),
        )
        self.causal, self.size = causal, n(64, 8)

    def forward(self, x):
        q, k, v = self.qkv(self.first(x)).unflatten(-1, (3, -1, self.size)).permute(2, 0, 3, 1, 4)
        x = x + self.out(
            F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
            .transpose(1, 2)
            .flatten(2)
        )
        return x + self.down(F.gelu(self.up(self.second(x))))


def _transformer(layers, width, words, *, causal):
    with torch.device(DEVICE):
        inner = (Layer(width, causal=causal) for _ in range(layers))
        model = nn.Sequential(
            nn.Embedding(words, width), *inner, nn.LayerNorm(width), nn.Linear(width, words)
        )
    return model.to(torch.bfloat16)


class Hidden(Dataset):  # Texts, and the same with a seventh of the words hidden
    def __init__(self, words, length):
        self.words = words
        self.length = length

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        draw = np.random.default_rng(number)
        text = draw.integers(1, self.words, self.length)
        return (
            torch.from_numpy(np.where(draw.random(self.length) < 1 / 7, 0, text)),
            torch.from_numpy(text),
        )


@good("data_loader_workers", "pinned_memory", found=True)
def good_hidden_words(version):
    """A wide encoder in bf16 guesses words on 64 texts of 256 that four workers prepare, long
    before it needs them."""
    words = n(8192, 64)
    length = n(256, 16)
    more = version == "data_loader_workers"
    model = _transformer(n(6, 1), n(1536, 32), words, causal=False)
    loader = DataLoader(
        Hidden(words, length),
        n(64, 2),
        num_workers=n(12, 2) if more else n(4, 1),
        persistent_workers=True,
        pin_memory=version == "pinned_memory" and DEVICE == "cuda",
    )
    batches = iter(loader)

    def loss():
        seen, wanted = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        return F.cross_entropy(model(seen).flatten(0, 1), wanted.flatten())

    return train(model, loss)


@good("tf32", "cuda_graph")
def good_eddies(version):
    """Eddies on a plane of 4096 points squared, in fp32: two steps of a spectral method, Fourier
    transforms mostly."""
    torch.set_float32_matmul_precision("high" if version == "tf32" else "highest")
    size = n(4096, 32)
    with torch.device(DEVICE):
        y = torch.fft.fftfreq(size, 1 / size)[:, None]
        x = torch.fft.rfftfreq(size, 1 / size)[None]
        square = (x * x + y * y).clamp(min=1)
        wanted = torch.stack(
            torch.broadcast_tensors(1j * y / square, -1j * x / square, 1j * x, 1j * y)
        )
        fade = torch.exp(-1e-6 * square) * (square < (size / 3) ** 2)
        state = torch.fft.rfft2(torch.randn(size, size))
        state *= fade

    def slope(now):
        u, v, along, across = torch.fft.irfft2(now * wanted, s=(size, size))
        return torch.fft.rfft2((u * along).addcmul_(v, across))

    def advance():
        with torch.no_grad():
            for _ in range(2):
                state.sub_(slope(torch.sub(state, slope(state), alpha=5e-7)), alpha=1e-6).mul_(fade)

    return graphed(advance) if version == "cuda_graph" else advance


@good("fused_optimizer", "larger_batch", found=True)
def good_bytes(version):
    """A model of bytes, two layers in bf16, reads a text of 32,768 with flash attention; AdamW as
    it comes."""
    length = n(32_768, 32)
    batch = 2 if version == "larger_batch" else 1
    model = _transformer(2, n(1024, 32), 256, causal=True)
    text = torch.randint(0, 256, (batch, length + 1), device=DEVICE)
    optimizer = torch.optim.AdamW(
        model.parameters(), 1e-5, fused=version == "fused_optimizer" or None
    )
    return train(
        optimizer, lambda: F.cross_entropy(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    )
