# SPDX-License-Identifier: BSD-3-Clause
"""Every parameter of the chip file changes what the chip does or tells, or is refused when another value is given."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from torch.testing._internal.common_utils import TestCase

KEYS = [
    (table, key, value)
    for table, body in re.findall(
        r"^\[(\w+)\]\n(.*?)(?=^\[|\Z)", (Path(__file__).parents[2] / "csrc/sim/chip.toml").read_text(), re.M | re.S
    )
    for key, value in re.findall(r'^(\w+) = \{ value = ("[^"]*"|[0-9._]+)', body, re.M)
    if table not in ("energy", "area")  # test/cpp/chip/test_energy.cpp: test_every_price_counts
]

# Parameters without an effect on the child below, each with the test that shows its effect.
SHOWN_ELSEWHERE = {
    "core.count": "test_export_schedule.py: test_division_on_a_chip_with_cores",
    "core.start_cycles": "test/cpp/chip/test_cores.cpp",
    "core.scratchpads": "test_isa_cores.py: test_a_chip_that_cannot",
    "network.topology": "test_isa_cores.py: test_ways_through_a_mesh",
    "network.columns": "test_isa_cores.py: test_ways_through_a_mesh",
    "network.router_cycles": "test_isa_cores.py: test_ways_through_a_mesh",
    "network.link_bytes": "test_isa_cores.py: test_links_that_are_slow_and_shared",
    **{f"scratchpad.{name}": "test/cpp/chip/test_isa_limits.cpp" for name in ("ports", "banks")},
    **{
        f"{cache}_cache.{name}": "test/cpp/chip/test_isa_limits.cpp, test_timing.cpp"
        for cache in ("instruction", "data")
        for name in ("bytes", "line_bytes", "ways", "miss_cycles")
    },
    "link.bytes_per_cycle": "test/cpp/chip/test_copy.cpp",
    "link.latency_cycles": "test/cpp/chip/test_copy.cpp",
}

# A chain of instructions, each of which waits for the one before, of every latency class.
PROGRAM = """
    li.s x10, 4096
    li.s x11, 256
    jalr.s x1, x0, -16
    addi.s x20, x10, 0
    addi.s x21, x11, 0
    jalr.s x1, x0, -32
    lui.s x9, 0x2000
    sw.s x9, 0(x9)
    lw.s x2, 0(x9)
    addi.s x3, x2, 3
    mul.s x4, x3, x3
    addi.s x5, x4, 1
    li.s x6, 7
    div.s x7, x5, x6
    add.s x8, x7, x7
    add.bf x12, x8, x8
    add.bf x13, x12, x12
    mul.bf x14, x13, x13
    mul.bf x15, x14, x14
    rcp.bf x16, x15
    rcp.bf x60, x15
    add.s x17, x16, x16
    beq.s x0, x0, next
    nop.s
    next: lui.s x30, {shape}
    {loads}
    {divisions}
    vreg.ld v1, x0, x0, 0, 32
    add.vv v2, v1, v1
    add.vv v3, v2, v2
    mul.vv v4, v3, v3
    mul.vv v5, v4, v4
    expi.vi v6, v5
    expi.vi v7, v6
    rsum.vi v8, v7, 0
    rsum.vi v9, v8, 0
    lw.vi v9
    lw.vi v9
    gemm.vv v10, v9, v0
    gemm.vv v11, v10, v0
    vreg.st v11, x0, x0, 0, 32
    vreg.ld v12, x0, x0, 0, 32
    vreg.st v12, x0, x0, 0, 32
    scpad.st x0, x9, x30
    halt.s
"""

CHILD = """
import json, os, sys, torch, torch_atalla
from torch_atalla import _C, isa, telemetry

