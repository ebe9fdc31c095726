# SPDX-License-Identifier: BSD-3-Clause
"""A reference interpreter of linear programs: docs/kernels.md in a few lines of torch on the CPU, over one byte arena.

Independent of the chip: it checks lowering and memory plan, and is what the engine's results are compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_atalla.export.host_call import run_segment
from torch_atalla.export.ir import BufferKind, HostCall, Immediate, Launch, LinearProgram, Operand
from torch_atalla.export.plan import MemoryPlan


def run_program(program: LinearProgram, plan: MemoryPlan, inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    arena = torch.full((max(plan.arena_bytes, 1),), 0xA5, dtype=torch.uint8)  # stale bytes must never show
    slots = plan.slot_of()
    memory: dict[int, torch.Tensor] = {}
    for buffer in program.buffers:
        if buffer.kind is BufferKind.CONSTANT:
            assert buffer.tensor is not None
            memory[buffer.index] = _bytes(buffer.tensor)
        elif buffer.index in slots:
            slot = slots[buffer.index]
            memory[buffer.index] = arena[slot.offset : slot.offset + buffer.nbytes]
        else:
            memory[buffer.index] = torch.full((buffer.nbytes,), 0xA5, dtype=torch.uint8)
    for port, tensor in zip(program.inputs, inputs, strict=True):
        _view(memory, port.operand).copy_(tensor)
    for inst in program.instructions:
        if isinstance(inst, HostCall):
            results = run_segment(inst.program, [_view(memory, operand).clone() for operand in inst.inputs])
            for operand, result in zip(inst.outputs, results, strict=True):
                _view(memory, operand).copy_(result)
        else:
            run_launch(inst, memory)
    return [_view(memory, port.operand).clone() for port in program.outputs]


def _bytes(tensor: torch.Tensor) -> torch.Tensor:
    flat = tensor.as_strided((tensor.numel(),), (1,))
    return flat.view(torch.uint8).clone() if tensor.numel() else torch.empty(0, dtype=torch.uint8)


def _view(memory: dict[int, torch.Tensor], operand: Operand) -> torch.Tensor:
    data = memory[operand.buffer]
    if 0 in operand.sizes:
        return torch.empty(operand.sizes, dtype=operand.dtype)
    begin, end = operand.extent()
    assert 0 <= begin and end <= data.numel(), f"{operand} leaves its buffer"
    return data[begin:end].view(operand.dtype).as_strided(operand.sizes, operand.strides)


def run_launch(launch: Launch, memory: dict[int, torch.Tensor]) -> None:
    def load(operand: Any) -> Any:
        if isinstance(operand, Operand):
            return _view(memory, operand)
        return torch.tensor(operand.value, dtype=operand.dtype) if isinstance(operand, Immediate) else None

    outs = [None if out is None else _view(memory, out) for out in launch.outputs]
    ins = [load(operand) for operand in launch.inputs]
    family, _, name = launch.kernel.partition(".")
    if launch.program is not None:
        ins[-1] = ins[-1].tolist()  # the words of a vector program
    iparams = [*launch.iparams, *[0] * (12 - len(launch.iparams))]
    fparams = [*launch.fparams, *[0.0] * (12 - len(launch.fparams))]
    results = FAMILIES[family](name, ins, outs, iparams, fparams, launch.compute_dtype)
    for out, result in zip(outs, results, strict=True):
        if out is not None:
            out.copy_(result.reshape(out.shape) if result.numel() == out.numel() else result.expand(out.shape))


def _scalars(compute: torch.dtype, iparams: list[int], fparams: list[float]) -> list[Any]:
    return fparams if compute.is_floating_point else iparams


POINTWISE: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda s, a, b: a + s[0] * b if a.dtype != torch.bool else a | b,
    "sub": lambda s, a, b: a - s[0] * b,
    "mul": lambda s, a, b: a * b,
    "div": lambda s, a, b: a / b,
    "pow_tensor_scalar": lambda s, a: a ** s[0],
    "relu": lambda s, a: torch.relu(a),
    "gelu_none": lambda s, a: torch.nn.functional.gelu(a),
    "gelu_tanh": lambda s, a: torch.nn.functional.gelu(a, approximate="tanh"),
    "silu": lambda s, a: torch.nn.functional.silu(a),
    "bitwise_and": lambda s, a, b: a & b,
    "bitwise_not": lambda s, a: ~a,
    "logical_not": lambda s, a: ~a.bool(),
    "where": lambda s, c, a, b: torch.where(c.bool(), a, b),
    "masked_fill": lambda s, a, m, v: torch.where(m.bool(), v, a),
    **{
        name: (lambda f: lambda s, a, b: f(a, b))(getattr(torch, name))
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum")
    },
    "clamp_min": lambda s, a: a.clamp(min=s[0]),
    "clamp_max": lambda s, a: a.clamp(max=s[0]),
    "hardsigmoid": lambda s, a: torch.nn.functional.hardsigmoid(a),
    "softplus": lambda s, a: torch.nn.functional.softplus(a, s[0], s[1]),
    "frac": lambda s, a: a.frac(),
    **{
        name: (lambda f: lambda s, a: f(a))(getattr(torch, name))
        for name in ("abs", "neg", "sin", "cos", "tanh", "exp", "log", "sqrt", "rsqrt", "sigmoid", "erf", "reciprocal")
    },
}


def _pointwise(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    kept = {"where": (0,), "masked_fill": (1,)}.get(name, ())
    ins = [value if k in kept else value.to(compute) for k, value in enumerate(ins)]
    scalars = _scalars(compute, iparams, fparams)
    if name == "clamp":
        low, high = (scalars[k] if iparams[11] >> k & 1 else None for k in (0, 1))
        return [ins[0].clamp(low, high)]
    return [POINTWISE[name](scalars, *ins)]


def _copy(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return [ins[0].to(outs[0].dtype)]


def _arange(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return [ins[0] + torch.arange(outs[0].numel()) * ins[1]]


def _reduce(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    x = ins[0]
    dims = [d for d in range(x.ndim) if iparams[0] >> d & 1]
    if name in ("max_dim", "min_dim"):
        return list(getattr(x, name[:3])(dims[0], True))
    if name in ("argmax", "argmin"):
        return [getattr(x, name)(dims[0] if len(dims) == 1 else None, len(dims) == 1)]
    if name in ("var", "std"):
        return [getattr(x, name)(dims, correction=fparams[0], keepdim=True)]
    if name == "var_mean":
        return list(torch.var_mean(x, dims, correction=fparams[0], keepdim=True))
    if name == "prod":
        result = x.to(compute)
        for d in dims:
            result = result.prod(d, keepdim=True)
        return [result]
    if name in ("norm1", "norm2"):
        return [torch.linalg.vector_norm(x.to(compute), int(name[-1]), dims, keepdim=True)]
    if name in ("sum", "mean", "logsumexp"):
        return [getattr(x.to(compute), name)(dims, keepdim=True)]
    return [getattr(x, name)(dims, keepdim=True)]


def _gemm(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    a, b, c = ins
    alpha, beta = _scalars(compute, iparams, fparams)[:2]
    result = alpha * torch.bmm(a, b)
    if c is not None and beta != 0:
        result = result + beta * c
    activations = [lambda x: x, torch.relu, POINTWISE["gelu_none"], POINTWISE["gelu_tanh"], POINTWISE["silu"]]
    code = iparams[2]
    return [activations[code](result) if code < 2 else activations[code](None, result)]


def _softmax(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return [torch.softmax(ins[0].to(compute), iparams[0])]


def _log_softmax(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return [torch.log_softmax(ins[0].to(compute), iparams[0])]


def _layer_norm(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    x, weight, bias = ins
    return list(torch.native_layer_norm(x, x.shape[-1:], weight, bias, fparams[0]))


def _rms_norm(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    x, weight, bias = ins
    x = x.to(compute)
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + fparams[0])
    y = x * scale * (1 if weight is None else weight)
    return [y if bias is None else y + bias, None, scale]


def _attention(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    q, k, v, mask = ins
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scores = fparams[0] * (q @ k.transpose(-1, -2))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    if iparams[0]:
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return [weights @ v, torch.logsumexp(scores, -1)]


def _index_select(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return [ins[0].index_select(iparams[0], ins[1])]


def _gather(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return [ins[0].gather(iparams[0], ins[1].long())]


def _index(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    count, first = iparams[:2]
    assert count == len(ins) - 1
    return [ins[0][(slice(None),) * first + tuple(index.long() for index in ins[1:])]]


def _cumsum(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return [ins[0].to(compute).cumsum(iparams[0])]


def _triangle(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return [(torch.triu if iparams[1] else torch.tril)(ins[0], iparams[0])]


def _convolution(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    x, weight, bias = ins
    n = x.ndim - 2
    stride, padding, dilation = iparams[1 : 1 + n], iparams[4 : 4 + n], iparams[7 : 7 + n]
    return [torch.convolution(x, weight, bias, stride, padding, dilation, False, [0] * n, iparams[0])]


def _pool(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    x, functional = ins[0], torch.nn.functional
    kernel, stride, padding = iparams[:3], iparams[3:6], iparams[6:9]
    if name == "max":
        # Depth 1: an index in the volume is an index in the plane.
        return list(
            torch.ops.aten.max_pool3d_with_indices(
                x, kernel, stride, padding, iparams[9:12], _ceil(x, outs[0], iparams)
            )
        )
    if name == "adaptive_average":
        return [functional.adaptive_avg_pool3d(x, outs[0].shape[2:])]
    assert name == "average"
    return [
        functional.avg_pool3d(
            x,
            kernel,
            stride,
            padding,
            _ceil(x, outs[0], [*iparams[:9], 1, 1, 1]),
            bool(iparams[9]),
            iparams[10] or None,
        )
    ]


def _ceil(x: torch.Tensor, out: torch.Tensor, p: list) -> bool:
    """Whether the output is larger than whole windows allow."""
    return any(
        out.shape[2 + d] > (x.shape[2 + d] + 2 * p[6 + d] - p[9 + d] * (p[d] - 1) - 1) // p[3 + d] + 1 for d in range(3)
    )


def _channel_norm(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    assert name == "apply"
    x, mean, rstd, weight, bias = (None if value is None else value.to(compute) for value in ins)
    if iparams[0]:
        rstd = 1 / (rstd + fparams[0]).sqrt()
    x = (x - mean[..., None]) * rstd[..., None]
    x = x if weight is None else x * weight[..., None]
    return [x if bias is None else x + bias[..., None]]


def _fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % (1 << 64)
    return value - (1 << 64) if value >= 1 << 63 else value


_BY_HASH = {_fnv1a(f"pointwise.{name}"): name for name in (*POINTWISE, "clamp")}
_CODES = {0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16,
          6: torch.float32, 7: torch.float64, 11: torch.bool, 15: torch.bfloat16}  # fmt: skip


def run_vector_program(words: list[int], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Decodes as docs/compiler-passes.md says, buffers included: a value that was overwritten is not there any more."""
    version, counts = words[:2]
    n_inputs, n_steps, n_outputs, n_buffers = (counts >> 8 * k & 255 for k in range(4))
    assert version == 1 and n_inputs == len(inputs)
    values = {k: x.to(_CODES[words[2 + k]]) for k, x in enumerate(inputs)}
    at, holds = 2 + n_inputs, {}
    for step in range(n_steps):
        op, head = words[at], words[at + 1] % (1 << 64)
        n_sources, buffer, code, numbers = (head >> 8 * k & 255 for k in range(4))
        sources = [values[head >> 32 + 8 * k & 255] for k in range(n_sources)]
        n_integers, n_floats = numbers & 15, numbers >> 4
        iparams = words[at + 2 : at + 2 + n_integers]
        at += 2 + n_integers
        bits = torch.tensor(words[at : at + n_floats], dtype=torch.int64)
        at += n_floats
        fparams = bits.view(torch.float64).tolist()
        loop = torch.float32 if _CODES[code] in (torch.float16, torch.bfloat16) else _CODES[code]
        if op == 0:
            result = sources[0].to(_CODES[code])
        else:
            full = [iparams + [0] * (12 - n_integers), fparams + [0.0] * (12 - n_floats)]
            (result,) = _pointwise(_BY_HASH[op], sources, [], *full, loop)
        assert buffer < n_buffers
        values.pop(holds.get(buffer), None)
        holds[buffer] = n_inputs + step
        values[n_inputs + step] = result
    assert len(words) == at + n_outputs
    return [values[value] for value in words[at:]]


