"""The works of docs/benchmarks.md for PyTorch: `works_torch.py eager|compile|reduce-overhead WORK`, served by pace.py.

The works compute in f32 with full precision, on as many threads as there are cores or on the device that `GT_PEERS_DEVICE` names.
They are written in the style of PyTorch's documentation. On a GPU the time of the device is measured as well, by events around the step.
`reduce-overhead` is the mode of torch.compile that replays CUDA graphs. `dispatch2000` measures dispatching, so it is not compiled: the
compiler would remove the loop.
"""

import os
import sys

import torch
from torch import nn
from torch.nn import functional as F

import layers_torch
import pace

torch.set_num_threads(os.cpu_count())
torch.manual_seed(0)

MODE = sys.argv[1]
DEVICE = torch.device(os.environ.get("GT_PEERS_DEVICE", "cpu"))
torch.set_default_device(DEVICE)
# By default convolutions round to TF32, while products do not.
torch.backends.cudnn.allow_tf32 = False
DEVICE_MS = []


def compiled(f):
    if MODE == "eager":
        return f
    return torch.compile(f) if MODE == "compile" else torch.compile(f, mode=MODE)


def waited(prepare):
    """The work, with steps that wait for the device."""
    if DEVICE.type == "cpu":
        return prepare

    def prepared():
        step = prepare()
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

        def to_its_end():
            torch.compiler.cudagraph_mark_step_begin()
            begin.record()
            step()
            end.record()
            torch.cuda.synchronize()
            DEVICE_MS.append(begin.elapsed_time(end))

        return to_its_end

    return prepared


