"""Training and loops around models, the seventh set: each with one mistake, and without it."""

import itertools
import string

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, graphed, n, pair, train

_TIMM = ("timm",)
_TORCHVISION = ("torchvision.models",)


def _named(model, pictures, kinds):  # The loss of a model that names pictures, in bf16
    labels = torch.randint(0, kinds, pictures.shape[:1], device=DEVICE)

    def loss():
        with autocast():
            return F.cross_entropy(model(pictures), labels)

    return loss


def _pictures(batch, side, layout=torch.contiguous_format):
    return torch.randn(batch, 3, side, side, device=DEVICE).contiguous(memory_format=layout)


@pair("cuda_graph", found=True, libraries=_TIMM)
def leaves_sixteen_at_a_time(fixed):
    """timm's GhostNet learns diseases of leaves in bf16, 16 small pictures a step; the remedy is a
    CUDA graph."""
    import timm

    with torch.device(DEVICE):
        model = timm.create_model("ghostnet_100", num_classes=38)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=DEVICE == "cuda")
    step = train(optimizer, _named(model, _pictures(n(16, 2), n(128, 32)), 38))
    return graphed(step) if fixed else step


@pair("fused_optimizer", found=True, libraries=_TORCHVISION)
def pets_default_adamw(fixed):
    """torchvision's VGG-11 is tuned on 16 pictures of pets a step, AdamW as it comes; the remedy is
    fused AdamW."""
    from torchvision.models import vgg11

    with torch.device(DEVICE):
        model = vgg11(num_classes=37)
    model = model.to(memory_format=torch.channels_last)
    pictures = _pictures(n(16, 1), n(224, 64), torch.channels_last)
    return train(
        torch.optim.AdamW(model.parameters(), 1e-5, fused=fixed or None),
        _named(model, pictures, 37),
    )


@pair("fused_attention", found=True, libraries=_TIMM)
def large_pictures_attention_unfused(fixed):
    """timm's DeiT on pictures of 384 pixels in bf16, its fused attention switched off; the remedy
    switches it on."""
    import timm

    with torch.device(DEVICE):
        model = timm.create_model("deit_small_patch16_224", img_size=n(384, 32), num_classes=100)
    for block in model.blocks:
        block.attn.fused_attn = fixed
    return train(model, _named(model, _pictures(n(48, 1), n(384, 32)), 100))


@pair("tf32", found=True, libraries=_TIMM)
def textures_mixed_fp32(fixed):
    """timm's MLP-Mixer learns textures in fp32, products at PyTorch's default precision; the remedy
    allows TF32."""
    import timm

    torch.set_float32_matmul_precision("high" if fixed else "highest")
    with torch.device(DEVICE):
        model = timm.create_model("mixer_s16_224", num_classes=47)
    pictures = _pictures(n(64, 1), 224)
    labels = torch.randint(0, 47, (n(64, 1),), device=DEVICE)
    return train(model, lambda: F.cross_entropy(model(pictures), labels))


@pair("channels_last", found=True, libraries=_TORCHVISION)
def wide_residual_layout(fixed):
    """torchvision's Wide ResNet-50 in bf16 on 48 pictures, channels first; the remedy is channels
    last."""
    from torchvision.models import wide_resnet50_2

    layout = torch.channels_last if fixed else torch.contiguous_format
    with torch.device(DEVICE):
        model = wide_resnet50_2(num_classes=100)
    model = model.to(memory_format=layout)
    return train(model, _named(model, _pictures(n(48, 2), n(224, 32), layout), 100))


@pair("no_recompute", found=True, libraries=_TIMM)
def windows_computed_again(fixed):
    """timm's Swin (tiny) in bf16 with its checkpointing left on, though memory is free; the remedy
    turns it off."""
    import timm

    with torch.device(DEVICE):
        model = timm.create_model("swin_tiny_patch4_window7_224", num_classes=100)
    model.set_grad_checkpointing(not fixed)
    return train(model, _named(model, _pictures(n(64, 1), 224), 100))


