"""Works of docs/benchmarks.md for JAX that nobody tuned for: one function a work, used by works_jax.py.

Each function takes `stepping`, which jits an update of a state and reads its result.
"""

import jax
import jax.numpy as jnp


def noisy(n, *sizes):
    return jax.random.uniform(jax.random.key(n), sizes, jnp.float32, -1, 1)


def weight(n, *sizes):
    return 0.1 * noisy(n, *sizes)


def integers(n, below, *sizes):
    return jax.random.randint(jax.random.key(n), sizes, 0, below)


def cross_entropy(logits, y):
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], axis=-1).mean()


def sgd(loss):
    def update(params, *batch):
        value, grads = jax.value_and_grad(loss)(params, *batch)
        return jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), value

    return update


def adam(loss, decay=0.0):
    def update(state, *batch):
        params, means, squares, n = state
        value, grads = jax.value_and_grad(loss)(params, *batch)
        n = n + 1
        means = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, means, grads)
        squares = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, squares, grads)

        def updated(p, m, v):
            m, v = m / (1 - 0.9**n), v / (1 - 0.999**n)
            return p * (1 - 1e-3 * decay) - 1e-3 * m / (jnp.sqrt(v) + 1e-8)

        return (jax.tree.map(updated, params, means, squares), means, squares, n), value

    return update


def with_moments(params):
    zeros = lambda: jax.tree.map(jnp.zeros_like, params)
    return params, zeros(), zeros(), jnp.float32(0)


def conv(x, w, padding="SAME", groups=1):
    dims = ("NCHW", "OIHW", "NCHW")
    return jax.lax.conv_general_dilated(
        x, w, (1, 1), padding, dimension_numbers=dims, feature_group_count=groups
    )


def normalized(x, running, scale, offset):
    mean, var = x.mean((0, 2, 3)), x.var((0, 2, 3))
    n = x.size / x.shape[1]
    moved = (0.9 * running[0] + 0.1 * mean, 0.9 * running[1] + 0.1 * var * (n / (n - 1)))
    wide = lambda v: v[:, None, None]
    y = (x - wide(mean)) * wide(jax.lax.rsqrt(var + 1e-5) * scale) + wide(offset)
    return y, jax.lax.stop_gradient(moved)


def residual(stepping):
    def loss(params, running, x):
        (w1, b1, s1, o1), (w2, b2, s2, o2) = params
        wide = lambda v: v[:, None, None]
        y, first = normalized(conv(x, w1) + wide(b1), running[0], s1, o1)
        y, second = normalized(conv(jax.nn.relu(y), w2) + wide(b2), running[1], s2, o2)
        return jnp.square(jax.nn.relu(y + x)).mean(), (first, second)

    def update(state, x):
        params, running = state
        (value, running), grads = jax.value_and_grad(loss, has_aux=True)(params, running, x)
        return (jax.tree.map(lambda p, g: p - 0.01 * g, params, grads), running), value

    one = lambda n: (weight(n, 16, 16, 3, 3), weight(n + 1, 16), jnp.ones(16), jnp.zeros(16))
    running = [(jnp.zeros(16), jnp.ones(16)) for _ in range(2)]
    return stepping(update, ([one(0), one(2)], running), noisy(9, 32, 16, 32, 32))


def separable(stepping):
    def loss(params, x):
        depth, point = params
        y = jax.nn.relu(conv(x, depth, groups=32))
        return jnp.square(jax.nn.relu(conv(y, point))).mean()

    params = [weight(0, 32, 1, 3, 3), weight(1, 64, 32, 1, 1)]
    return stepping(sgd(loss), params, noisy(2, 16, 32, 32, 32))


def unet(stepping):
    def loss(params, x):
        down, up, out = params
        low = jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")
        low = jax.nn.relu(conv(low, down))
        dims = ("NCHW", "IOHW", "NCHW")
        high = jax.lax.conv_transpose(low, up, (2, 2), "VALID", dimension_numbers=dims)
        both = jnp.concatenate([x, jax.nn.relu(high)], 1)
        return jnp.square(conv(both, out)).mean()

    params = [weight(0, 32, 16, 3, 3), weight(1, 32, 16, 2, 2), weight(2, 16, 32, 3, 3)]
    return stepping(sgd(loss), params, noisy(3, 8, 16, 32, 32))


