# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of training as Atalla code: gradients, statistics of norms, convolutions of computed weights, optimizers."""

from __future__ import annotations

import warnings

import torch
from isa_kernels import operand
from torch.testing._internal.common_utils import TestCase, instantiate_parametrized_tests, parametrize

from torch_atalla.compiler.program.ir import BufferKind, Launch, LinearProgram, Port
from torch_atalla.compiler.targets.chip.build import compile_model
from torch_atalla.compiler.targets.chip.check import check_network
from torch_atalla.compiler.targets.chip.generate import compile_network
from torch_atalla.compiler.targets.chip.place import run_network

warnings.filterwarnings("ignore", category=FutureWarning)

aten = torch.ops.aten


class Call(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def last(x):
    return x.contiguous(memory_format=torch.channels_last)


def max_pool(x, g):
    window = [3, 3], [2, 2], [1, 1], [1, 1]
    return aten.max_pool2d_with_indices_backward(g, x, *window, False, aten.max_pool2d_with_indices(x, *window)[1])


def conv(x, w, b=None, stride=1, padding=1, dilation=1, groups=1, transposed=False):
    dims = x.ndim - 2
    steps = [[n] * dims if isinstance(n, int) else n for n in (stride, padding, dilation)]
    return aten.convolution(x, w, b, *steps, transposed, [0] * dims, groups)


def bn(x, w, b):
    return aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5)


