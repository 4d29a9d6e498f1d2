"""Words and sounds: letters, forms, songs, keywords, radio, menus; good: theses, lectures."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from benchmarks.pairs.program import DEVICE, Module, autocast, good, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import HEAD, heads, layers, mlp, noise, on_device, whole

WAV2VEC = "transformers.models.wav2vec2.modeling_wav2vec2"
PINNED = DEVICE == "cuda"


def _sent(array):
    """A small array of NumPy on the device, without a wait."""
    made = torch.from_numpy(array)
    return (made.pin_memory() if PINNED else made).to(DEVICE, non_blocking=True)


class _Writer(Module):
    """A language model with a cache of a fixed size, which writes a word of each text at a time."""

    def __init__(self, words, width, depth, rows, long):
        self.table, self.body = nn.Embedding(words, width), layers(width, depth)
        shape = (2, depth, rows, width // HEAD, long, HEAD)
        self.register_buffer("kept", torch.zeros(shape))

    def forward(self, last, place):
        """How likely each word is to come next, fp32 [rows, words]."""
        x = self.table(last)[:, None]
        for layer, keys, values in zip(self.body, *self.kept, strict=True):
            q, k, v = map(heads, layer.qkv(layer.before(x)).chunk(3, -1))
            keys[:, :, place : place + 1] = k
            values[:, :, place : place + 1] = v
            known = keys[:, :, : place + 1], values[:, :, : place + 1]
            seen = F.scaled_dot_product_attention(q, *known)
            x = x + layer.out(seen.transpose(-2, -3).flatten(-2))
            x = x + layer.down(F.gelu(layer.up(layer.between(x))))
        return F.linear(x[:, 0], self.table.weight).float()


def _penalized_word_by_word(odds, texts, penalty):
    """What was said before is less likely: an old library's loop."""
    for row, text in enumerate(texts.tolist()):
        for word in set(text):
            if odds[row, word] < 0:
                odds[row, word] *= penalty
            else:
                odds[row, word] /= penalty
    return odds


def _penalized(odds, texts, penalty):
    """The same, all words at once."""
    seen = odds.gather(1, texts)
    seen = torch.where(seen < 0, seen * penalty, seen / penalty)
    return odds.scatter(1, texts, seen)


@pair("remove_syncs")
def letters_penalized_word_by_word(fixed):
    """A language model (12 layers, 1024 wide, bf16) writes two words a step of each of four letters, which have 64
    words. What a letter says already gets less likely (a repetition penalty of 1.3): a loop goes over each
    letter's words, and `if odds[row, word] < 0` waits for the GPU each time, 500 times a step. The remedy
    takes all words at once: `gather`, `torch.where`, `scatter`."""
    rows, long, words, more = n(4, 2), n(64, 5), n(32_000, 40), 2
    made = on_device(lambda: _Writer(words, n(1024, 16), n(12, 2), rows, long + more))
    model = made.bfloat16().eval()
    begun = whole(words, rows, long)
    penalized = _penalized if fixed else _penalized_word_by_word

    @torch.no_grad()
    def step():
        texts = begun
        for place in range(long, long + more):
            odds = model(texts[:, -1], place - 1)
            word = penalized(odds, texts, 1.3).argmax(-1, keepdim=True)
            texts = torch.cat((texts, word), 1)
        return texts[:, long:].tolist()

    return step


class _Grammar:
    """Which words fit a form in each of its states, and which state comes after them."""

    def __init__(self, states, words, share):
        random = np.random.default_rng(0)
        self.words = words
        self.fits = random.random((states, words)) < share
        self.fits[:, 0] = True
        self.after = random.integers(states, size=(states, words))
        self.allowed = [np.flatnonzero(some).tolist() for some in self.fits]
        self.fits_there, self.after_there = (
            torch.from_numpy(one).to(DEVICE) for one in (self.fits, self.after)
        )

    def mask(self, state):
        """What is added to the odds of each word, as a list."""
        made = [-1e9] * self.words
        for word in self.allowed[state]:
            made[word] = 0.0
        return made


