"""Lightning's DataModule makes the loader; each sample waits 2 ms."""

import sys
import time

import lightning
import torch
from torch.utils.data import DataLoader, Dataset

from benchmarks.try_cases.loop import Stopwatch


class Scans(Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        time.sleep(0.002)
        return torch.full((128,), index / (1 << 16)), index % 4


class Data(lightning.LightningDataModule):
    def __init__(self, workers):
        super().__init__()
        self.workers = workers

    def train_dataloader(self):
        return DataLoader(Scans(), batch_size=16, shuffle=True, num_workers=self.workers)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Linear(128, 4)

    def training_step(self, batch, batch_idx):
        inputs, labels = batch
        return torch.nn.functional.cross_entropy(self.net(inputs), labels)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Timed(lightning.Callback):
    def __init__(self):
        self.stopwatch = Stopwatch()

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.stopwatch.before_step()


def main():
    timed = Timed()
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=400,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[timed],
    )
    trainer.fit(Model(), Data(int(sys.argv[2]) if "fix" in sys.argv else 0))
    timed.stopwatch.tell()


if __name__ == "__main__":
    main()