def measured():
    """The measurements on the device."""
    if DEVICE.type == "cpu" or not DEVICE_MS:
        return {}
    last = sorted(DEVICE_MS[len(DEVICE_MS) // 2 :])
    return {"device_ms": last[len(last) // 2]}


def trained(net, optimizer, x, y):
    """One step of training and a read of its loss. Forward pass, gradients and update are compiled."""
    return layers_torch.learning(compiled, lambda: F.cross_entropy(net(x).flatten(0, -2), y.flatten()), optimizer)


def mlp(sizes, batch):
    def prepare():
        layers = []
        for inputs, outputs in zip(sizes, sizes[1:]):
            layers += [nn.Linear(inputs, outputs), nn.ReLU()]
        net = nn.Sequential(*layers[:-1])
        x, y = torch.rand(batch, sizes[0]) * 2 - 1, torch.randint(0, sizes[-1], (batch,))
        return trained(net, torch.optim.SGD(net.parameters(), lr=0.01), x, y)

    return prepare


WIDTH, HEADS, TOKENS, LAYERS, WORDS, BATCH = 256, 8, 128, 4, 256, 8


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.query, self.key = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.value, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def attention(self, x):
        b, t, _ = x.shape
        q, k, v = (
            part(x).view(b, t, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(b, t, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.positions = nn.Embedding(WORDS, WIDTH), nn.Embedding(TOKENS, WIDTH)
        self.blocks = nn.Sequential(*(Block() for _ in range(LAYERS)))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WORDS)

    def forward(self, words):
        x = self.words(words) + self.positions.weight
        return self.head(self.norm(self.blocks(x)))


def gpt():
    net = Gpt()
    said = torch.randint(0, WORDS, (BATCH * TOKENS + 1,))
    x, y = said[:-1].view(BATCH, TOKENS), said[1:].view(BATCH, TOKENS)
    return trained(net, torch.optim.AdamW(net.parameters(), lr=1e-3), x, y)


class WideBlock(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.parts, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def attention(self, x):
        b, t, width = x.shape
        parts = self.parts(x).split(width, dim=2)
        q, k, v = (part.view(b, t, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(mixed.transpose(1, 2).reshape(b, t, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Gpt2(nn.Module):
    def __init__(self, words, tokens, width, heads, layers):
        super().__init__()
        self.words, self.positions = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.blocks = nn.Sequential(*(WideBlock(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width)

    def forward(self, words):
        x = self.words(words) + self.positions.weight
        return F.linear(self.norm(self.blocks(x)), self.words.weight)


def gpt2(batch, words, tokens, width, heads, layers, dtype=None):
    def prepare():
        net = Gpt2(words, tokens, width, heads, layers)
        if dtype is not None:
            narrow = net.forward

            def forward(x):
                with torch.autocast(DEVICE.type, dtype=dtype):
                    return narrow(x)

            net.forward = forward
        said = torch.randint(0, words, (batch * tokens + 1,))
        x, y = said[:-1].view(batch, tokens), said[1:].view(batch, tokens)
        return trained(net, torch.optim.AdamW(net.parameters(), lr=1e-3), x, y)

    return prepare


def stream():
    x = torch.rand(1 << 26)
    f = compiled(lambda x: torch.maximum(0.999 * x + 0.001, 0.5 * x))

    @torch.inference_mode()
    def step():
        nonlocal x
        # The results of a replayed graph are in its own memory, which the next replay overwrites.
        x = f(x).clone() if MODE == "reduce-overhead" else f(x)
        return x[0].item()

    return step


def decode():
    """A static cache that is written in place, as in PyTorch's gpt-fast."""
    net = Gpt()
    shape = (1, HEADS, TOKENS, WIDTH // HEADS)
    kept = [(torch.zeros(shape), torch.zeros(shape)) for _ in range(LAYERS)]
    places = torch.arange(TOKENS)

    def attention(block, x, position, seen, keys, values):
        q, k, v = (part(x).view(1, HEADS, 1, -1) for part in (block.query, block.key, block.value))
        keys.index_copy_(2, position, k)
        values.index_copy_(2, position, v)
        return block.out(F.scaled_dot_product_attention(q, keys, values, attn_mask=seen).view(1, WIDTH))

    def following(word, position):
        seen = (places <= position).view(1, TOKENS)
        x = net.words(word) + net.positions(position)
        for block, (keys, values) in zip(net.blocks, kept):
            x = x + attention(block, block.norm1(x), position, seen, keys, values)
            x = x + block.down(F.gelu(block.up(block.norm2(x))))
        return net.head(net.norm(x)).argmax(-1), (position + 1) % TOKENS

    following = compiled(following)
    word, position = torch.zeros(1, dtype=torch.long), torch.zeros(1, dtype=torch.long)

    @torch.inference_mode()
    def step():
        nonlocal word, position
        word, position = following(word.clone(), position.clone())
        return word.item()

    return step


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, padding=2), nn.Conv2d(6, 16, 5)
        self.fc1, self.fc2, self.fc3 = nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


def cnn():
    net = LeNet()
    x, y = torch.rand(64, 1, 28, 28) * 2 - 1, torch.randint(0, 10, (64,))
    return trained(net, torch.optim.SGD(net.parameters(), lr=0.01), x, y)


def chain(n):
    def prepare():
        x = torch.rand(n) * 2 - 1
        f = compiled(lambda x: (torch.tanh(1.5 * x + 0.25) * torch.sigmoid(x) + x).sum())
        return lambda: f(x).item()

    return prepare


def norm():
    x, weight, bias = torch.rand(4096, 1024) * 2 - 1, torch.ones(1024), torch.zeros(1024)
    f = compiled(
        lambda x: F.gelu(F.layer_norm(x, (1024,), weight, bias), approximate="tanh").softmax(-1)
    )
    return lambda: f(x)


def dispatch():
    start = torch.zeros(4)

    def step():
        x = start
        for _ in range(2000):
            x = x + 1.0
        return x.tolist()

    return step


def matmul():
    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    f = compiled(torch.matmul)
    return lambda: f(a, b)


WORKS = {
    "mlp_small": mlp([64, 64, 10], 32),
    "mlp_seed": mlp([784, 256, 10], 64),
    "mlp_wide": mlp([784, 1024, 1024, 10], 256),
    "gpt": gpt,
    "cnn": cnn,
    "decode": decode,
    "chain_1m": chain(1 << 20),
    "chain_16m": chain(1 << 24),
    "norm": norm,
    "dispatch2000": dispatch,
    "matmul1024": matmul,
    "gpt_one": gpt2(1, 256, 64, 256, 8, 4),
    "gpt_124m": gpt2(8, 50257, 1024, 768, 12, 12, torch.bfloat16),
    "stream_64m": stream,
}
WORKS |= {name: lambda prepare=prepare: prepare(compiled) for name, prepare in layers_torch.WORKS.items()}

if __name__ == "__main__":
    pace.serve({name: waited(prepare) for name, prepare in WORKS.items()}, sys.argv[2], measured)
