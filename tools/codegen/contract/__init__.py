# SPDX-License-Identifier: BSD-3-Clause
"""The languages of csrc/sim/kernels.yaml: sizes of operands, and values of outputs."""