@pair(
    "larger_batch",
    found=True,
    as_much=8.0,
    libraries=("transformers.models.distilbert.modeling_distilbert",),
)
def entities_four_at_a_time(fixed):
    """transformers' DistilBERT finds names in four short texts a step, in bf16; the remedy takes 32
    texts."""
    from transformers import DistilBertConfig, DistilBertForTokenClassification

    width = n(512, 32)
    words = n(16_384, 64)
    config = DistilBertConfig(
        vocab_size=words, dim=width, hidden_dim=4 * width, n_heads=8, n_layers=n(6, 1), num_labels=9
    )
    with torch.device(DEVICE):
        model = DistilBertForTokenClassification(config).train()
    shape = 32 if fixed else 4, n(128, 16)
    tokens, names = (torch.randint(0, most, shape, device=DEVICE) for most in (words, 9))
    return train(model, lambda: model(input_ids=tokens, labels=names).loss, cast=True)


# A layer of a generative recommender: attention between what was bought, gated
def _gated(x, into, out, first, second):
    width = x.shape[2:]
    gate, q, k, v = F.silu(F.layer_norm(x, width, first) @ into).chunk(4, -1)
    q, k, v = (part.unflatten(-1, (-1, n(64, 8))).transpose(1, 2) for part in (q, k, v))
    seen = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)
    return x + F.dropout(F.layer_norm(seen, width, second) * gate @ out, 0.1)


class Recommender(
    Module
):  # Tells which of two articles comes next, for every purchase of a customer
    def __init__(self, articles, width, layers, layer):
        self.layer = layer
        self.articles = nn.Embedding(articles, width)
        sizes = (width, 4 * width), (width, width), (width,), (width,)
        self.layers = nn.ModuleList(
            nn.ParameterList(nn.Parameter(torch.randn(size) * width ** (-0.5)) for size in sizes)
            for _ in range(layers)
        )

    def forward(self, bought, following, other):
        x = self.articles(bought)
        for weights in self.layers:
            x = self.layer(x, *weights)
        return -F.logsigmoid((x * (self.articles(following) - self.articles(other))).sum(-1)).mean()


@pair("compile", found=True, early=("fix",))
def purchases_gated_eagerly(fixed):
    """A recommender of gated attention learns from 64 customers' 512 purchases in bf16; the remedy
    compiles a layer."""
    layer = torch.compile(_gated, dynamic=False) if fixed else _gated
    articles = n(50_000, 100)
    with torch.device(DEVICE):
        model = Recommender(articles, n(512, 32), n(8, 1), layer)
    bought, following, other = (
        torch.randint(0, articles, (n(64, 2), n(512, 16)), device=DEVICE) for _ in range(3)
    )
    return train(model, lambda: model(bought, following, other), cast=True)