SHAPE = (3, 7, 5, 6)
# Name -> function, and the sizes of its inputs.
ON_SCALAR_CORE = {
    "average": (lambda g, x: aten.avg_pool2d_backward(g, x, [3, 3], [2, 2], [1, 1], True, True, None), (2, 3, 4, 6),
                (2, 3, 7, 10)),
    "average_inside": (lambda g, x: aten.avg_pool2d_backward(g, x, [3, 2], [2, 2], [1, 1], False, False, None),
                       (2, 3, 4, 6), (2, 3, 7, 10)),
    "average_divisor": (lambda g, x: aten.avg_pool2d_backward(g, x, [2, 2], [2, 2], [0, 0], False, True, 3),
                        (2, 33, 4, 5), (2, 33, 8, 10)),
    "adaptive_average": (lambda g, x: aten._adaptive_avg_pool2d_backward(g, x), (2, 3, 4, 3), (2, 3, 7, 10)),
    "reflect": (lambda g, x: aten.reflection_pad2d_backward(g, x, [1, 2, 3, 0]), (2, 3, 10, 11), (2, 3, 7, 8)),
    "replicate": (lambda g, x: aten.replication_pad2d_backward(g, x, [1, 2, 3, 0]), (2, 3, 10, 11), (2, 3, 7, 8)),
    "max_pool_positions": (lambda x: aten.max_pool2d_with_indices(x, [3, 3], [2, 2], [1, 1]), (2, 3, 8, 10)),
    "max_unpool": (lambda x, y: aten.max_unpool2d(x, aten.max_pool2d_with_indices(y, [2, 2])[1], [8, 10]),
                   (2, 3, 4, 5), (2, 3, 8, 10)),
}  # fmt: skip
ON_VECTOR_UNIT = {
    "conv": (lambda x, w, b: conv(x, w, b, [2, 1], [1, 0], [1, 2]), (2, 5, 9, 8), (40, 5, 3, 2), (40,)),
    "conv_lines": (conv, (2, 64, 9, 8), (40, 64, 3, 3)),
    "conv_groups": (lambda x, w: conv(x, w, groups=2), (2, 64, 9, 8), (80, 32, 3, 3)),
    "conv_small_groups": (lambda x, w: conv(x, w, groups=2), (2, 10, 9, 8), (6, 5, 3, 3)),
    "conv_depthwise": (lambda x, w: conv(x, w, groups=40), (2, 40, 9, 8), (40, 1, 3, 3)),
    "conv_transposed": (lambda x, w: conv(x, w, stride=2, transposed=True), (2, 40, 5, 6), (40, 33, 3, 3)),
    "conv1x1": (lambda x, w: conv(x, w, padding=0), (2, 40, 5, 6), (70, 40, 1, 1)),
    "conv1d": (conv, (2, 40, 16), (70, 40, 3)),
    "layer_norm": (lambda x, w, b: aten.native_layer_norm(x * 3 + 1, [50], w, b, 1e-5), (3, 7, 50), (50,), (50,)),
    "batch_norm": (lambda x, w, b: bn(x * 3 + 1, w, b), SHAPE, (7,), (7,)),
    "batch_norm_last": (lambda x, w, b: bn(last(x) * 3 + 1, w, b), (3, 40, 5, 6), (40,), (40,)),
    "batch_norm_given": (lambda x, w, b, m, v: aten._native_batch_norm_legit_no_training(
        x, w, b, m, v.abs(), 0.1, 1e-5)[0], SHAPE, (7,), (7,), (7,), (7,)),
    "sum": (lambda x: x.sum((0, 2, 3)), SHAPE),
    "amax": (lambda x: x.amax((0, 3)), SHAPE),
    "flip": (lambda x: x.flip(1, 3), SHAPE),
    "gelu": (lambda g, x: aten.gelu_backward(g, x * 3), (500,), (500,)),
    "gelu_tanh": (lambda g, x: aten.gelu_backward(g, x * 3, approximate="tanh"), (500,), (500,)),
    "silu": (lambda g, x: aten.silu_backward(g, x * 3), (500,), (500,)),
    "sigmoid": (lambda g, x: aten.sigmoid_backward(g, (x * 3).sigmoid()), (500,), (500,)),
    "tanh": (lambda g, x: aten.tanh_backward(g, x.tanh()), (500,), (500,)),
    "threshold": (lambda g, x: aten.threshold_backward(g, x, 0.5), (500,), (500,)),
    "masked_fill": (lambda x, g: x.masked_fill(g > 0, -torch.inf), (500,), (500,)),
    "addcmul": (lambda x, y, z: torch.addcmul(x, y, z, value=0.3), (50, 4), (50, 4), (50, 4)),
    "addcdiv": (lambda x, y, z: torch.addcdiv(x, y, z.abs() + 0.1, value=0.3), (50, 4), (50, 4), (50, 4)),
    "max_pool": (max_pool, (2, 33, 8, 10), (2, 33, 4, 5)),
    "max_pool_last": (lambda x, g: max_pool(last(x), last(g)), (2, 33, 8, 10), (2, 33, 4, 5)),
    "softmax": (lambda g, x: aten._softmax_backward_data(g, x.softmax(-1), -1, torch.bfloat16), (5, 40), (5, 40)),
}  # fmt: skip


class TestGradients(TestCase):
    def compiled(self, function, *shapes):
        torch.manual_seed(0)
        args = tuple(torch.randn(shape).bfloat16() for shape in shapes)
        compiled = compile_model(Call(function), args)
        check_network(compiled, list(args))
        return compiled.network

    @parametrize("name", list(ON_SCALAR_CORE))
    def test_scalar_core(self, name):
        self.assertGreater(len(self.compiled(*ON_SCALAR_CORE[name]).scalar_calls), 0)

    @parametrize("name", list(ON_VECTOR_UNIT))
    def test_vector_unit(self, name):
        self.assertEqual(self.compiled(*ON_VECTOR_UNIT[name]).scalar_calls, [])

    def test_log_softmax(self):
        """The scalar core computes one logarithm per row."""
        network = self.compiled(lambda x: torch.log_softmax(x * 10, 1), (3, 50, 4))
        self.assertEqual(len(network.scalar_calls), 1)

    def test_embedding(self):
        torch.manual_seed(0)
        args = (torch.randn(7, 40).bfloat16(), torch.randint(0, 10, (7,)))
        step = Call(lambda g, i: aten.embedding_dense_backward(g, i, 10, -1, False))
        check_network(compile_model(step, args), list(args))


