"""Programs of the sizes that people train and serve at: most of their steps are paced by the GPU."""

import torch
import transformers
from torch import nn
from torch.nn import functional

from benchmarks.predict.language import WORDS, bert, gpt2, llama, t5
from benchmarks.predict.others import SIDE, Unet, timm_model, torchvision_model, trains_on_images
from benchmarks.predict.program import (
    DEVICE,
    Program,
    Setting,
    Step,
    classes,
    images,
    n,
    program,
    serve,
    tokens,
    train,
)


@program(Setting(16, 1024), batch=(8, 32), length=(512, 2048))
def gpt2_medium_train(setting: Setting) -> Step:
    """GPT-2 medium trains."""
    model = gpt2(n(1024, 64), layers=n(24, 2), heads=n(16, 4))
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


def _llama_1b() -> nn.Module:
    """A Llama of 16 layers of 2,048."""
    heads = (n(32, 4), n(8, 2))
    return llama(n(2048, 64), n(5632, 128), layers=n(16, 2), heads=heads, positions=8192)


@program(Setting(4, 2048), batch=(2, 8), length=(1024, 4096))
def llama_1b_train(setting: Setting) -> Step:
    """A Llama of 0.9 billion parameters trains."""
    model = _llama_1b().to(DEVICE)
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


@program(Setting(8, 2048), batch=(2, 16), length=(1024, 4096))
def llama_1b_reads(setting: Setting) -> Step:
    """It reads prompts."""
    model = _llama_1b().eval().to(DEVICE, torch.bfloat16)
    x = tokens(setting, WORDS)
    return serve(lambda: model(input_ids=x, logits_to_keep=1).logits, setting)


@program(Setting(32, 512), batch=(16, 64), length=(256, 1024))
def bert_large_train(setting: Setting) -> Step:
    """BERT large trains."""
    model = bert(n(1024, 64), n(4096, 128), layers=n(24, 2), heads=n(16, 4))
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


@program(Setting(64, 512), batch=(32, 96), length=(256, 768))
def t5_base_train(setting: Setting) -> Step:
    """T5 base trains."""
    model = t5(n(768, 64), n(3072, 128), layers=n(12, 2), heads=n(12, 4), dropout=0.1)
    x = tokens(setting, WORDS)
    return train(model, lambda: model(input_ids=x, labels=x).loss, setting)


@program(Setting(16), batch=(8, 32))
def whisper_train(setting: Setting) -> Step:
    """The encoder of Whisper small learns to classify sound."""
    config = transformers.WhisperConfig(
        d_model=n(768, 64),
        encoder_layers=n(12, 2),
        encoder_attention_heads=n(12, 4),
        encoder_ffn_dim=n(3072, 128),
        max_source_positions=n(1500, 50),
        num_labels=35,
        use_weighted_layer_sum=False,
    )
    model = transformers.WhisperForAudioClassification(config).to(DEVICE)
    x = torch.randn(setting.batch, 80, n(3000, 100), device=DEVICE)
    y = classes(setting, 35)
    return train(model, lambda: model(input_features=x, labels=y).loss, setting)


@program(Setting(128), batch=(64, 256), precision=("tf32",))
def vit_large_train(setting: Setting) -> Step:
    """ViT-L trains."""
    return trains_on_images(timm_model("vit_large_patch16_224", img_size=SIDE), setting)


@program(Setting(256), batch=(128, 512), precision=("tf32",))
def resnet_large_batch(setting: Setting) -> Step:
    """ResNet-50 trains with a large batch."""
    return trains_on_images(torchvision_model("resnet50"), setting)


@program(Setting(128), batch=(64, 256))
def convnext_base_train(setting: Setting) -> Step:
    """ConvNeXt-B trains."""
    return trains_on_images(timm_model("convnext_base"), setting)


@program(Setting(128), batch=(64, 256))
def swin_base_train(setting: Setting) -> Step:
    """Swin-B trains."""
    return trains_on_images(torchvision_model("swin_b"), setting)


@program(Setting(128), batch=(64, 256))
def efficientnet_b4_train(setting: Setting) -> Step:
    """EfficientNet-B4 trains."""
    return trains_on_images(timm_model("efficientnet_b4"), setting)


@program(Setting(32), batch=(16, 64), precision=("tf32",))
def wide_unet_train(setting: Setting) -> Step:
    """A wide U-Net learns noise."""
    model = Unet(n(256, 16)).to(DEVICE)
    x = images(setting, n(64, 16))
    noise = torch.randn_like(x)
    return train(model, lambda: functional.mse_loss(model(x + noise).float(), noise), setting)


@program(Setting(65536, 0, "tf32"), batch=(32768, 131072))
def clicks_train(setting: Setting) -> Step:
    """Embeddings of 26 features, their products and a perceptron learn clicks."""
    size = n(128, 16)
    rows = n(50000, 500)
    features = 26
    tables = nn.ModuleList([nn.Embedding(rows, size) for _ in range(features)])
    products = features * (features - 1) // 2
    head = nn.Sequential(
        nn.Linear(products + size, 1024), nn.ReLU(), nn.Linear(1024, 512), nn.ReLU()
    )
    last = nn.Linear(512, 1)
    model = nn.ModuleList([tables, head, last]).to(DEVICE)
    ids = torch.randint(0, rows, (features, setting.batch), device=DEVICE)
    clicks = torch.rand(setting.batch, device=DEVICE)
    one, other = torch.triu_indices(features, features, 1, device=DEVICE)

    def loss() -> torch.Tensor:
        found = torch.stack([table(ids[i]) for i, table in enumerate(tables)], 1)
        met = torch.bmm(found, found.transpose(1, 2))[:, one, other]
        score = last(head(torch.cat([met, found[:, 0]], 1)))[:, 0]
        return functional.binary_cross_entropy_with_logits(score, clicks)

    return train(model, loss, setting)


PROGRAMS: tuple[Program, ...] = (
    gpt2_medium_train,
    llama_1b_train,
    llama_1b_reads,
    bert_large_train,
    t5_base_train,
    whisper_train,
    vit_large_train,
    resnet_large_batch,
    convnext_base_train,
    swin_base_train,
    efficientnet_b4_train,
    wide_unet_train,
    clicks_train,
)