@pair("move_host_work")
def forms_grammar_asked_in_python(fixed):
    """A language model (12 layers, 1024 wide, bf16) fills in 16 forms by two words a step, and a grammar of 64 states
    says which of 32 000 words fit. For each form and word Python makes a list of 32 000 numbers, zeros where a
    word fits, and `torch.tensor` walks through all lists, while the GPU waits. The remedy keeps what fits each
    state in a table on the GPU, and looks up there which state comes next."""
    rows, long, words, more = n(16, 2), n(96, 5), n(32_000, 40), 2
    grammar = _Grammar(n(64, 4), words, 0.1)
    made = on_device(lambda: _Writer(words, n(1024, 16), n(12, 2), rows, long + more))
    model = made.bfloat16().eval()
    begun = whole(words, rows)

    def by_python():
        word, states, written = begun, [0] * rows, []
        for place in range(long, long + more):
            odds = model(word, place)
            masks = torch.tensor([grammar.mask(state) for state in states], device=DEVICE)
            word = (odds + masks).argmax(-1)
            said = word.tolist()
            states = [
                int(grammar.after[state, one]) for state, one in zip(states, said, strict=True)
            ]
            written.append(said)
        return [list(form) for form in zip(*written, strict=True)]

    def by_tables():
        word, written = begun, []
        states = torch.zeros(rows, dtype=torch.long, device=DEVICE)
        for place in range(long, long + more):
            odds = model(word, place)
            word = odds.masked_fill(~grammar.fits_there[states], -1e9).argmax(-1)
            states = grammar.after_there[states, word]
            written.append(word)
        return torch.stack(written, 1).tolist()

    return torch.no_grad()(by_tables if fixed else by_python)


class _Listener(Module):
    """A transformer that reads which songs somebody heard, and tells the vector of the next one."""

    def __init__(self, songs, width, inner, depth, *, sparse):
        self.songs = nn.Embedding(songs, width, sparse=sparse)
        self.into, self.back = nn.Linear(width, inner), nn.Linear(inner, width)
        self.body = layers(inner, depth, causal=True)

    def loss(self, sessions):
        """The last song of each session is right for it, and wrong for the others."""
        songs = self.songs(sessions)
        told = self.back(self.body(self.into(songs[:, :-1]))[:, -1])
        odds = told @ songs[:, -1].to(told.dtype).t()
        return F.cross_entropy(odds.float(), torch.arange(len(odds), device=DEVICE))


@pair("sparse_gradients")
def songs_whole_table_moved_for_a_session(fixed):
    """A transformer (16 layers, 256 wide) learns in bf16 autocast which song comes next, from 128 sessions of 50 songs
    a step, out of three million (64 numbers each). Its layers are short, so that the host sets the pace; at the end the
    loss is read. The table's gradient is dense: 768 MB are filled with zeros, and Adagrad goes through all rows
    while the host waits. The remedy is `nn.Embedding(..., sparse=True)`."""
    rows, long, songs = n(128, 3), n(50, 5), n(3_000_000, 60)
    with torch.device(DEVICE):
        model = _Listener(songs, n(64, 8), n(256, 16), n(16, 1), sparse=fixed).train()
    rest = [weight for name, weight in model.named_parameters() if not name.startswith("songs")]
    optimizers = (
        torch.optim.Adagrad(model.songs.parameters(), 0.01),
        torch.optim.AdamW(rest, 1e-5, fused=True),
    )
    sessions = whole(songs, n(8, 2), rows, long + 1)
    order = iter(range(10**9))

    def step():
        now = sessions[next(order) % len(sessions)]
        with autocast():
            loss = model.loss(now)
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
            optimizer.zero_grad()
        return loss.item()

    return step


