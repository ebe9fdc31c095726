# SPDX-License-Identifier: BSD-3-Clause
"""Programs on several cores: barriers, divided launches, and chips that cannot run them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize, run_tests

from torch_atalla import isa
from torch_atalla.compiler.program.ir import Launch, Operand, contiguous_strides
from torch_atalla.compiler.schedule.chip_model import chip_model
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.check import check_network
from torch_atalla.compiler.targets.chip.divide import divide
from torch_atalla.explorer.space import with_values
from torch_atalla.loadable.code_machine import CodeMachine

ROOT = Path(__file__).parents[2]
CHIP = (ROOT / "csrc/sim/chip.toml").read_text()
BF16 = torch.bfloat16
MESH = {"core.count": 4, "core.scratchpads": "own", "network.topology": "mesh", "network.columns": 2}
FAST = MESH | {"dram.preset": "hbm2_2000", "network.link_bytes": 32}

# Each core stores 10 + its number, meets the others, and stores the sum of all three behind them.
MEET = """
    addi.s x20, x0, 0
    slli.s x21, x18, 2
    addi.s x22, x18, 10
    addi.s x23, x21, 1024
    sw.s x22, 0(x23)
    {delay}
    jalr.s x0, x0, -64
    addi.s x24, x0, 1024
    lw.s x25, 0(x24)
    lw.s x26, 4(x24)
    lw.s x27, 8(x24)
    add.s x25, x25, x26
    add.s x25, x25, x27
    sw.s x25, 64(x23)
    halt.s
"""

CHILD = """
import json, os, sys
import torch
from torch_atalla import load_loadable, telemetry

path, chips, inputs, out = json.loads(sys.argv[1])
given = torch.load(inputs)
found, cycles, charged, energies = [], [], [], []
for ordinal, chip in enumerate(chips):
    os.environ["ATALLA_CHIP_CONFIG"] = chip
    device = torch.device("atalla", ordinal)
    for engine in ("isa", "functional"):
        program = load_loadable(path, device, engine=engine)
        with telemetry.Recording() as recording:
            found.append(program(*(x.to(device) for x in given)).cpu())
        cycles.append(program.stats.cycles if engine == "isa" else 0)
        work = next(item.work for item in recording.devices if item.ordinal == ordinal)
        spent = [item.energy for item in work if item.kind == "launch"]
        charged.append(sum(item.cycles for item in work if item.kind == "launch"))
        moving = sum(e.total - e.standby - e.leakage for e in spent)
        energies.append([moving, sum(e.network for e in spent), sum(e.bus for e in spent)])
torch.save((found, cycles, charged, energies), out)
"""

SAVE = """
import json, os, sys
import torch, torch_atalla

torch.manual_seed(0)
layers = torch.nn.Linear(256, 512), torch.nn.GELU(), torch.nn.Linear(512, 256), torch.nn.LayerNorm(256)
model = torch.nn.Sequential(*layers)
report = torch_atalla.save_loadable(model, sys.argv[1], args=(torch.randn(64, 256),), convert="bfloat16", engine="isa")
print(report.code["calls"])
"""


# Tiles of 2 KiB, read or written by the cores of a mask: statistics of each program on each of two chips.
TILES = """
import json, os, sys
from torch_atalla import isa

chips, cases = json.loads(sys.argv[1])
found = []
for ordinal, chip in enumerate(chips):
    os.environ["ATALLA_CHIP_CONFIG"] = chip
    for verb, cores, mask, tiles in cases:
        meta = 31 << 25 | 31 << 20
        text = [f"li.s x30, {mask}", "addi.s x29, x0, 1", "sll.s x29, x29, x18", "and.s x29, x29, x30"]
        text += ["beq.s x29, x0, done", f"lui.s x30, {meta >> 7}", "slli.s x9, x18, 16"]
        for _ in range(tiles):
            text += [f"scpad.{verb} x0, x9, x30", "addi.s x9, x9, 1024", "addi.s x9, x9, 1024"]
        program = isa.assemble("\\n".join([*text, "done:", "halt.s"]))
        machine = isa.Machine(program, device=ordinal, cores=cores)
        machine.run()
        found.append(machine.stats().to_json())
        del machine
