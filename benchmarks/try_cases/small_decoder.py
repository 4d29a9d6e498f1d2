"""Inference that launches hundreds of tiny kernels a call."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def main():
    width = 256
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.1, batch_first=True)
    model = torch.nn.TransformerEncoder(layer, sized(12, 2), enable_nested_tensor=False)
    model = model.to(DEVICE).requires_grad_(False)
    model.train()  # the written-out path, as in a model of one's own
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
        if isinstance(part, torch.nn.MultiheadAttention):
            part.dropout = 0.0
    call = torch.compile(model, mode="reduce-overhead") if FIXED else model
    inputs = torch.randn(1, 16, width, device=DEVICE)

    def step():
        with torch.no_grad():
            call(inputs)

    run(step, 200)


if __name__ == "__main__":
    main()
