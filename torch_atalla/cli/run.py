# SPDX-License-Identifier: BSD-3-Clause
"""`python -m torch_atalla run model.atl [--engine isa [--profile | --konata FILE]]`: run a loadable once."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map_only

from torch_atalla import energy, telemetry
from torch_atalla.cli.operators import add_operators
from torch_atalla.device import namespace as device
from torch_atalla.driver import runtime
from torch_atalla.driver.dtypes import name as dtype_name
from torch_atalla.loadable.code_machine import CodeMachine, random_inputs
from torch_atalla.loadable.errors import LoadableError
from torch_atalla.loadable.load import load_loadable


def parser() -> argparse.ArgumentParser:
    result = argparse.ArgumentParser(prog="python -m torch_atalla run", description="Run a loadable once.")
    result.add_argument("path", help="a file written by save_loadable")
    result.add_argument(
        "--engine",
        choices=runtime.ENGINES,
        default="functional",
        help="isa runs the Atalla code (default: %(default)s)",
    )
    result.add_argument("--method", metavar="NAME", help="method to run (default: the first one)")
    result.add_argument("--inputs", metavar="FILE", help="list of arguments written by torch.save (default: random)")
    result.add_argument("--outputs", metavar="FILE", help="write the list of outputs with torch.save")
    result.add_argument(
        "--seed", type=int, default=0, help="seed of random inputs (default: %(default)s); integer inputs are 0"
    )
    result.add_argument("--profile", action="store_true", help="print cycles by call, unit and reason (--engine isa)")
    result.add_argument("--json", action="store_true", help="print the profile as JSON")
    result.add_argument("--konata", metavar="FILE", help="write a pipeline trace for the viewer Konata (--engine isa)")
    result.add_argument("--packets", type=int, default=1000, help="packets in the trace (default: %(default)s)")
    result.add_argument("--call", type=int, default=0, help="begin the trace with this call of the profile, from 1")
    add_operators(result)
    return result


def main(argv: list[str]) -> int:
    """Print the outputs' types, or the profile. Return 1, with the reasons on stderr, if the file cannot be run."""
    options = parser()
    args = options.parse_args(argv)
    if (args.profile or args.json or args.konata) and args.engine != "isa":
        options.error("--profile, --json and --konata describe Atalla code; add --engine isa")
    try:
        inputs = None if args.inputs is None else torch.load(args.inputs)
        leaves = None if inputs is None else _tensors(inputs)

        def machine() -> CodeMachine:
            return CodeMachine(args.path, leaves, method=args.method, seed=args.seed)

        if args.konata:
            with Path(args.konata).open("w") as file:
                packets = machine().konata(file, args.packets, args.call)
            print(f"{args.konata}: {packets} packets", file=sys.stderr)
        if args.profile or args.json:
            run = machine()
            profile = run.profile()
            print(json.dumps(profile.to_json(), indent=1) if args.json else profile)
            if not args.json:
                print(f"\nenergy  {profile.stats.energy}")
            outputs = run.outputs()
        elif not args.konata or args.outputs:
            outputs = _run(args, inputs)
        if args.outputs:
            torch.save(outputs, args.outputs)
    except BrokenPipeError:
        raise
    except (OSError, KeyError, ValueError, TypeError, RuntimeError, LoadableError) as error:
        text = str(error)
        print(text if args.path in text else f"{args.path}: {text}", file=sys.stderr)
        return 1
    return 0


def _run(args: argparse.Namespace, inputs: Sequence[Any] | None) -> list[torch.Tensor]:
    """On the current device. Prints the type of each output, and cycles and energy without the copies from and to the
    host."""
    program = load_loadable(args.path, engine=args.engine, operators=args.operators)
    method = program[args.method] if args.method else next(iter(program.methods.values()))
    types = [(spec.dtype, spec.shape) for spec in method.inputs]
    given = random_inputs(types, args.seed) if inputs is None else inputs
    on_device = tree_map_only(torch.Tensor, lambda x: x.to(program.device), given)
    with telemetry.Recording() as recording:
        found = _tensors(method(*on_device))
        device.synchronize(program.device)
    outputs = [x.cpu() for x in found]
    for output in outputs:
        print(f"{dtype_name(output.dtype)}{list(output.shape)}")
    if args.engine == "isa":
        print(program.stats)
        _print_energy(program.stats.energy, program.stats.cycles)
    else:
        work = next(item.work for item in recording.devices if item.ordinal == program.device.index)
        cycles = max((w.end_cycle for w in work), default=0) - min((w.start_cycle for w in work), default=0)
        print(f"{sum(w.kind == 'launch' for w in work)} launches, {cycles} cycles")
        _print_energy(energy.of(recording), cycles)
    return outputs


def _print_energy(spent: energy.Energy, cycles: int) -> None:
    """Of one run. Nothing for a device library without an energy model."""
    if spent.total:
        watts = spent.watts(cycles, device.get_device_properties().clock_hz)
        print(f"energy  {spent}\npower   {watts:.3g} W on average")


def _tensors(values: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
