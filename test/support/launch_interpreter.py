# SPDX-License-Identifier: BSD-3-Clause
"""A reference interpreter of linear programs: docs/reference/kernels.md in a few lines of torch on the CPU.

All memory is one byte arena. The interpreter is independent of the chip: it checks lowering and memory plan, and is
what the engine's results are compared with.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from torch_atalla.compiler.program.ir import BufferKind, HostCall, Immediate, Launch, LinearProgram, Operand
from torch_atalla.compiler.schedule.plan import MemoryPlan
from torch_atalla.loadable.host_call import Segment


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
            results = Segment(inst.program, ["*"]).run([_view(memory, operand).clone() for operand in inst.inputs])
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
    results = FAMILIES[family](launch, name, ins, outs)
    for out, result in zip(outs, results, strict=True):
        if out is not None:
            out.copy_(result.reshape(out.shape) if result.numel() == out.numel() else result.expand(out.shape))


# By name; the first argument gives the scalars by theirs.
POINTWISE: dict[str, Callable[..., torch.Tensor]] = {
    "add": lambda p, a, b: a + p("alpha") * b if a.dtype != torch.bool else a | b,
    "sub": lambda p, a, b: a - p("alpha") * b,
    "mul": lambda p, a, b: a * b,
    "div": lambda p, a, b: a / b,
    "pow_tensor_scalar": lambda p, a: a ** p("exponent"),
    "relu": lambda p, a: torch.relu(a),
    "gelu_none": lambda p, a: torch.nn.functional.gelu(a),
    "gelu_tanh": lambda p, a: torch.nn.functional.gelu(a, approximate="tanh"),
    "silu": lambda p, a: torch.nn.functional.silu(a),
    "bitwise_and": lambda p, a, b: a & b,
    "bitwise_not": lambda p, a: ~a,
    "logical_not": lambda p, a: ~a.bool(),
    "where": lambda p, c, a, b: torch.where(c.bool(), a, b),
    "masked_fill": lambda p, a, m, v: torch.where(m.bool(), v, a),
    **{
        name: (lambda f: lambda p, a, b: f(a, b))(getattr(torch, name))
        for name in ("eq", "ne", "lt", "le", "gt", "ge", "maximum", "minimum")
    },
    "clamp": lambda p, a: a.clamp(p("min"), p("max")),
    "clamp_min": lambda p, a: a.clamp(min=p("min")),
    "clamp_max": lambda p, a: a.clamp(max=p("max")),
    "hardsigmoid": lambda p, a: torch.nn.functional.hardsigmoid(a),
    "softplus": lambda p, a: torch.nn.functional.softplus(a, p("beta"), p("threshold")),
    "frac": lambda p, a: a.frac(),
    **{
        name: (lambda f: lambda p, a: f(a))(getattr(torch, name))
        for name in ("abs", "neg", "sin", "cos", "tanh", "exp", "log", "sqrt", "rsqrt", "sigmoid", "erf", "reciprocal")
    },
}


def _pointwise(launch: Launch, name: str, ins: list, outs: list) -> list:
    kept = {"where": (0,), "masked_fill": (1,)}.get(name, ())
    ins = [value if k in kept else value.to(launch.compute_dtype) for k, value in enumerate(ins)]
    return [POINTWISE[name](launch.parameter, *ins)]


def _copy(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [ins[0].to(outs[0].dtype)]


def _cat(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [torch.cat(ins, launch.parameter("dim"))]


def _arange(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [ins[0] + torch.arange(outs[0].numel()) * ins[1]]


def _reduce(launch: Launch, name: str, ins: list, outs: list) -> list:
    x, compute = ins[0], launch.compute_dtype
    dims = [d for d in range(x.ndim) if launch.parameter("reduced") >> d & 1]
    if name in ("max_dim", "min_dim"):
        return list(getattr(x, name[:3])(dims[0], True))
    if name in ("argmax", "argmin"):
        return [getattr(x, name)(dims[0] if len(dims) == 1 else None, len(dims) == 1)]
    if name in ("var", "std"):
        return [getattr(x, name)(dims, correction=launch.parameter("correction"), keepdim=True)]
    if name == "var_mean":
        return list(torch.var_mean(x, dims, correction=launch.parameter("correction"), keepdim=True))
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


def _gemm(launch: Launch, name: str, ins: list, outs: list) -> list:
    a, b, c = ins
    alpha, beta = launch.parameter("alpha"), launch.parameter("beta")
    result = alpha * torch.bmm(a, b)
    if c is not None and beta != 0:
        result = result + beta * c
    formula = {"relu": "relu", "gelu_erf": "gelu_none", "gelu_tanh": "gelu_tanh", "silu": "silu"}
    activation = formula.get(launch.parameter("activation"))
    return [POINTWISE[activation](launch.parameter, result) if activation else result]


def _softmax(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [torch.softmax(ins[0].to(launch.compute_dtype), launch.parameter("dim"))]


def _log_softmax(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [torch.log_softmax(ins[0].to(launch.compute_dtype), launch.parameter("dim"))]


def _layer_norm(launch: Launch, name: str, ins: list, outs: list) -> list:
    x, weight, bias = ins
    return list(torch.native_layer_norm(x, x.shape[-1:], weight, bias, launch.parameter("eps")))


def _rms_norm(launch: Launch, name: str, ins: list, outs: list) -> list:
    x, weight, bias = ins
    x = x.to(launch.compute_dtype)
    scale = torch.rsqrt((x * x).mean(-1, keepdim=True) + launch.parameter("eps"))
    y = x * scale * (1 if weight is None else weight)
    return [y if bias is None else y + bias, None, scale]


def _attention(launch: Launch, name: str, ins: list, outs: list) -> list:
    q, k, v, mask = ins
    repeat = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(repeat, 1), v.repeat_interleave(repeat, 1)
    scores = launch.parameter("scale") * (q @ k.transpose(-1, -2))
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    if launch.parameter("causal"):
        scores = scores.masked_fill(torch.ones_like(scores, dtype=torch.bool).triu(1), float("-inf"))
    weights = torch.softmax(scores, -1).nan_to_num(0.0)
    return [weights @ v, torch.logsumexp(scores, -1)]


def _index_select(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [ins[0].index_select(launch.parameter("dim"), ins[1])]


def _gather(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [ins[0].gather(launch.parameter("dim"), ins[1].long())]


def _index(launch: Launch, name: str, ins: list, outs: list) -> list:
    first = launch.parameter("first_dim")
    assert launch.parameter("count") == len(ins) - 1
    return [ins[0][(slice(None),) * first + tuple(index.long() for index in ins[1:])]]


def _cumsum(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [ins[0].to(launch.compute_dtype).cumsum(launch.parameter("dim"))]


def _triangle(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [{"upper": torch.triu, "lower": torch.tril}[launch.parameter("kept")](ins[0], launch.parameter("diagonal"))]


def _convolution(launch: Launch, name: str, ins: list, outs: list) -> list:
    x, weight, bias, outside = (*ins, None)[:4]
    n = x.ndim - 2
    stride, padding, dilation = (launch.parameter(name)[:n] for name in ("stride", "padding", "dilation"))
    if outside is not None:
        x = torch.nn.functional.pad(x, [p for size in reversed(padding) for p in (size, size)], value=outside.item())
        padding = [0] * n
    if not launch.compute_dtype.is_floating_point:  # in float64, which holds sums of products of bytes
        x, weight = x.double(), weight.double()
    return [torch.convolution(x, weight, bias, stride, padding, dilation, False, [0] * n, launch.parameter("groups"))]


def _pool(launch: Launch, name: str, ins: list, outs: list) -> list:
    x, functional = ins[0], torch.nn.functional
    if name == "adaptive_average":
        return [functional.adaptive_avg_pool3d(x, outs[0].shape[2:])]
    window = [launch.parameter(key) for key in ("kernel", "stride", "padding")]
    if name == "max":
        # Depth 1: an index in the volume is an index in the plane.
        dilation = launch.parameter("dilation")
        ceil = _ceil(x, outs[0], *window, dilation)
        return list(torch.ops.aten.max_pool3d_with_indices(x, *window, dilation, ceil))
    assert name == "average"
    ceil = _ceil(x, outs[0], *window, (1, 1, 1))
    count_padding, divisor = launch.parameter("count_padding"), launch.parameter("divisor")
    return [functional.avg_pool3d(x, *window, ceil, bool(count_padding), divisor or None)]


def _ceil(x: torch.Tensor, out: torch.Tensor, *window: tuple[int, ...]) -> bool:
    """Whether the output is larger than whole windows allow."""
    return any(
        o > (size + 2 * padding - dilation * (kernel - 1) - 1) // stride + 1
        for o, size, kernel, stride, padding, dilation in zip(out.shape[2:], x.shape[2:], *window, strict=True)
    )


def _channel_norm(launch: Launch, name: str, ins: list, outs: list) -> list:
    assert name == "apply"
    x, mean, rstd, weight, bias = (None if value is None else value.to(launch.compute_dtype) for value in ins)
    if launch.parameter("from_variance"):
        rstd = 1 / (rstd + launch.parameter("eps")).sqrt()
    x = (x - mean[..., None]) * rstd[..., None]
    x = x if weight is None else x * weight[..., None]
    return [x if bias is None else x + bias[..., None]]


def _fnv1a(text: str) -> int:
    value = 0xCBF29CE484222325
    for byte in text.encode():
        value = ((value ^ byte) * 0x100000001B3) % (1 << 64)
    return value - (1 << 64) if value >= 1 << 63 else value


_BY_HASH = {_fnv1a(f"pointwise.{name}"): name for name in POINTWISE}
_CODES = {0: torch.uint8, 1: torch.int8, 2: torch.int16, 3: torch.int32, 4: torch.int64, 5: torch.float16,
          6: torch.float32, 7: torch.float64, 11: torch.bool, 15: torch.bfloat16}  # fmt: skip


def run_vector_program(words: list[int], inputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Decodes as docs/concepts/compiler-passes.md says, buffers included: an overwritten value is not there."""
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
            name = _BY_HASH[op]
            launch = Launch(f"pointwise.{name}", (), (), loop, tuple(iparams), tuple(fparams))
            (result,) = _pointwise(launch, name, sources, [])
        assert buffer < n_buffers
        values.pop(holds.get(buffer), None)
        holds[buffer] = n_inputs + step
        values[n_inputs + step] = result
    assert len(words) == at + n_outputs
    return [values[value] for value in words[at:]]


