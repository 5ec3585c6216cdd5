"""Networks small enough to train here in minutes: dense layers and convolutions in NumPy, trained by Adam, with masks of 2:4 sparsity.

Their products at inference run on the simulated tensor cores.  Data: scikit-learn's handwritten digits (1,797 images of 8x8, real ones) and
the English text of Python's own help topics.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from warpwright.errors import UnsupportedError
from warpwright.sparsity import mask

Floats = npt.NDArray[np.float32]
Product = Callable[[str, Floats, Floats], Floats]
"""The product of a layer's weights [m, k] and inputs [n, k], by the layer's name: [n, m]."""


def host_product(name: str, weights: Floats, x: Floats) -> Floats:
    """The product in f32 on the host, for training."""
    return x @ weights.T


@dataclass(slots=True)
class Layer:
    """A product with a bias, of vectors or of the 3x3 neighbourhoods of images, and a rectifier unless it is the last."""

    name: str
    weights: Floats
    image: int = 0
    """Width of square images, whose neighbourhoods are rows of the product; 0: vectors."""
    pool: bool = False
    """Whether the largest of every 2x2 pixels is kept."""
    last: bool = False
    bias: Floats = field(init=False)
    kept: npt.NDArray[np.bool_] | None = None
    saved: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        self.bias = np.zeros(len(self.weights), np.float32)

    def prune(self) -> None:
        """Set the smaller half of every four weights of a row to zero, from now on."""
        self.kept = mask(self.weights)
        self.weights *= self.kept

    def forward(self, x: Floats, product: Product) -> Floats:
        """Outputs [n, m], or [n, width, width, m] of images."""
        rows = neighbourhoods(x, self.weights.shape[1]) if self.image else x
        y = product(self.name, self.weights, rows) + self.bias
        active = y if self.last else np.maximum(y, 0)
        self.saved = (x.shape, rows, y)
        if not self.image:
            return active
        pixels = active.reshape(len(x), self.image, self.image, -1)
        return self._pooled(pixels) if self.pool else pixels

    def _pooled(self, pixels: Floats) -> Floats:
        n, width, _, m = pixels.shape
        quads = (
            pixels.reshape(n, width // 2, 2, width // 2, 2, m)
            .transpose(0, 1, 3, 5, 2, 4)
            .reshape(n, width // 2, width // 2, m, 4)
        )
        chosen = quads.argmax(axis=-1)
        self.saved = (*self.saved, chosen)
        return np.take_along_axis(quads, chosen[..., None], axis=-1)[..., 0]

    def backward(self, gradient: Floats) -> tuple[Floats, Floats, Floats]:
        """Gradients of the weights, the bias and the inputs."""
        shape, rows, y, *chosen = self.saved
        if chosen:
            quads = np.zeros((*gradient.shape, 4), np.float32)
            np.put_along_axis(quads, chosen[0][..., None], gradient[..., None], axis=-1)
            n, half, _, m, _ = quads.shape
            gradient = (
                quads.reshape(n, half, half, m, 2, 2).transpose(0, 1, 4, 2, 5, 3).reshape(n, 2 * half, 2 * half, m)
            )
        flat = gradient.reshape(len(rows), -1)
        flat = flat if self.last else flat * (y > 0)
        of_rows = flat @ self.weights
        of_inputs = from_neighbourhoods(of_rows, shape) if self.image else of_rows
        return flat.T @ rows, flat.sum(axis=0), of_inputs


def neighbourhoods(x: Floats, depth: int) -> Floats:
    """3x3 neighbourhoods [n * width * width, depth] of images [n, width, width, channels], zeros outside and up to the depth."""
    n, width, _, channels = x.shape
    framed = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    parts = [framed[:, i : i + width, j : j + width] for i in range(3) for j in range(3)]
    rows = np.concatenate(parts, axis=-1).reshape(n * width * width, 9 * channels)
    return np.pad(rows, ((0, 0), (0, depth - 9 * channels)))


def from_neighbourhoods(rows: Floats, shape: tuple[int, ...]) -> Floats:
    """Sums of what neighbourhoods give to each pixel."""
    n, width, _, channels = shape
    parts = rows[:, : 9 * channels].reshape(n, width, width, 9, channels)
    framed = np.zeros((n, width + 2, width + 2, channels), np.float32)
    for part, (i, j) in enumerate((i, j) for i in range(3) for j in range(3)):
        framed[:, i : i + width, j : j + width] += parts[:, :, :, part]
    return framed[:, 1:-1, 1:-1]


@dataclass(slots=True)
class Task:
    """A network's layers and data, and how well it does."""

    name: str
    metric: str
    layers: list[Layer]
    train: tuple[npt.NDArray[Any], npt.NDArray[np.intp]]
    test: tuple[npt.NDArray[Any], npt.NDArray[np.intp]]
    inputs: Callable[[npt.NDArray[Any]], Floats]
    """The first layer's inputs for examples."""
    epochs: int
    batch: int

    def outputs(self, examples: npt.NDArray[Any], product: Product = host_product) -> Floats:
        """Scores of the classes [n, classes]."""
        x = self.inputs(examples)
        for layer in self.layers:
            x = layer.forward(x if layer.image else x.reshape(len(x), -1), product)
        return x

    def score(self, product: Product = host_product) -> float:
        """On the test data: percent of the classes that are right, or bits per character."""
        examples, truth = self.test
        scores = self.outputs(examples, product).astype(np.float64)
        if self.metric == "top-1 %":
            return float(100 * (scores.argmax(axis=1) == truth).mean())
        scores -= scores.max(axis=1, keepdims=True)
        chances = scores[np.arange(len(truth)), truth] - np.log(np.exp(scores).sum(axis=1))
        return float(-chances.mean() / np.log(2))

    def batches(self, rng: np.random.Generator) -> Iterator[npt.NDArray[np.intp]]:
        order = rng.permutation(len(self.train[1]))
        yield from (order[at : at + self.batch] for at in range(0, len(order) - self.batch + 1, self.batch))

    def fit(self, rng: np.random.Generator, rate: float) -> None:
        """Train for the task's epochs by Adam, the rate falling to zero; pruned weights stay zero."""
        examples, truth = self.train
        parameters = [p for layer in self.layers for p in (layer.weights, layer.bias)]
        moments = [(np.zeros_like(p), np.zeros_like(p)) for p in parameters]
        step, steps = 0, self.epochs * (len(truth) // self.batch)
        for _ in range(self.epochs):
            for chosen in self.batches(rng):
                step += 1
                gradients = self._gradients(examples[chosen], truth[chosen])
                for p, g, (first, second) in zip(parameters, gradients, moments, strict=True):
                    first += 0.1 * (g - first)
                    second += 0.01 * (g * g - second)
                    now = rate * (1 - step / (steps + 1))
                    p -= now * (first / (1 - 0.9**step)) / (np.sqrt(second / (1 - 0.99**step)) + 1e-8)
                for layer in self.layers:
                    if layer.kept is not None:
                        layer.weights *= layer.kept

    def _gradients(self, examples: npt.NDArray[Any], truth: npt.NDArray[np.intp]) -> list[Floats]:
        scores = self.outputs(examples)
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        chances /= chances.sum(axis=1, keepdims=True)
        chances[np.arange(len(truth)), truth] -= 1
        gradient = (chances / len(truth)).astype(np.float32)
        found: list[Floats] = []
        for layer, following in zip(reversed(self.layers), [None, *reversed(self.layers)], strict=False):
            if following is not None and layer.image and not following.image:
                width = layer.image // (2 if layer.pool else 1)
                gradient = gradient.reshape(len(truth), width, width, -1)
            of_weights, of_bias, gradient = layer.backward(gradient)
            found[:0] = [of_weights, of_bias]
        return found


def _weights(rng: np.random.Generator, m: int, k: int) -> Floats:
    return (rng.standard_normal((m, k)) * np.sqrt(2 / k)).astype(np.float32)


def digits() -> tuple[tuple[Floats, npt.NDArray[np.intp]], tuple[Floats, npt.NDArray[np.intp]]]:
    """Training and test images [n, 64] from 0 to 1, and their digits.

    Raises:
        UnsupportedError: scikit-learn, which has the images, is not installed.
    """
    try:
        from sklearn.datasets import load_digits
    except ImportError:
        raise UnsupportedError(
            "this study trains on scikit-learn's images: pip install 'warpwright[studies]'"
        ) from None
    found = load_digits()
    order = np.random.default_rng(3).permutation(len(found.target))
    images, truth = (found.data[order] / 16).astype(np.float32), found.target[order].astype(np.intp)
    return (images[:1297], truth[:1297]), (images[1297:], truth[1297:])


def perceptron(rng: np.random.Generator) -> Task:
    """Digits by three dense layers."""
    train, test = digits()
    sizes = ((256, 64), (128, 256), (10, 128))
    layers = [Layer(f"dense {n}", _weights(rng, m, k), last=n == 2) for n, (m, k) in enumerate(sizes)]
    return Task("perceptron of 3 layers, digits", "top-1 %", layers, train, test, lambda x: x, 30, 32)


def convolutions(rng: np.random.Generator) -> Task:
    """Digits by two convolutions and two dense layers."""
    train, test = digits()
    layers = [
        Layer("convolution 0", _weights(rng, 32, 12), image=8),
        Layer("convolution 1", _weights(rng, 64, 288), image=8, pool=True),
        Layer("dense 2", _weights(rng, 128, 1024)),
        Layer("dense 3", _weights(rng, 10, 128), last=True),
    ]
    return Task(
        "2 convolutions, 2 dense layers, digits",
        "top-1 %",
        layers,
        train,
        test,
        lambda x: x.reshape(-1, 8, 8, 1),
        12,
        32,
    )


CONTEXT, LETTERS = 12, 64


def letters(rng: np.random.Generator) -> Task:
    """The next character of English text from the twelve before it."""
    from pydoc_data import topics

    text = " ".join(" ".join(topics.topics.values()).split())[:300_000]
    common = sorted(set(text), key=lambda c: (-text.count(c), c))[: LETTERS - 1]
    number = {c: n for n, c in enumerate(common)}
    codes = np.array([number.get(c, LETTERS - 1) for c in text], np.intp)
    windows = np.lib.stride_tricks.sliding_window_view(codes, CONTEXT + 1)
    cut = len(windows) * 9 // 10
    train, test = windows[:cut:2], windows[cut + CONTEXT :: 3]

    def inputs(examples: npt.NDArray[Any]) -> Floats:
        return np.eye(LETTERS, dtype=np.float32)[examples].reshape(len(examples), -1)

    sizes = ((256, CONTEXT * LETTERS), (256, 256), (LETTERS, 256))
    layers = [Layer(f"dense {n}", _weights(rng, m, k), last=n == 2) for n, (m, k) in enumerate(sizes)]
    return Task(
        "3 layers, next character",
        "bits a character",
        layers,
        (train[:, :-1], train[:, -1]),
        (test[:, :-1], test[:, -1]),
        inputs,
        3,
        128,
    )


TASKS = (perceptron, convolutions, letters)
