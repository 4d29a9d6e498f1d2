"""Programs of two ranks, each on a GPU of its own, and the same ones on one."""

from importlib import import_module

import torch
from torch import distributed, nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional

from benchmarks.predict.language import WORDS, small_gpt2, small_llama
from benchmarks.predict.program import (
    DEVICE,
    Program,
    Setting,
    Step,
    classes,
    images,
    n,
    program,
    tokens,
    train,
)

SIDE = n(224, 64)
CLASSES = 1000


def _exchanging(model: nn.Module, setting: Setting) -> nn.Module:
    """The model in DDP, where there are other ranks."""
    return nn.parallel.DistributedDataParallel(model) if setting.ranks > 1 else model


def _gpt2(setting: Setting) -> Step:
    model = _exchanging(small_gpt2(), setting)
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


@program(Setting(8, 1024), other="gpt2_on_two", ranks=(2,))
def gpt2_on_one(setting: Setting) -> Step:
    """GPT-2 trains on one rank."""
    return _gpt2(setting)


@program(Setting(8, 1024, ranks=2), other="gpt2_on_one", batch=(2, 16), length=(512,), ranks=(1,))
def gpt2_on_two(setting: Setting) -> Step:
    """GPT-2 trains in DDP."""
    return _gpt2(setting)


def _resnet(setting: Setting) -> Step:
    model = import_module("torchvision").models.resnet50(weights=None).to(DEVICE)
    model = _exchanging(model, setting)
    x = images(setting, SIDE)
    y = classes(setting, CLASSES)
    return train(model, lambda: functional.cross_entropy(model(x), y), setting)


@program(Setting(64), other="resnet_on_two", ranks=(2,))
def resnet_on_one(setting: Setting) -> Step:
    """ResNet-50 trains on one rank."""
    return _resnet(setting)


@program(Setting(64, ranks=2), other="resnet_on_one", batch=(16, 128), ranks=(1,))
def resnet_on_two(setting: Setting) -> Step:
    """ResNet-50 trains in DDP."""
    return _resnet(setting)


def _wide(setting: Setting) -> Step:
    size = n(4096, 64)
    layers = [nn.Sequential(nn.Linear(size, size), nn.SiLU()) for _ in range(8)]
    model = _exchanging(nn.Sequential(*layers, nn.Linear(size, 10)).to(DEVICE), setting)
    x = torch.randn(setting.batch, size, device=DEVICE)
    y = classes(setting, 10)
    return train(model, lambda: functional.cross_entropy(model(x), y), setting)


@program(Setting(2048, 0, "tf32"), other="wide_on_two", ranks=(2,))
def wide_on_one(setting: Setting) -> Step:
    """Wide layers train on one rank."""
    return _wide(setting)


@program(Setting(2048, 0, "tf32", ranks=2), other="wide_on_one", batch=(512, 8192), ranks=(1,))
def wide_on_two(setting: Setting) -> Step:
    """Wide layers train in DDP, their exchange longer than their work."""
    return _wide(setting)


@program(Setting(4, 1024, "fp32", ranks=2), batch=(1, 16), length=(2048,))
def llama_on_two(setting: Setting) -> Step:
    """A Llama trains, its parameters sharded (FSDP2), its layers in bf16."""
    model = small_llama(n(1024, 64), n(4, 2), positions=4096).to(DEVICE)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    mesh = distributed.init_device_mesh(DEVICE, (setting.ranks,))
    for layer in model.model.layers:
        fully_shard(layer, mesh=mesh, mp_policy=policy)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


PROGRAMS: tuple[Program, ...] = (
    gpt2_on_one,
    gpt2_on_two,
    resnet_on_one,
    resnet_on_two,
    wide_on_one,
    wide_on_two,
    llama_on_two,
)
