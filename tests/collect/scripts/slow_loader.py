"""Train ten steps with a dataset that takes 4 ms a batch, 2 ms of work each."""

import time

import torch


class Slow(torch.utils.data.Dataset):
    def __len__(self):
        return 10

    def __getitem__(self, i):
        time.sleep(0.004)
        return torch.zeros(16)


torch.set_num_threads(1)
model = torch.nn.Linear(16, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in torch.utils.data.DataLoader(Slow(), batch_size=1):
    time.sleep(0.002)
    model(batch).sum().backward()
    optimizer.step()
