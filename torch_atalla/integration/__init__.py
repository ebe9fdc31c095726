# SPDX-License-Identifier: BSD-3-Clause
"""What registers the device with PyTorch and other libraries."""