@pair("move_host_work", found=True, libraries=(WAV2VEC,))
def keywords_hidden_by_numpy(fixed):
    """A Wav2Vec2 of transformers (six layers, 384 wide, its convolutions frozen) learns in bf16 autocast which of 35
    words is said in 128 recordings of a second. In each step the library draws which moments of each recording are
    hidden (SpecAugment), recording by recording in NumPy, which takes milliseconds in the midst of the forward
    pass. The remedy draws masks before the loop and hands them over, as `mask_time_indices`."""
    from transformers import Wav2Vec2Config, Wav2Vec2Model
    from transformers.models.wav2vec2 import modeling_wav2vec2

    rows, kinds, width = n(128, 3), n(35, 3), n(384, 16)
    channels = n(256, 16)
    config = Wav2Vec2Config(
        hidden_size=width,
        num_hidden_layers=n(6, 1),
        num_attention_heads=n(6, 2),
        intermediate_size=4 * width,
        conv_dim=(channels,) * 7,
        num_conv_pos_embeddings=n(64, 4),
        num_conv_pos_embedding_groups=n(16, 2),
        mask_time_prob=0.3,
        mask_time_length=5,
        layerdrop=0.0,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        feat_proj_dropout=0.0,
    )
    model = on_device(lambda: Wav2Vec2Model(config)).train()
    model.freeze_feature_encoder()
    last = mlp(width, kinds)
    heard, true = noise(rows, 16_000), whole(kinds, rows)
    moments = int(model._get_feat_extract_output_lengths(torch.tensor(16_000)))
    np.random.seed(0)  # noqa: NPY002

    def draw():
        made = modeling_wav2vec2._compute_mask_indices(
            (rows, moments),
            mask_prob=config.mask_time_prob,
            mask_length=config.mask_time_length,
            min_masks=config.mask_time_min_masks,
        )
        return torch.from_numpy(made).to(DEVICE)

    masks = [draw() for _ in range(n(32, 4))] if fixed else []
    order = iter(range(10**9))

    def loss():
        mask = masks[next(order) % len(masks)] if fixed else None
        told = model(heard, mask_time_indices=mask).last_hidden_state.mean(1)
        return F.cross_entropy(last(told).float(), true)

    weights = [p for p in (*model.parameters(), *last.parameters()) if p.requires_grad]
    return train(torch.optim.AdamW(weights, 1e-5, fused=True), loss, cast=True)


class _Radio(Module):
    """A transformer that tells what is on, of spectrograms of which four moments are one place."""

    def __init__(self, bands, width, depth, kinds):
        self.first, self.last = nn.Linear(4 * bands, width), nn.Linear(width, kinds)
        self.body = layers(width, depth)

    def forward(self, x):
        return self.last(self.body(self.first(x.unflatten(1, (-1, 4)).flatten(2))).mean(1)).float()


def _hidden_row_by_row(heard, bands, moments):
    """Spectrograms with bands and moments silenced: recording by recording, stretch by stretch."""
    heard = heard.clone()
    for row in range(len(heard)):
        for begin, end in bands[row].tolist():
            heard[row, :, begin:end] = 0
        for begin, end in moments[row].tolist():
            heard[row, begin:end] = 0
    return heard


def _hidden(heard, bands, moments):
    """The same, all recordings at once."""
    inside = []
    for stretches, dim in ((bands, 2), (moments, 1)):
        begin, end = _sent(stretches).unbind(-1)
        place = torch.arange(heard.shape[dim], device=DEVICE)
        inside.append(((place >= begin[..., None]) & (place < end[..., None])).any(1))
    return heard.masked_fill(inside[0][:, None, :] | inside[1][:, :, None], 0)


@pair("batch_calls", found=True)
def radio_silenced_stretch_by_stretch(fixed):
    """A transformer (16 layers, 256 wide) learns in bf16 autocast what is on the radio (20 kinds), from 64 spectrograms
    of 80 bands and 400 moments on the GPU. Its layers are short, so that launches set the pace. SpecAugment
    silences two stretches of bands and two of moments of each recording in a loop, 256 small kernels. The
    remedy makes a mask of all recordings at once, by comparisons with `torch.arange`, and one `masked_fill`."""
    rows, bands, long, kinds = n(64, 3), n(80, 8), n(400, 16), n(20, 3)
    model = on_device(lambda: _Radio(bands, n(256, 16), n(16, 1), kinds)).train()
    heard, true = noise(rows, long, bands), whole(kinds, rows)
    hide = _hidden if fixed else _hidden_row_by_row
    random = np.random.default_rng(0)

    def stretches(limit, most):
        begin = random.integers(limit - most, size=(rows, 2))
        return np.stack((begin, begin + random.integers(most, size=(rows, 2))), -1)

    def loss():
        shown = hide(heard, stretches(bands, n(27, 3)), stretches(long, n(70, 5)))
        return F.cross_entropy(model(shown), true)

    return train(model, loss, cast=True)


