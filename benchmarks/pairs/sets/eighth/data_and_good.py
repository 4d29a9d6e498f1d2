"""Training that waits for its data, and programs that are good already."""

import itertools
from contextlib import nullcontext

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.eighth.training import Bar, fit


class Loans(Module):  # Whether a loan is paid back, from columns of numbers and of kinds
    def __init__(self, kinds, columns, numbers, width):
        self.kinds = nn.ModuleList(nn.Embedding(kinds, 16) for _ in range(columns))
        self.first = nn.Linear(16 * columns + numbers, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(
                nn.LayerNorm(width),
                nn.Linear(width, 2 * width),
                nn.ReLU(),
                nn.Dropout(0.1),
                nn.Linear(2 * width, width),
            )
            for _ in range(n(5, 1))
        )
        self.last = nn.Linear(width, 1)

    def forward(self, kinds, numbers):
        x = torch.cat(
            [table(one) for table, one in zip(self.kinds, kinds.unbind(1), strict=True)]
            + [numbers],
            1,
        )
        x = self.first(x)
        for block in self.blocks:
            x = x + block(x)
        return self.last(x)[:, 0]


@pair("larger_batch", found=True, as_much=16.0)
def loans_in_small_batches(fixed):
    """A residual network learns from a table on the GPU, 256 rows a step; the remedy takes 4096."""
    torch.set_float32_matmul_precision("high")
    rows = n(400_000, 512)
    columns = 12
    batch = n(256, 4) * (16 if fixed else 1)
    with torch.device(DEVICE):
        model = Loans(200, columns, 40, n(256, 16))
        kinds = torch.randint(0, 200, (rows, columns))
        numbers = torch.randn(rows, 40)
        paid = (torch.rand(rows) < 0.9).float()
        order = torch.randperm(rows)
    at = 0

    def loss():
        nonlocal at, order
        if at + batch > rows:
            at = 0
            order = torch.randperm(rows, device=DEVICE)
        chosen = order[at : at + batch]
        at = at + batch
        return F.binary_cross_entropy_with_logits(
            model(kinds[chosen], numbers[chosen]), paid[chosen]
        )

    return fit(model, loss)


