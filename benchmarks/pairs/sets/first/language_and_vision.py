"""Programs that read, speak, listen and see, of transformers, peft, timm and torchvision."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, LIBRARIES, Module, autocast, n, pair, train


@pair("fused_optimizer", found=True, libraries=LIBRARIES)
def whisper_adam_loop(fixed):
    """Whisper (base) trained in bf16; AdamW goes from tensor to tensor."""
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        d_model=n(512, 64),
        encoder_layers=n(6, 1),
        decoder_layers=n(6, 1),
        encoder_attention_heads=8,
        decoder_attention_heads=8,
        encoder_ffn_dim=n(2048, 64),
        decoder_ffn_dim=n(2048, 64),
        num_mel_bins=80,
    )
    model = WhisperForConditionalGeneration(config).to(DEVICE)
    sound = torch.randn(n(8, 1), 80, 3000, device=DEVICE)
    words = torch.randint(0, 50_000, (len(sound), 64), device=DEVICE)
    how = {"fused": True} if fixed else {"foreach": False}
    return train(
        torch.optim.AdamW(model.parameters(), 1e-5, **how),
        lambda: model(input_features=sound, labels=words).loss,
        cast=True,
    )


@pair("tf32", found=True, libraries=LIBRARIES)
def wav2vec_fp32(fixed):
    """Wav2Vec2 trained in fp32 without TF32, for convolutions too."""
    from transformers import Wav2Vec2Config, Wav2Vec2ForSequenceClassification

    torch.set_float32_matmul_precision("high" if fixed else "highest")
    torch.backends.cudnn.allow_tf32 = fixed
    config = Wav2Vec2Config(num_hidden_layers=n(8, 1), mask_time_prob=0.0, layerdrop=0.0)
    model = Wav2Vec2ForSequenceClassification(config).to(DEVICE)
    sound = torch.randn(n(16, 1), n(48_000, 4000), device=DEVICE)
    y = torch.randint(0, 2, (n(16, 1),), device=DEVICE)
    return train(model, lambda: model(sound, labels=y).loss)


@pair("no_recompute", found=True, libraries=LIBRARIES)
def lora_checkpointed(fixed):
    """A Llama of 12 layers under peft's LoRA, every layer computed again in the backward pass."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=n(1024, 64),
        intermediate_size=n(2816, 128),
        num_hidden_layers=n(12, 2),
        num_attention_heads=16,
        vocab_size=n(32_000, 100),
    )
    model = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16)
    if not fixed:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    model = get_peft_model(
        model, LoraConfig(r=16, target_modules=["q_proj", "v_proj", "down_proj"])
    ).train()
    tokens = torch.randint(0, n(32_000, 100), (n(8, 1), n(1024, 16)), device=DEVICE)
    return train(model, lambda: model(input_ids=tokens, labels=tokens).loss)


@pair("fused_attention", found=True, libraries=LIBRARIES)
def roberta_eager_attention(fixed):
    """RoBERTa trained in bf16 on 512 tokens, attention written out by transformers."""
    from transformers import RobertaConfig, RobertaForMaskedLM

    config = RobertaConfig(
        num_hidden_layers=n(8, 1),
        max_position_embeddings=1026,
        vocab_size=n(50_304, 128),
        attention_probs_dropout_prob=0.0,
        attn_implementation="sdpa" if fixed else "eager",
    )
    model = RobertaForMaskedLM(config).to(DEVICE)
    tokens = torch.randint(3, n(50_000, 100), (n(16, 1), n(1000, 16)), device=DEVICE)
    return train(model, lambda: model(tokens, labels=tokens).loss, cast=True)


@pair("fuse_elementwise", found=True, libraries=LIBRARIES)
def gpt_bigcode_gelu(fixed):
    """A GPT-2 whose GELU is written out in Python: transformers' "gelu_new" for
    "gelu_pytorch_tanh"."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        n_layer=n(8, 1),
        n_embd=n(1024, 64),
        n_head=16,
        vocab_size=n(50_304, 128),
        activation_function="gelu_pytorch_tanh" if fixed else "gelu_new",
    )
    model = GPT2LMHeadModel(config).to(DEVICE, torch.bfloat16)
    tokens = torch.randint(0, n(50_000, 100), (n(12, 1), n(1024, 16)), device=DEVICE)
    return train(model, lambda: model(tokens, labels=tokens).loss)


@pair("compile", found=True, libraries=LIBRARIES)
def llama_eager(fixed):
    """A small Llama trained in bf16, its norms, rotations and gates eager; the remedy is
    torch.compile."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=n(1024, 64),
        intermediate_size=n(2816, 128),
        num_hidden_layers=n(4, 1),
        num_attention_heads=16,
        vocab_size=n(16_384, 128),
        use_cache=False,
    )
    model = LlamaForCausalLM(config).to(DEVICE, torch.bfloat16)
    tokens = torch.randint(0, n(16_000, 100), (n(8, 1), n(1024, 16)), device=DEVICE)
    forward = torch.compile(model) if fixed else model
    return train(model, lambda: forward(input_ids=tokens, labels=tokens).loss)