def _fused(launch: Launch, name: str, ins: list, outs: list) -> list:
    *inputs, program = ins
    return run_vector_program(program, inputs)


def _reduce_fused(launch: Launch, name: str, ins: list, outs: list) -> list:
    *inputs, program = ins
    (elements,) = run_vector_program(program, inputs)
    reduction = launch.parameter("reduction")
    return _reduce(launch, reduction, [elements], outs)


def _unpacked(packed: torch.Tensor, rows: int) -> torch.Tensor:
    """[panels, k, 32] -> [rows, k]."""
    return packed.transpose(1, 2).reshape(-1, packed.shape[1])[:rows]


def _gemm_packed(launch: Launch, name: str, ins: list, outs: list) -> list:
    a, packed, c, *more = ins
    result = a.float() @ _unpacked(packed, outs[0].shape[1]).float().t()
    if c is not None:
        result = result + c
    if not launch.parameter("has_program"):
        return [result]
    *extras, program = more
    return run_vector_program(program, [result, *extras])


def _gemm_fused(launch: Launch, name: str, ins: list, outs: list) -> list:
    a, b, c, *extras, program = ins
    sums = torch.float32 if launch.compute_dtype.is_floating_point else torch.float64  # as _convolution
    result = launch.parameter("alpha") * (a.to(sums) @ b.to(sums))
    if c is not None:
        result = result + launch.parameter("beta") * c
    return run_vector_program(program, [result, *extras])