@pair("fused_optimizer", found=True)
def menus_gradients_zeroed_one_by_one(fixed):
    """A transformer (24 layers, 256 wide) learns in bf16 autocast from which of 60 kitchens each of 32 menus of 96
    words comes, with the fused AdamW. Its kernels are short, and launches set the pace. The loop calls
    `model.zero_grad(set_to_none=False)`: a zero is written into each of 291 gradients by a kernel of its own, and
    each new gradient is added to it by another. The remedy drops gradients, `set_to_none=True`."""
    rows, long, words, kinds, width = n(32, 2), n(96, 5), n(20_000, 40), n(60, 3), n(256, 16)
    with torch.device(DEVICE):
        table, last = nn.Embedding(words, width), nn.Linear(width, kinds)
    model = nn.ModuleList((table, layers(width, n(24, 2)), last)).train()
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=True)
    menus, true = whole(words, rows, long), whole(kinds, rows)

    def step():
        with autocast():
            told = last(model[1](table(menus)).mean(1))
            loss = F.cross_entropy(told.float(), true)
        model.zero_grad(set_to_none=fixed)
        loss.backward()
        optimizer.step()

    return step


@good("pad_shapes", "larger_batch", found=True)
def good_theses(version):
    """A transformer (eight layers, 1024 wide) learns in bf16 autocast which of 4097 subjects each of 24 parts of
    theses is about, of 512 words, with the fused AdamW. The number of subjects is odd, but the layer that tells them
    sees a vector a part; products fill the GPU. Neither to pad it nor a batch of 48 brings anything."""
    rows = n(24, 2) * (2 if version == "larger_batch" else 1)
    long, words, width, kinds = n(512, 6), n(32_000, 40), n(1024, 16), n(4097, 5)
    kinds = n(4160, 8) if version == "pad_shapes" else kinds
    with torch.device(DEVICE):
        table, last = nn.Embedding(words, width), nn.Linear(width, kinds)
    model = nn.ModuleList((table, layers(width, n(8, 1)), last)).train()
    parts, true = whole(words, rows, long), whole(n(4097, 5), rows)

    def loss():
        return F.cross_entropy(last(model[1](table(parts)).mean(1)).float(), true)

    return train(model, loss, cast=True)


@good("move_host_work", "fused_optimizer", found=True)
def good_lectures(version):
    """An encoder (ten layers, 1024 wide) learns in bf16 autocast to write down 16 pieces of lectures of 600 frames,
    with the CTC loss, and AdamW as it comes. While the GPU computes, Python counts for some milliseconds which words
    are in the texts to come: the GPU has work for longer than that. Neither to leave that out nor the fused AdamW
    brings much."""
    rows, long, said, width = n(16, 2), n(600, 12), n(80, 3), n(1024, 16)
    letters, bands = n(64, 5), n(320, 8)
    first, last = mlp(bands, width), mlp(width, letters)
    model = nn.ModuleList((first, layers(width, n(10, 1)), last)).train()
    fused = version == "fused_optimizer"
    optimizer = torch.optim.AdamW(model.parameters(), 1e-5, fused=fused or None)
    heard, true = noise(rows, long, bands), 1 + whole(letters - 1, rows, said)
    frames, sizes = torch.full((rows,), long), torch.full((rows,), said)
    text = np.random.default_rng(0).integers(5000, size=n(40_000, 20)).tolist()

    def count():
        often: dict[int, int] = {}
        for word in text:
            often[word] = often.get(word, 0) + 1
        return often

    def loss():
        told = last(model[1](first(heard))).float().log_softmax(-1)
        return F.ctc_loss(told.transpose(0, 1), true, frames, sizes, zero_infinity=True)

    learn = train(optimizer, loss, cast=True)

    def step():
        learn()
        return None if version == "move_host_work" else count()

    return step