class Machines(
    Dataset
):  # Two seconds of a machine's sound in another's noise and a room, as a spectrogram
    def __init__(self, length):
        draw = np.random.default_rng(0)
        self.sounds = draw.normal(size=(n(200, 4), length)).astype(np.float32)
        self.rooms = (
            draw.normal(size=(8, length // 4)) * np.exp(-np.arange(length // 4) / 800)
        ).astype(np.float32)
        self.window, self.bands = (
            np.hanning(512).astype(np.float32),
            draw.random((257, 64)).astype(np.float32),
        )

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        draw = np.random.default_rng(number)
        sound = (
            self.sounds[number % len(self.sounds)]
            + 0.1 * self.sounds[draw.integers(len(self.sounds))]
        )
        length = len(sound)
        room = self.rooms[draw.integers(8)]
        heard = np.fft.irfft(np.fft.rfft(sound, 2 * length) * np.fft.rfft(room, 2 * length))[
            :length
        ]
        at = np.linspace(0, length - 1, int(length * draw.uniform(0.9, 1.1)))
        heard = np.resize(np.interp(at, np.arange(length), heard), length)
        power = (
            np.abs(
                np.fft.rfft(
                    np.lib.stride_tricks.sliding_window_view(heard, 512)[::160] * self.window
                )
            )
            ** 2
        )
        return (
            torch.from_numpy(np.log(power @ self.bands + 1e-6).astype(np.float32).T[None]),
            number % 6,
        )


@pair("data_loader_workers", found=True)
def machines_heard_in_the_loop(fixed):
    """A network hears faults of machines in 32 sounds that NumPy renders in the loop; the remedy
    has ten workers."""
    layers = []
    before = 1
    for width in (64, 128, 256, 512)[: n(4, 2)]:
        for stride in (2, 1, 1):
            layers += [
                nn.Conv2d(before, width, 3, stride, 1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(),
            ]
            before = width
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, 6))
    model = model.to(DEVICE, memory_format=torch.channels_last)
    workers = n(10, 1) if fixed else 0
    sounds = Machines(n(32_000, 2000))
    loader = DataLoader(
        sounds, n(32, 2), num_workers=workers, persistent_workers=fixed, pin_memory=DEVICE == "cuda"
    )
    batches = iter(loader)

    def loss():
        heard, faults = (one.to(DEVICE, non_blocking=True) for one in next(batches))
        with autocast():
            return F.cross_entropy(model(heard), faults)

    return train(model, loss)


class Papers(Module):  # What papers are about, from their words and from the papers that cite them
    def __init__(self, words, width, kinds):
        sizes = words, width, width, kinds
        pairs = list(itertools.pairwise(sizes))
        self.own = nn.ModuleList((nn.Linear(before, after) for before, after in pairs))
        self.others = nn.ModuleList(
            (nn.Linear(before, after, bias=False) for before, after in pairs)
        )

    def forward(self, x, cited):
        into, out = cited
        count = torch.zeros(len(x), device=x.device).index_add_(
            0, into, torch.ones(len(into), device=x.device)
        )
        share = 1 / count.clamp(min=1)[:, None]
        for number, (own, others) in enumerate(zip(self.own, self.others, strict=True)):
            told = others(x)
            met = torch.zeros_like(told).index_add(0, into, told[out]) * share
            x = own(x) + met
            if number < len(self.own) - 1:
                x = F.dropout(x.relu(), 0.3, self.training)
        return x


@pair("keep_on_device", found=True)
def papers_sent_each_epoch(fixed):
    """A network on the graph of 60,000 papers, which is sent to the GPU for each epoch; the remedy
    sends it once."""
    torch.set_float32_matmul_precision("high")
    many = n(60_000, 60)
    words = n(384, 16)
    kinds = 40
    epoch = 0
    model = Papers(words, n(128, 8), kinds).to(DEVICE)
    graph = (
        torch.randn(many, words),
        torch.randint(0, many, (2, n(600_000, 200))),
        torch.randint(0, kinds, (many,)),
    )
    learnt = torch.arange(many * 2 // 3, device=DEVICE)
    kept = tuple(one.to(DEVICE) for one in graph) if fixed else graph
    judged = []

    def loss():
        nonlocal epoch
        x, cited, labels = (one.to(DEVICE) for one in kept)
        epoch += 1
        if epoch % 50 == 0:
            with torch.no_grad():
                right = model.eval()(x, cited).argmax(1) == labels
            judged.append(right[len(learnt) :].float().mean().item())
            model.train()
        return F.cross_entropy(model(x, cited)[learnt], labels[learnt])

    return train(model, loss)


class Drones:  # Many drones that fly to a goal each, all on the GPU
    def __init__(self, many, sight):
        with torch.device(DEVICE):
            self.place, self.speed, self.goal = (
                torch.randn(many, 3),
                torch.zeros(many, 3),
                torch.randn(many, 3),
            )
            self.posts = torch.randn(sight, 3) * 3

    def seen(self):
        return torch.cat(
            (self.goal - self.place, self.speed, torch.cdist(self.place, self.posts)), 1
        )

    def fly(self, thrust):
        self.speed = 0.95 * self.speed + 0.05 * thrust.clamp(-1, 1)
        self.place = self.place + 0.1 * self.speed
        away = (self.goal - self.place).norm(dim=1, keepdim=True)
        lost = (away > 6) | (torch.cdist(self.place, self.posts).amin(1, keepdim=True) < 0.05)
        self.place = torch.where(lost, self.goal + torch.randn_like(self.goal), self.place)
        self.speed = torch.where(lost, 0.0, self.speed)
        return (-0.1 * away - 5.0 * lost)[:, 0]


@pair("keep_on_device")
def drones_remembered_on_the_host(fixed):
    """PPO of 4096 drones on the GPU: what they met is stored on the host and sent back; the remedy
    leaves it there."""
    many = n(4096, 8)
    sight = n(58, 4)
    turns = n(12, 3)
    width = n(256, 16)
    where = torch.device(DEVICE if fixed else "cpu")
    drones = Drones(many, sight)
    with torch.device(DEVICE):
        body = nn.Sequential(
            nn.Linear(sight + 6, width), nn.ELU(), nn.Linear(width, width), nn.ELU()
        )
        model = nn.Sequential(body, nn.Linear(width, 4))
        spread = nn.Parameter(torch.full((3,), -1.2))
    parameters = [*model.parameters(), spread]
    optimizer = torch.optim.Adam(parameters, 0.0003, fused=True)
    log = []

    def told(seen):
        out = model(seen)
        return (
            torch.distributions.Normal(out[..., :3], spread.exp(), validate_args=False),
            out[..., 3],
        )

    def fly():
        met = []
        for _ in range(turns):
            seen = drones.seen()
            wish, value = told(seen)
            thrust = wish.sample()
            reward = drones.fly(thrust)
            met.append(
                [
                    one.to(where)
                    for one in (seen, thrust, wish.log_prob(thrust).sum(1), value, reward)
                ]
            )
        seen, thrust, chance, value, reward = (torch.stack(one) for one in zip(*met, strict=True))
        better = torch.zeros(many, device=where)
        gains = []
        for turn in reversed(range(turns - 1)):
            better = reward[turn] + 0.98 * value[turn + 1] - value[turn] + 0.93 * better
            gains.append(better)
        gain = torch.stack(gains[::-1])
        rows = (
            seen[:-1],
            thrust[:-1],
            chance[:-1],
            gain + value[:-1],
            (gain - gain.mean()) / gain.std(),
        )
        return [one.flatten(0, 1).to(DEVICE) for one in rows]

    def step():
        with torch.no_grad():
            rows = fly()
        for part in torch.randperm(len(rows[0]), device=DEVICE).chunk(4):
            seen, thrust, chance, wanted, gain = (one[part] for one in rows)
            wish, value = told(seen)
            ratio = (wish.log_prob(thrust).sum(1) - chance).exp()
            kept = torch.minimum(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss = (value - wanted).square().mean() - kept
            loss.backward()
            nn.utils.clip_grad_norm_(parameters, 1.0)
            optimizer.step()
            optimizer.zero_grad()
        log.append(loss.item())

    return step


ON_GPU = DEVICE == "cuda"


# Whether an advertisement is clicked: sums of rows of a large table, their products, and a small
# network
class Clicks(Module):
    def __init__(self, rows, columns, size):
        self.table = nn.EmbeddingBag(rows, size, mode="sum")
        self.columns = columns
        self.numbers = nn.Sequential(nn.Linear(13, 128), nn.ReLU(), nn.Linear(128, size), nn.ReLU())
        self.last = nn.Sequential(
            nn.Linear(size + (columns + 1) ** 2, 128), nn.ReLU(), nn.Linear(128, 1)
        )

    def forward(self, kinds, numbers):
        dense = self.numbers(numbers)
        rows = torch.cat((self.table(kinds).unflatten(0, (-1, self.columns)), dense[:, None]), 1)
        return self.last(torch.cat((dense, torch.bmm(rows, rows.transpose(1, 2)).flatten(1)), 1))[
            :, 0
        ]


@good("compile", "low_precision", found=True, early=("compile",))
def good_clicks(version):
    """A recommender of clicks: a GPU busy with the rows of a table, 20 of each of 26 columns, and
    little besides."""
    torch.set_float32_matmul_precision("high")
    batch = n(16_384, 4)
    columns = n(26, 3)
    rows = n(40_000, 20)
    many = n(20, 2)
    with torch.device(DEVICE):
        model = Clicks(columns * rows, columns, n(64, 8))
        kinds = (
            torch.randint(0, rows, (batch, columns, many)) + torch.arange(columns)[:, None] * rows
        )
        kinds = kinds.flatten(0, 1)
        numbers = torch.randn(batch, 13)
        clicked = (torch.rand(batch) < 0.03).float()
    called = torch.compile(model, dynamic=False) if version == "compile" else model
    precision = autocast if version == "low_precision" else nullcontext

    def loss():
        with precision():
            told = called(kinds, numbers)
        return F.binary_cross_entropy_with_logits(told.float(), clicked)

    return train(torch.optim.SGD(model.parameters(), 0.001, fused=True), loss)


class Larger(Module):  # Makes pictures twice as large, by residual convolutions
    def __init__(self, width, layers):
        self.first, self.wide = (
            nn.Conv2d(3, width, 3, padding=1),
            nn.Conv2d(width, 12, 3, padding=1),
        )
        self.inner = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1),
                nn.ReLU(inplace=True),
                nn.Conv2d(width, width, 3, padding=1),
            )
            for _ in range(layers)
        )

    def forward(self, x):
        x = self.first(x)
        for one in self.inner:
            x = one(x).add_(x)
        return F.pixel_shuffle(self.wide(x), 2)