def lstm_cell(weights, state, x):
    hidden, cell = state
    i, f, g, o = jnp.split(x + hidden @ weights["hidden"].T + weights["bias"], 4, -1)
    cell = jax.nn.sigmoid(f) * cell + jax.nn.sigmoid(i) * jnp.tanh(g)
    return (jax.nn.sigmoid(o) * jnp.tanh(cell), cell), None


def gru_cell(weights, state, x):
    (hidden,) = state
    (ir, iz, new), own = jnp.split(x, 3, -1), hidden @ weights["hidden"].T + weights["bias"]
    hr, hz, old = jnp.split(own, 3, -1)
    reset, update = jax.nn.sigmoid(ir + hr), jax.nn.sigmoid(iz + hz)
    fresh = jnp.tanh(new + reset * old)
    return (fresh + update * (hidden - fresh),), None


def recurrent(cell, gates, n_states):
    def prepare(stepping):
        def loss(params, x, y):
            inputs = jnp.swapaxes(x @ params["input"].T + params["offset"], 0, 1)
            start = tuple(jnp.zeros((16, 128)) for _ in range(n_states))
            last, _ = jax.lax.scan(lambda state, x: cell(params, state, x), start, inputs)
            return cross_entropy(last[0] @ params["head"].T + params["head_bias"], y)

        params = {
            "input": weight(0, gates * 128, 64), "offset": weight(1, gates * 128),
            "hidden": weight(2, gates * 128, 128), "bias": weight(3, gates * 128),
            "head": weight(4, 10, 128), "head_bias": weight(5, 10),
        }  # fmt: skip
        return stepping(sgd(loss), params, noisy(6, 16, 32, 64), integers(7, 10, 16))

    return prepare


def embedding(stepping):
    def loss(params, said, y):
        return cross_entropy(params["words"][said].mean(1) @ params["head"].T + params["bias"], y)

    params = {"words": noisy(0, 50_000, 128), "head": weight(1, 10, 128), "bias": jnp.zeros(10)}
    return stepping(sgd(loss), params, integers(2, 50_000, 64, 32), integers(3, 10, 64))


def vocabulary(stepping):
    loss = lambda words, states, following: cross_entropy(states @ words.T, following)
    return stepping(sgd(loss), weight(0, 32_000, 128), noisy(1, 256, 128), integers(2, 32_000, 256))


def parameters(stepping):
    loss = lambda every: sum(jnp.square(w).mean() for w in every)
    return stepping(adam(loss), with_moments([weight(n, 64, 64) for n in range(200)]))


def lora(stepping):
    def loss(params, kept, x):
        for (a, b), w in zip(params, kept):
            x = jax.nn.relu(x @ w + x @ a @ b)
        return jnp.square(x).mean()

    params = [(weight(n, 512, 8), weight(9 + n, 8, 512)) for n in range(4)]
    kept = [0.05 * noisy(20 + n, 512, 512) for n in range(4)]
    return stepping(adam(loss), with_moments(params), kept, noisy(30, 128, 512))


def kmeans(stepping):
    def update(centers, points):
        nearest = (jnp.square(centers).sum(1) - 2 * (points @ centers.T)).argmin(1)
        sums = jnp.zeros((64, 16)).at[nearest].add(points)
        counts = jnp.zeros(64).at[nearest].add(1)
        centers = sums / jnp.maximum(counts, 1)[:, None]
        return centers, centers.sum()

    points = noisy(0, 10_000, 16)
    return stepping(update, jnp.array(points[:64]), points)


def stencil(stepping):
    def update(heat):
        for _ in range(10):
            wide = jnp.pad(heat, 1)
            around = wide[:-2, 1:-1] + wide[2:, 1:-1] + wide[1:-1, :-2] + wide[1:-1, 2:]
            heat = heat + 0.1 * (around - 4 * heat)
        return heat, heat[0, 0]

    return stepping(update, noisy(0, 1024, 1024))


WORKS = {
    "residual": residual,
    "separable": separable,
    "unet": unet,
    "lstm": recurrent(lstm_cell, 4, 2),
    "gru": recurrent(gru_cell, 3, 1),
    "embedding": embedding,
    "vocabulary": vocabulary,
    "parameters": parameters,
    "lora": lora,
    "kmeans": kmeans,
    "stencil": stencil,
}
