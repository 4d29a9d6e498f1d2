"""Language and speech: drafted, tuned, spoken and looked up."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import Layer, heads, layers, noise, on_device, whole

LLAMA = "transformers.models.llama.modeling_llama"
BERT = "transformers.models.bert.modeling_bert"


class Reader(Module):
    """A causal language model."""

    def __init__(self, words, width, depth, length):
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.layers = nn.Sequential(*(Layer(width, causal=True) for _ in range(depth)))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, ids):
        h = self.words(ids) + self.places.weight[: ids.shape[1]]
        return self.head(self.norm(self.layers(h)))


def _drawn(odds):
    """A number for each row, by its odds."""
    return (odds / torch.empty_like(odds).exponential_()).argmax(-1, keepdim=True)


def _taken_on_host(drafted, likely, odds):
    """How many of each row's drafted words are taken, asked word by word."""
    taken = []
    for row in range(len(drafted)):
        count = 0
        for place in range(drafted.shape[1]):
            share = odds[row, place].item() / max(likely[row, place].item(), 1e-9)
            if torch.rand(()).item() > share:
                break
            count += 1
        taken.append(count)
    return torch.tensor(taken, device=drafted.device)


def _taken_on_device(drafted, likely, odds):
    """The same, for all rows at once."""
    passed = torch.rand_like(odds) <= odds / likely.clamp_min(1e-9)
    return passed.to(torch.int64).cumprod(1).sum(1)


@pair("remove_syncs")
def drafts_taken_word_by_word(fixed):
    """Sixteen answers are continued by speculative decoding: a small model drafts four words, the
    large one judges them, and which are taken is read from the GPU word by word. The remedy counts
    them there. (Texts are cut to their last 48 words, and read without a cache.)"""
    rows, length, drafts, words = n(16, 2), n(48, 6), 4, n(32_000, 50)
    small = on_device(lambda: Reader(words, n(256, 16), 1, length + drafts)).bfloat16().eval()
    large = on_device(lambda: Reader(words, n(768, 16), n(6, 1), length + drafts))
    large = large.bfloat16().eval()
    taken_of = _taken_on_device if fixed else _taken_on_host
    text = whole(words, rows, length)
    answered = torch.zeros(rows, dtype=torch.int64, device=DEVICE)

    @torch.no_grad()
    def step():
        nonlocal text
        known, likely = text, []
        for _ in range(drafts):
            told = small(known)[:, -1].float().softmax(-1)
            word = _drawn(told)
            likely.append(told.gather(1, word))
            known = torch.cat((known, word), 1)
        drafted = known[:, length:]
        told = large(known)[:, length - 1 :].float().softmax(-1)
        odds = told[:, :-1].gather(2, drafted[..., None]).squeeze(-1)
        taken = taken_of(drafted, torch.cat(likely, 1), odds)
        answered.add_(taken)
        last = _drawn(told[torch.arange(rows, device=DEVICE), taken])
        known = F.pad(known, (0, 1)).scatter(1, length + taken[:, None], last)
        text = known.gather(1, taken[:, None] + 1 + torch.arange(length, device=DEVICE))

    return step


def _rates(model, rate, decay):
    """A rate for each tensor, smaller the deeper it lies; norms and biases do not decay."""
    depth = len(model.bert.encoder.layer) + 1
    for name, weight in model.named_parameters():
        parts = name.split(".")
        at = int(parts[3]) + 1 if "layer" in parts else 0 if "embeddings" in parts else depth
        yield weight, rate * 0.9 ** (depth - at), decay * (weight.ndim > 1)


