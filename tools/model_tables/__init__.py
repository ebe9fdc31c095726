# SPDX-License-Identifier: BSD-3-Clause
"""The tables of docs/reference/models.md."""
