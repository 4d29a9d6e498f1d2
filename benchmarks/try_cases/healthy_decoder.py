"""A decoder that needs nothing: compiled, in bf16, its attention fused, its optimizer too."""

import torch
from torch.nn import functional as F  # noqa: N812

from benchmarks.try_cases.loop import DEVICE, run, sized


class Layer(torch.nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norms = torch.nn.ModuleList(torch.nn.LayerNorm(width) for _ in range(2))
        self.qkv = torch.nn.Linear(width, 3 * width)
        self.out = torch.nn.Linear(width, width)
        self.up = torch.nn.Linear(width, 4 * width)
        self.down = torch.nn.Linear(4 * width, width)

    def forward(self, x):
        heads = self.qkv(self.norms[0](x)).unflatten(-1, (3, self.heads, -1))
        q, k, v = heads.permute(2, 0, 3, 1, 4).unbind(0)
        seen = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


def main():
    torch.set_float32_matmul_precision("high")
    width = sized(2048, 16)
    model = torch.nn.Sequential(*[Layer(width, sized(16, 2)) for _ in range(3)]).to(
        DEVICE, torch.bfloat16
    )
    call = torch.compile(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    inputs = torch.randn(sized(8, 2), sized(1024, 8), width, device=DEVICE, dtype=torch.bfloat16)

    def step():
        loss = call(inputs).float().square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
