"""Call a small network with nested modules N times, without gradients."""

import sys

import torch

torch.set_num_threads(1)
block = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
model = torch.nn.Sequential(block, torch.nn.Linear(16, 1))
torch.nn.Identity()(torch.zeros(1))


@torch.inference_mode()
def answer(x):
    return model(x)


for _ in range(int(sys.argv[1])):
    answer(torch.randn(4, 16))
hooks = torch.nn.modules.module
print(
    len(hooks._global_forward_pre_hooks)
    + len(hooks._global_forward_hooks)
    + len(model._forward_hooks)
)
