# SPDX-License-Identifier: BSD-3-Clause
"""The functional engine's analytic cycles against those of the generated Atalla code, kernel by kernel."""

import warnings

from torch.testing._internal.common_utils import (
    TestCase,
    instantiate_parametrized_tests,
    parametrize,
)

from benchmarks.isa_cases import cases
from benchmarks.isa_codegen import cycles

warnings.filterwarnings("ignore", category=FutureWarning)

CASES = {case.name: case for case in cases() if "1024" not in case.name}


class TestAnalyticModel(TestCase):
    @parametrize("name", sorted(CASES))
    def test_within_ten_percent(self, name):
        code, model = cycles(CASES[name])
        self.assertLessEqual(abs(model / code - 1), 0.10, msg=f"{name}: code {code}, model {model}")


instantiate_parametrized_tests(TestAnalyticModel)
