# SPDX-License-Identifier: BSD-3-Clause
"""Energy and area: numbers worked out by hand, sums over records and counters, and both engines against each other."""

import json
import warnings
from dataclasses import asdict

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

import torch_atalla
from benchmarks.isa_cases import cases
from benchmarks.isa_codegen import analytic_cycles, build
from torch_atalla import energy, isa, telemetry
from torch_atalla.compiler.targets.chip.place import run_network

warnings.filterwarnings("ignore", category=FutureWarning)
BF16 = torch.bfloat16


class TestEnergy(TestCase):
    def setUp(self):
        super().setUp()
        torch.ones(1, device="atalla")
        self.prices = energy.model(0)

    def test_prices_of_the_memory(self):
        """A contiguous tile of 2,048 bytes is 32 bursts of an open row. Opening it takes, of four devices at 1.2 V,
        IDD0 over tRC = 45 ns less IDD3N over tRAS = 32.5 ns and IDD2N over tRP = 12.5 ns; a burst takes IDD4R less
        IDD3N for 2.5 ns."""
        activate = 4 * 1.2 * (95 * 45 - 56 * 32.5 - 37 * 12.5)
        burst = 4 * 1.2 * (302 - 56) * 2.5
        self.assertEqual(self.prices.dram["activate_fj"], round(activate) * 1000)
        self.assertEqual(self.prices.dram["read_access_fj"], round(burst) * 1000)
        tile = (round(activate) + 32 * round(burst)) * 1000
        self.assertEqual(self.prices.dram["read_fj"], tile // 2048)
        refresh = 2 * 408_240 * (1_600_000_000 // 12_480) // 1_000_000  # pJ and Hz give 10^-12 W
        self.assertEqual(self.prices.dram["static_uw"], 355_200 + refresh)

    def test_events_by_hand(self):
        found = self.prices.launched(2048, 1024, 10 * 2, 32, {"bf16": 1024, "fp32": 100})
        dram = self.prices.dram
        self.assertEqual(
            asdict(found),
            {
                "dram": 2048 * dram["read_fj"] + 1024 * dram["write_fj"],
                "bus": 384 * 38_720,
                "scratchpad": (48 + 48 + 32) * 800_000,
                "vector": 10 * (3 * 160_000 + 32 * 1_100),
                "array": 32 * 3 * 160_000 + 1024 * 2_000 + 100 * 4_600,
                "control": 42 * 70_000,
                "link": 0,
                "standby": 0,
                "leakage": 0,
            },
        )
        still = self.prices.over(800_000_000)
        self.assertEqual(still.standby, dram["static_uw"] * 10**9)
        self.assertEqual(still.leakage, round(sum(self.prices.area().values()) * 84_600) * 10**9)

    def test_every_price_counts(self):
        chip = torch_atalla.chip.config(0)
        macs = dict.fromkeys(("bf16", "fp16", "fp32", "int8"), 1)
        link = telemetry.Work(0, "link_send", "", 0, (1, 64), 0, 0, 9, 9, 0, 0, 0, (0, 0), (0, 0), (0, 0), 64, 0, 0, 0)

        def everything(prices: energy.EnergyModel) -> tuple[int, float]:
            parts = (
                prices.moved(64, 64),
                prices.computed(1, 2, 1, 1, 1, macs),
                prices.over(10**9),
                prices.of_work(link),
            )
            return sum(part.total for part in parts), sum(prices.area().values())

        plain, prices = everything(self.prices), 0
        for section in ("energy", "area"):
            for name, given in chip[section].items():
                changed = {**chip, section: {**chip[section], name: {**given, "value": 2 * given["value"]}}}
                self.assertNotEqual(everything(energy.EnergyModel(changed, self.prices.dram)), plain, msg=name)
                prices += 1
        self.assertGreaterEqual(prices, 17)

    def test_area(self):
        area = energy.area()
        self.assertEqual(area["array"], 1024 * 5_824 / 1e6)
        self.assertEqual(area["scratchpads"], 2 * (1 << 20) * 4 / 1e6)
        self.assertEqual(set(area), {"array", "vector", "registers", "scalar core", "scratchpads"})

    def test_records_add_up_to_the_counters(self):
        x = torch.randn(64, 96, device="atalla")
        telemetry.reset()
        with telemetry.Recording() as recording:
            (x.bfloat16() @ x.bfloat16().T).softmax(-1).cpu()
            (x @ x.T).sum()
            (x > 0).to(torch.int8).sum(1)
        work = recording.devices[0].work
        parts = [self.prices.of_work(item) for item in work]
        summed = sum(parts, energy.Energy())
        total = energy.total()
        for unit, amount in asdict(summed).items():
            self.assertLessEqual(abs(amount - getattr(total, unit)), 3 * len(work), msg=unit)  # rounded down, each
        self.assertEqual(summed.total, sum(asdict(summed).values()))
        self.assertAlmostEqual(energy.of(recording).joules, total.joules, delta=1e-3 * total.joules)  # one stream
        fp32 = [part.array for part, item in zip(parts, work) if item.macs and item.dtype == 6]
        bf16 = [part.array for part, item in zip(parts, work) if item.macs and item.dtype == 15]
        self.assertEqual(fp32[0] - bf16[0], 64 * 64 * 96 * 2_600)

    def test_traces_and_reports_show_it(self):
        x = torch.ones(1000, device="atalla")
        with telemetry.Recording() as recording:
            x * 2
        path = self.folder() + "/trace.json"
        recording.save(path)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
        launch = next(e for e in events if e["ph"] == "X" and "joules" in e["args"])
        power = [e["args"]["watts"] for e in events if e["name"] == "power"]
        seconds = launch["args"]["cycles"] / 800e6
        self.assertAlmostEqual(power[0], launch["args"]["joules"] / seconds, places=5)
        self.assertEqual(power[-1], 0)
        facts = torch_atalla.report(recording).document.facts
        self.assertRegex(facts["Energy"], r"[\d.]+ .J")
        self.assertIn("W; at most", facts["Power"])

    def test_packets_by_hand(self):
        """A row is loaded, doubled and stored; the machine has no memory to wait for."""
        code = "vreg.ld v1, x0, x0, 0, 32\nadd.vv v2, v1, v1\nvreg.st v2, x0, x0, 0, 32\nhalt.s"
        machine = isa.Machine(isa.assemble(code), device=0)
        machine.run()
        stats = machine.stats()
        found = self.prices.of_stats(stats)
        self.assertEqual(found.scratchpad, 2 * 800_000)
        self.assertEqual(found.vector, 3 * 160_000 + 32 * 1_100)
        self.assertEqual(found.control, stats.packets * 70_000)
        self.assertEqual((found.dram, found.bus, found.array), (0, 0, 0))

    def test_engines_agree(self):
        """Of products, a norm and a pointwise op, whose energy both engines count in their own way."""
        for name in ("GEMM 512^3, B as it lies", "layer norm 256 x 384", "add 256 x 384"):
            case = next(case for case in cases() if case.name == name)
            network, given = build(case)
            code = self.prices.of_stats(run_network(network, network.code(), given).stats)
            with telemetry.Recording() as recording:
                analytic_cycles(case)
            launches = [item for item in recording.devices[0].work if item.kind == "launch"]
            model = sum((self.prices.of_work(item) for item in launches), energy.Energy())
            self.assertLess(abs(model.total / code.total - 1), 0.15, msg=f"{name}: {model}; {code}")

    def folder(self) -> str:
        import tempfile

        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name


if __name__ == "__main__":
    run_tests()