@pair("batch_calls", libraries=LIBRARIES)
def sentences_one_by_one(fixed):
    """An embedding service: BERT (6 layers) is called for each of 16 sentences; their vectors are
    read."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        hidden_size=n(384, 48), num_hidden_layers=n(6, 1), intermediate_size=n(1536, 48)
    )
    model = (
        BertModel(config).to(DEVICE, torch.float16 if DEVICE == "cuda" else torch.float32).eval()
    )
    tokens = torch.randint(0, 30_000, (16, 32), device=DEVICE)

    def step():
        with torch.inference_mode():
            for some in [tokens] if fixed else tokens.split(1):
                model(some).last_hidden_state[:, 0].cpu()

    return step


class Listener(Module):  # Convolutions, then a recurrent layer, then characters
    def __init__(self, fixed):
        self.front = nn.Sequential(nn.Conv1d(80, 256, 5, 2, 2), nn.GELU())
        self.cell, self.layer = nn.GRUCell(256, 512), nn.GRU(256, 512, batch_first=True)
        self.head = nn.Linear(512, 64)
        self.fixed = fixed

    def forward(self, sound):
        x = self.front(sound).transpose(1, 2)
        if self.fixed:
            return self.head(self.layer(x)[0])
        state = x.new_zeros(len(x), 512)
        out = []
        for row in x.unbind(1):
            state = self.cell(row, state)
            out.append(state)
        return self.head(torch.stack(out, 1))


@pair("fused_rnn", found=True, libraries=LIBRARIES)
def speech_gru_cells(fixed):
    """A speech recogniser that loops over GRU cells."""
    model = Listener(fixed).to(DEVICE)
    sound = torch.randn(n(16, 2), 80, n(300, 20), device=DEVICE)
    y = torch.randint(0, 64, (len(sound), sound.shape[2] // 2), device=DEVICE)
    optimizer = torch.optim.SGD(list(model.parameters()), 0.01)
    return train(optimizer, lambda: F.cross_entropy(model(sound).transpose(1, 2), y))


@pair("channels_last", found=True, libraries=LIBRARIES)
def deeplab_nchw(fixed):
    """torchvision's DeepLabV3 (ResNet-50) in bf16 autocast, tensors in NCHW."""
    from torchvision.models.segmentation import deeplabv3_resnet50

    form = torch.channels_last if fixed else torch.contiguous_format
    model = deeplabv3_resnet50(weights=None, weights_backbone=None, num_classes=21)
    model = model.to(DEVICE, memory_format=form)
    x = torch.randn(n(16, 2), 3, n(384, 64), n(384, 64), device=DEVICE).to(memory_format=form)
    y = torch.randint(0, 21, (x.shape[0], *x.shape[2:]), device=DEVICE)
    return train(model, lambda: F.cross_entropy(model(x)["out"], y), cast=True)


@pair("low_precision", libraries=LIBRARIES)
def detr_fp32(fixed):
    """transformers' DETR finding objects in fp32, TF32 allowed; the remedy is bf16 autocast."""
    from transformers import DetrConfig, DetrForObjectDetection

    torch.set_float32_matmul_precision("high")
    config = DetrConfig(
        use_timm_backbone=True,
        backbone="resnet50",
        use_pretrained_backbone=False,
        backbone_config=None,
    )
    model = DetrForObjectDetection(config).to(DEVICE).eval()
    x = torch.randn(n(16, 1), 3, n(640, 64), n(640, 64), device=DEVICE)

    def step():
        with torch.inference_mode(), torch.autocast(DEVICE, torch.bfloat16, enabled=fixed):
            model(x)

    return step


@pair("keep_on_device", libraries=LIBRARIES)
def detection_on_host(fixed):
    """Boxes go to the host to be filtered, and come back for the second stage."""
    from torchvision.ops import batched_nms, roi_align

    net = (
        nn.Sequential(nn.Conv2d(3, 64, 7, 4), nn.ReLU(), nn.Conv2d(64, 128, 3, 2)).to(DEVICE).eval()
    )
    head = nn.Sequential(nn.Flatten(), nn.Linear(128 * 49, 512), nn.ReLU(), nn.Linear(512, 91)).to(
        DEVICE
    )
    x = torch.randn(n(8, 1), 3, n(512, 64), n(512, 64), device=DEVICE)
    corner = torch.rand(n(200_000, 500), 2, device=DEVICE) * 40
    scores = torch.rand(n(200_000, 500), device=DEVICE)
    boxes = torch.cat((corner, corner + 4 + 8 * torch.rand_like(corner)), 1)
    group = torch.randint(0, 90, scores.shape, device=DEVICE)

    def step():
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


