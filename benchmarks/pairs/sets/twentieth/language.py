"""Words and sounds: recipes, patents, replies, thoughts, whales; good: dictionaries."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import layers, noise, on_device, whole

XLM = "transformers.models.xlm_roberta.modeling_xlm_roberta"
AST = "transformers.models.audio_spectrogram_transformer.modeling_audio_spectrogram_transformer"


class _Tagger(Module):
    """A tagger of words: an encoder, and a conditional random field that knows which tags follow which."""

    def __init__(self, words, width, depth, tags):
        self.table, self.body = nn.Embedding(words, width), layers(width, depth)
        self.last = nn.Linear(width, tags)
        self.begin, self.moves = (
            nn.Parameter(torch.randn(tags)),
            nn.Parameter(torch.randn(tags, tags)),
        )

    def forward(self, texts):
        """How good each tag is at the last word, and the best tag before each: words times [rows, tags]."""
        told = self.last(self.body(self.table(texts))).float()
        score, before, moves = self.begin.float() + told[:, 0], [], self.moves.float()
        for now in told[:, 1:].unbind(1):
            score, best = (score[:, :, None] + moves + now[:, None]).max(1)
            before.append(best)
        return score, before


def _paths_tag_by_tag(score, before):
    """The best tags of each text, each followed back by itself, as a well-known package does."""
    paths = []
    for row in range(len(score)):
        path = [score[row].argmax().item()]
        for best in reversed(before):
            path.append(best[row][path[-1]].item())
        paths.append(path[::-1])
    return paths


def _paths(score, before):
    """The same, all texts followed back on the GPU, and read once."""
    path = [score.argmax(1, keepdim=True)]
    for best in reversed(before):
        path.append(best.gather(1, path[-1]))
    return torch.cat(path[::-1], 1).tolist()


@pair("remove_syncs")
def recipes_best_tags_read_one_by_one(fixed):
    """A service marks what is an amount, a tool or food in 16 recipes of 96 words a step: an encoder (six layers,
    512 wide, bf16) and a conditional random field of 25 tags. The best path is followed back text by text, and
    each of the 1536 tags is read with `.item()` to look the next up. The remedy follows all texts back at once with
    `gather` and reads the tags once."""
    rows, long, words = n(16, 2), n(96, 5), n(32_000, 40)
    model = on_device(lambda: _Tagger(words, n(512, 16), n(6, 1), n(25, 4))).bfloat16().eval()
    texts = whole(words, rows, long)
    paths = _paths if fixed else _paths_tag_by_tag

    @torch.no_grad()
    def step():
        return paths(*model(texts))

    return step


@pair("copy_less", libraries=(XLM,))
def patents_states_copied_before_the_first_is_taken(fixed):
    """A service makes vectors of 96 pieces of patents a step, of 512 words each, by an XLM-RoBERTa of transformers
    (six layers, 768 wide) in bf16. A piece's vector is that of its first word, but `last_hidden_state` goes to
    the host as a whole, 151 MB of fp32, and the first words are taken there. The remedy takes them on the
    GPU and copies 0.3 MB."""
    from transformers import XLMRobertaConfig, XLMRobertaModel

    rows, long, words, width = n(96, 2), n(512, 6), n(64_000, 40), n(768, 16)
    config = XLMRobertaConfig(
        vocab_size=words,
        hidden_size=width,
        num_hidden_layers=n(6, 1),
        num_attention_heads=n(12, 2),
        intermediate_size=4 * width,
        max_position_embeddings=long + 2,
        type_vocab_size=1,
    )
    made = on_device(lambda: XLMRobertaModel(config, add_pooling_layer=False))
    model = made.bfloat16().eval()
    pieces = 5 + whole(words - 5, rows, long)

    @torch.no_grad()
    def step():
        told = model(input_ids=pieces).last_hidden_state.float()
        first = told[:, 0].cpu() if fixed else told.cpu()[:, 0]
        return F.normalize(first, dim=-1).numpy()

    return step


def _offloaded(layer):
    """The layer, its weights on the host except while it computes."""
    weights = list(layer.parameters())
    at_home = [weight.detach().cpu() for weight in weights]

    def fetch(*_):
        for weight, home in zip(weights, at_home, strict=True):
            weight.data = home.to(DEVICE)

    def leave(*_):
        for weight, home in zip(weights, at_home, strict=True):
            weight.data = home

    leave()
    layer.register_forward_pre_hook(fetch)
    layer.register_forward_hook(leave)


@pair("keep_on_device")
def replies_layers_offloaded_to_the_host(fixed):
    """A language model (eight layers, 1536 wide, bf16) reads four chats of 1024 words a step and says the next word.
    It was set up for a small GPU: sequential offloading keeps the weights of each layer on the host, and
    hooks copy them (57 MB) to the GPU before the layer computes, 453 MB a step. The whole model would take less
    than a hundredth of the memory. The remedy leaves it on the GPU."""
    rows, long, words, width = n(4, 2), n(1024, 6), n(32_000, 40), n(1536, 16)
    table, body = on_device(lambda: nn.Embedding(words, width)), layers(width, n(8, 2), causal=True)
    model = nn.ModuleList((table, body)).bfloat16().eval()
    model.requires_grad_(requires_grad=False)
    if not fixed:
        for layer in body:
            _offloaded(layer)
    chats = whole(words, rows, long)

    @torch.no_grad()
    def step():
        told = body(table(chats))[:, -1]
        return F.linear(told, table.weight).float().argmax(-1).tolist()

    return step


class _Features(Module):
    """A sparse autoencoder: tells what a language model thinks of as few features of many."""

    def __init__(self, width, features):
        self.into, self.back = nn.Linear(width, features), nn.Linear(features, width)

    def loss(self, thoughts):
        active = F.relu(self.into(thoughts - self.back.bias))
        return F.mse_loss(self.back(active), thoughts) + 1e-4 * active.sum(-1).mean()


@pair("tf32", found=True)
def thoughts_taken_apart_in_full_fp32(fixed):
    """A sparse autoencoder learns 24 576 features of what a language model thinks, from 4096 activations of width
    1536 a step, which lie on the GPU. All is in fp32, and products are computed in full fp32, PyTorch's
    default. The remedy is `torch.set_float32_matmul_precision("high")`."""
    torch.set_float32_matmul_precision("high" if fixed else "highest")
    rows, width = n(4096, 8), n(1536, 8)
    model = on_device(lambda: _Features(width, n(24_576, 32))).train()
    thoughts = noise(rows, width)
    return train(model, lambda: model.loss(thoughts))


@pair("low_precision", found=True, libraries=(AST,))
def whales_heard_in_fp32(fixed):
    """An Audio Spectrogram Transformer of transformers (12 layers, 768 wide, 1214 patches) learns in fp32, TF32
    allowed, which of 30 whales calls in 12 recordings of ten seconds. Nobody thought of precision. The
    remedy is bf16 autocast."""
    from transformers import ASTConfig, ASTForAudioClassification

    torch.set_float32_matmul_precision("high")
    rows, width, kinds = n(12, 2), n(768, 16), n(30, 3)
    frames, bins = n(1024, 48), n(128, 32)
    config = ASTConfig(
        hidden_size=width,
        num_hidden_layers=n(12, 1),
        num_attention_heads=n(12, 2),
        intermediate_size=4 * width,
        max_length=frames,
        num_mel_bins=bins,
        num_labels=kinds,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    model = on_device(lambda: ASTForAudioClassification(config)).train()
    heard, true = noise(rows, frames, bins), whole(kinds, rows)
    return train(
        model, lambda: F.cross_entropy(model(input_values=heard).logits.float(), true), cast=fixed
    )


@good("remove_syncs", "cuda_graph", found=True)
def good_dictionaries(version):
    """A masked language model (12 layers, 1024 wide) learns dictionaries in bf16 autocast, from 32 pieces of 512
    words, with the fused AdamW. The loss is read once at the end of a step, to be logged. Kernels are long and
    launched in time: neither not to read it nor a CUDA graph brings anything."""
    rows, long, words, width = n(32, 2), n(512, 6), n(32_000, 40), n(1024, 16)
    table, body = on_device(lambda: nn.Embedding(words, width)), layers(width, n(12, 1))
    model = nn.ModuleList((table, body)).train()
    captured = version == "cuda_graph"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=captured)
    shown, true = whole(words, rows, long), whole(words, rows, long)
    kept = torch.zeros((), device=DEVICE)

    def loss():
        told = F.linear(body(table(shown)), table.weight)
        wrong = F.cross_entropy(told.flatten(0, 1).float(), true.flatten())
        kept.copy_(wrong.detach())
        return wrong

    learn = train(optimizer, loss, cast=True)
    learn = graphed(learn) if captured else learn

    def step():
        learn()
        return kept if version == "remove_syncs" else kept.item()

    return step
