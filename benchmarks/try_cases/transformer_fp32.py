"""A transformer whose weights and activations are all fp32 (its products use TF32)."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


def main():
    torch.set_float32_matmul_precision("high")
    width = sized(1024, 32)
    layer = torch.nn.TransformerEncoderLayer(
        width, sized(16, 2), 4 * width, dropout=0.0, batch_first=True, norm_first=True
    )
    model = torch.nn.TransformerEncoder(layer, sized(8, 1), enable_nested_tensor=False).to(DEVICE)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    inputs = torch.randn(sized(16, 2), sized(512, 16), width, device=DEVICE)
    target = torch.randn_like(inputs)

    def step():
        with torch.autocast(DEVICE, torch.bfloat16, enabled=FIXED):
            loss = torch.nn.functional.mse_loss(model(inputs), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
