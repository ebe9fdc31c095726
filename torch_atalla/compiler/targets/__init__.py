# SPDX-License-Identifier: BSD-3-Clause
"""What a linear program becomes: launches (functional/) or Atalla code (chip/)."""
