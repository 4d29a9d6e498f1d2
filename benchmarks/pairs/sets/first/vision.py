"""Programs that see: classification, segmentation, detection, video."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn
from torch.nn.functional import cross_entropy, interpolate

from benchmarks.pairs.program import DEVICE, Pair, autocast, n, train

if TYPE_CHECKING:
    from benchmarks.pairs.program import Step


def deeplab_nchw(fixed: bool) -> Step:
    """torchvision's DeepLabV3 (ResNet-50) in bf16 autocast, tensors in NCHW."""
    from torchvision.models.segmentation import deeplabv3_resnet50

    form = torch.channels_last if fixed else torch.contiguous_format
    model = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)
    model = model.to(DEVICE, memory_format=form)
    x = torch.randn(n(16, 2), 3, n(384, 64), n(384, 64), device=DEVICE).to(memory_format=form)
    y = torch.randint(0, 21, (x.shape[0], *x.shape[2:]), device=DEVICE)

    def loss() -> Any:
        with autocast():
            return cross_entropy(model(x)["out"], y)

    return train(model, loss)


def detr_fp32(fixed: bool) -> Step:
    """transformers' DETR finding objects in fp32, TF32 allowed; the remedy is bf16 autocast."""
    from transformers import DetrConfig, DetrForObjectDetection

    torch.set_float32_matmul_precision("high")
    config = DetrConfig(
        use_timm_backbone=True, backbone="resnet50", use_pretrained_backbone=False, backbone_config=None
    )
    model = DetrForObjectDetection(config).to(DEVICE).eval()
    x = torch.randn(n(16, 1), 3, n(640, 64), n(640, 64), device=DEVICE)

    def step() -> None:
        with torch.inference_mode(), torch.autocast(DEVICE, torch.bfloat16, enabled=fixed):
            model(x)

    return step


def detection_on_host(fixed: bool) -> Step:
    """Boxes go to the host to be filtered, and come back for the second stage."""
    from torchvision.ops import batched_nms, roi_align

    net = nn.Sequential(nn.Conv2d(3, 64, 7, 4), nn.ReLU(), nn.Conv2d(64, 128, 3, 2)).to(DEVICE).eval()
    head = nn.Sequential(nn.Flatten(), nn.Linear(128 * 49, 512), nn.ReLU(), nn.Linear(512, 91)).to(DEVICE)
    x = torch.randn(n(8, 1), 3, n(512, 64), n(512, 64), device=DEVICE)
    corner, scores = torch.rand(n(200_000, 500), 2, device=DEVICE) * 40, torch.rand(n(200_000, 500), device=DEVICE)
    boxes = torch.cat((corner, corner + 4 + 8 * torch.rand_like(corner)), 1)
    group = torch.randint(0, 90, scores.shape, device=DEVICE)

    def step() -> None:
        with torch.inference_mode():
            features = net(x)
            if fixed:
                best = scores.topk(300).indices
                kept = boxes[best]
            else:
                best = scores.cpu().topk(300).indices
                kept = boxes.cpu()[best].to(DEVICE)
                best = best.to(DEVICE)
            batched_nms(kept, scores[best], group[best], 0.7)
            head(roi_align(features[:1], [kept], 7))

    return step


class Pictures(torch.utils.data.Dataset):
    """Photos that are cropped, turned and normalised by torchvision on the CPU."""

    def __init__(self) -> None:
        from PIL import Image
        from torchvision import transforms as t

        pixels = np.random.default_rng(0).integers(0, 255, (16, 500, 375, 3), np.uint8)
        self.photos = [Image.fromarray(p) for p in pixels]
        self.change = t.Compose([t.RandomResizedCrop(192), t.RandomHorizontalFlip(), t.ToTensor()])

    def __len__(self) -> int:
        return 1_000_000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        return self.change(self.photos[index % 16]), index % 1000


