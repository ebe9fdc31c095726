# SPDX-License-Identifier: BSD-3-Clause
"""Owners of the scratchpads while programs of both engines are loaded, and chips with too few scratchpads."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
import tempfile
import warnings

import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla import isa
from torch_atalla.driver import c_abi
from torch_atalla.driver import isa_library as _library
from torch_atalla.driver.libraries import device_table

warnings.filterwarnings("ignore", category=FutureWarning)

_u32 = ctypes.c_uint32


def model(seed: int, width: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(40, width), nn.GELU(), nn.LayerNorm(width), nn.Linear(width, 10)).eval()


class TestScratchpads(TestCase):
    def setUp(self):
        super().setUp()
        gc.collect()  # programs of other tests hold scratchpads
        self.directory = tempfile.TemporaryDirectory()
        self.addCleanup(self.directory.cleanup)
        self.x = torch.randn(64, 40).bfloat16().to("atalla")

    def save(self, name, seed, width):
        """The path, and what PyTorch gives."""
        path = os.path.join(self.directory.name, name)
        made = model(seed, width).bfloat16()
        torch_atalla.save_loadable(made, path, args=(self.x.cpu(),), engine="isa")
        with torch.no_grad():
            return path, made(self.x.cpu())

    def test_programs_take_turns(self):
        """Loadables of both engines keep no scratchpad from one another, in any order."""
        one, two = self.save("one.atl", 0, 70), self.save("two.atl", 1, 90)
        programs = [
            (torch_atalla.load_loadable(path, engine=engine), right)
            for engine in ("functional", "isa", "functional")
            for path, right in (one, two)
        ]
        for order in ((0, 1, 2, 3, 4, 5), (2, 0, 2, 1, 3, 4), (5, 3, 2, 0, 1, 2), (0, 0, 1, 1, 4, 4)):
            for number in order:
                program, right = programs[number]
                self.assertEqual(program(self.x).cpu(), right, atol=0.05, rtol=0.05)

    def test_page_of_the_host(self):
        """A page that the host holds keeps its contents, so that generated code cannot have it: the error says so."""
        path, right = self.save("one.atl", 0, 70)
        program = torch_atalla.load_loadable(path, engine="isa")
        library = _library.library()
        device = library.device(0)[0]
        api = device_table(c_abi.atalla_api, c_abi.ATALLA_ABI_MAJOR)
        alloc, free = api.scpad_alloc, api.scpad_free
        pad, address = _u32(), _u32()
        self.assertEqual(alloc(device, 4096, 0, ctypes.byref(pad), ctypes.byref(address)), 0)
        try:
            place = rf"{address.value:#x} of scratchpad {pad.value}"
            held = rf"refused: .* 4096 bytes at {place}, held by the host \(scpad_alloc;"
            with self.assertRaisesRegex(RuntimeError, held) as caught:
                program(self.x)
            self.assertEqual(caught.exception.name, "ATALLA_ERR_SCRATCHPAD")
        finally:
            self.assertEqual(free(device, pad, address), 0)
        self.assertEqual(program(self.x).cpu(), right, atol=0.05, rtol=0.05)

    def test_arguments_without_elements(self):
        class Parts(nn.Module):
            def forward(self, x, y):
                return x, y + 1, torch.cat([y, x.flatten(0).unsqueeze(1).expand(-1, 3)])

        path = os.path.join(self.directory.name, "empty.atl")
        x, y = torch.randn(1, 0, 32, 1).bfloat16(), torch.randn(2, 3).bfloat16()
        torch_atalla.save_loadable(Parts(), path, args=(x, y), engine="isa")
        program = torch_atalla.load_loadable(path, engine="isa")
        found = program(x.to("atalla"), y.to("atalla"))
        self.assertEqual(found[0].shape, x.shape)
        self.assertEqual(found[1].cpu(), y + 1)
        self.assertEqual(found[2].cpu(), y)

    def test_page_of_a_stopped_program(self):
        path, right = self.save("one.atl", 0, 70)
        program = torch_atalla.load_loadable(path, engine="isa")
        text = "li.s x10, 64\nli.s x11, 0\njalr.s x1, x0, -16\nstop: halt.s"
        machine = isa.Machine(isa.assemble(text), device=0)
        machine.breakpoint("stop")
        self.assertEqual(machine.run(), "breakpoint")
        held = f"64 bytes at 0x0 of scratchpad 0, held by the stopped program of {machine.name} "
        with self.assertRaisesRegex(RuntimeError, held):
            program(self.x)
        machine.run()
        self.assertEqual(program(self.x).cpu(), right, atol=0.05, rtol=0.05)

    def test_chips_of_another_geometry(self):
        """Generated code is for the Ax01: refused when it is loaded, with what the chip has."""
        path, _ = self.save("one.atl", 0, 70)
        code = (
            "import sys, torch, torch_atalla\n"
            "torch_atalla.load_loadable(sys.argv[1], engine='isa')(torch.ones(64, 40).bfloat16().to('atalla'))\n"
        )
        for old, new, problem in (
            ("bytes = { value = 1_048_576", "bytes = { value = 524_288", "2 scratchpads of 524288 bytes"),
            ("count = { value = 2,", "count = { value = 1,", "and 1 scratchpads"),
            ("count = { value = 2,", "count = { value = 3,", ""),
            ("bytes = { value = 1_048_576", "bytes = { value = 2_097_152", ""),
        ):
            config = os.path.join(self.directory.name, "chip.toml")
            with open(config, "w") as file:
                file.write(torch_atalla.chip.config_text(0).replace(old, new, 1))
            done = subprocess.run(
                [sys.executable, "-c", code, path],
                env=os.environ | {"ATALLA_CHIP_CONFIG": config},
                capture_output=True,
                text=True,
            )
            self.assertEqual(done.returncode, 1 if problem else 0, done.stderr[-2000:])
            self.assertIn(problem, done.stderr)