print(json.dumps(found))
"""


class Block(torch.nn.Module):
    """A product, a convolution, attention, a norm, a reduction and pointwise ops."""

    def __init__(self) -> None:
        super().__init__()
        self.attend = torch.nn.MultiheadAttention(64, 4, batch_first=True)
        self.norm, self.wide = torch.nn.LayerNorm(64), torch.nn.Linear(64, 160)
        self.conv = torch.nn.Conv2d(1, 40, 3, padding=1)

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.norm(x + self.attend(x, x, x, need_weights=False)[0])
        z = torch.nn.functional.gelu(self.wide(y)).softmax(-1)
        pixels = self.conv(y[:, None]).relu()
        return z.sum(1), torch.nn.functional.max_pool2d(pixels, 2)


def operand(*sizes: int, buffer: int = 0) -> Operand:
    return Operand(buffer, 0, sizes, contiguous_strides(sizes), BF16)


class TestCores(TestCase):
    def test_cores_meet_at_a_barrier(self):
        for late in range(3):  # cores 1 and 2 come later and later
            delay = "".join(f"\n    mul.s x28, x28, x{18 if late else 0}" for _ in range(late * 40))
            result = isa.run(isa.assemble(MEET.format(delay=delay)), cores=3)
            self.assertEqual(result.memory(1024, 3, np.int32).tolist(), [10, 11, 12])
            self.assertEqual(result.memory(1088, 3, np.int32).tolist(), [33, 33, 33])
            self.assertEqual(result.stats.services, 3)
        again = isa.run(isa.assemble(MEET.format(delay=delay)), cores=3)
        self.assertEqual(again.cycles, result.cycles)
        self.assertEqual(isa.run(isa.assemble("jalr.s x0, x0, -64\nhalt.s")).stats.services, 1)  # alone

    def test_a_fault_names_its_core(self):
        text = "addi.s x20, x18, -1\ndiv.s x21, x18, x20\nhalt.s"
        with self.assertRaisesRegex(RuntimeError, r"core 1, packet 1 .*division by zero"):
            isa.run(isa.assemble(text), cores=3)

    def test_a_model_on_any_number_of_cores(self):
        torch.manual_seed(0)
        model, x = Block().eval(), torch.randn(2, 32, 64)
        alone = compile_model(model, (x,), convert=True)
        divided = compile_model(model, (x,), convert=True, chip=chip_model(with_values(CHIP, FAST)))
        calls = divided.network.image.calls
        self.assertEqual({call.core for call in calls}, {-1, 0, 1, 2, 3})
        given = [x.to(BF16)]
        expected = alone.run(given).outputs
        for cores in (1, 2, 3, 4):
            run = divided.run(given, cores=cores)
            for a, b in zip(run.outputs, expected, strict=True):
                self.assertEqual(a, b, rtol=0, atol=0)
        check_network(divided, given)

    def test_a_loadable_on_four_cores_and_on_one(self):
        with tempfile.TemporaryDirectory() as folder:
            file, inputs, out = (os.path.join(folder, name) for name in ("model.atl", "inputs.pt", "out.pt"))
            chips = []
            for name, values in (("four", FAST), ("one", {"dram.preset": "hbm2_2000"})):
                chips.append(os.path.join(folder, f"{name}.toml"))
                Path(chips[-1]).write_text(with_values(CHIP, values))
            save = [sys.executable, "-W", "ignore", "-c", SAVE, file]
            subprocess.run(save, env=os.environ | {"ATALLA_CHIP_CONFIG": chips[0]}, check=True, capture_output=True)
            torch.save((torch.randn(64, 256).to(BF16),), inputs)
            argument = json.dumps([file, chips, inputs, out])
            run = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", CHILD, argument], capture_output=True, text=True
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            found, cycles, charged, energies = torch.load(out)
            four, functional, one, _ = found
            self.assertEqual(four, one, rtol=0, atol=0)
            self.assertEqual(four, functional, rtol=0.02, atol=0.02)
            self.assertLess(cycles[0], cycles[2] / 2)
            # Addresses differ, and with them the rows that a bank opens. Without standby and leakage.
            for chip in (0, 2):
                self.assertAlmostEqual(charged[chip + 1] / cycles[chip], 1, delta=0.05)
            (code, code_network, _), (launches, launch_network, _) = energies[:2]
            self.assertAlmostEqual(code / launches, 1, delta=0.02)
            self.assertAlmostEqual(code_network / launch_network, 1, delta=0.02)
            self.assertEqual([network > 0 for _, network, _ in energies], [True, True, False, False])
            self.assertEqual([bus > 0 for _, _, bus in energies], [False, False, True, True])
            profile = CodeMachine(file).profile()  # on one core, call by call
            self.assertIn("barrier", {call.site.function for call in profile.calls})

    def tiles(self, chips, cases):
        """Cycles by chip, of programs of (verb, cores of the machine, mask of those that move tiles, tiles)."""
        return [[stats["cycles"] for stats in found] for found in self.statistics(chips, cases)]

    def statistics(self, chips, cases):
        with tempfile.TemporaryDirectory() as folder:
            paths = []
            for number, values in enumerate(chips):
                paths.append(os.path.join(folder, f"{number}.toml"))
                Path(paths[-1]).write_text(with_values(CHIP, {"core.count": 4, "core.scratchpads": "own"} | values))
            run = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", TILES, json.dumps([paths, cases])],
                capture_output=True,
                text=True,
            )
            self.assertEqual(run.returncode, 0, run.stderr)
            found = json.loads(run.stdout)
        return [found[i : i + len(cases)] for i in range(0, len(found), len(cases))]

    def test_ways_through_a_mesh(self):
        cases = [("ld", 4, mask, 1) for mask in (1, 2, 4, 8, 15)] + [("st", 4, 8, 1)]
        mesh = {"network.topology": "mesh", "network.columns": 2, "network.router_cycles": 5}
        bus, net = self.tiles([{}, mesh], cases)
        tile = 512  # cycles of the DRAM
        self.assertEqual(len(set(bus[:4])), 1)
        self.assertEqual(bus[4], bus[0] + 3 * tile)
        # A read passes its routers twice. Core 0 is at the memory's router, core 3 two away.
        self.assertEqual([n - b for n, b in zip(net[:4], bus)], [2 * 5 * routers for routers in (1, 2, 2, 3)])
        # All at once: the last one's data still has its way before it.
        self.assertGreaterEqual(net[4], bus[4] + 2 * 5)
        self.assertLessEqual(net[4], bus[4] + 6 * 5)
        self.assertEqual(net[5] - bus[5], 5 * 3)  # a write has gone when the memory has it

    def test_energy_of_links_and_routers(self):
        """Bytes times the links and routers on the way of each tile, and their prices. The memory is at core 0."""
        cases = [("ld", 4, mask, 3) for mask in (1, 2, 4, 8, 15)] + [("st", 4, 8, 1)]
        mesh = {"network.topology": "mesh", "network.columns": 2}
        bus, net = self.statistics([{}, mesh], cases)
        (crossbar,) = self.statistics([{"network.topology": "crossbar"}], cases[-2:-1])
        self.assertEqual({(item["network_link_bytes"], item["energy"]["network"]) for item in bus}, {(0, 0)})
        routers = [3 * 2048 * n for n in (1, 2, 2, 3, 1 + 2 + 2 + 3)] + [2048 * 3]
        self.assertEqual([item["network_router_bytes"] for item in net], routers)
        bytes_moved = [3 * 2048] * 4 + [4 * 3 * 2048, 2048]
        links = [n + moved for n, moved in zip(routers, bytes_moved)]
        self.assertEqual([item["network_link_bytes"] for item in net], links)
        self.assertEqual(crossbar[0]["network_router_bytes"], 4 * 3 * 2048)
        self.assertEqual(crossbar[0]["network_link_bytes"], 2 * 4 * 3 * 2048)
        for item, n, m, moved, plain in zip(net, links, routers, bytes_moved, bus, strict=True):
            self.assertEqual(item["energy"]["network"], 3_875 * n + 3_438 * m)
            self.assertEqual((item["energy"]["bus"], plain["energy"]["bus"]), (0, moved // 8 * 38_720))

    def test_links_that_are_slow_and_shared(self):
        cases = [("ld", 4, 1, 1), ("ld", 4, 15, 1), ("ld", 4, 8, 8)]
        slow = {"network.router_cycles": 0, "network.link_bytes": 2, "sdma.beat_cycles": 0.001}
        crossbar, mesh = self.tiles(
            [slow | {"network.topology": "crossbar"}, slow | {"network.topology": "mesh", "network.columns": 4}], cases
        )
        tile = 1024  # cycles of a link; the DRAM takes one
        self.assertEqual(crossbar, mesh)  # without latency, the memory's link bounds both
        self.assertLess(crossbar[0], tile + 64)
        self.assertAlmostEqual(crossbar[1], 4 * tile, delta=64)
        self.assertAlmostEqual(crossbar[2], 8 * tile, delta=128)

    def test_channels_serve_cores_side_by_side(self):
        cases = [("ld", 4, mask, 32) for mask in (1, 3, 15)]
        fast = {"dram.preset": "hbm2_2000", "network.link_bytes": 16, "network.topology": "crossbar"}
        bus, crossbar = self.tiles([fast | {"network.topology": "bus"}, fast], cases)
        self.assertLess(crossbar[2], 1.3 * crossbar[0])  # eight channels for four cores
        self.assertGreater(bus[2], 1.8 * bus[0])

    @parametrize(
        "values, reason",
        [({"core.count": 2}, "core.scratchpads"), ({"core.scratchpads": "own"}, "the chip has 1")],
    )
    def test_a_chip_that_cannot(self, values, reason):
        with tempfile.TemporaryDirectory() as folder:
            chip = Path(folder) / "chip.toml"
            chip.write_text(with_values(CHIP, values))
            text = 'from torch_atalla import isa\nisa.Machine(isa.assemble("halt.s"), device=0, cores=2)'
            run = subprocess.run(
                [sys.executable, "-W", "ignore", "-c", text],
                env=os.environ | {"ATALLA_CHIP_CONFIG": str(chip)},
                capture_output=True,
                text=True,
            )
            self.assertIn(reason, run.stderr)

    @parametrize(
        "launch",
        [
            Launch("gemm", (operand(1, 48, 200),), (operand(1, 48, 64, buffer=1), operand(1, 64, 200, buffer=2)), BF16),
            Launch("gemm", (operand(1, 200, 8),), (operand(1, 200, 64, buffer=1), operand(1, 64, 8, buffer=2)), BF16),
            Launch("softmax", (operand(3, 70, 5),), (operand(3, 70, 5, buffer=1),), BF16).with_parameters(dim=1),
            Launch("reduce.sum", (operand(1, 70),), (operand(9, 70, buffer=1),), BF16).with_parameters(reduced=1),
            Launch("pointwise.relu", (operand(2, 3, 40),), (operand(2, 3, 40, buffer=1),), BF16),
            Launch(
                "cat", (operand(9, 2, 41),), (operand(9, 2, 9, buffer=1), operand(9, 2, 32, buffer=2)), BF16
            ).with_parameters(dim=2),
            Launch("layer_norm", (operand(7, 64), None, None), (operand(7, 64, buffer=1), None, None), BF16),
            Launch("cumsum", (operand(7, 64),), (operand(7, 64, buffer=1),), BF16),
        ],
        name_fn=lambda launch: f"{launch.kernel.replace('.', '_')}_{launch.outputs[0].sizes[-1]}",
    )
    def test_parts_cover_the_result_once(self, launch):
        for cores in (1, 2, 3, 4, 7):
            parts = divide(launch, cores).parts
            self.assertLessEqual(len(parts), cores)
            places = torch.zeros(1 << 14, dtype=torch.int32)
            for part in parts:
                out = part.outputs[0]
                places.as_strided(out.sizes, out.strides, out.offset // 2).add_(1)
            out = launch.outputs[0]
            self.assertTrue(bool((places.as_strided(out.sizes, out.strides) == 1).all()))
            self.assertEqual(int(places.sum()), out.sizes[0] * torch.Size(out.sizes[1:]).numel())
        self.assertEqual(len(divide(launch, 3).parts) > 1, launch.kernel != "cumsum")

    @parametrize(
        "name", ["convolution", "stride", "tall", "max_pool", "dilated_pool", "average_pool", "overlapping_pool"]
    )
    def test_lines_of_images(self, name):
        """Divided over lines, each of four cores reads those that its windows reach, and the bits stay."""
        module = {
            "convolution": torch.nn.Conv2d(32, 32, 3, padding=1),
            "stride": torch.nn.Conv2d(3, 32, 7, stride=2, padding=3),
            "tall": torch.nn.Conv2d(32, 32, (5, 1), padding=(4, 0), dilation=(2, 1)),
            "max_pool": torch.nn.MaxPool2d(3, 2, 1),
            "dilated_pool": torch.nn.MaxPool2d(3, 1, 1, dilation=2),
            "average_pool": torch.nn.AvgPool2d(2),
            "overlapping_pool": torch.nn.AvgPool2d(3, 1),
        }[name]
        channels = {"stride": 3, "dilated_pool": 1}.get(name, 32)
        torch.manual_seed(0)
        x = torch.randn(1, channels, 37, 22)
        results = []
        for chip in (None, chip_model(with_values(CHIP, FAST))):
            compiled = compile_model(module.eval(), (x,), convert=True, chip=chip)
            cores = compiled.network.image.cores
            results.append(compiled.run([x.to(BF16)], cores=cores).outputs[0])
            if chip is not None:
                parts = [len(selected.division.parts) for selected in compiled.network.launches]
                self.assertGreater(max(parts), 1)
        self.assertTrue(bool(torch.equal(results[0].view(torch.int16), results[1].view(torch.int16))))

    def test_channels_of_a_convolution(self):
        """Divided over channels, each core writes its own into the result, without a copy, and the bits stay."""
        torch.manual_seed(0)
        model = torch.nn.Sequential(*(torch.nn.Conv2d(128, 128, 3, padding=1) for _ in range(3)))
        x, results = torch.randn(1, 128, 7, 7), []
        for chip in (None, chip_model(with_values(CHIP, FAST))):
            compiled = compile_model(model.eval(), (x,), convert=True, chip=chip)
            network = compiled.network
            results.append(compiled.run([x.to(BF16)], cores=network.image.cores).outputs[0])
        firsts = [launch.first_call for launch in network.launches] + [len(network.image.calls)]
        divided = [i for i, x in enumerate(network.launches) if x.launch.kernel == "convolution"]
        self.assertEqual([len(network.launches[i].division.parts) for i in divided], [4] * 3)
        middle = divided[1]  # whose image and result are temporaries
        calls = [call.function for call in network.image.calls[firsts[middle] : firsts[middle + 1]]]
        self.assertEqual([name[:4] for name in calls if name != "barrier"], ["gemm"] * 4)
        self.assertTrue(bool(torch.equal(results[0].view(torch.int16), results[1].view(torch.int16))))


instantiate_parametrized_tests(TestCores)

if __name__ == "__main__":
    run_tests()
