"""Text and speech: read aloud, captioned, judged, adapted, packed, quoted, heard; and letters."""

import itertools
from functools import partial

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from benchmarks.pairs.program import DEVICE, Module, good, graphed, n, pair, train
from benchmarks.pairs.sets.twelfth.parts import heads, layers, mlp, noise, on_device, whole

BERT = "transformers.models.bert.modeling_bert"
PINNED = DEVICE == "cuda"


def _stretched_in_turn(sounds, lasts):
    """Each sound for as many frames as it lasts, text by text."""
    texts = zip(sounds, lasts, strict=True)
    return pad_sequence([text.repeat_interleave(last, 0) for text, last in texts], batch_first=True)


def _stretched(sounds, lasts, frames):
    """The same for all texts at once, for it is known how many frames the longest has."""
    rows, long, _ = sounds.shape
    ends = lasts.cumsum(1)
    at = torch.arange(frames, device=DEVICE).expand(rows, -1).contiguous()
    of = torch.searchsorted(ends, at, right=True).clamp_max(long - 1)
    of = of + long * torch.arange(rows, device=DEVICE)[:, None]
    told = sounds.flatten(0, 1).index_select(0, of.flatten()).unflatten(0, (rows, frames))
    return told * (at < ends[:, -1:])[:, :, None]


@pair("remove_syncs", found=True)
def texts_read_aloud_stretched_in_turn(fixed):
    """A FastSpeech learns in bf16 autocast to read 32 texts of 96 sounds aloud. Between its encoder and
    its decoder each sound is repeated for as many frames as it lasts, text by text:
    `repeat_interleave` has to ask the GPU how long each result is. The remedy finds the sound of each
    frame by `searchsorted`, for as many frames as the wanted spectrogram has."""
    rows, long, width, bins = n(32, 3), n(96, 5), n(384, 16), n(80, 8)
    lasts = torch.randint(2, 11, (rows, long), device=DEVICE)
    frames = int(lasts.sum(1).max())
    table = on_device(lambda: nn.Embedding(n(150, 20), width))
    reader, speaker = layers(width, n(4, 1)), layers(width, n(4, 1))
    last, rhythm = mlp(width, bins), mlp(width, width, 1)
    texts, wanted = whole(n(150, 20), rows, long), noise(rows, frames, bins)
    stretch = partial(_stretched, frames=frames) if fixed else _stretched_in_turn

    def loss():
        sounds = reader(table(texts))
        guessed = rhythm(sounds.detach()).squeeze(-1).float()
        told = last(speaker(stretch(sounds, lasts)))
        return F.l1_loss(told.float(), wanted) + F.mse_loss(guessed, lasts.float().log())

    return train(nn.ModuleList((table, reader, speaker, last, rhythm)), loss, cast=True)


class _Captioner(Module):
    """Show and Tell: an LSTM that is told a picture, then what was said so far."""

    def __init__(self, words, seen, width):
        self.words = nn.Embedding(words, width)
        self.seen = nn.Linear(seen, width)
        self.lstm = nn.LSTM(width, width, 2, batch_first=True)
        self.last = nn.Linear(width, words)


@pair("fused_rnn", found=True)
def captions_taught_word_by_word(fixed):
    """An LSTM of two layers learns to caption 128 pictures, which a frozen network has seen, in 40 words.
    The words said so far are the wanted ones (teacher forcing), yet a loop calls `nn.LSTM` for one
    word at a time, as it must when it writes. The remedy calls it once with all words."""
    torch.set_float32_matmul_precision("high")
    rows, long, words, width = n(128, 3), n(40, 4), n(10_000, 20), n(512, 16)
    seen = n(2048, 24)
    model = on_device(lambda: _Captioner(words, seen, width)).train()
    pictures, wanted = noise(rows, seen), whole(words, rows, long)

    def loss():
        told = torch.cat((model.seen(pictures)[:, None], model.words(wanted[:, :-1])), 1)
        if fixed:
            said = model.lstm(told)[0]
        else:
            parts, state = [], None
            for place in range(long):
                part, state = model.lstm(told[:, place : place + 1], state)
                parts.append(part)
            said = torch.cat(parts, 1)
        return F.cross_entropy(model.last(said).flatten(0, 1), wanted.flatten())

    return train(model, loss)