class Pictures(
    torch.utils.data.Dataset
):  # Photos that are cropped, turned and normalised by torchvision on the CPU
    def __init__(self):
        from PIL import Image
        from torchvision import transforms as t

        pixels = np.random.default_rng(0).integers(0, 255, (16, 500, 375, 3), np.uint8)
        self.photos = [Image.fromarray(p) for p in pixels]
        self.change = t.Compose([t.RandomResizedCrop(192), t.RandomHorizontalFlip(), t.ToTensor()])

    def __len__(self):
        return 1_000_000

    def __getitem__(self, index):
        return (self.change(self.photos[index % 16]), index % 1000)


@pair("data_loader_workers", found=True, libraries=LIBRARIES)
def photos_loaded_inline(fixed):
    """RegNetY trained on photos that the main process decodes."""
    import timm

    model = timm.create_model("regnety_008").to(DEVICE, memory_format=torch.channels_last)
    more = (
        {"num_workers": n(12, 1), "persistent_workers": True, "prefetch_factor": 3} if fixed else {}
    )
    batches = iter(
        torch.utils.data.DataLoader(Pictures(), n(48, 2), pin_memory=DEVICE == "cuda", **more)
    )

    def loss():
        x, y = next(batches)
        x = x.to(DEVICE, memory_format=torch.channels_last, non_blocking=True)
        with autocast():
            return F.cross_entropy(model(x), y.to(DEVICE, non_blocking=True))

    return train(model, loss)


@pair("pinned_memory", libraries=LIBRARIES)
def video_pageable(fixed):
    """torchvision's R3D-18 classifies clips that come from pageable memory."""
    from torchvision.models.video import r3d_18

    model = r3d_18(weights=None).to(DEVICE).eval()
    clips = torch.randn(n(32, 1), 3, 16, n(112, 32), n(112, 32))
    clips = clips.pin_memory() if fixed and DEVICE == "cuda" else clips
    return torch.inference_mode()(autocast()(lambda: model(clips.to(DEVICE, non_blocking=fixed))))


@pair("copy_ahead", libraries=LIBRARIES)
def frames_copied_in_line(fixed):
    """Frames in 8 bits are copied from pinned memory between the steps of a segmentation
    network."""
    import timm

    model = timm.create_model("mobilenetv3_large_100", features_only=True).to(DEVICE).eval()
    frames = torch.randint(0, 255, (n(64, 2), 3, n(768, 96), n(768, 96)), dtype=torch.uint8)
    frames = frames.pin_memory() if DEVICE == "cuda" else frames
    if not fixed or DEVICE != "cuda":

        def step():
            with torch.inference_mode(), autocast():
                model(
                    F.interpolate(frames.to(DEVICE, non_blocking=True).float(), scale_factor=1 / 3)
                )

        return step
    side = torch.cuda.Stream()
    ready = [frames.to(DEVICE)]

    def ahead():
        with torch.inference_mode(), autocast():
            now = ready.pop()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                ready.append(frames.to(DEVICE, non_blocking=True))
            model(F.interpolate(now.float(), scale_factor=1 / 3))
            torch.cuda.current_stream().wait_stream(side)
            ready[0].record_stream(torch.cuda.current_stream())

    return ahead


@pair("cuda_graph", libraries=LIBRARIES)
def mobilevit_single(fixed):
    """timm's MobileViT answers for one image at a time; the remedy is a CUDA graph."""
    import timm

    model = timm.create_model("mobilevit_s").to(DEVICE, torch.bfloat16).eval()
    x = torch.randn(1, 3, 256, 256, device=DEVICE, dtype=torch.bfloat16)

    def step():
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


@pair("larger_batch", found=True, as_much=8, libraries=LIBRARIES)
def cifar_small_batch(fixed):
    """A ResNet-26 trained on images of 32 pixels, eight at a time; the remedy is a batch eight
    times as large."""
    import timm

    model = timm.create_model("resnet26", num_classes=10).to(DEVICE)
    x = torch.randn(n(8, 2) * (8 if fixed else 1), 3, 32, 32, device=DEVICE)
    y = torch.randint(0, 10, (len(x),), device=DEVICE)
    return train(model, lambda: F.cross_entropy(model(x), y))
