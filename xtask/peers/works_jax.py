"""The works of docs/benchmarks.md for JAX: `works_jax.py jit WORK`, served by pace.py.

The works compute in f32. Every step is one jitted function with donated parameters. `dispatch2000`
measures dispatching, so only the addition is jitted: the compiler would remove a jitted loop.
"""

import sys

import jax
import jax.numpy as jnp

import layers_jax
import pace
from layers_jax import adam, cross_entropy, sgd, with_moments


def key(n):
    return jax.random.key(n)


def linear(n, inputs, outputs):
    """A layer with PyTorch's default initialization."""
    bound = inputs**-0.5
    weight = jax.random.uniform(key(n), (outputs, inputs), jnp.float32, -bound, bound)
    return {"weight": weight, "bias": jnp.zeros(outputs)}


def apply(layer, x):
    return x @ layer["weight"].T + layer["bias"]


def stepping(update, state, *batch, read=float):
    """A step that reads its result, in training the loss. `update` returns the next state and the result."""
    update = jax.jit(update, donate_argnums=0)
    state = jax.block_until_ready(state)

    def step():
        nonlocal state
        state, result = update(state, *batch)
        return read(result)

    return step


def mlp(sizes, batch):
    def loss(params, x, y):
        for layer in params[:-1]:
            x = jax.nn.relu(apply(layer, x))
        return cross_entropy(apply(params[-1], x), y)

    def prepare():
        params = [linear(n, i, o) for n, (i, o) in enumerate(zip(sizes, sizes[1:]))]
        x = jax.random.uniform(key(100), (batch, sizes[0]), jnp.float32, -1, 1)
        y = jax.random.randint(key(101), (batch,), 0, sizes[-1])
        return stepping(sgd(loss), params, *jax.block_until_ready((x, y)))

    return prepare


WIDTH, HEADS, TOKENS, LAYERS, WORDS, BATCH = 256, 8, 128, 4, 256, 8


def layer_norm(layer, x):
    mean, var = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) * jax.lax.rsqrt(var + 1e-5) * layer["weight"] + layer["bias"]


