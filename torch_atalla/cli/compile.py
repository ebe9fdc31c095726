# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla compile program.pt2 -o model.atl`: a loadable of what torch.export.save wrote."""

from __future__ import annotations

import argparse
import sys
import zipfile
from pathlib import Path

import torch

from torch_atalla.compiler.file.save import save_loadable
from torch_atalla.driver import runtime
from torch_atalla.loadable.errors import ExportError

_AS_GIVEN = ("fallback", "engine", "convert", "optimize", "seed", "weights", "dump")  # to save_loadable


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(
        prog="python -m torch_atalla compile", description="Compile a program saved by torch.export.save."
    )
    result.add_argument(
        "programs", nargs="+", metavar="[METHOD=]PROGRAM", help="an exported program (.pt2); several, each with a name"
    )
    result.add_argument("-o", "--output", help="the loadable; by default the first program's name with .atl")
    result.add_argument(
        "--optimize", choices=("none", "exact", "fast"), default="exact", help="docs/concepts/compiler-passes.md"
    )
    result.add_argument("--fallback", choices=("cpu", "error"), default="cpu", help="for ops without a kernel")
    result.add_argument("--weights", choices=("bfloat16", "int8"), help="store the weights of products so")
    result.add_argument("--engine", choices=("functional", "isa"), default="functional", help="isa adds Atalla code")
    result.add_argument("--convert", choices=("bfloat16",), help="of float32 programs, with --engine isa")
    result.add_argument("--dump", metavar="DIR", help="write what every stage and pass left")
    result.add_argument("--seed", type=int, default=0, help="of the golden inputs")
    result.add_argument("--no-golden", action="store_true", help="store no golden outputs")
    result.add_argument("--no-verify", action="store_true", help="write without a trial run")
    return result


def main(argv: list[str] | None = None) -> int:
    """Prints the report. Exit code 1, with the reasons on stderr, when there is nothing to compile or it cannot be."""
    options = parser()
    args = options.parse_args(argv)
    named = [_method(text) for text in args.programs]
    names = [name for name, _ in named]
    if len(named) > 1 and (None in names or len(set(names)) < len(names)):
        options.error("several programs: give each a name of its own, as in prefill=a.pt2 decode=b.pt2")
    output = args.output or str(Path(named[0][1]).with_suffix(".atl"))
    try:
        loaded = {name or "forward": _load(path) for name, path in named}
        report = save_loadable(
            loaded if names[0] is not None else loaded["forward"],
            output,
            verify=not args.no_verify,
            golden=not args.no_golden,
            **{name: getattr(args, name) for name in _AS_GIVEN},
        )
    except (OSError, ExportError, runtime.RuntimeLibraryError) as error:
        print(error, file=sys.stderr)
        return 1
    print(report)
    return 0


def _method(text: str) -> tuple[str | None, str]:
    """(name, path) of "name=path"; a path that exists is a path."""
    name, separator, path = text.partition("=")
    return (name, path) if separator and name.isidentifier() and not Path(text).exists() else (None, text)


def _load(path: str) -> torch.export.ExportedProgram:
    if not Path(path).is_file():
        raise ExportError(f"{path}: no such file")
    if not zipfile.is_zipfile(path):
        raise ExportError(f"{path}: expected a program that torch.export.save wrote")
    try:
        return torch.export.load(path)
    except (RuntimeError, ValueError, KeyError, AssertionError) as error:
        raise ExportError(f"{path}: no program that torch.export.load takes: {error}") from None