class Assays(
    Module
):  # What a molecule does in each of many assays: a trunk of all, a small head for each
    def __init__(self, assays, width, inner, *, batched):
        self.trunk = nn.Sequential(
            nn.Linear(2 * width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
        )
        self.batched = batched
        if batched:
            self.first = nn.Parameter(torch.randn(assays, width, inner) * width ** (-0.5))
            self.second = nn.Parameter(torch.randn(assays, inner, 1) * inner ** (-0.5))
            self.biases = nn.ParameterList(
                nn.Parameter(torch.zeros(assays, 1, size)) for size in (inner, 1)
            )
        else:
            heads = (
                nn.Sequential(nn.Linear(width, inner), nn.ReLU(), nn.Linear(inner, 1))
                for _ in range(assays)
            )
            self.heads = nn.ModuleList(heads)

    def forward(self, molecules):
        x = self.trunk(molecules)
        if not self.batched:
            return torch.stack([head(x) for head in self.heads])
        inner = torch.baddbmm(self.biases[0], x.expand(len(self.first), -1, -1), self.first).relu()
        return torch.baddbmm(self.biases[1], inner, self.second)


@pair("batched_matmul", found=True)
def assays_head_by_head(fixed):
    """Molecules judged for 96 assays by a trunk and a head for each, called in a loop; the remedy
    batches the heads."""
    torch.set_float32_matmul_precision("high")
    assays = n(96, 4)
    width = n(1024, 32)
    batch = n(512, 8)
    with torch.device(DEVICE):
        model = Assays(assays, width, n(128, 8), batched=fixed)
        molecules = torch.randn(batch, 2 * width)
        found = torch.rand(assays, batch, 1)
    return train(model, lambda: F.binary_cross_entropy_with_logits(model(molecules), found))


def _convolutions(channels):  # Layers that halve a picture each, channels last
    layers = []
    for before, after in itertools.pairwise(channels):
        layers += [
            nn.Conv2d(before, after, 3, 1, 1, bias=False),
            nn.BatchNorm2d(after),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    return nn.Sequential(*layers).to(DEVICE, memory_format=torch.channels_last)


@pair("remove_syncs", found=True)
def classes_asked_for_members(fixed):
    """A network that learns from few examples asks each of 60 classes whether it has any; the
    remedy does not ask."""
    kinds = n(60, 3)
    shots = 5
    side = n(84, 16)
    encoder = _convolutions((3, *[64] * n(4, 2)))
    pictures = torch.randn(2 * kinds * shots, 3, side, side, device=DEVICE).contiguous(
        memory_format=torch.channels_last
    )
    labels = torch.arange(kinds, device=DEVICE).repeat(shots)

    def prototypes(known):
        found = []
        for kind in range(kinds):
            members = labels == kind
            if not fixed and (not members.any()):
                continue
            found.append((known * members[:, None]).sum(0) / members.sum())
        return torch.stack(found)

    def loss():
        with autocast():
            known, asked = encoder(pictures).flatten(1).float().chunk(2)
        return F.cross_entropy(-torch.cdist(asked, prototypes(known)), labels)

    return train(encoder, loss)


_DRAW = np.random.default_rng(0)


def _span(size, most, *, on_host):  # A stretch of up to so many rows, somewhere
    if on_host:
        width = int(_DRAW.integers(1, most))
        begin = int(_DRAW.integers(0, size - width))
    else:
        width = int(torch.randint(1, most, (), device=DEVICE).item())
        begin = int(torch.randint(0, size - width, (), device=DEVICE).item())
    return slice(begin, begin + width)


@pair("remove_syncs", found=True)
def spectra_hidden_in_stretches(fixed):
    """Stretches of 48 spectra of speech are hidden, drawn on the GPU and read; the remedy draws
    them on the host."""
    batch = n(48, 2)
    tones = n(128, 32)
    times = n(768, 64)
    channels = (2, 64, 128, 256, 256)[: n(5, 3)]
    pooled = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels[-1], 35))
    model = nn.Sequential(_convolutions(channels), pooled).to(DEVICE)
    clean = torch.randn(batch, 2, tones, times, device=DEVICE).contiguous(
        memory_format=torch.channels_last
    )
    labels = torch.randint(0, 35, (batch,), device=DEVICE)

    def loss():
        heard = clean.clone()
        for one in heard:
            for _ in range(2):
                one[:, _span(tones, tones // 5, on_host=fixed)] = 0.0
                one[:, :, _span(times, times // 8, on_host=fixed)] = 0.0
        with autocast():
            return F.cross_entropy(model(heard), labels)

    return train(model, loss)


def _all_anchors(side):  # Corners of nine boxes around each place of two maps of a picture
    found = []
    for stride in (8, 16):
        places = (np.arange(side // stride) + 0.5) * stride
        y, x = (one.reshape(-1, 1) for one in np.meshgrid(places, places, indexing="ij"))
        halves = (size / 2 for size in stride * 2.0 ** (np.arange(9) / 3 + 1))
        found += [np.concatenate((x - half, y - half, x + half, y + half), 1) for half in halves]
    return np.concatenate(found).astype(np.float32)


# How well each anchor fits its best box, and which that is: NumPy's or PyTorch's arrays
def _matched(boxes, anchors, library):
    a = anchors[:, None]
    b = boxes[..., None, :, :]
    width = (library.minimum(a[..., 2], b[..., 2]) - library.maximum(a[..., 0], b[..., 0])).clip(
        min=0
    )
    height = (library.minimum(a[..., 3], b[..., 3]) - library.maximum(a[..., 1], b[..., 1])).clip(
        min=0
    )
    size_a = (a[..., 2] - a[..., 0]) * (a[..., 3] - a[..., 1])
    size_b = (b[..., 2] - b[..., 0]) * (b[..., 3] - b[..., 1])
    shared = width * height
    overlap = shared / (size_a + size_b - shared)
    best = overlap.argmax(-1)
    return (overlap.max(-1) if library is np else overlap.amax(-1), best)


class Detector(Module):  # A ResNet-18 with a head for kinds and corners at two of its maps
    def __init__(self):
        from torchvision.models import resnet18

        parts = list(resnet18(num_classes=1).children())
        self.early = nn.Sequential(*parts[:6])
        self.late = parts[6]
        self.heads = nn.ModuleList(
            nn.Conv2d(channels, 9 * 5, 3, padding=1) for channels in (128, 256)
        )

    def forward(self, pictures):
        early = self.early(pictures)
        maps = early, self.late(early)
        told = [
            head(one).unflatten(1, (9, 5)).permute(0, 1, 3, 4, 2).flatten(1, 3)
            for head, one in zip(self.heads, maps, strict=True)
        ]
        return torch.cat(told, 1).float()


@pair("move_host_work", found=True, libraries=("torchvision.models",))
def anchors_matched_in_numpy(fixed):
    """A detector on a ResNet-18 whose anchors NumPy matches with the boxes of each picture; the
    remedy uses the GPU."""
    batch = n(8, 2)
    side = n(256, 64)
    objects = n(12, 3)
    with torch.device(DEVICE):
        model = Detector()
    model = model.to(memory_format=torch.channels_last)
    pictures = torch.randn(batch, 3, side, side, device=DEVICE).contiguous(
        memory_format=torch.channels_last
    )
    corners = (
        np.random.default_rng(0).uniform(0, side * 0.7, (batch, objects, 2)).astype(np.float32)
    )
    boxes = np.concatenate((corners, corners + side * 0.2), -1)
    anchors = _all_anchors(side)
    there = torch.from_numpy(boxes).to(DEVICE)
    anchors_there = torch.from_numpy(anchors).to(DEVICE)

    def targets():
        if fixed:
            overlap, best = _matched(there, anchors_there, torch)
            return (overlap, there.gather(1, best[..., None].expand(-1, -1, 4)))
        pairs = [_matched(some, anchors, np) for some in boxes]
        chosen = np.stack([some[best] for some, (_, best) in zip(boxes, pairs, strict=True)])
        return (
            torch.from_numpy(np.stack([one for one, _ in pairs])).to(DEVICE),
            torch.from_numpy(chosen).to(DEVICE),
        )

    def loss():
        with autocast():
            told = model(pictures)
        overlap, wanted = targets()
        hit = (overlap > 0.5).float()
        apart = F.smooth_l1_loss(
            told[..., 1:], (wanted - anchors_there) / 16, reduction="none"
        ).mean(-1)
        return F.binary_cross_entropy_with_logits(told[..., 0], hit) + (apart * hit).sum() / (
            hit.sum() + 1
        )

    return train(model, loss)


class Reviews(
    Dataset
):  # Reviews as text; an item's words are cut into the longest pieces that the vocabulary has
    def __init__(self, words, length):
        draw = np.random.default_rng(0)
        letters = string.ascii_lowercase[:12]

        def some(least, most):
            return "".join(draw.choice(list(letters), draw.integers(least, most)))

        pieces = {some(2, 6) for _ in range(n(6000, 100))} | set(letters)
        self.pieces = {piece: number for number, piece in enumerate(sorted(pieces))}
        self.length = length
        self.texts = [" ".join(some(3, 13) for _ in range(words)) for _ in range(n(64, 4))]

    def __len__(self):
        return 1 << 20

    def _cut(self, word):
        begin = 0
        while begin < len(word):
            end = min(len(word), begin + 12)
            while word[begin:end] not in self.pieces:
                end -= 1
            yield self.pieces[word[begin:end]]
            begin = end

    def __getitem__(self, number):
        text = self.texts[number % len(self.texts)]
        ids = [one for word in text.split() for one in self._cut(word)][: self.length]
        return (torch.tensor(ids + [0] * (self.length - len(ids))), number % 2)


@pair("data_loader_workers", found=True, libraries=("transformers.models.bert.modeling_bert",))
def reviews_cut_into_pieces(fixed):
    """A small BERT of transformers sorts reviews that the loop cuts into pieces; the remedy has
    eight workers."""
    from transformers import BertConfig, BertForSequenceClassification

    width = n(256, 32)
    config = BertConfig(
        vocab_size=9000,
        hidden_size=width,
        intermediate_size=4 * width,
        num_attention_heads=4,
        num_hidden_layers=n(4, 1),
        num_labels=2,
    )
    with torch.device(DEVICE):
        model = BertForSequenceClassification(config).train()
    reviews = Reviews(n(130, 20), n(128, 16))
    workers = n(8, 1) if fixed else 0
    loader = DataLoader(
        reviews,
        n(64, 2),
        num_workers=workers,
        persistent_workers=fixed,
        pin_memory=DEVICE == "cuda",
    )
    batches = iter(loader)

    def loss():
        tokens, labels = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        with autocast():
            return model(input_ids=tokens, labels=labels).loss

    return train(model, loss)
