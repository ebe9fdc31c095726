# SPDX-License-Identifier: BSD-3-Clause
"""The bytes of a loadable: records, sections, signature. docs/reference/loadable-format.md specifies them."""
