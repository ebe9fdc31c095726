# SPDX-License-Identifier: BSD-3-Clause
"""Products, convolutions, attention, distances and Fourier transforms."""

from . import attention, columns, convolution, distance, fft, gemm, quantized  # noqa: F401 (rules)
