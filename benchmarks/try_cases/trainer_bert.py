"""transformers' Trainer teaches a small BERT, from random weights, in fp32."""

import tempfile

import torch
from torch.utils.data import Dataset
from transformers import (
    BertConfig,
    BertForSequenceClassification,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from benchmarks.try_cases.loop import FIXED, SMALL, STEPS, Stopwatch, sized

WORDS = 30_522


class Reviews(Dataset):
    def __init__(self):
        self.words = torch.randint(1000, WORDS, (4096, sized(128, 8)))
        self.stars = torch.randint(0, 5, (4096,))

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        words = self.words[index]
        return {
            "input_ids": words,
            "attention_mask": torch.ones_like(words),
            "labels": self.stars[index],
        }


class Timed(TrainerCallback):
    def __init__(self):
        self.stopwatch = Stopwatch()

    def on_step_begin(self, args, state, control, **kwargs):
        self.stopwatch.before_step()


def main():
    config = BertConfig(
        hidden_size=sized(768, 16),
        num_hidden_layers=sized(8, 1),
        num_attention_heads=sized(12, 2),
        intermediate_size=sized(3072, 32),
        num_labels=5,
    )
    timed = Timed()
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=sized(32, 2),
            max_steps=STEPS,
            learning_rate=2e-5,
            warmup_steps=20,
            logging_steps=50,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            use_cpu=SMALL,
            bf16=FIXED,
        )
        trainer = Trainer(
            model=BertForSequenceClassification(config),
            args=arguments,
            train_dataset=Reviews(),
            callbacks=[timed],
        )
        trainer.train()
    timed.stopwatch.tell()


if __name__ == "__main__":
    main()
