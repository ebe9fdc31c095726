# SPDX-License-Identifier: BSD-3-Clause
"""Runs every generator and writes the files that changed."""

from __future__ import annotations

from pathlib import Path

from . import (
    c_abi,
    chip_parameters,
    families,
    isa,
    isa_cpp,
    kernels,
    kernels_cpp,
    kernels_json,
    layouts,
    loadable_records,
    model,
    package_tables,
    pointwise,
    registrations,
)
from .contract import kernel_shapes_cpp
from .files import write
from .tile import cpp as tile_cpp
from .tile import python as tile_python
from .tile import steps as tile_steps

OPS = "csrc/aten/atalla_native_functions.yaml"


def write_folder(folder: Path, files: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.iterdir():
        if stale.name not in files:
            stale.unlink()
    for name, text in files.items():
        write(folder / name, text)


def generate(out: Path, extension: Path, support: Path, root: Path) -> None:
    """Write what the chip and the driver include into `out`; what depends on torch, into `extension` and `support`."""
    contracts = kernels.load(root / kernels.TABLE)
    write(out / "kernel_traits.inc", kernels_cpp.traits(contracts.kernels))
    write(out / "kernel_shapes.inc", kernel_shapes_cpp.generate(contracts.kernels))
    write(out / "kernel_shape_texts.inc", kernels_cpp.shapes(contracts.kernels))
    write(out / "kernel_operands.h", kernels_cpp.operands(contracts.kernels))
    write(out / "kernel_parameters.h", kernels_cpp.parameters(contracts))
    tile_words = tile_steps.load(root / tile_steps.TABLE, contracts.enums)
    write(out / "tile_steps.h", tile_cpp.cpp(tile_words))
    write(root / tile_python.PYTHON, tile_python.python(tile_words))
    entries = model.load(root / OPS)
    formulas = model.pointwise_kernels(entries)
    write(root / "torch_atalla/_generated/kernels.json", kernels_json.generate(contracts.kernels, formulas))
    write(root / "torch_atalla/_generated/kernel_enums.json", kernels_json.dumped(contracts.enums))
    pointwise.emit(formulas, OPS, out)
    write(out / "kernel_handles.h", kernels_cpp.handles(contracts.kernels, pointwise.handles(formulas)))
    write_folder(out / "sim", pointwise.loop_sources())
    write(out / "kernel_families.inc", families.generate(root / "csrc/sim/kernels"))
    layout_functions = layouts.generate(layouts.load(root / layouts.TABLE))
    write_folder(extension / "aten", {**registrations.generate(entries), "register_layouts.cpp": layout_functions})
    write(extension / "int_to_float.inc", registrations.promoted(entries))
    presets = sorted((root / "csrc/sim/dram/presets").glob("*.toml"))
    write(
        out / "dram_presets.inc", "".join(f'{{"{file.stem}", R"TOML({file.read_text()})TOML"}},\n' for file in presets)
    )
    chip = (root / "csrc/sim/chip.toml").read_text()
    write(out / "chip_toml.inc", f'R"TOML({chip})TOML"\n')
    for name, struct, text in (("chip", "ChipConfig", chip), ("dram", "DramPreset", presets[0].read_text())):
        write(out / f"{name}_parameters.inc", chip_parameters.members(text))
        write(out / f"{name}_integers.inc", chip_parameters.integers(text, struct))
    binding = c_abi.load(root)
    write(root / "torch_atalla/driver/c_abi.py", binding.python())
    write(out / "status_names.inc", binding.status_names())
    write(root / "torch_atalla/loadable/file/format.py", loadable_records.python(root))
    write(out / "loadable_layout.inc", loadable_records.cpp(root))
    instructions = isa.load(root / isa.TABLE)
    isa.write_python(instructions, root)
    isa_cpp.emit(instructions, out)
    write(support, package_tables.support(entries))
    write(root / "torch_atalla/_generated/formulas.json", package_tables.formulas(formulas))