@pair("fused_optimizer", found=True, libraries=(BERT,))
def letters_a_group_for_each_tensor(fixed):
    """A BERT of transformers in bf16 autocast learns whom letters are for; rates grow with a layer's
    height, and AdamW gets a group for each tensor. The remedy has a group for each rate, and the
    fused AdamW."""
    from transformers import BertConfig, BertForSequenceClassification

    size = {} if n(1, 0) else {"num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 2}
    config = BertConfig(num_labels=n(20, 3), **size)
    model = on_device(lambda: BertForSequenceClassification(config))
    rates = list(_rates(model, 3e-5, 0.01))
    groups = [{"params": [weight], "lr": lr, "weight_decay": wd} for weight, lr, wd in rates]
    if fixed:
        alike = {}
        for weight, lr, wd in rates:
            alike.setdefault((lr, wd), []).append(weight)
        groups = [
            {"params": some, "lr": lr, "weight_decay": wd} for (lr, wd), some in alike.items()
        ]
    optimizer = torch.optim.AdamW(groups, fused=fixed)
    letters, to = whole(n(30_000, 50), n(16, 2), n(128, 8)), whole(n(20, 3), n(16, 2))
    return train(optimizer, autocast()(lambda: model(input_ids=letters, labels=to).loss))


class Voice(Module):
    """Chooses the eight codes of a frame of speech one after the other, each by those before."""

    def __init__(self, width, depth, codes, books):
        self.codes = nn.ModuleList(nn.Embedding(codes, width) for _ in range(books))
        self.places = nn.Embedding(books, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(depth))
        self.last = nn.ModuleList(nn.Linear(width, codes) for _ in range(books))

    def forward(self, told):
        """Of what the large model said of a frame, its codes."""
        chosen = []
        keys = [[] for _ in self.layers]
        h = told
        for book, (codes, last) in enumerate(zip(self.codes, self.last, strict=True)):
            h = h + self.places.weight[book]
            for layer, seen in zip(self.layers, keys, strict=True):
                h = self.next_of(layer, h, seen)
            code = _drawn(last(h).float().softmax(-1)).squeeze(-1)
            chosen.append(code)
            h = codes(code)
        return torch.stack(chosen, -1)

    @staticmethod
    def next_of(layer, h, seen):
        """What a layer makes of a code, when it has seen others."""
        q, k, v = map(heads, layer.qkv(layer.before(h)[:, None]).chunk(3, -1))
        seen.append((k, v))
        k, v = (torch.cat(parts, 2) for parts in zip(*seen, strict=True))
        told = F.scaled_dot_product_attention(q, k, v)
        h = h + layer.out(told.transpose(1, 2).flatten(1))
        return h + layer.down(F.gelu(layer.up(layer.between(h))))


@pair("cuda_graph")
def replies_spoken_code_by_code(fixed):
    """A speech model speaks to four callers: for each frame a transformer of six layers chooses
    eight codes in turn, in bf16, kernel by kernel. The remedy captures a frame in a CUDA graph."""
    width = n(1024, 16)
    voice = on_device(lambda: Voice(width, n(6, 2), n(2048, 10), n(8, 3))).bfloat16().eval()
    frames = noise(n(64, 4), n(4, 2), width, dtype=torch.bfloat16)
    told = torch.zeros_like(frames[0])
    spoken = torch.zeros(n(4, 2), n(8, 3), dtype=torch.int64, device=DEVICE)
    number = 0

    @torch.no_grad()
    def speak():
        spoken.copy_(voice(told))

    speak = graphed(speak) if fixed else speak

    def step():
        nonlocal number
        told.copy_(frames[number % len(frames)])
        number += 1
        speak()

    return step


@good("larger_batch", "remove_syncs", found=True, libraries=("peft", LLAMA))
def good_contracts(version):
    """A Llama of transformers in bf16 learns contracts through LoRA (peft), 8 x 1024 words a step,
    with the fused AdamW; its loss is read at each step, which a full GPU does not feel."""
    from peft import LoraConfig, get_peft_model
    from transformers import LlamaConfig, LlamaForCausalLM

    words, width = n(32_000, 50), n(2048, 32)
    config = LlamaConfig(
        vocab_size=words,
        hidden_size=width,
        intermediate_size=n(5632, 64),
        num_hidden_layers=n(8, 1),
        num_attention_heads=n(16, 2),
        num_key_value_heads=n(8, 1),
        use_cache=False,
    )
    model = on_device(lambda: LlamaForCausalLM(config)).bfloat16()
    model = get_peft_model(model, LoraConfig(r=32, target_modules="all-linear")).train()
    text = whole(words, n(8, 2) * (2 if version == "larger_batch" else 1), n(1024, 12))
    weights = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(weights, 1e-4, fused=True)
    log = []

    def step():
        loss = model(input_ids=text, labels=text).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        log[:] = [loss.detach() if version == "remove_syncs" else loss.item()]

    return step


@good("cuda_graph", "larger_batch", found=True)
def good_pages(version):
    """Two encoders, of questions and of pages, learn which page answers which of 256 questions, in
    bf16 autocast; products are large, and the host is far ahead of the GPU."""
    width, words = n(768, 16), n(30_000, 50)
    rows = n(256, 4) * (2 if version == "larger_batch" else 1)
    of_questions, of_pages = layers(width, n(6, 1)), layers(width, n(6, 1))
    table = on_device(lambda: nn.Embedding(words, width))
    questions, pages = whole(words, rows, n(32, 4)), whole(words, rows, n(256, 8))
    model = nn.ModuleList((of_questions, of_pages, table))
    captured = version == "cuda_graph" and DEVICE == "cuda"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True, capturable=captured)
    wanted = torch.arange(rows, device=DEVICE)

    def step():
        with autocast():
            asked = F.normalize(of_questions(table(questions)).mean(1).float(), dim=1)
            found = F.normalize(of_pages(table(pages)).mean(1).float(), dim=1)
            alike = asked @ found.t() * 20
        loss = F.cross_entropy(alike.float(), wanted) + F.cross_entropy(alike.t().float(), wanted)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=not captured)

    return graphed(step) if captured else step
