# SPDX-License-Identifier: BSD-3-Clause
"""The layers that benchmarks.validate_chip gives to both simulators."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Layer:
    """A convolution of one image, or a product as a convolution: an image of m x 1 pixels and k channels, n filters.

    Sizes are in elements. `height` and `width` are without padding.
    """

    name: str
    height: int
    width: int
    channels: int
    filters: int
    kernel: int = 1
    stride: int = 1
    padding: int = 0
    product: bool = False
    both_computed: bool = False  # both factors are values of the network, so that none is packed ahead of time

    @property
    def out(self) -> tuple[int, int]:
        """Rows and columns of the result."""
        window = self.kernel - 2 * self.padding
        return (self.height - window) // self.stride + 1, (self.width - window) // self.stride + 1

    @property
    def m(self) -> int:
        """Rows of the product that the layer is."""
        return self.out[0] * self.out[1]

    @property
    def n(self) -> int:
        """Columns of the product."""
        return self.filters

    @property
    def k(self) -> int:
        """Terms of each sum of the product."""
        return self.kernel * self.kernel * self.channels

    @property
    def macs(self) -> int:
        """Multiply-adds."""
        return self.m * self.n * self.k

    @property
    def scale_sim(self) -> list[int]:
        """The layer as benchmarks.validation.scalesim_worker takes it.

        SCALE-Sim has no padding, so the image has its border. It rounds the size of the result up where PyTorch rounds
        down, so the image ends at the last window.
        """
        if self.product:
            return [self.m, self.k, 1, self.k, 1, self.n, 1]
        height, width = ((size - 1) * self.stride + self.kernel for size in self.out)
        return [height, width, self.kernel, self.kernel, self.channels, self.filters, self.stride]


def product(name: str, m: int, k: int, n: int, both_computed: bool = False) -> Layer:
    return Layer(f"{name}: {m} x {k} x {n}", m, 1, k, n, product=True, both_computed=both_computed)


def convolution(name: str, size: int, channels: int, filters: int, kernel: int, stride: int, padding: int) -> Layer:
    window = f"{kernel} x {kernel}, stride {stride}" if stride > 1 else f"{kernel} x {kernel}"
    text = f"{name}: {window}, {channels} to {filters}, {size} x {size}"
    return Layer(text, size, size, channels, filters, kernel, stride, padding)


def resnet18() -> list[Layer]:
    """Its distinct layers, for an image of 224 x 224."""
    found = [convolution("conv1", 224, 3, 64, 7, 2, 3), convolution("layer1", 56, 64, 64, 3, 1, 1)]
    size, channels = 56, 64
    for stage in (2, 3, 4):
        found += [
            convolution(f"layer{stage}.0", size, channels, 2 * channels, 3, 2, 1),
            convolution(f"layer{stage} shortcut", size, channels, 2 * channels, 1, 2, 0),
            convolution(f"layer{stage}", size // 2, 2 * channels, 2 * channels, 3, 1, 1),
        ]
        size, channels = size // 2, 2 * channels
    return [*found, product("fc", 1, 512, 1000)]


def alexnet() -> list[Layer]:
    """torchvision's, for an image of 224 x 224; of the three linear layers, the smallest (SCALE-Sim is slow)."""
    return [
        convolution("conv1", 224, 3, 64, 11, 4, 2),
        convolution("conv2", 27, 64, 192, 5, 1, 2),
        convolution("conv3", 13, 192, 384, 3, 1, 1),
        convolution("conv4", 13, 384, 256, 3, 1, 1),
        convolution("conv5", 13, 256, 256, 3, 1, 1),
        product("fc8", 1, 4096, 1000),
    ]


def transformer(width: int, heads: int, tokens: int = 128) -> list[Layer]:
    """The products of one encoder layer; scores and context are one head's."""
    depth = width // heads
    return [
        product("query, key, value, output", tokens, width, width),
        product("scores", tokens, depth, tokens, both_computed=True),
        product("context", tokens, tokens, depth, both_computed=True),
        product("feed forward, up", tokens, width, 4 * width),
        product("feed forward, down", tokens, 4 * width, width),
    ]


NETWORKS = {
    "ResNet-18": resnet18(),
    "AlexNet": alexnet(),
    "MiniLM-L6 (width 384, 12 heads, 128 tokens)": transformer(384, 12),
    "BERT-base (width 768, 12 heads, 128 tokens)": transformer(768, 12)[:4],
}
