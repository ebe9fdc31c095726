# SPDX-License-Identifier: BSD-3-Clause
"""Triton's front end and TTIR passes, then a tile program (torch_atalla.compiler.tile)."""

from __future__ import annotations

import ast
import dataclasses
import functools
import hashlib
from pathlib import Path
from types import ModuleType
from typing import Any

from triton._C.libtriton import ir, passes
from triton.backends.compiler import BaseBackend, GPUTarget, Language

from ...compiler import tile
from ...compiler.tile import lower
from ...compiler.tile.ir import TileError
from ...compiler.tile.steps import TileProgram
from ...compiler.tile.stored import pack
from ...compiler.tile.ttir import parse
from ...version import __version__

BACKEND = "atalla"
WARP_SIZE = 32  # what `num_warps` is multiplied by; an instance of a tile program has no threads


@dataclasses.dataclass(frozen=True)
class AtallaOptions:
    """The options of a launch. Those about warps, stages and clusters are taken and have no effect.

    code: also generate Atalla code, whose text is `asm["atalla"]`.
    """

    code: bool = False
    num_warps: int = 4
    num_stages: int = 3
    num_ctas: int = 1
    warp_size: int = WARP_SIZE
    maxnreg: int | None = None
    ir_override: str | None = None
    extern_libs: tuple[tuple[str, str], ...] | None = None
    debug: bool = False
    sanitize_overflow: bool = True
    arch: str = "ax01"
    supported_fp8_dtypes: tuple[str, ...] = ("fp8e4nv", "fp8e5", "fp8e5b16", "fp8e4b8")
    deprecated_fp8_dot_operand_dtypes: tuple[str, ...] = ()
    default_dot_input_precision: str = "ieee"
    allowed_dot_input_precisions: tuple[str, ...] = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")
    max_num_imprecise_acc_default: int = 0
    enable_fp_fusion: bool = False
    launch_cooperative_grid: bool = False
    launch_pdl: bool = False
    backend_name: str = BACKEND
    instrumentation_mode: str = ""

    def __post_init__(self) -> None:
        if self.num_warps < 1 or self.num_warps & (self.num_warps - 1):
            # As Triton's own backends, which assert it.
            raise AssertionError(f"num_warps must be a power of 2, got {self.num_warps}")
        if self.num_ctas != 1:
            raise ValueError(
                f"num_ctas: expected 1, this device has no clusters of program instances; got {self.num_ctas}"
            )

    def hash(self) -> str:
        text = "_".join(f"{name}-{value}" for name, value in sorted(self.__dict__.items()))
        return hashlib.sha256(text.encode()).hexdigest()


class AtallaBackend(BaseBackend):
    """Stages: `ttir`, Triton's own passes; `tile`, the printed tile program; `atalla`, Atalla code, if the option
    `code` is set; `atallabin`, the tile program's words."""

    binary_ext = "atallabin"

    @staticmethod
    def supports_target(target: GPUTarget) -> bool:
        return bool(target.backend == BACKEND)

    def hash(self) -> str:
        return f"{BACKEND}-{__version__}-{_sources()}"

    def parse_options(self, options: dict[str, Any]) -> AtallaOptions:
        known = {f.name for f in dataclasses.fields(AtallaOptions)}
        return AtallaOptions(**{k: v for k, v in options.items() if k in known and v is not None})

    def pack_metadata(self, metadata: Any) -> tuple[int, int, int]:
        return (metadata.num_warps, metadata.num_ctas, metadata.shared)

    def get_codegen_implementation(self, options: AtallaOptions) -> dict[str, Any]:
        return {
            "convert_custom_types": None,
            "min_dot_size": lambda lhs, rhs: (1, 1, 1),
        }

    def get_module_map(self) -> dict[str, ModuleType]:
        from triton.language.extra.cuda import libdevice

        return {"triton.language.extra.libdevice": libdevice}

    def load_dialects(self, context: Any) -> None:
        """TTIR's own are all that there are."""

    def add_stages(self, stages: dict[str, Any], options: AtallaOptions, language: Language) -> None:
        if language != Language.TRITON:
            raise ValueError(
                f"expected a kernel of triton.jit, got one of {language}: this device has no layouts of threads"
            )
        found: list[tuple[TileProgram, str]] = []
        stages["ttir"] = lambda module, metadata: make_ttir(module)
        stages["tile"] = lambda module, metadata: make_tile(module, metadata, found)
        if options.code:
            stages["atalla"] = lambda text, metadata: make_code(found[0][1])
        stages[self.binary_ext] = lambda text, metadata: pack(*found[0])


@functools.lru_cache(maxsize=1)
def _sources() -> str:
    """A digest of the compiler, so that a change of it misses Triton's cache."""
    digest = hashlib.sha256()
    for path in sorted([*Path(tile.__file__).parent.rglob("*.py"), *Path(__file__).parent.glob("*.py")]):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def make_ttir(module: Any) -> Any:
    manager = ir.pass_manager(module.context)
    manager.enable_debug()
    passes.common.add_inliner(manager)
    passes.ttir.add_rewrite_tensor_pointer(manager)
    passes.ttir.add_rewrite_tensor_descriptor_to_pointer(manager)
    passes.common.add_canonicalizer(manager)
    passes.ttir.add_combine(manager)
    passes.ttir.add_reorder_broadcast(manager)
    passes.common.add_cse(manager)
    passes.ttir.add_triton_licm(manager)
    passes.common.add_symbol_dce(manager)
    passes.ttir.add_loop_unroll(manager)
    manager.run(module, "make_ttir")
    return module


def make_tile(module: Any, metadata: dict[str, Any], found: list[tuple[TileProgram, str]]) -> str:
    """The printed program. What cannot be expressed is a CompilationError at its line."""
    try:
        ttir = module.str()
        functions = parse(ttir)
        found.append((lower(functions), ttir))
    except TileError as error:
        raise compilation_error(error) from error
    entry = next(f for f in functions if f.is_public)
    metadata["name"] = entry.name
    metadata["shared"] = 0
    return str(entry)


def make_code(ttir: str) -> str:
    """The packets. What Atalla code cannot express is a CompilationError at its line."""
    from ...compiler.targets.chip.tile_code import generate  # imported lazily: launches do not need it

    try:
        return str(generate(parse(ttir)))
    except TileError as error:
        raise compilation_error(error) from error


def compilation_error(error: TileError) -> Exception:
    """Triton's own error, which shows the line in its source."""
    from triton.compiler.errors import CompilationError  # Triton loads its backends before this module

    place = error.location
    node = ast.Pass(lineno=place.line if place else 1, col_offset=place.column if place else 0)
    source = None
    if place is not None:
        try:
            with open(place.file, encoding="utf-8") as file:
                source = file.read()
        except OSError:
            source = None
    where = f"{place}: " if place is not None else ""
    return CompilationError(source, node, f"{where}{error.message}")
