# SPDX-License-Identifier: BSD-3-Clause
"""Code generation for the Atalla Ax01: from kernels and linear programs to packets. docs/concepts/isa-codegen.md."""