@pair("batch_calls", found=True, libraries=(BERT,))
def judgments_read_chunk_by_chunk(fixed):
    """A BERT of transformers (six layers, 512 wide) learns in bf16 autocast which law four judgments are
    about. A judgment is longer than BERT reads, so it is cut into eight chunks of 256 words, and a
    loop calls BERT for each chunk; the mean of all is judged. The remedy makes one batch of the
    chunks."""
    from transformers import BertConfig, BertModel

    rows, chunks, long, kinds = n(4, 2), n(8, 3), n(256, 6), n(40, 3)
    config = BertConfig(
        vocab_size=n(30522, 50),
        hidden_size=n(512, 32),
        num_hidden_layers=n(6, 1),
        num_attention_heads=n(8, 2),
        intermediate_size=n(2048, 64),
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    reader = on_device(lambda: BertModel(config, add_pooling_layer=False)).train()
    last = mlp(config.hidden_size, kinds)
    judgments, laws = whole(config.vocab_size, rows, chunks, long), whole(kinds, rows)

    def first_word(chunk):
        return reader(input_ids=chunk).last_hidden_state[:, 0]

    def loss():
        if fixed:
            told = first_word(judgments.flatten(0, 1)).unflatten(0, (rows, chunks))
        else:
            told = torch.stack([first_word(chunk) for chunk in judgments.unbind(1)], 1)
        return F.cross_entropy(last(told.mean(1)).float(), laws)

    return train(nn.ModuleList((reader, last)), loss, cast=True)


class _Adapted(Module):
    """A linear layer, and a low-rank adapter of it for each tenant."""

    def __init__(self, inner, outer, tenants, rank, together):
        self.together = together
        self.whole = nn.Linear(inner, outer, bias=False)
        self.lowered = nn.Parameter(torch.randn(tenants, inner, rank) * inner**-0.5)
        self.lifted = nn.Parameter(torch.randn(tenants, rank, outer) * 0.01)

    def forward(self, x, tenants):
        told = self.whole(x)
        if self.together:
            low = torch.bmm(x[:, None], self.lowered[tenants])
            return torch.baddbmm(told[:, None], low, self.lifted[tenants]).squeeze(1)
        for row, tenant in enumerate(tenants):
            told[row] += x[row] @ self.lowered[tenant] @ self.lifted[tenant]
        return told


class _Tenanted(Module):
    """A layer of a language model that writes a word a call, with keys and values of those before."""

    def __init__(self, width, rows, places, **how):
        self.asked = _Adapted(width, 3 * width, **how)
        self.joined = _Adapted(width, width, **how)
        self.gated = nn.Linear(width, 6 * width, bias=False)
        self.downed = nn.Linear(3 * width, width, bias=False)
        shape = rows, width // n(128, 8), places, n(128, 8)
        self.register_buffer("keys", torch.randn(shape))
        self.register_buffer("values", torch.randn(shape))

    def forward(self, x, place, tenants):
        told = self.asked(F.rms_norm(x, x.shape[-1:]), tenants).unflatten(-1, (3, -1, n(128, 8)))
        query, key, value = (part.unsqueeze(2) for part in told.unbind(1))
        self.keys[:, :, place : place + 1] = key
        self.values[:, :, place : place + 1] = value
        seen = F.scaled_dot_product_attention(query, self.keys, self.values)
        x = x + self.joined(seen.flatten(1), tenants)
        gate, lifted = self.gated(F.rms_norm(x, x.shape[-1:])).chunk(2, -1)
        return x + self.downed(F.silu(gate) * lifted)


@pair("batched_matmul")
def tenants_adapters_applied_in_turn(fixed):
    """A server continues 32 chats by a word each with the first ten layers of a language model in bf16.
    Each chat belongs to one of 24 tenants, who have LoRA adapters of their own; a loop adds each
    chat's adapter to its row of a layer. The remedy gathers the adapters of all rows, for batched
    products."""
    rows, width, places = n(32, 3), n(2048, 16), n(512, 6)
    how = {"tenants": n(24, 2), "rank": n(16, 2), "together": fixed}
    body = on_device(
        lambda: nn.ModuleList(_Tenanted(width, rows, places, **how) for _ in range(n(10, 2)))
    )
    body = body.bfloat16().eval()
    of = np.random.default_rng(3).integers(0, how["tenants"], rows)
    tenants = torch.from_numpy(of).to(DEVICE) if fixed else of.tolist()
    words = noise(n(64, 3), rows, width, dtype=torch.bfloat16)
    numbers = itertools.count()

    @torch.no_grad()
    def step():
        number = next(numbers)
        x = words[number % len(words)]
        for layer in body:
            x = layer(x, number % places, tenants)
        return x

    return step


class _Packed(Module):
    """A layer of a transformer that is told which words see which."""

    def __init__(self, width):
        self.before = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.between = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x, mask):
        q, k, v = map(heads, self.qkv(self.before(x)).chunk(3, -1))
        told = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        x = x + self.out(told.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.between(x))))


