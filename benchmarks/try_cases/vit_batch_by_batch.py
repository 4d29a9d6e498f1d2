"""timm's small ViT names four pictures at a time, kernel by kernel."""

import timm
import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def main():
    torch.set_float32_matmul_precision("high")
    side = sized(224, 32)
    model = timm.create_model(
        "vit_tiny_patch16_224", img_size=side, depth=sized(12, 1), num_classes=1000
    )
    model = model.to(DEVICE).eval().requires_grad_(False)
    call = torch.compile(model, mode="reduce-overhead") if FIXED else model
    batches = torch.randn(8, 4, 3, side, side)
    at = 0

    def step():
        nonlocal at
        pictures = batches[at % len(batches)].to(DEVICE)
        at += 1
        return call(pictures).argmax(1).tolist()

    run(step, 200)


if __name__ == "__main__":
    main()