def photos_loaded_inline(fixed: bool) -> Step:
    """RegNetY trained on photos that the main process decodes."""
    import timm

    model = timm.create_model("regnety_008").to(DEVICE, memory_format=torch.channels_last)
    more: dict[str, Any] = {"num_workers": n(12, 1), "persistent_workers": True, "prefetch_factor": 3} if fixed else {}
    batches = iter(torch.utils.data.DataLoader(Pictures(), n(48, 2), pin_memory=DEVICE == "cuda", **more))

    def loss() -> Any:
        x, y = next(batches)
        x = x.to(DEVICE, memory_format=torch.channels_last, non_blocking=True)
        with autocast():
            return cross_entropy(model(x), y.to(DEVICE, non_blocking=True))

    return train(model, loss)


def video_pageable(fixed: bool) -> Step:
    """torchvision's R3D-18 classifies clips that come from pageable memory."""
    from torchvision.models.video import r3d_18

    model = r3d_18(weights=None).to(DEVICE).eval()
    clips = torch.randn(n(32, 1), 3, 16, n(112, 32), n(112, 32))
    clips = clips.pin_memory() if fixed and DEVICE == "cuda" else clips

    def step() -> None:
        with torch.inference_mode(), autocast():
            model(clips.to(DEVICE, non_blocking=fixed))

    return step


def frames_copied_in_line(fixed: bool) -> Step:
    """Frames in 8 bits are copied from pinned memory between the steps of a segmentation network."""
    import timm

    model = timm.create_model("mobilenetv3_large_100", features_only=True).to(DEVICE).eval()
    frames = torch.randint(0, 255, (n(64, 2), 3, n(768, 96), n(768, 96)), dtype=torch.uint8)
    frames = frames.pin_memory() if DEVICE == "cuda" else frames
    if not fixed or DEVICE != "cuda":

        def step() -> None:
            with torch.inference_mode(), autocast():
                model(interpolate(frames.to(DEVICE, non_blocking=True).float(), scale_factor=1 / 3))

        return step
    side = torch.cuda.Stream()
    ready = [frames.to(DEVICE)]

    def ahead() -> None:
        with torch.inference_mode(), autocast():
            now = ready.pop()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                ready.append(frames.to(DEVICE, non_blocking=True))
            model(interpolate(now.float(), scale_factor=1 / 3))
            torch.cuda.current_stream().wait_stream(side)
            ready[0].record_stream(torch.cuda.current_stream())

    return ahead


def mobilevit_single(fixed: bool) -> Step:
    """timm's MobileViT answers for one image at a time; the remedy is a CUDA graph."""
    import timm

    model = timm.create_model("mobilevit_s").to(DEVICE, torch.bfloat16).eval()
    x = torch.randn(1, 3, 256, 256, device=DEVICE, dtype=torch.bfloat16)

    def step() -> None:
        with torch.inference_mode():
            model(x)

    if not fixed or DEVICE != "cuda":
        return step
    for _ in range(4):
        step()
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode(), torch.cuda.graph(graph):
        model(x)
    return graph.replay


def cifar_small_batch(fixed: bool) -> Step:
    """A ResNet-26 trained on images of 32 pixels, eight at a time; the remedy is a batch eight times as large."""
    import timm

    model = timm.create_model("resnet26", num_classes=10).to(DEVICE)
    x = torch.randn(n(8, 2) * (8 if fixed else 1), 3, 32, 32, device=DEVICE)
    y = torch.randint(0, 10, (len(x),), device=DEVICE)
    return train(model, lambda: cross_entropy(model(x), y))


PAIRS = (
    Pair("channels_last", deeplab_nchw, found=True),
    Pair("low_precision", detr_fp32),
    Pair("keep_on_device", detection_on_host),
    Pair("data_loader_workers", photos_loaded_inline, found=True),
    Pair("pinned_memory", video_pageable),
    Pair("copy_ahead", frames_copied_in_line),
    Pair("cuda_graph", mobilevit_single),
    Pair("larger_batch", cifar_small_batch, found=True, as_much=8),
)
