"""Thousands of tiny samples a batch, put together one by one in the training process."""

import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized

PLACES = 500


class Rides(Dataset):
    def __init__(self):
        self.numbers = torch.randn(1 << 17, 12)
        self.places = torch.randint(0, PLACES, (1 << 17, 2))
        self.prices = torch.rand(1 << 17)

    def __len__(self):
        return len(self.prices)

    def __getitem__(self, index):
        return {
            "numbers": self.numbers[index],
            "start": self.places[index, 0],
            "end": self.places[index, 1],
            "price": self.prices[index],
        }


class Prices(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.start = torch.nn.Embedding(PLACES, 32)
        self.end = torch.nn.Embedding(PLACES, 32)
        self.net = torch.nn.Sequential(
            torch.nn.Linear(76, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, width),
            torch.nn.ReLU(),
            torch.nn.Linear(width, 1),
        )

    def forward(self, ride):
        places = [self.start(ride["start"]), self.end(ride["end"])]
        return self.net(torch.cat([ride["numbers"], *places], 1))[:, 0]


def main():
    more = {"num_workers": 8, "persistent_workers": True} if FIXED else {}
    loader = DataLoader(Rides(), batch_size=sized(1024, 8), shuffle=True, **more)

    def batches():
        while True:
            yield from loader

    model = Prices(sized(512, 16)).to(DEVICE)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    source = batches()

    def step():
        ride = {key: value.to(DEVICE) for key, value in next(source).items()}
        loss = torch.nn.functional.mse_loss(model(ride), ride["price"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
