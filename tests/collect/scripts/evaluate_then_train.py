"""Evaluate often enough to be taken for inference, then train, with batches from forked DataLoader
workers."""

import torch

torch.set_num_threads(1)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
other = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
with torch.no_grad():
    for _ in range(40):
        model(torch.randn(4, 16))
loader = torch.utils.data.DataLoader(torch.randn(160, 16), batch_size=4, num_workers=2)
for batch in loader:
    model(batch).square().mean().backward()
    optimizer.step()
    other.step()
