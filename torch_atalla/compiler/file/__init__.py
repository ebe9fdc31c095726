# SPDX-License-Identifier: BSD-3-Clause
"""From compiled methods to a file: report, goldens, bytes, checks."""
