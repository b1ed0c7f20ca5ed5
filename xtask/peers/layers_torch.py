"""Works of docs/benchmarks.md for PyTorch that nobody tuned for: one function a work, used by works_torch.py.

Each function takes `compiled`, which compiles a function or leaves it as it is, and returns a step.
"""

import torch
from torch import nn
from torch.nn import functional as F


def weight(*sizes):
    return nn.Parameter(0.1 * (torch.rand(*sizes) * 2 - 1))


def noisy(*sizes):
    return torch.rand(*sizes) * 2 - 1


def learning(compiled, loss, optimizer):
    """One step of training and a read of its loss."""
    loss, update = compiled(loss), compiled(optimizer.step)

    def step():
        # Gradients may lie in the memory of a graph that the next line replays.
        optimizer.zero_grad()
        value = loss()
        value.backward()
        update()
        return value.item()

    return step


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.01)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = (nn.Conv2d(16, 16, 3, padding=1) for _ in range(2))
        self.norm1, self.norm2 = nn.BatchNorm2d(16), nn.BatchNorm2d(16)

    def forward(self, x):
        return F.relu(self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))) + x)


def residual(compiled):
    net, x = Block(), noisy(32, 16, 32, 32)
    return learning(compiled, lambda: net(x).square().mean(), sgd(net.parameters()))


def separable(compiled):
    depth, point, x = weight(32, 1, 3, 3), weight(64, 32, 1, 1), noisy(16, 32, 32, 32)

    def loss():
        y = F.relu(F.conv2d(x, depth, padding=1, groups=32))
        return F.relu(F.conv2d(y, point)).square().mean()

    return learning(compiled, loss, sgd([depth, point]))


def unet(compiled):
    x, down, up, out = noisy(8, 16, 32, 32), weight(32, 16, 3, 3), weight(32, 16, 2, 2), weight(16, 32, 3, 3)

    def loss():
        low = F.relu(F.conv2d(F.max_pool2d(x, 2), down, padding=1))
        high = F.relu(F.conv_transpose2d(low, up, stride=2))
        return F.conv2d(torch.cat([x, high], 1), out, padding=1).square().mean()

    return learning(compiled, loss, sgd([down, up, out]))


def recurrent(layer):
    def prepare(compiled):
        cells, head = layer(64, 128, batch_first=True), nn.Linear(128, 10)
        x, y = noisy(16, 32, 64), torch.randint(0, 10, (16,))
        parameters = [*cells.parameters(), *head.parameters()]
        return learning(compiled, lambda: F.cross_entropy(head(cells(x)[0][:, -1]), y), sgd(parameters))

    return prepare


def embedding(compiled):
    words, head = nn.Embedding(50_000, 128), nn.Linear(128, 10)
    said, y = torch.randint(0, 50_000, (64, 32)), torch.randint(0, 10, (64,))
    parameters = [*words.parameters(), *head.parameters()]
    return learning(compiled, lambda: F.cross_entropy(head(words(said).mean(1)), y), sgd(parameters))


def vocabulary(compiled):
    states, words, following = noisy(256, 128), weight(32_000, 128), torch.randint(0, 32_000, (256,))
    return learning(compiled, lambda: F.cross_entropy(states @ words.T, following), sgd([words]))


def parameters(compiled):
    every = [weight(64, 64) for _ in range(200)]
    loss = lambda: torch.stack([w.square().mean() for w in every]).sum()
    return learning(compiled, loss, torch.optim.Adam(every, lr=1e-3))


def lora(compiled):
    layers = [(0.05 * noisy(512, 512), weight(512, 8), weight(8, 512)) for _ in range(4)]
    start = noisy(128, 512)

    def loss():
        x = start
        for w, a, b in layers:
            x = F.relu(x @ w + x @ a @ b)
        return x.square().mean()

    return learning(compiled, loss, torch.optim.Adam([p for _, a, b in layers for p in (a, b)], lr=1e-3))


def kmeans(compiled):
    points = noisy(10_000, 16)
    centers = points[:64].clone()

    @compiled
    def moved(centers):
        nearest = (centers.square().sum(1) - 2 * (points @ centers.T)).argmin(1)
        sums = torch.zeros(64, 16).index_add(0, nearest, points)
        counts = torch.zeros(64).index_add(0, nearest, torch.ones(10_000))
        return sums / counts.clamp(min=1)[:, None]

    @torch.inference_mode()
    def step():
        nonlocal centers
        centers = moved(centers)
        return centers.sum().item()

    return step


def stencil(compiled):
    heat = noisy(1024, 1024)

    @compiled
    def after(heat):
        for _ in range(10):
            wide = F.pad(heat, (1, 1, 1, 1))
            around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
            heat = heat + 0.1 * (around - 4 * heat)
        return heat

    @torch.inference_mode()
    def step():
        nonlocal heat
        heat = after(heat)
        return heat[0, 0].item()

    return step


WORKS = {
    "residual": residual,
    "separable": separable,
    "unet": unet,
    "lstm": recurrent(nn.LSTM),
    "gru": recurrent(nn.GRU),
    "embedding": embedding,
    "vocabulary": vocabulary,
    "parameters": parameters,
    "lora": lora,
    "kmeans": kmeans,
    "stencil": stencil,
}
