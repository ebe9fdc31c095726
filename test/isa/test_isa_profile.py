# SPDX-License-Identifier: BSD-3-Clause
"""Profiles and pipeline traces of Atalla code: sums, names of calls, the command, and a reader of Konata's format."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import tempfile
import warnings

import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla import isa
from torch_atalla.__main__ import main
from torch_atalla.isa import konata
from torch_atalla.isa.profile import CallSite, profile
from torch_atalla.loadable.code_machine import CodeMachine

warnings.filterwarnings("ignore", category=FutureWarning)


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(40, 70), nn.LayerNorm(70), nn.Linear(70, 10)

    def forward(self, x):
        return self.last(self.norm(torch.nn.functional.gelu(self.first(x)))).softmax(-1)


def read_konata(text: str) -> dict[int, dict]:
    """Instructions by number: label, detail, stages as (name, first cycle, end), cycle of retirement."""
    lines = text.splitlines()
    assert lines[0] == "Kanata\t0004" and lines[1].startswith("C=\t")
    now, found = int(lines[1].split("\t")[1]), {}
    for line in lines[2:]:
        kind, *fields = line.split("\t")
        if kind == "C":
            assert int(fields[0]) > 0
            now += int(fields[0])
            continue
        number = int(fields[0])
        if kind == "I":
            assert number == len(found) and fields[2] == "0"
            found[number] = {"text": ["", ""], "stages": [], "open": None, "retired": None}
            continue
        item = found[number]
        assert item["retired"] is None
        if kind == "L":
            item["text"][int(fields[1])] += fields[2]
        elif kind == "S":
            assert item["open"] is None and fields[1] == "0"
            item["open"] = (fields[2], now)
        elif kind == "E":
            name, begin = item["open"]
            assert name == fields[2] and now > begin
            item["stages"].append((name, begin, now))
            item["open"] = None
        else:
            assert kind == "R" and item["open"] is None and fields[2] == "0"
            item["retired"] = now
    assert all(item["retired"] is not None for item in found.values())
    return found


class TestProfile(TestCase):
    def setUp(self):
        super().setUp()
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.path = os.path.join(directory.name, "model.atl")
        torch.manual_seed(0)
        self.x, self.model = torch.randn(64, 40).bfloat16(), Model().eval().bfloat16()
        torch_atalla.save_loadable(self.model, self.path, args=(self.x,), engine="isa")

    def command(self, *arguments: str) -> str:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(main(["run", self.path, *arguments]), 0)
        return out.getvalue()

    def test_sums_and_names(self):
        run = CodeMachine(self.path, [self.x])
        found = run.profile()
        program = torch_atalla.load_loadable(self.path, engine="isa")
        expected = program(self.x.to("atalla")).cpu()
        self.assertEqual(run.outputs()[0].view(torch.int16), expected.view(torch.int16))
        stats = program.stats
        self.assertEqual((found.stats.cycles, found.stats.packets), (stats.cycles, stats.packets))
        self.assertEqual(sum(call.cycles for call in found.calls), stats.cycles)
        self.assertEqual(sum(call.packets for call in found.calls), stats.packets)
        self.assertEqual(sum(found.reasons().values()), stats.cycles)
        nodes = [call.site.node for call in found.calls[1:-1]]
        self.assertEqual(nodes[0], "linear")
        self.assertTrue({"layer_norm", "linear_1"} <= set(nodes))
        for call in found.calls[1:-1]:
            self.assertRegex(call.site.source, r"^test_isa_profile\.py:\d+$")
            self.assertEqual(call.cycles, call.packets + sum(call.stall_cycles.values()))

    def test_command(self):
        text = self.command("--engine", "isa", "--profile")
        for title in ("by call", "by unit", "by reason"):
            block = text[text.index(title) :].partition("\n\n")[0].splitlines()[2:]
            cycles = [int(line.split()[0].replace(",", "")) for line in block]
            self.assertEqual(cycles, sorted(cycles, reverse=True), msg=title)
        data = json.loads(self.command("--engine", "isa", "--json"))
        self.assertEqual(sum(call["cycles"] for call in data["calls"]), data["stats"]["cycles"])
        self.assertIn("bfloat16[64, 10]", self.command())
        self.assertIn("packets", self.command("--engine", "isa"))
        inputs, outputs = self.path + ".in.pt", self.path + ".out.pt"
        torch.save([self.x], inputs)
        for engine in ("functional", "isa"):
            self.command("--engine", engine, "--inputs", inputs, "--outputs", outputs)
            with torch.no_grad():
                self.assertEqual(torch.load(outputs)[0], self.model(self.x), atol=0.05, rtol=0.05)
        with contextlib.redirect_stderr(io.StringIO()) as errors:
            self.assertEqual(main(["run", inputs, "--engine", "isa", "--profile"]), 1)
        self.assertIn(inputs, errors.getvalue())
        with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
            main(["run", self.path, "--profile"])

    def test_konata(self):
        out = self.path + ".log"
        with contextlib.redirect_stderr(io.StringIO()):
            self.command("--engine", "isa", "--konata", out, "--packets", "700")
        with open(out) as file:
            found = read_konata(file.read())
        program = CodeMachine(self.path).machine.program
        labels = [re.fullmatch(r"([0-9A-F]{8})\.(\d) (?:(\w+): )?(.*)", item["text"][0]) for item in found.values()]
        self.assertEqual(labels[0][3], None)  # the driver
        self.assertTrue(any(label[3] and label[3].startswith("gemm") for label in labels))
        issued: dict[int, set] = {}
        for label, item in zip(labels, found.values()):
            instruction = program.packets[int(label[1], 16) // 20][int(label[2])]
            self.assertEqual(instruction.spec.name, label[4].split()[0])
            stages = {name: (begin, end) for name, begin, end in item["stages"]}
            begin, end = stages["I"]
            self.assertEqual(end, begin + 1)
            issued.setdefault(begin, set()).add(label[1])
            last = max(end for _, _, end in item["stages"])
            self.assertEqual(item["retired"], last)
        self.assertEqual(len(issued), 700)  # one packet per cycle
        later = io.StringIO()
        run = CodeMachine(self.path)
        self.assertEqual(run.konata(later, 10, first_call=2), 10)
        first = read_konata(later.getvalue())[0]["text"][0]
        self.assertTrue(first.startswith(f"{run.calls[1][0]:08X}.0 {run.calls[1][1].function}: "), msg=first)
        with self.assertRaisesRegex(ValueError, f"expected 1 to {len(run.calls)}"):
            CodeMachine(self.path).konata(later, first_call=99)
        self.assertTrue(all(len(packets) == 1 for packets in issued.values()))

    def test_hand_computed(self):
        """Cycles of a program whose waits are known: test_isa_run.py has the latencies."""
        text = "li.s x1, 5\ndiv.s x2, x1, x1\naddi.s x3, x2, 1\nf: scpad.ld x0, x0, x4\nhalt.s"
        program = isa.assemble(text)
        machine = isa.Machine(program)
        found = profile(isa.Machine(program), [(program.entry("f"), CallSite("f", "node"))])
        out = io.StringIO()
        konata.trace(machine, out, [(program.entry("f"), CallSite("f", "node"))])
        items = list(read_konata(out.getvalue()).values())
        stats = machine.stats()
        divide = isa.table().cycles["divide"][0]
        self.assertEqual(items[1]["stages"], [("I", 1, 2), ("X", 2, 1 + divide)])
        self.assertEqual(items[2]["stages"], [("W", 2, 1 + divide), ("I", 1 + divide, 2 + divide)])
        self.assertEqual(items[3]["retired"], stats.cycles)  # the transfer
        self.assertIn("f: scpad.ld", items[3]["text"][0])
        self.assertEqual([call.packets for call in found.calls], [3, 2, 0])
        self.assertEqual(sum(call.cycles for call in found.calls), stats.cycles)
