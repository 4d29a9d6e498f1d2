"""transformers' Trainer; each sample waits 2 ms."""

import sys
import tempfile
import time

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.try_cases.loop import Stopwatch


class Reviews(Dataset):
    def __len__(self):
        return 1 << 16

    def __getitem__(self, index):
        time.sleep(0.002)
        words = torch.full((8,), 1000 + index % 1000)
        return {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": index % 5}


class Timed(TrainerCallback):
    def __init__(self):
        self.stopwatch = Stopwatch()

    def on_step_begin(self, args, state, control, **kwargs):
        self.stopwatch.before_step()


def main():
    config = BertConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        num_labels=5,
    )
    timed = Timed()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=16,
            max_steps=400,
            report_to=[],
            save_strategy="no",
            use_cpu=True,
            dataloader_num_workers=int(sys.argv[2]) if "fix" in sys.argv else 0,
        )
        model = BertForSequenceClassification(config)
        trainer = Trainer(model=model, args=arguments, train_dataset=Reviews(), callbacks=[timed])
        trainer.train()
    timed.stopwatch.tell()


if __name__ == "__main__":
    main()