def attention(block, x):
    b, t, _ = x.shape
    q, k, v = (
        apply(block[part], x).reshape(b, t, HEADS, WIDTH // HEADS)
        for part in ("query", "key", "value")
    )
    mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
    return apply(block["out"], mixed.reshape(b, t, WIDTH))


def gpt_loss(params, words, following):
    x = params["words"][words] + params["positions"]
    for block in params["blocks"]:
        x = x + attention(block, layer_norm(block["norm1"], x))
        wide = jax.nn.gelu(apply(block["up"], layer_norm(block["norm2"], x)), approximate=False)
        x = x + apply(block["down"], wide)
    return cross_entropy(apply(params["head"], layer_norm(params["norm"], x)), following)


def gpt_params():
    unit = lambda: {"weight": jnp.ones(WIDTH), "bias": jnp.zeros(WIDTH)}
    square = lambda n: linear(n, WIDTH, WIDTH)
    blocks = [
        {
            "norm1": unit(), "norm2": unit(),
            "query": square(4 * n), "key": square(4 * n + 1),
            "value": square(4 * n + 2), "out": square(4 * n + 3),
            "up": linear(50 + n, WIDTH, 4 * WIDTH), "down": linear(60 + n, 4 * WIDTH, WIDTH),
        }
        for n in range(LAYERS)
    ]  # fmt: skip
    return {
        "words": jax.random.normal(key(70), (WORDS, WIDTH)),
        "positions": jax.random.normal(key(71), (TOKENS, WIDTH)),
        "blocks": blocks, "norm": unit(), "head": linear(72, WIDTH, WORDS),
    }  # fmt: skip


def gpt():
    params = gpt_params()
    said = jax.random.randint(key(73), (BATCH * TOKENS + 1,), 0, WORDS)
    x, y = said[:-1].reshape(BATCH, TOKENS), said[1:].reshape(BATCH, TOKENS)
    return stepping(adam(gpt_loss, decay=1e-2), with_moments(params), *jax.block_until_ready((x, y)))


def following(state, params):
    """The next word. Its keys and values are written at its position."""
    word, position, kept = state
    seen = jnp.arange(TOKENS) <= position
    x = params["words"][word] + params["positions"][position]
    after = []
    for block, (keys, values) in zip(params["blocks"], kept):
        normed = layer_norm(block["norm1"], x)
        q, k, v = (apply(block[part], normed).reshape(HEADS, -1) for part in ("query", "key", "value"))
        keys, values = keys.at[position].set(k), values.at[position].set(v)
        mixed = jax.nn.dot_product_attention(q[None, None], keys[None], values[None], mask=seen[None, None, None])
        x = x + apply(block["out"], mixed.reshape(WIDTH))
        wide = jax.nn.gelu(apply(block["up"], layer_norm(block["norm2"], x)), approximate=False)
        x = x + apply(block["down"], wide)
        after.append((keys, values))
    word = apply(params["head"], layer_norm(params["norm"], x)).argmax()
    return (word, (position + 1) % TOKENS, after), word


def decode():
    zeros = lambda: jnp.zeros((TOKENS, HEADS, WIDTH // HEADS))
    kept = [(zeros(), zeros()) for _ in range(LAYERS)]
    state = (jnp.int32(0), jnp.int32(0), kept)
    return stepping(following, state, jax.block_until_ready(gpt_params()), read=int)


def conv(layer, x, padding):
    dims = ("NCHW", "OIHW", "NCHW")
    y = jax.lax.conv_general_dilated(x, layer["weight"], (1, 1), padding, dimension_numbers=dims)
    return y + layer["bias"][:, None, None]


def max_pool(x):
    return jax.lax.reduce_window(x, -jnp.inf, jax.lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def cnn():
    def kernel(n, outputs, inputs):
        bound = (25 * inputs) ** -0.5
        weight = jax.random.uniform(key(n), (outputs, inputs, 5, 5), jnp.float32, -bound, bound)
        return {"weight": weight, "bias": jnp.zeros(outputs)}

    def loss(params, x, y):
        x = max_pool(jax.nn.relu(conv(params["conv1"], x, "SAME")))
        x = max_pool(jax.nn.relu(conv(params["conv2"], x, "VALID")))
        x = jax.nn.relu(apply(params["fc1"], x.reshape(len(x), -1)))
        return cross_entropy(apply(params["fc3"], jax.nn.relu(apply(params["fc2"], x))), y)

    params = {
        "conv1": kernel(80, 6, 1), "conv2": kernel(81, 16, 6),
        "fc1": linear(82, 400, 120), "fc2": linear(83, 120, 84), "fc3": linear(84, 84, 10),
    }  # fmt: skip
    x = jax.random.uniform(key(85), (64, 1, 28, 28), jnp.float32, -1, 1)
    y = jax.random.randint(key(86), (64,), 0, 10)
    return stepping(sgd(loss), params, *jax.block_until_ready((x, y)))


def chain(n):
    def prepare():
        f = jax.jit(lambda x: (jnp.tanh(1.5 * x + 0.25) * jax.nn.sigmoid(x) + x).sum())
        x = jax.random.uniform(key(0), (n,), jnp.float32, -1, 1).block_until_ready()
        return lambda: float(f(x))

    return prepare


def norm():
    layer = {"weight": jnp.ones(1024), "bias": jnp.zeros(1024)}
    f = jax.jit(lambda x: jax.nn.softmax(jax.nn.gelu(layer_norm(layer, x), approximate=True)))
    x = jax.random.uniform(key(0), (4096, 1024), jnp.float32, -1, 1).block_until_ready()
    return lambda: f(x).block_until_ready()


def dispatch():
    add = jax.jit(lambda x: x + 1.0)
    start = jnp.zeros(4).block_until_ready()

    def step():
        x = start
        for _ in range(2000):
            x = add(x)
        return x.tolist()

    return step


def matmul():
    a, b = (jax.random.uniform(key(n), (1024, 1024)).block_until_ready() for n in range(2))
    f = jax.jit(jnp.matmul)
    return lambda: f(a, b).block_until_ready()


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
}
WORKS |= {name: lambda prepare=prepare: prepare(stepping) for name, prepare in layers_jax.WORKS.items()}

if __name__ == "__main__":
    pace.serve(WORKS, sys.argv[2])