def _mask(essays):
    """0 where a word sees a word, which is of the same essay and not a later one."""
    long = essays.shape[1]
    seen = essays[:, None, :, None] == essays[:, None, None, :]
    seen &= torch.ones(long, long, dtype=torch.bool, device=essays.device).tril()
    return torch.zeros(seen.shape, device=essays.device).masked_fill_(~seen, float("-inf"))


@pair("copy_less", found=True)
def essays_packed_masks_from_the_host(fixed):
    """A transformer (four layers, 512 wide) learns to write in bf16 autocast from 16 rows of 2048 words,
    into which essays are packed. The collator makes the mask that keeps essays apart, a float for each
    pair of words of a row, and the loop sends all of it from pinned memory. The remedy sends which
    essay each word is of, and makes the mask on the GPU."""
    rows, long, width, words = n(16, 2), n(2048, 8), n(512, 16), n(2048, 20)
    begins = torch.rand(2, rows, long) < 4 / long
    packed = []
    for essays in begins.cumsum(2):
        sent = essays if fixed else _mask(essays.to(DEVICE)).cpu()
        packed.append(sent.pin_memory() if PINNED else sent)
    batches = itertools.cycle(packed)
    table, last = on_device(lambda: nn.Embedding(words, width)), mlp(width, words)
    body = on_device(lambda: nn.ModuleList(_Packed(width) for _ in range(n(4, 1))))
    pages = whole(words, rows, long + 1)

    def loss():
        sent = next(batches).to(DEVICE, non_blocking=True)
        mask = (_mask(sent) if fixed else sent).bfloat16()
        x = table(pages[:, :-1])
        for layer in body:
            x = layer(x, mask)
        return F.cross_entropy(last(x).flatten(0, 1).float(), pages[:, 1:].flatten())

    return train(nn.ModuleList((table, body, last)), loss, cast=True)


class _Turned(Module):
    """A layer of a language model that turns queries and keys by their places."""

    def __init__(self, width, long, back):
        self.back = back
        self.asked = nn.Linear(width, 3 * width, bias=False)
        self.joined = nn.Linear(width, width, bias=False)
        self.gated = nn.Linear(width, 6 * width, bias=False)
        self.lowered = nn.Linear(3 * width, width, bias=False)
        self.head = n(128, 8)
        slow = 10_000 ** (-torch.arange(0, self.head, 2) / self.head)
        angle = (torch.arange(long)[:, None] * slow).repeat(1, 2).to(DEVICE)
        self.cos, self.sin = angle.cos(), angle.sin()

    def turned(self, x):
        """Vectors turned, in fp32, for so are the angles."""
        first, second = x.chunk(2, -1)
        return x * self.cos + torch.cat((-second, first), -1) * self.sin

    def forward(self, x):
        told = self.asked(F.rms_norm(x, x.shape[-1:])).unflatten(-1, (3, -1, self.head))
        q, k, v = told.permute(2, 0, 3, 1, 4)
        q, k = self.turned(q), self.turned(k)
        if self.back:
            q, k = q.to(v.dtype), k.to(v.dtype)
        seen = F.scaled_dot_product_attention(q, k, v.to(q.dtype), is_causal=True)
        x = x + self.joined(seen.transpose(1, 2).flatten(2).to(x.dtype))
        gate, lifted = self.gated(F.rms_norm(x, x.shape[-1:])).chunk(2, -1)
        return x + self.lowered(F.silu(gate) * lifted)


@pair("low_precision")
def statutes_turned_into_fp32(fixed):
    """A service reads two statutes of 4096 words with the first six layers of a language model (2048 wide)
    in bf16. The angles of its rotary embedding are fp32, and so are queries and keys that were turned
    by them; as attention wants one type, the values were cast to fp32, too. The remedy casts queries
    and keys back to bf16."""
    rows, long, width = n(2, 1), n(4096, 6), n(2048, 16)
    body = on_device(lambda: nn.Sequential(*(_Turned(width, long, fixed) for _ in range(n(6, 2)))))
    body = body.bfloat16().eval()
    statutes = noise(rows, long, width, dtype=torch.bfloat16)

    @torch.no_grad()
    def step():
        return body(statutes)[:, -1]

    return step