def _convolution_fused(launch: Launch, name: str, ins: list, outs: list) -> list:
    operands = [x.float() if x is not None and x.is_floating_point() else x for x in ins[:4]]
    (sums,) = _convolution(launch, name, operands, outs)
    *extras, program = ins[4:]
    return run_vector_program(program, [sums.flatten(2), *extras])


def _convolution_packed(launch: Launch, name: str, ins: list, outs: list) -> list:
    x, packed, bias, *more = ins
    weight = packed.movedim(-1, 1).flatten(0, 1)[: outs[0].shape[1]]  # [panels, ci, kernel..., 32] -> [co, ...]
    (sums,) = _convolution(launch, name, [x, weight, bias], outs)
    return run_vector_program(more[-1], [sums.flatten(2), *more[:-1]]) if more else [sums]


def _index_select_packed(launch: Launch, name: str, ins: list, outs: list) -> list:
    return [_unpacked(ins[0], launch.parameter("rows"))[ins[1].long()]]


def _sort(launch: Launch, name: str, ins: list, outs: list) -> list:
    dim, descending = launch.parameter("dim"), bool(launch.parameter("descending"))
    return list(torch.sort(ins[0], dim=dim, descending=descending, stable=not launch.parameter("any_order")))


def _topk(launch: Launch, name: str, ins: list, outs: list) -> list:
    largest, ordered = bool(launch.parameter("largest")), bool(launch.parameter("sorted"))
    assert not launch.parameter("stable")
    return list(torch.topk(ins[0], launch.parameter("k"), launch.parameter("dim"), largest, ordered))


def _resample(launch: Launch, name: str, ins: list, outs: list) -> list:
    assert name == "linear" and ins[0].shape[2] == 1
    scale = launch.parameter("scale")
    scales = scale[1:] if any(scale) else None
    size = list(outs[0].shape[3:]) if scales is None else None
    result = torch.ops.aten.upsample_bilinear2d.vec(
        ins[0].squeeze(2), size, bool(launch.parameter("align_corners")), scales
    )
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
    "gemm_fused": _gemm_fused,
    "index_select_packed": _index_select_packed,
    "pointwise": _pointwise,
    "copy": _copy,
    "cat": _cat,
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