@good("cuda_graph", "copy_ahead")
def good_larger_pictures(version):
    """A service makes the pictures of a film larger, in half precision and channels last, through
    pinned memory."""
    shape = (n(2, 1), 3, n(540, 8), n(960, 8))
    at = 0
    half = torch.float16 if ON_GPU else torch.float32
    model = Larger(n(128, 8), n(12, 1)).to(DEVICE, half, memory_format=torch.channels_last).eval()
    film = [torch.randint(0, 256, shape, dtype=torch.uint8, pin_memory=ON_GPU) for _ in range(4)]
    shown = torch.empty(
        (shape[0], 3, 2 * shape[2], 2 * shape[3]), dtype=torch.uint8, pin_memory=ON_GPU
    )
    seen, following = (torch.zeros(shape, dtype=torch.uint8, device=DEVICE) for _ in range(2))
    made = torch.empty(shown.shape, dtype=torch.uint8, device=DEVICE)
    side = torch.cuda.Stream() if ON_GPU and version == "copy_ahead" else None

    def enlarge():
        with torch.no_grad():
            x = seen.to(half).div_(255).contiguous(memory_format=torch.channels_last)
            made.copy_(model(x).mul_(255).clamp_(0, 255))

    once = graphed(enlarge) if version == "cuda_graph" else enlarge

    def step():
        nonlocal at
        at = (at + 1) % len(film)
        if side:
            torch.cuda.current_stream().wait_stream(side)
            seen.copy_(following)
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                following.copy_(film[(at + 1) % len(film)], non_blocking=True)
        else:
            seen.copy_(film[at], non_blocking=True)
        once()
        shown.copy_(made, non_blocking=True)
        if ON_GPU:
            torch.cuda.current_stream().synchronize()
        return int(shown[0, 0, 0, 0])

    return step