class _Halls(Dataset):
    """Voices, cut anew each time, as they sound in a hall with others who speak."""

    def __init__(self, speakers, long, hall):
        drawn = np.random.default_rng(6)
        self.long = long
        self.voices = drawn.standard_normal((speakers, 2 * long)).astype(np.float32)
        fade = np.exp(-np.arange(hall) / (hall / 6))
        self.halls = (drawn.standard_normal((32, hall)) * fade).astype(np.float32)

    def __len__(self):
        return 50_000

    def _cut(self, drawn, speaker):
        begin = drawn.integers(self.long)
        return self.voices[speaker, begin : begin + self.long]

    def __getitem__(self, number):
        drawn = np.random.default_rng(number)
        speaker, other = drawn.integers(len(self.voices), size=2)
        hall = self.halls[drawn.integers(len(self.halls))]
        size = 1 << (self.long + len(hall) - 1).bit_length()
        parts = []
        for voice in (self._cut(drawn, speaker), self._cut(drawn, other)):
            heard = np.fft.irfft(np.fft.rfft(voice, size) * np.fft.rfft(hall, size), size)
            parts.append(heard[: self.long] / (heard.std() + 1e-6))
        mixed = parts[0] + 10 ** (-drawn.uniform(5, 20) / 20) * parts[1]
        return torch.from_numpy((0.1 * mixed).astype(np.float32)), int(speaker)


class _Heard(Module):
    """Tells speakers by their spectrograms, which it makes itself."""

    def __init__(self, width, bins, speakers):
        self.size = 2 * bins - 2
        self.first = nn.Conv1d(bins, width, 5, 2, 2)
        self.last = nn.Linear(width, speakers)
        self.register_buffer("window", torch.hann_window(self.size))

    def forward(self, waves, body):
        told = torch.stft(waves, self.size, self.size // 4, window=self.window, return_complex=True)
        told = F.gelu(self.first((told.abs() + 1e-5).log()))
        return self.last(body(told.transpose(1, 2)).mean(1))


@pair("data_loader_workers", found=True)
def speakers_put_into_halls_in_line(fixed):
    """A transformer learns in bf16 autocast who speaks in 16 recordings of two seconds. The data set
    lets each voice sound in a hall, with another voice behind it, by Fourier transforms of numpy; the
    loader has no workers, so that the training loop waits for that. The remedy has eight workers."""
    rows, long, speakers, width = n(16, 2), n(32_000, 600), n(200, 4), n(384, 16)
    loader = DataLoader(
        _Halls(speakers, long, n(8000, 100)),
        batch_size=rows,
        shuffle=True,
        num_workers=n(8, 1) if fixed else 0,
        persistent_workers=fixed,
        pin_memory=PINNED,
        drop_last=True,
    )
    batches = itertools.chain.from_iterable(itertools.repeat(loader))
    model = on_device(lambda: _Heard(width, n(257, 33), speakers))
    body = layers(width, n(6, 1))

    def loss():
        waves, names = (part.to(DEVICE, non_blocking=True) for part in next(batches))
        return F.cross_entropy(model(waves, body).float(), names)

    return train(nn.ModuleList((model, body)), loss, cast=True)


@good("pinned_memory", "cuda_graph")
def good_letters(version):
    """An encoder in bf16 (six layers, 1024 wide) sorts 256 letters of 256 words a step, and fetches which
    team each is for. The words come from pageable memory, but they are few next to the work, and the
    products are large."""
    rows, long, width, words = n(256, 2), n(256, 5), n(1024, 16), n(30_000, 40)
    table, last = on_device(lambda: nn.Embedding(words, width)), mlp(width, n(30, 3))
    body = layers(width, n(6, 1))
    nn.ModuleList((table, body, last)).bfloat16().eval()
    letters = torch.randint(words, (4, rows, long))
    if version == "pinned_memory" and PINNED:
        letters = letters.pin_memory()
    batches = itertools.cycle(letters)
    read = torch.zeros(rows, long, dtype=torch.long, device=DEVICE)
    teams = torch.zeros(rows, dtype=torch.long, device=DEVICE)

    @torch.no_grad()
    def sort():
        teams.copy_(last(body(table(read)).mean(1)).argmax(-1))

    sort = graphed(sort) if version == "cuda_graph" else sort

    def step():
        read.copy_(next(batches), non_blocking=True)
        sort()
        return teams.tolist()

    return step
