"""A loop over the moments of a series, a GRU cell at each."""

import torch

from benchmarks.try_cases.loop import DEVICE, FIXED, run, sized


class Forecast(torch.nn.Module):
    def __init__(self, columns, width):
        super().__init__()
        self.cell = torch.nn.GRUCell(columns, width)
        self.head = torch.nn.Linear(width, columns)

    def forward(self, series):
        h = series.new_zeros(len(series), self.cell.hidden_size)
        told = []
        for moment in series.unbind(1):
            h = self.cell(moment, h)
            told.append(self.head(h))
        return torch.stack(told, 1)


def main():
    torch.set_float32_matmul_precision("high")
    columns = sized(32, 4)
    model = Forecast(columns, sized(256, 8)).to(DEVICE)
    call = torch.compile(model, mode="reduce-overhead") if FIXED else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    series = torch.randn(64, sized(33, 5), columns, device=DEVICE)

    def step():
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(call(series[:, :-1]), series[:, 1:])
        loss.backward()
        optimizer.step()

    run(step)


if __name__ == "__main__":
    main()
