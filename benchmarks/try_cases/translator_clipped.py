"""A small encoder and decoder with clipped gradients and a scheduler, kernel by kernel."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized

WORDS = 4000


class Translator(torch.nn.Module):
    def __init__(self, width, layers):
        super().__init__()
        self.source = torch.nn.Embedding(WORDS, width)
        self.target = torch.nn.Embedding(WORDS, width)
        self.transformer = torch.nn.Transformer(
            width, 4, layers, layers, 4 * width, dropout=0.1, batch_first=True, norm_first=True
        )
        self.head = torch.nn.Linear(width, WORDS)

    def forward(self, source, target, mask):
        told = self.transformer(self.source(source), self.target(target), tgt_mask=mask)
        return self.head(told)


def main():
    torch.set_float32_matmul_precision("high")
    model = Translator(sized(256, 16), sized(3, 1)).to(DEVICE)
    call = torch.compile(model, mode="reduce-overhead") if FIXED else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, fused=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda at: min(1.0, (at + 1) / 400))
    length = sized(64, 8)
    source = torch.randint(0, WORDS, (16, length), device=DEVICE)
    target = torch.randint(0, WORDS, (16, length + 1), device=DEVICE)
    mask = torch.nn.Transformer.generate_square_subsequent_mask(length, device=DEVICE)
    criterion = torch.nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad()
        told = call(source, target[:, :-1], mask)
        loss = criterion(told.flatten(0, 1), target[:, 1:].flatten())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()

    run(step)


if __name__ == "__main__":
    main()
