# SPDX-License-Identifier: BSD-3-Clause
"""Energy and area: numbers worked out by hand, sums over records and counters, and both engines against each other."""

import contextlib
import io
import json
import warnings
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path

import torch
from torch.testing._internal.common_utils import TestCase, run_tests

import torch_atalla
from torch_atalla import energy, isa, telemetry
from torch_atalla.cli import inspect, run

warnings.filterwarnings("ignore", category=FutureWarning)


def moving(spent: energy.Energy) -> energy.Energy:
    """Without what takes energy while nothing moves."""
    return replace(spent, standby=0, leakage=0)


def printed_by(main: Callable[[list[str]], int], *arguments: object) -> str:
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert main([str(item) for item in arguments]) == 0
    return out.getvalue()


class TestEnergy(TestCase):
    def setUp(self):
        super().setUp()
        torch.ones(1, device="atalla")

    def test_area(self):
        area = energy.area()
        self.assertEqual(area["array"], 1024 * 5_824 / 1e6)
        self.assertEqual(area["scratchpads"], 2 * (1 << 20) * 4 / 1e6)
        self.assertEqual(set(area), {"array", "vector", "registers", "scalar core", "scratchpads"})
        self.assertEqual(energy.area_of_chip(torch_atalla.chip.config_text(0)), area)
        with self.assertRaisesRegex(ValueError, "chip file"):
            energy.area_of_chip("format = 1")

    def test_records_add_up_to_the_device(self):
        x = torch.randn(64, 96, device="atalla")
        torch.atalla.synchronize()
        telemetry.reset()
        begin, before = telemetry.clock(), telemetry.launches()
        with telemetry.Recording() as recording:
            (x.bfloat16() @ x.bfloat16().T).softmax(-1).cpu()
            (x @ x.T).sum()
            (x > 0).to(torch.int8).sum(1)
        work = recording.devices[0].work
        total, counters = energy.total(), telemetry.counters()
        self.assertEqual(total, counters.energy)
        summed = sum((item.energy for item in work), energy.Energy())
        self.assertEqual(moving(summed), moving(total))
        self.assertEqual(summed.total, sum(asdict(summed).values()))
        # Each record has standby and leakage of its own cycles, the device those of its clock, also where it idled.
        busy, clock = sum(item.cycles for item in work), telemetry.clock() - begin
        self.assertEqual(counters.cycles, busy)
        idle = energy.idle(clock)
        self.assertEqual((total.standby, total.leakage), (idle.standby, idle.leakage))
        for part in ("standby", "leakage"):
            ratio = getattr(summed, part) / getattr(total, part)
            self.assertAlmostEqual(ratio, busy / clock, delta=1e-6 * busy / clock)
        self.assertEqual(moving(energy.of(recording)), moving(total))
        fp32 = [item.energy.array for item in work if item.macs and item.dtype == 6]
        bf16 = [item.energy.array for item in work if item.macs and item.dtype == 15]
        self.assertAlmostEqual(fp32[0] / bf16[0], 2, delta=0.1)  # the ratio of their bytes
        launches = telemetry.launches(since=before[-1].sequence + 1 if before else 0)
        self.assertEqual([item.energy for item in launches], [w.energy for w in work if w.kind == "launch"])

    def test_html(self):
        self.assertIn("leakage", energy.Energy(leakage=5)._repr_html_())
        self.assertIn("energy", telemetry.counters()._repr_html_())

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
        self.assertEqual(launch["args"]["joules"], recording.devices[0].work[-1].energy.joules)
        facts = torch_atalla.report(recording).document.facts
        self.assertRegex(facts["Energy"], r"[\d.]+ .J")
        self.assertIn("W; at most", facts["Power"])

    def test_packets_by_hand(self):
        """A row is loaded, doubled and stored; the machine has no memory to wait for."""
        code = "vreg.ld v1, x0, x0, 0, 32\nadd.vv v2, v1, v1\nvreg.st v2, x0, x0, 0, 32\nhalt.s"
        machine = isa.Machine(isa.assemble(code), device=0)
        machine.run()
        stats = machine.stats()
        found = stats.energy
        self.assertEqual(found.scratchpad, 2 * 800_000)
        self.assertEqual(found.vector, 3 * 160_000 + 32 * 1_100)
        self.assertEqual(found.control, stats.packets * 70_000)
        self.assertEqual((found.dram, found.bus, found.array), (0, 0, 0))
        idle = energy.idle(stats.cycles)
        self.assertEqual((found.standby, found.leakage), (idle.standby, idle.leakage))

    def test_launches_of_code(self):
        """The record has the energy of the statistics, with standby and leakage of the launch's cycles."""
        program = isa.assemble("add.vv v2, v1, v1\nexpi.vi v3, v2, m0\nhalt.s")
        torch.atalla.synchronize()
        telemetry.reset()
        stats = isa.launch(program)
        work = telemetry.work()[-1]
        self.assertEqual(moving(work.energy), moving(stats.energy))
        self.assertEqual(stats.energy.vector, 2 * 3 * 160_000 + 32 * (1_100 + 9_000))
        self.assertEqual(work.energy.leakage, energy.idle(work.cycles).leakage)
        self.assertEqual(moving(energy.total()), moving(stats.energy))

    def test_profiler(self):
        x = torch.ones(64, 64, device="atalla")
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.PrivateUse1]) as profile:
            x @ x
            torch.atalla.synchronize()
        path = self.folder() + "/trace.json"
        profile.export_chrome_trace(path)
        with open(path) as file:
            events = json.load(file)["traceEvents"]
        launch = next(e["args"] for e in events if e.get("cat") == "kernel")
        expected = telemetry.work()[-1].energy
        self.assertAlmostEqual(launch["joules"], expected.joules, delta=1e-8 * expected.joules)
        watts = expected.watts(launch["end_cycle"] - launch["start_cycle"], 800e6)
        self.assertAlmostEqual(launch["watts"], watts, delta=1e-5 * watts)

    def test_loadables(self):
        """The report, the printed file and a run tell the energy of a method, which is that of its launches."""
        model = torch.nn.Sequential(torch.nn.Linear(64, 96), torch.nn.ReLU(), torch.nn.Linear(96, 8))
        path = Path(self.folder()) / "model.atl"
        x = torch.randn(16, 64)
        methods = {"first": torch.export.export(model, (x,)), "second": torch.export.export(model[0], (x,))}
        report = torch_atalla.save_loadable(methods, path)
        loaded = torch_atalla.load_loadable(path)
        self.assertEqual(loaded.report.method_joules, report.method_joules)
        for (name, method), joules in zip(loaded.methods.items(), report.method_joules, strict=True):
            with telemetry.Recording() as recording:
                method(x.to("atalla"))
            work = [item for item in recording.devices[0].work if item.kind == "launch"]
            self.assertAlmostEqual(sum(item.energy.joules for item in work), joules, delta=1e-9 * joules)
            line = f"estimate    {name} {sum(item.cycles for item in work):,} cycles, {energy.text(joules)}"
            for printed in (str(report), printed_by(inspect.main, path)):
                self.assertIn(line, printed)
        ran = printed_by(run.main, path, "--method", "second")
        self.assertRegex(ran, r"\d launches, \d+ cycles\nenergy  [\d.]+ .J: .*leakage.*\npower   [\d.]+ W on average")

    def folder(self) -> str:
        import tempfile

        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        return made.name


if __name__ == "__main__":
    run_tests()
