"""Attention with an explicit mask in fp32."""

import torch
from torch.nn import functional as F  # noqa: N812

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


class Layer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm = torch.nn.LayerNorm(width)
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.LayerNorm(width),
            torch.nn.Linear(width, 4 * width),
            torch.nn.GELU(),
            torch.nn.Linear(4 * width, width),
        )

    def forward(self, x, mask):
        batch, length, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).reshape(batch, length, width))
        return x + self.mlp(x)


def main():
    width = sized(768, 32)
    length = sized(512, 16)
    batch = sized(16, 2)
    layers = torch.nn.ModuleList(Layer(width, sized(12, 2)) for _ in range(sized(4, 1)))
    layers = layers.to(DEVICE)
    optimizer = torch.optim.AdamW(layers.parameters(), lr=1e-4)
    inputs = torch.randn(batch, length, width, device=DEVICE)
    target = torch.randn_like(inputs)
    lengths = torch.randint(length // 2, length + 1, (batch,), device=DEVICE)
    mask = (torch.arange(length, device=DEVICE) < lengths[:, None])[:, None, None]

    def step():
        optimizer.zero_grad()
        with torch.autocast(DEVICE, torch.bfloat16, enabled=FIXED):
            x = inputs
            for layer in layers:
                x = layer(x, mask)
            loss = F.mse_loss(x, target)
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