def run_optimizer(kernel, tensors, singles, /, **parameters):
    """The tensors after one step: parameter, gradient and three states; singles: step, rate, scale, found infinity."""
    program = LinearProgram()
    outputs, inputs, given = [], [], []
    for number, tensor in enumerate([*tensors, *singles]):
        if tensor is None:
            (outputs if number < 5 else inputs).append(None)
            continue
        source = operand(program, tensor, BufferKind.INPUT, f"in{number}")
        program.inputs.append(Port(f"in{number}", source))
        given.append(tensor)
        if number >= 5:
            inputs.append(source)
            continue
        target = operand(program, torch.empty_like(tensor), BufferKind.OUTPUT, f"out{number}")
        program.outputs.append(Port(f"out{number}", target))
        program.instructions.append(Launch("copy", (target,), (source,), tensor.dtype))
        outputs.append(target)
    launch = Launch(f"optimizer.{kernel}", tuple(outputs), tuple(inputs), torch.bfloat16)
    program.instructions.append(launch.with_parameters(**parameters))
    network = compile_network(program)
    return run_network(network, network.code(), given).outputs


class TestOptimizers(TestCase):
    def setUp(self):
        super().setUp()
        torch.manual_seed(0)
        self.tensors = [torch.randn(7, 9).bfloat16() for _ in range(2)] + [
            torch.rand(7, 9).bfloat16() for _ in range(3)
        ]
        self.step = torch.tensor(5.0).bfloat16()

    def check(self, kernel, upstream, states, options, scale=None, found=None, **parameters):
        tensors = [*self.tensors[: 2 + states], *[None] * (3 - states)]
        wide = [[x.float().clone()] for x in tensors if x is not None]
        extra = {} if scale is None else {"grad_scale": scale.float(), "found_inf": found.float()}
        upstream(*wide, **options, **extra)
        rate = parameters.pop("learning_rate", options["lr"])
        outputs = run_optimizer(kernel, tensors, [self.step, None, scale, found], learning_rate=rate, **parameters)
        for got, (right,) in zip(outputs, wide, strict=True):
            self.assertEqual(got.float(), right, atol=1e-3, rtol=2**-8)

    @parametrize("decoupled", [False, True])
    @parametrize("maximum", [False, True])
    def test_adam(self, decoupled, maximum):
        def upstream(p, g, m, v, *largest, **options):
            op = torch._fused_adamw_ if decoupled else torch._fused_adam_
            op(p, g, m, v, *(largest or [[]]), [torch.tensor(5.0)], **options)

        options = {"lr": 0.1, "beta1": 0.9, "beta2": 0.99, "weight_decay": 0.1, "eps": 1e-6, "maximize": False}
        given = {"betas": (0.9, 0.99), "weight_decay": 0.1, "eps": 1e-6, "decoupled": decoupled, "maximize": False}
        self.check("adam", upstream, 3 if maximum else 2, options | {"amsgrad": maximum}, **given)

    @parametrize("infinite", [False, True])
    def test_sgd(self, infinite):
        def upstream(p, g, m, **options):
            torch._fused_sgd_(p, g, m, **options)

        options = {"weight_decay": 0.1, "momentum": 0.9, "dampening": 0.5, "nesterov": True, "maximize": True}
        scale, found = torch.tensor(2.0).bfloat16(), torch.tensor(float(infinite)).bfloat16()
        more = {"lr": 0.1, "is_first_step": False}
        self.check("sgd", upstream, 1, options | more, scale, found, **options, first_step=False)

    def test_adagrad(self):
        def upstream(p, g, s, **options):
            torch._fused_adagrad_(p, g, s, [torch.tensor(5.0)], **options)

        options = {"lr": 0.1, "lr_decay": 0.1, "weight_decay": 0.1, "eps": 1e-6, "maximize": False}
        given = {"learning_rate_decay": 0.1, "weight_decay": 0.1, "eps": 1e-6, "maximize": False}
        self.check("adagrad", upstream, 1, options, **given)


instantiate_parametrized_tests(TestGradients)
instantiate_parametrized_tests(TestOptimizers)
