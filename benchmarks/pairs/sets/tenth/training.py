"""Models that learn, each with one thing that costs more than it must."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.tenth.blocks import Layer, draw, layers, perceptron


@pair("remove_syncs", found=True)
def rainfall_scales_validated(fixed):
    """Rain at 16 places is told as mixtures of `torch.distributions`, which validate what they are
    given; the remedy turns that off."""
    from torch.distributions import Categorical, MixtureSameFamily, Normal

    width = n(1024, 16)
    parts = 8
    body = perceptron(width, width, width, width, width)
    heads = nn.ModuleList(nn.Linear(width, 3 * parts) for _ in range(n(16, 2))).to(DEVICE)
    x = draw(n(16_384, 8), width)
    fell = draw(n(16_384, 8), len(heads))
    checked = not fixed

    def loss():
        with autocast():
            h = body(x)
            told = [head(h).float() for head in heads]
        total = 0.0
        for place, one in enumerate(told):
            share, mean, scale = one.chunk(3, 1)
            mixture = MixtureSameFamily(
                Categorical(logits=share, validate_args=checked),
                Normal(mean, F.softplus(scale) + 1e-3, validate_args=checked),
                validate_args=checked,
            )
            total = total - mixture.log_prob(fell[:, place]).mean()
        return total

    return train(nn.ModuleList((body, heads)), loss)


@pair("remove_syncs", found=True)
def visits_ids_made_unique(fixed):
    """A recommender looks 26 columns up, the ids of each made unique first; the remedy looks them
    up as they are."""
    rows = n(20_000, 50)
    width = n(32, 4)
    batch = n(8192, 8)
    columns = n(26, 2)
    tables = nn.ModuleList(nn.Embedding(rows, width) for _ in range(columns)).to(DEVICE)
    top = perceptron(columns * width, n(1024, 16), n(512, 16), 1)
    ids = torch.randint(0, rows, (columns, batch), device=DEVICE)
    clicked = (torch.rand(batch, device=DEVICE) < 0.1).float()

    def look_up(table, column):
        if fixed:
            return table(column)
        distinct, place = torch.unique(column, return_inverse=True)
        return table(distinct)[place]

    def loss():
        found = [look_up(table, column) for table, column in zip(tables, ids, strict=True)]
        told = top(torch.cat(found, 1))[:, 0]
        return F.binary_cross_entropy_with_logits(told, clicked)

    return train(nn.ModuleList((tables, top)), loss)


@pair("tf32", found=True)
def banks_of_keys_full_fp32(fixed):
    """Pictures' features are told from a bank of 65 536 others in full fp32; the remedy allows
    TF32."""
    torch.backends.cuda.matmul.allow_tf32 = fixed
    width = n(256, 8)
    batch = n(2048, 4)
    encoder = perceptron(n(2048, 16), n(2048, 16), width)
    slow = perceptron(n(2048, 16), n(2048, 16), width).requires_grad_(False)
    bank = F.normalize(draw(n(65_536, 16), width), dim=1)
    views = draw(2, batch, n(2048, 16))
    target = torch.zeros(batch, dtype=torch.long, device=DEVICE)
    optimizer = torch.optim.SGD(encoder.parameters(), 1e-4, momentum=0.9)
    at = 0

    def step():
        nonlocal at
        query = F.normalize(encoder(views[0]), dim=1)
        with torch.no_grad():
            key = F.normalize(slow(views[1]), dim=1)
        alike = (query * key).sum(1, keepdim=True)
        scores = torch.cat((alike, query @ bank.t()), 1) / 0.07
        F.cross_entropy(scores, target).backward()
        optimizer.step()
        optimizer.zero_grad()
        bank[at : at + batch] = key
        at = (at + batch) % len(bank)

    return step


@pair("low_precision", found=True)
def pupils_teacher_fp32(fixed):
    """A small transformer learns from a large one that runs in fp32, TF32 allowed, outside of the
    autocast; the remedy takes it in."""
    torch.backends.cuda.matmul.allow_tf32 = True
    kinds = n(1000, 16)
    wide = n(1024, 16)
    width = n(512, 16)
    teacher = nn.Sequential(layers(wide, n(12, 1)), nn.Linear(wide, kinds)).to(DEVICE)
    teacher = teacher.eval().requires_grad_(False)
    pupil = nn.Sequential(
        nn.Linear(wide, width), layers(width, n(4, 1)), nn.Linear(width, kinds)
    ).to(DEVICE)
    x = draw(n(32, 2), n(256, 4), wide)

    def loss():
        with torch.no_grad(), torch.autocast(DEVICE, torch.bfloat16, enabled=fixed):
            wanted = teacher(x).mean(1)
        with autocast():
            told = pupil(x).mean(1)
        soft = F.log_softmax(told.float() / 2, -1)
        return F.kl_div(soft, F.softmax(wanted.float() / 2, -1), reduction="batchmean") * 4

    return train(pupil, loss)


@pair("fused_optimizer", found=True)
def sketches_two_adams_tensor_by_tensor(fixed):
    """A generator and a critic of 60 small layers each under two Adams that go from tensor to
    tensor; the remedy is the fused version."""
    width = n(256, 8)
    count = n(60, 2)
    maker = perceptron(*[width] * (count + 1))
    critic = perceptron(*[width] * count, 1)
    how = {"fused": True} if fixed else {"foreach": False}
    of_maker = torch.optim.Adam(maker.parameters(), 2e-5, betas=(0.5, 0.999), **how)
    of_critic = torch.optim.Adam(critic.parameters(), 2e-5, betas=(0.5, 0.999), **how)
    real = draw(n(256, 4), width)
    true = torch.ones(len(real), 1, device=DEVICE)
    false = torch.zeros(len(real), 1, device=DEVICE)
    judge = nn.BCEWithLogitsLoss()

    def step():
        fake = maker(torch.randn_like(real))
        of_critic.zero_grad()
        (judge(critic(real), true) + judge(critic(fake.detach()), false)).backward()
        of_critic.step()
        of_maker.zero_grad()
        judge(critic(fake), true).backward()
        of_maker.step()

    return step


class Relations(Module):
    """A convolution over a graph whose edges are of many kinds, as many of each."""

    def __init__(self, width, kinds, *, together):
        self.together = together
        drawn = torch.randn(kinds, width, width) * 0.02
        self.own = nn.Linear(width, width)
        if together:
            self.weights = nn.Parameter(drawn)
        else:
            self.weights = nn.ParameterList(nn.Parameter(one) for one in drawn)

    def forward(self, h, start, end):
        if self.together:
            told = torch.bmm(h[start], self.weights)
            return F.relu(self.own(h).index_add(0, end.flatten(), told.flatten(0, 1)))
        sums = self.own(h)
        for kind, weight in enumerate(self.weights):
            sums = sums.index_add(0, end[kind], h[start[kind]] @ weight)
        return F.relu(sums)


@pair("batched_matmul", found=True)
def facts_relation_by_relation(fixed):
    """A graph of 48 kinds of facts is convolved kind by kind; the remedy multiplies all kinds in
    one batched product."""
    torch.backends.cuda.matmul.allow_tf32 = True
    width = n(256, 8)
    kinds = n(48, 3)
    nodes = n(2000, 20)
    stack = nn.ModuleList(Relations(width, kinds, together=fixed) for _ in range(2)).to(DEVICE)
    known = draw(nodes, width)
    start, end = (torch.randint(0, nodes, (kinds, n(400, 6)), device=DEVICE) for _ in range(2))

    def loss():
        h = known
        for layer in stack:
            h = layer(h, start, end)
        return h.square().mean()

    return train(stack, loss)


def _of_lesions(told, wanted):
    p = torch.sigmoid(told)
    entropy = -(wanted * torch.log(p + 1e-6) + (1 - wanted) * torch.log(1 - p + 1e-6))
    right = p * wanted + (1 - p) * (1 - wanted)
    focal = (0.25 * (1 - right) ** 2 * entropy).mean()
    hit = (p * wanted).sum((2, 3))
    dice = 1 - ((2 * hit + 1) / (p.sum((2, 3)) + wanted.sum((2, 3)) + 1)).mean()
    missed = ((1 - p) * wanted).sum((2, 3))
    wrong = (p * (1 - wanted)).sum((2, 3))
    tversky = (1 - (hit + 1) / (hit + 0.7 * missed + 0.3 * wrong + 1)).clamp(min=0.0).pow(0.75)
    return focal + dice + tversky.mean()


@pair("compile", found=True, early=("fix",))
def lesions_losses_written_out(fixed):
    """Lesions are marked in 16 scans; three losses on the whole maps are written out. The remedy
    compiles their function."""
    torch.backends.cudnn.allow_tf32 = True
    side = n(512, 16)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 6, 3, padding=1)
    ).to(DEVICE)
    scans = draw(n(16, 2), 1, side, side)
    wanted = (torch.rand(n(16, 2), 6, side, side, device=DEVICE) < 0.1).float()
    of = torch.compile(_of_lesions, dynamic=False) if fixed else _of_lesions
    return train(model, lambda: of(model(scans), wanted))


@pair("pad_shapes", found=True)
def poems_odd_vocabulary(fixed):
    """A model of poems has 50 257 words, an odd number; the remedy pads them to 50 304."""
    words = n(50_257, 37)
    rows = n(50_304, 40) if fixed else words
    width = n(768, 16)
    length = n(1024, 8)
    table = nn.Embedding(rows, width).to(DEVICE)
    stack = nn.ModuleList(Layer(width) for _ in range(n(2, 1))).to(DEVICE)
    head = nn.Linear(width, rows, bias=False).to(DEVICE)
    text = torch.randint(0, words, (n(8, 2), length + 1), device=DEVICE)

    def loss():
        with autocast():
            h = table(text[:, :-1])
            for layer in stack:
                h = layer(h, causal=True)
            told = head(h)
        return F.cross_entropy(told.flatten(0, 1).float(), text[:, 1:].flatten())

    return train(nn.ModuleList((table, stack, head)), loss)


@pair("larger_batch", found=True)
def enzymes_accumulated_in_eighths(fixed):
    """Gradients of 64 enzymes are added up from eight parts of a batch that fits whole; the remedy
    takes it whole."""
    width = n(512, 16)
    model = layers(width, n(3, 1))
    x = draw(n(64, 8), n(128, 4), width)
    wanted = draw(n(64, 8), n(128, 4), width)
    parts = 1 if fixed else 8
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step():
        for seen, right in zip(x.chunk(parts), wanted.chunk(parts), strict=True):
            with autocast():
                told = model(seen)
            (F.mse_loss(told.float(), right) / parts).backward()
        optimizer.step()
        optimizer.zero_grad()

    return step


class Dilated(Module):
    """A block of a network that separates voices."""

    def __init__(self, width, dilation):
        inner = 2 * width
        self.block = nn.Sequential(
            nn.Conv1d(width, inner, 1),
            nn.PReLU(),
            nn.GroupNorm(1, inner),
            nn.Conv1d(inner, inner, 3, padding=dilation, dilation=dilation, groups=inner),
            nn.PReLU(),
            nn.GroupNorm(1, inner),
            nn.Conv1d(inner, width, 1),
        )

    def forward(self, x):
        return x + self.block(x)


@pair("no_recompute", found=True)
def voices_separated_twice(fixed):
    """Sixteen dilated blocks separate voices and are computed again in the backward pass, although
    memory is free; the remedy keeps them."""
    torch.backends.cudnn.allow_tf32 = True
    width = n(192, 4)
    blocks = nn.ModuleList(Dilated(width, 2 ** (i % 8)) for i in range(n(16, 2))).to(DEVICE)
    encode = nn.Conv1d(1, width, 16, 8, bias=False).to(DEVICE)
    decode = nn.ConvTranspose1d(width, 1, 16, 8, bias=False).to(DEVICE)
    sound = draw(n(8, 2), 1, n(24_000, 400))

    def loss():
        x = encode(sound)
        h = x
        for block in blocks:
            h = block(h) if fixed else checkpoint(block, h, use_reentrant=False)
        return F.l1_loss(decode(x * torch.sigmoid(h)), sound)

    return train(nn.ModuleList((encode, blocks, decode)), loss)


def _twice(before, after):
    return nn.Sequential(
        nn.Conv2d(before, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
        nn.Conv2d(after, after, 3, padding=1, bias=False),
        nn.BatchNorm2d(after),
        nn.ReLU(inplace=True),
    )


class UNet(Module):
    """A U-Net of four sizes."""

    def __init__(self, width):
        widths = [width * 2**i for i in range(4)]
        self.down = nn.ModuleList(_twice(a, b) for a, b in zip([8, *widths], widths, strict=False))
        self.grow = nn.ModuleList(nn.ConvTranspose2d(2 * w, w, 2, 2) for w in widths[-2::-1])
        self.up = nn.ModuleList(_twice(2 * w, w) for w in widths[-2::-1])
        self.last = nn.Conv2d(width, 5, 1)

    def forward(self, x):
        kept = []
        for number, block in enumerate(self.down):
            x = block(F.max_pool2d(x, 2) if number else x)
            kept.append(x)
        kept.pop()
        for grow, block in zip(self.grow, self.up, strict=True):
            x = block(torch.cat((kept.pop(), grow(x)), 1))
        return self.last(x)


@pair("channels_last", found=True)
def rivers_mapped_contiguously(fixed):
    """A U-Net maps rivers in bf16 autocast, its pictures contiguous; the remedy is
    `channels_last`."""
    layout = torch.channels_last if fixed else torch.contiguous_format
    side = n(256, 16)
    model = UNet(n(64, 4)).to(DEVICE, memory_format=layout)
    x = draw(n(16, 2), 8, side, side).contiguous(memory_format=layout)
    wanted = torch.randint(0, 5, (n(16, 2), side, side), device=DEVICE)
    return train(model, lambda: F.cross_entropy(model(x).float(), wanted), cast=True)


class Reading(Module):
    """Few latents attend to many points."""

    def __init__(self, width, *, fused):
        self.fused = fused
        self.norm = nn.LayerNorm(width)
        self.q = nn.Linear(width, width)
        self.kv = nn.Linear(width, 2 * width)
        self.out = nn.Linear(width, width)

    def forward(self, latents, points):
        q, k, v = (
            one.unflatten(-1, (-1, n(64, 8))).transpose(1, 2)
            for one in (self.q(self.norm(latents)), *self.kv(points).chunk(2, -1))
        )
        if self.fused:
            seen = F.scaled_dot_product_attention(q, k, v)
        else:
            scores = q @ k.transpose(-2, -1) * q.shape[-1] ** -0.5
            seen = scores.softmax(-1).to(v.dtype) @ v
        return latents + self.out(seen.transpose(1, 2).flatten(2))


@pair("fused_attention", found=True)
def clouds_read_by_latents(fixed):
    """512 latents read clouds of 8192 points, attention written out in bf16 autocast; the remedy
    is `scaled_dot_product_attention`."""
    width = n(512, 16)
    batch = n(8, 2)
    embed = nn.Linear(6, width).to(DEVICE)
    readings = nn.ModuleList(Reading(width, fused=fixed) for _ in range(2)).to(DEVICE)
    between = layers(width, n(2, 1))
    start = nn.Parameter(draw(n(512, 4), width) * 0.02)
    cloud = draw(batch, n(8192, 16), 6)
    model = nn.ModuleList((embed, readings, between, nn.ParameterList([start])))

    def loss():
        points = embed(cloud)
        h = start.expand(batch, -1, -1)
        for reading in readings:
            h = between(reading(h, points))
        return h.float().square().mean()

    return train(model, loss, cast=True)


class Mixer(Module):
    """A layer that mixes patches, then channels."""

    def __init__(self, patches, width):
        self.first = nn.LayerNorm(width)
        self.second = nn.LayerNorm(width)
        self.tokens = perceptron(patches, 2 * patches, patches)
        self.channels = perceptron(width, 4 * width, width)

    def forward(self, x):
        x = x + self.tokens(self.first(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.second(x))


@good("channels_last", "tf32", found=True)
def good_mixer(version):
    """A mixer of patches in bf16 autocast: one convolution cuts the patches, the rest are
    products of matrices."""
    torch.backends.cuda.matmul.allow_tf32 = version == "tf32"
    layout = torch.channels_last if version == "channels_last" else torch.contiguous_format
    width = n(768, 16)
    side = n(224, 32)
    cut = nn.Conv2d(3, width, 16, 16).to(DEVICE, memory_format=layout)
    mixers = nn.Sequential(*(Mixer((side // 16) ** 2, width) for _ in range(n(8, 1)))).to(DEVICE)
    x = draw(n(128, 2), 3, side, side).contiguous(memory_format=layout)

    def loss():
        return mixers(cut(x).flatten(2).transpose(1, 2)).float().square().mean()

    return train(nn.ModuleList((cut, mixers)), loss, cast=True)


@good("cuda_graph", "larger_batch", found=True)
def good_translation(version):
    """A wide transformer in bf16 autocast on 16 384 words a step: the GPU is full, and the host
    far ahead."""
    width = n(2048, 16)
    batch = n(32, 2) * (2 if version == "larger_batch" else 1)
    model = layers(width, n(3, 1))
    x = draw(batch, n(512, 4), width)
    whole = version == "cuda_graph" and DEVICE == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=whole)

    def step():
        with autocast():
            loss = model(x).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not whole)

    return graphed(step) if whole else step
