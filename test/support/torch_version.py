# SPDX-License-Identifier: BSD-3-Clause
"""Differences between the supported versions of torch that tests know; `since` of torch_versions asks for others."""

from __future__ import annotations

import pytest
import torch

from torch_atalla.driver.torch_versions import TESTED, minor

LOWEST = minor(torch.__version__) == TESTED[0]  # records and generated pages are made with this version
recorded = pytest.mark.skipif(not LOWEST, reason=f"the record was made with torch {TESTED[0]}")
NO_CHIP_DTYPES = {torch.complex32, getattr(torch, "bcomplex32", torch.complex32)}  # the latter since 2.15
