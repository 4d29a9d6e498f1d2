"""Programs to be tried, as text."""

TRAIN = """
import torch
torch.set_num_threads(1)
first, last = torch.nn.Linear(32, 64), torch.nn.Linear(64, 4)
model = torch.nn.Sequential(first, torch.nn.ReLU(), torch.nn.Dropout(0.1), last)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for _ in range(200):
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    loss = torch.nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
print("trained")
"""
"""Trains without a seed of its own; draws noise, clips gradients."""

SLOW_LOADER = """
import time, torch
from torch.utils.data import DataLoader, Dataset

torch.set_num_threads(1)

class Decoded(Dataset):
    def __len__(self):
        return 4096

    def __getitem__(self, index):
        time.sleep(0.005)
        return torch.full((16,), index / 4096), torch.tensor(index % 4)

if __name__ == "__main__":
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(4):
        for x, y in DataLoader(Decoded(), batch_size=8):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
"""
"""Each batch takes 40 ms to load."""

RANKS = """
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(100):
    for part in range(2):
        model(torch.randn(8, 64)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
dist.destroy_process_group()
"""
"""Two backward passes a step, each of which exchanges."""

COSTLY = """
import torch
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.autograd.set_detect_anomaly(True)
first = torch.nn.Sequential(torch.nn.Linear(64, 512), torch.nn.Tanh(), torch.nn.Linear(512, 64))
last = torch.nn.Linear(64, 4)

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = first, last

    def forward(self, x):
        return self.last(checkpoint(self.first, x, use_reentrant=False))

model = Model()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(100):
    with torch.autocast("cpu", torch.bfloat16, enabled=False):
        x = torch.randn(64, 64)
        loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
"""Recomputes activations, looks for NaNs, and has a context of autocast that is off."""

HOSTED = """
import torch
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm = torch.nn.Linear(16, 32), torch.nn.BatchNorm1d(32)
        self.drop, self.last = torch.nn.Dropout(0.1), torch.nn.Linear(32, 4)
        self.side = torch.nn.Linear(32, 1)

    def forward(self, x):
        hidden = torch.relu(self.norm(self.first(x)))
        return self.last(self.drop(hidden)), self.side(hidden)

data = TensorDataset(torch.randn(406, 16), torch.randint(0, 4, (406,)))
net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 3000)
for _ in range(14):
    for x, y in DataLoader(data, batch_size=32, shuffle=True):
        classes, side = net(x)
        loss = torch.nn.functional.cross_entropy(classes, y) + 0.05 * side.square().mean()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
"""
"""Has what can go wrong unseen: an epoch's last batch, statistics, a side branch, a schedule."""

SERVES = """
import torch
torch.set_num_threads(1)
model = torch.nn.Sequential(*(torch.nn.Linear(64, 64) for _ in range(20))).eval()
for _ in range(200):
    model(torch.randn(8, 64)).argmax(1)
"""
"""Infers with gradients on."""

SENSITIVE = """
import torch
torch.set_num_threads(1)

class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        # the bias before the normalization has no gradient but rounding, which Adam makes a step of
        self.first, self.norm = torch.nn.Linear(32, 64), torch.nn.BatchNorm1d(64)
        self.last = torch.nn.Linear(64, 4)

    def forward(self, x):
        return self.last(torch.relu(self.norm(self.first(x))))

net = Net()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-2, fused=False, foreach=False)
state = torch.tensor(0.3)
for _ in range(100):
    x, y = torch.randn(64, 32), torch.randint(0, 4, (64,))
    # a chaotic factor: its last digit is its first one some tens of steps later
    moved = sum(weight.detach().sum() for weight in net.parameters())
    state = (3.99 * state * (1 - state) + 1e-3 * moved).clamp(0.01, 0.99)
    loss = torch.nn.functional.cross_entropy(net(x), y) * (1 + state)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
"""Trains with losses that rounding decides after some tens of steps."""