keys, config, text, path = json.loads(sys.argv[1])
program = isa.assemble(text)
found = {}
for ordinal, (key, old, new) in enumerate([["", "", ""], *keys, ["", "", ""]]):
    with open(path, "w") as file:
        table, _, name = key.partition(".")
        start = config.index("[" + table + "]") if key else 0
        at = config.index("\\n" + name + " = { value = " + old, start) if key else 0
        file.write(config[:at] + config[at:].replace("value = " + old, "value = " + new, 1))
    os.environ["ATALLA_CHIP_CONFIG"] = path
    device = torch.device("atalla", ordinal)
    try:
        x = torch.ones(64, 96, device=device)
        torch.softmax(x, 1) @ x.t()
        torch.relu(x)
        torch.ones(1, device=device).expand(1 << 16).sum()  # longer in the vector unit than on the bus
        q = torch.ones(1, 1, 2048, 16, dtype=torch.bfloat16, device=device)
        torch.nn.functional.scaled_dot_product_attention(q, q, q)  # longer in the array
        x.cpu()
        told = {k: v for k, v in _C.properties(ordinal).items() if k not in ("ordinal", "dram_base")}
        marks = [repr(told), telemetry.counters(device).cycles]
        marks.append(len(telemetry.launches(device)))
        for timing in ("specified", "ideal", "measured"):
            try:
                machine = isa.Machine(program, device=ordinal, dram_timing=timing)
            except RuntimeError as error:  # only kernels run on this chip: test_chip_geometry.py
                assert "Atalla code does not run on a chip whose " + key + " is " + new in str(error), error
                continue
            machine.run()
            marks.append(machine.stats().cycles)
        assert key or found.setdefault(key, marks) == marks, "devices of one file differ"
        found[key] = marks
    except RuntimeError as error:
        found[key] = str(error)
print(json.dumps(found))
"""


class TestChipConfig(TestCase):
    def test_every_parameter(self):
        self.assertGreater(len(KEYS), 45)
        changed = []
        for table, key, old in KEYS:
            if f"{table}.{key}" in SHOWN_ELSEWHERE:
                continue
            if f"{table}.{key}" == "dram.preset":
                new = '"ddr4_3200"'
            elif old.startswith('"'):
                new = '"Another"'
            elif f"{table}.{key}" == "telemetry.records":
                new = "2"
            elif key == "alignment" or key.endswith("bytes"):
                new = str(2 * int(old.replace("_", "")))
            else:
                new = str(float(old) * 2) if "." in old else str(2 * int(old.replace("_", "")))
            changed.append((f"{table}.{key}", old, new))
        # More transfers than the queue holds, and work beside them that takes longer, so that its depth counts.
        loads, divisions = "\n".join(["scpad.ld x0, x9, x30"] * 12), "\n".join(["div.s x7, x7, x6"] * 400)
        text = PROGRAM.format(shape=(31 << 25 | 31 << 20 | 31) >> 7, loads=loads, divisions=divisions)
        config = (Path(__file__).parents[2] / "csrc/sim/chip.toml").read_text()
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", CHILD, json.dumps([changed, config, text, folder + "/chip.toml"])],
                env=os.environ | {"ATALLA_DEVICE_COUNT": "64", "ATALLA_CLOCK": "roofline"},
                capture_output=True,
                text=True,
            )
        self.assertEqual(done.returncode, 0, done.stderr[-3000:])
        found = json.loads(done.stdout.splitlines()[-1])
        self.assertIsInstance(found[""], list, msg=found[""])
        ignored, refused = [], []
        for key, old, new in changed:
            if isinstance(found[key], str):
                refused.append(key)
                self.assertRegex(found[key], rf"{re.escape(key)}: the value is {new}; .*{old.replace('_', '')} only")
            elif found[key] == found[""]:
                ignored.append(key)
        self.assertFalse(ignored, msg=f"changed without an effect: {ignored}")
        self.assertEqual(
            refused,
            ["chip.devices", "scratchpad.row_bytes", "sdma.element_bytes", "scalar.store_latency_cycles"],
        )