class Proteins(Dataset):  # Chains of amino acids, a byte each
    def __init__(self, length):
        self.acids = np.random.default_rng(0).integers(1, 25, 1 << 20).astype(np.uint8)
        self.length = length

    def __len__(self):
        return 1 << 20

    def __getitem__(self, number):
        at = number * 7919 % (len(self.acids) - self.length)
        return torch.from_numpy(self.acids[at : at + self.length])


@good("remove_syncs", "pinned_memory", found=True)
def good_proteins(version):
    """A model of proteins in bf16 on 48 chains of 1024, whose loss a bar shows at each step; its
    steps are long."""
    width = n(1024, 16)
    length = n(1024, 16)
    with torch.device(DEVICE):
        layers = (Bar(width, dropped=0.0) for _ in range(n(6, 1)))
        model = nn.Sequential(
            nn.Embedding(32, width), *layers, nn.LayerNorm(width), nn.Linear(width, 32)
        )
    loader = DataLoader(
        Proteins(length + 1),
        n(48, 2),
        num_workers=n(3, 1),
        persistent_workers=True,
        pin_memory=version == "pinned_memory" and ON_GPU,
    )
    chains = iter(loader)
    shown = [0.0]
    running = torch.zeros((), device=DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)

    def step():
        acids = next(chains).to(DEVICE, non_blocking=True).long()
        with autocast():
            loss = F.cross_entropy(model(acids[:, :-1]).flatten(0, 1), acids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if version == "remove_syncs":
            running.lerp_(loss.detach(), 0.1)
        else:
            shown[0] += 0.1 * (loss.item() - shown[0])

    return step


class Hour(Module):  # A residual block of a forecaster
    def __init__(self, width):
        layers = []
        for _ in range(2):
            layers += [
                nn.Conv2d(width, width, 3, padding=1, bias=False),
                nn.BatchNorm2d(width),
                nn.ReLU(inplace=True),
            ]
        self.layers = nn.Sequential(*layers)

    def forward(self, x):
        return x + self.layers(x)


@good("fused_optimizer", "larger_batch", found=True)
def good_weather(version):
    """A forecaster of 64 quantities on 128 x 256 points, convolutions in bf16 with channels last;
    AdamW as it comes."""
    batch = n(16, 1) * (2 if version == "larger_batch" else 1)
    width = n(192, 8)
    rows = n(128, 8)
    with torch.device(DEVICE):
        blocks = (Hour(width) for _ in range(n(8, 1)))
        model = nn.Sequential(nn.Conv2d(64, width, 3, padding=1), *blocks, nn.Conv2d(width, 64, 1))
        model = model.to(memory_format=torch.channels_last)
        now, change = (
            torch.randn(batch, 64, rows, 2 * rows).contiguous(memory_format=torch.channels_last)
            for _ in range(2)
        )
        weights = torch.linspace(0, np.pi, rows).sin()[:, None]

    def loss():
        with autocast():
            told = model(now)
        return F.mse_loss(told.float() * weights, change * weights)

    return train(
        torch.optim.AdamW(model.parameters(), 1e-5, fused=version == "fused_optimizer" or None),
        loss,
    )
