"""A lightning module whose pictures NumPy unpacks and augments in the training process."""

import zlib

import lightning
import numpy as np
import torch
from torch.nn import functional as F  # noqa: N812
from torch.utils.data import DataLoader, Dataset

from benchmarks.try_cases.loop import FIXED, STEPS, Stopwatch, sized

SIDE = sized(128, 16)


class Pictures(Dataset):
    def __init__(self):
        drawn = np.random.default_rng(0)
        waves = drawn.random((64, SIDE, SIDE, 3)).cumsum(1) % 1
        self.packed = [zlib.compress((255 * one).astype(np.uint8).tobytes()) for one in waves]

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        drawn = np.random.default_rng(index)
        data = zlib.decompress(self.packed[index % len(self.packed)])
        picture = np.frombuffer(data, np.uint8).reshape(SIDE, SIDE, 3)
        picture = np.rot90(picture, drawn.integers(4))[:, :: drawn.choice((-1, 1))] / 255
        picture = picture ** drawn.uniform(0.8, 1.2) + drawn.normal(0, 0.02, picture.shape)
        picture = (picture - picture.mean((0, 1))) / (picture.std((0, 1)) + 1e-6)
        return torch.from_numpy(picture.astype(np.float32).transpose(2, 0, 1)), index % 10


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        width = sized(64, 4)
        layers = []
        for before, after in ((3, width), (width, 2 * width), (2 * width, 4 * width)):
            layers += [
                torch.nn.Conv2d(before, after, 3, 2, 1),
                torch.nn.BatchNorm2d(after),
                torch.nn.ReLU(),
            ]
        self.net = torch.nn.Sequential(
            *layers,
            torch.nn.AdaptiveAvgPool2d(1),
            torch.nn.Flatten(),
            torch.nn.Linear(4 * width, 10),
        )

    def training_step(self, batch, batch_idx):
        pictures, kinds = batch
        loss = F.cross_entropy(self.net(pictures), kinds)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Timed(lightning.Callback):
    def __init__(self):
        self.stopwatch = Stopwatch()

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.stopwatch.before_step()


def main():
    more = {"num_workers": 8, "persistent_workers": True} if FIXED else {}
    loader = DataLoader(Pictures(), batch_size=sized(16, 2), shuffle=True, **more)
    timed = Timed()
    trainer = lightning.Trainer(
        max_steps=STEPS,
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[timed],
    )
    trainer.fit(Classifier(), loader)
    timed.stopwatch.tell()


if __name__ == "__main__":
    main()
