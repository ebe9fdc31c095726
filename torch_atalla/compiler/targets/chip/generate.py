# SPDX-License-Identifier: BSD-3-Clause
"""From a linear program to a network: fusion, a kernel for every launch, a place for every temporary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch

from ...program.ir import HostCall, Instruction, Launch, LinearProgram, Operand
from ...schedule.chip_model import ChipModel
from ...schedule.plan import aligned, place
from .allocate import OutOfRegisters
from .choose_division import choose_division
from .divide import Division, divide
from .fusion import Fused, fuse
from .image import Address
from .keep import keep_temporaries
from .kernels.pointwise import Unsupported
from .link import Function
from .network import SLACK, Network, NoProgramError, Port, Selected, element_bytes
from .ports import RawOperand
from .scalar_core import WITHOUT_ROUTINE, routine_of
from .scalar_core.routine import emit
from .select import SELECTORS, TAKE_INTEGERS
from .select.data import copy
from .select.pointwise import no_steps
from .selection import Selection, check_dtypes


def compile_network(program: LinearProgram, sources: Mapping[str, str] | None = None) -> Network:
    """The program of a linear program. sources: the Python lines of graph nodes. Raises NoProgramError, which lists
    every launch that has none, with its node, line and the reason."""
    return compile_networks([program], sources or {}, [""])[0]


def compile_networks(
    programs: Sequence[LinearProgram],
    sources: Mapping[str, str],
    texts: Sequence[str],
    chip: ChipModel | None = None,
    compiled: dict[str, Function] | None = None,
    cores: int | None = None,
) -> list[Network]:
    """One program for several sizes, which the texts state. The networks have the same constants and functions. chip:
    among whose cores launches are divided; None: one core runs all. compiled: functions that are known, to which those
    that are compiled are added. cores: over which each launch is divided; None: as pays most. Raises NoProgramError as
    compile_network, for the first sizes without a program."""
    selections: list[Selection] = []
    for program, text in zip(programs, texts, strict=True):
        selections.append(Selection(program, sources, selections[0] if selections else None, chip, cores))
        if compiled is not None:
            selections[-1].image.compiled = compiled
        try:
            _select_all(selections[-1])
        except NoProgramError as error:
            raise (NoProgramError(f"{error}\n(with {text})") if text else error) from None
    networks = [selection.network for selection in selections]
    functions = {name: function for network in networks for name, function in network.image.functions.items()}
    for network in networks:
        network.image.functions = functions
    networks[0].constants.extend(bytes(SLACK))
    return networks


def _select_all(selection: Selection) -> None:
    """A kernel for every launch, and a place for every temporary."""
    program = selection.program
    missing = []
    for launch in fuse(program):
        try:
            _select_divided(selection, launch)
        except NoProgramError as error:
            missing.append(str(error))
            continue
        for operand in launch.writes():
            if operand.buffer in selection.taps:
                continue
            selection.network.complete[operand.buffer] = len(selection.image.calls)
    if missing:
        raise NoProgramError("no Atalla program for\n" + "\n".join(f"  {text}" for text in dict.fromkeys(missing)))
    network = selection.network
    network.inputs = [_port(selection, port.name, port.operand) for port in program.inputs]
    network.outputs = [_port(selection, port.name, port.operand) for port in program.outputs]
    network.states = {name: _state(selection, name, operand) for name, operand in program.states.items()}
    keep_temporaries(selection)
    _place_temporaries(selection)


def _select_divided(selection: Selection, launch: Instruction) -> None:
    """Adds the calls of a launch: a part for each of the cores for which that is worthwhile, between barriers."""
    image, joined = selection.image, getattr(launch, "parts", ())
    division = _division(selection, launch)
    if len(division.parts) == 1:
        _select(selection, launch)
        return
    calls, launches = len(image.calls), len(selection.network.launches)
    image.barrier()
    image.together = True
    try:
        for core, part in enumerate(division.parts):
            image.core = core
            _select(selection, part)
    except NoProgramError:
        image.undo(calls)
        del selection.network.launches[launches:]
        image.core, image.together = 0, False
        for part in joined:
            _select_divided(selection, part)
        if not joined:
            _select(selection, launch)
    else:
        image.barrier()
        selection.network.launches[launches:] = [Selected(calls, launch, division)]
    finally:
        image.core, image.together = 0, False


def _division(selection: Selection, launch: Instruction) -> Division:
    if selection.chip is None:
        return Division([launch])
    if selection.parts is not None:
        return divide(launch, selection.parts)
    return choose_division(selection.program, launch, selection.chip, _divided_network)


def _divided_network(program: LinearProgram, chip: ChipModel, compiled: dict[str, Function], cores: int) -> Network:
    return compile_networks([program], {}, [""], chip, compiled, cores)[0]


def _select(selection: Selection, launch: Instruction) -> None:
    """Adds the calls of a launch: a kernel of the vector unit or the array; else those of the launches that were joined
    to it, one by one; else a routine of the scalar core. Raises NoProgramError with its kernel, node and the reasons.
    """
    if isinstance(launch, HostCall):
        raise NoProgramError(f"{', '.join(launch.ops)} (a fallback segment)")
    selection.node = launch.node
    calls = len(selection.image.calls)
    reasons = []
    for select in (_vector, _routine) if not getattr(launch, "parts", ()) else (_vector,):
        try:
            select(selection, launch)
            selection.network.launches.append(Selected(calls, launch, Division([launch])))
            return
        except (Unsupported, ValueError, OutOfRegisters) as error:
            reasons.append(str(error))
        except (AssertionError, ArithmeticError, LookupError, TypeError) as error:
            reasons.append(f"the code generator failed with {type(error).__name__}: {error}")
        selection.image.undo(calls)
    for part in getattr(launch, "parts", ()):
        _select(selection, part)
    if not getattr(launch, "parts", ()):
        source = selection.sources.get(launch.node)
        where = f" (node {launch.node}{f', {source}' if source else ''})" if launch.node else ""
        raise NoProgramError(f"kernel {launch.kernel}{where}: {'; '.join(dict.fromkeys(reasons))}")


def _vector(selection: Selection, launch: Launch) -> None:
    select = SELECTORS.get(launch.kernel) or (no_steps if "formula" in launch.contract.traits else None)
    if select is None:
        raise Unsupported("the vector unit has no such kernel")
    if select is not copy and any(isinstance(x, RawOperand) for x in (*launch.reads(), *launch.writes())):
        raise Unsupported("elements as the caller stores them")
    if _is_empty(launch):
        return
    for operand in (*launch.reads(), *launch.writes()):
        if 0 in operand.sizes:  # loops of the kernels run at least once
            raise Unsupported(f"an operand of {list(operand.sizes)}, which has no elements")
    check_dtypes((*launch.reads(), *launch.writes()), integers=launch.kernel in TAKE_INTEGERS)
    select(selection, launch)


def _routine(selection: Selection, launch: Launch) -> None:
    if isinstance(launch, Fused) and (launch.activation is not None or launch.residual is not None):
        raise Unsupported("the scalar core takes no epilogue")  # of a divided launch, whose parts are not at hand
    body = routine_of(launch)
    if body is None:
        raise Unsupported(WITHOUT_ROUTINE.get(launch.kernel, "the scalar core has no such routine"))
    if any(operand.buffer in selection.taps for operand in launch.reads()):
        raise Unsupported("positions of maxima, of which the program keeps tap numbers")
    if not _is_empty(launch):
        emit(selection, launch, body)


def _is_empty(launch: Launch) -> bool:
    """Whether the launch computes nothing."""
    return bool(launch.writes()) and all(0 in operand.sizes for operand in launch.writes())


def _state(selection: Selection, name: str, operand: Operand) -> tuple[Port, torch.Tensor]:
    if element_bytes(operand.dtype) != operand.dtype.itemsize:
        raise NoProgramError(f"no Atalla program for the mutable buffer {name} of {operand.dtype}; expected bfloat16")
    first = selection.program.buffers[operand.buffer].tensor
    assert first is not None
    return _port(selection, name, operand), first


def _port(selection: Selection, name: str, operand: Operand) -> Port:
    buffer = selection.program.buffers[operand.buffer]
    region = f"{buffer.kind.value}{buffer.index}"
    first = operand.offset // operand.dtype.itemsize
    return Port(name, region, operand.sizes, operand.strides, operand.dtype, buffer.nbytes, first)


def _place_temporaries(selection: Selection) -> None:
    """Each lives from its first call to its last, or to those beside it."""
    life: dict[str, list[int]] = {}
    for call in selection.image.calls:
        for word in call.words.values():
            if isinstance(word, Address) and word.region in selection.sizes:
                life.setdefault(word.region, [call.time, call.time])[1] = call.time
    network, names = selection.network, list(life)
    slots = place([((k,), selection.sizes[name], life[name][0], life[name][1]) for k, name in enumerate(names)])
    network.arena_offsets = {names[slot.buffers[0]]: slot.offset for slot in slots}
    network.arena_bytes = max((slot.offset + aligned(slot.nbytes) for slot in slots), default=0) + SLACK