def _fused(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    *inputs, program = ins
    return run_vector_program(program, inputs)


def _reduce_fused(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    *inputs, program = ins
    (elements,) = run_vector_program(program, inputs)
    reduction = ("sum", "mean", "prod", "amax", "amin")[iparams[1]]
    return _reduce(reduction, [elements], outs, iparams, fparams, compute)


def _unpacked(packed: torch.Tensor, rows: int) -> torch.Tensor:
    """[panels, k, 32] -> [rows, k]."""
    return packed.transpose(1, 2).reshape(-1, packed.shape[1])[:rows]


def _gemm_packed(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    a, packed, c, *more = ins
    result = a.float() @ _unpacked(packed, outs[0].shape[1]).float().t()
    if c is not None:
        result = result + c
    if not iparams[0]:
        return [result]
    *extras, program = more
    return run_vector_program(program, [result, *extras])


def _convolution_fused(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    (sums,) = _convolution(name, ins[:3], outs, iparams, fparams, compute)
    *extras, program = ins[3:]
    return run_vector_program(program, [sums.flatten(2), *extras])


def _convolution_packed(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    x, packed, bias, *more = ins
    weight = packed.movedim(-1, 1).flatten(0, 1)[: outs[0].shape[1]]  # [panels, ci, kernel..., 32] -> [co, ...]
    (sums,) = _convolution(name, [x, weight, bias], outs, iparams, fparams, compute)
    return run_vector_program(more[-1], [sums.flatten(2), *more[:-1]]) if more else [sums]


def _index_select_packed(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: Any) -> list:
    return [_unpacked(ins[0], iparams[0])[ins[1].long()]]


def _sort(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return list(torch.sort(ins[0], dim=iparams[0], descending=bool(iparams[1]), stable=not iparams[2]))


def _topk(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    return list(torch.topk(ins[0], iparams[1], iparams[0], bool(iparams[2]), bool(iparams[3])))


def _resample(name: str, ins: list, outs: list, iparams: list, fparams: list, compute: torch.dtype) -> list:
    assert name == "linear" and ins[0].shape[2] == 1
    scales = None if not any(fparams[:3]) else fparams[1:3]
    size = list(outs[0].shape[3:]) if scales is None else None
    result = torch.ops.aten.upsample_bilinear2d.vec(ins[0].squeeze(2), size, bool(iparams[0]), scales)
    return [result.unsqueeze(2)]


FAMILIES: dict[str, Callable[..., list]] = {
    "sort": _sort,
    "topk": _topk,
    "resample": _resample,
    "channel_norm": _channel_norm,
    "convolution_fused": _convolution_fused,
    "convolution_packed": _convolution_packed,
    "fused": _fused,
    "reduce_fused": _reduce_fused,
    "gemm_packed": _gemm_packed,
    "index_select_packed": _index_select_packed,
    "pointwise": _pointwise,
    "copy": _copy,
    "fill": _copy,
    "arange": _arange,
    "reduce": _reduce,
    "gemm": _gemm,
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "layer_norm": _layer_norm,
    "rms_norm": _rms_norm,
    "attention": _attention,
    "index_select": _index_select,
    "gather": _gather,
    "index": _index,
    "cumsum": _cumsum,
    "triangle": _triangle,
    "convolution": _convolution,
    "pool": _pool,
}
