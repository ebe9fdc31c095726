# SPDX-License-Identifier: BSD-3-Clause
"""conv_tbc: eager mode and its gradients against the CPU, errors, loadables, and the time on several cores."""

import tempfile
from pathlib import Path

import torch
from torch.nn.functional import pad
from torch.testing._internal.common_utils import TestCase, run_tests

import torch_atalla
from torch_atalla.compiler.program.ir import Launch, Operand, contiguous_strides
from torch_atalla.compiler.targets.chip.divide import divide

SIZES = (((6, 2, 5), 3, 4), ((1, 1, 40), 1, 33), ((40, 3, 2), 4, 1), ((3, 0, 2), 2, 3), ((4, 2, 0), 2, 3))


def arguments(input: tuple[int, ...], taps: int, columns: int, dtype: torch.dtype) -> list[torch.Tensor]:
    sizes = (input, (taps, input[2], columns), (columns,))
    generator = torch.Generator().manual_seed(0)
    return [torch.randint(-3, 4, size, generator=generator).to(dtype) for size in sizes]


class Model(torch.nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        return torch.conv_tbc(x, weight, bias, 1).relu()


class TestConvTbc(TestCase):
    def setUp(self) -> None:
        super().setUp()
        mode = torch_atalla.fallback.mode("error")
        mode.__enter__()
        self.addCleanup(mode.__exit__, None, None, None)

    def test_eager(self) -> None:
        for dtype in (torch.float32, torch.float64, torch.bfloat16, torch.float16, torch.int32, torch.complex64):
            for sizes in SIZES:
                for padding in (-1, 0, 2):
                    given = arguments(*sizes, dtype)
                    if given[0].size(0) - given[1].size(0) + 1 + 2 * padding < 0:
                        continue
                    expected = torch.conv_tbc(*given, padding)
                    found = torch.conv_tbc(*(t.to("atalla") for t in given), padding)
                    self.assertEqual(found.cpu(), expected, msg=f"{sizes}, padding {padding}, {dtype}")

    def test_strides(self) -> None:
        x, weight, bias = arguments((6, 2, 5), 3, 4, torch.float32)
        views = [x.transpose(0, 1).contiguous().transpose(0, 1), weight.mT.contiguous().mT, pad(bias, (1, 2))[1:-2]]
        found = torch.conv_tbc(*(torch.empty_strided(t.shape, t.stride(), device="atalla").copy_(t) for t in views), 1)
        self.assertEqual(found.cpu(), torch.conv_tbc(x, weight, bias, 1))

    def test_gradients(self) -> None:
        results = []
        for device in ("cpu", "atalla"):
            leaves = [t.to(device).requires_grad_() for t in arguments((6, 2, 5), 3, 4, torch.float64)]
            out = torch.conv_tbc(*leaves, 1)
            results.append([out, *torch.autograd.grad(out.square().sum(), leaves)])
        self.assertEqual([t.cpu() for t in results[1]], results[0])

    def test_errors(self) -> None:
        x, weight, bias = arguments((6, 2, 5), 3, 4, torch.float32)
        wrong = ((x[0], weight, bias), (x, weight[0], bias), (x, weight, bias[None]), (x, weight[:, 1:], bias),
                 (x, weight, bias[1:]), (x[:1], weight, bias))  # fmt: skip
        for given in wrong:
            with self.assertRaises(RuntimeError) as expected:
                torch.conv_tbc(*given)
            with self.assertRaises(RuntimeError) as found:
                torch.conv_tbc(*(t.to("atalla") for t in given))
            self.assertEqual(str(found.exception).split("(")[0], str(expected.exception).split("(")[0])

    def test_loadable(self) -> None:
        given = tuple(arguments((70, 4, 40), 3, 64, torch.float32))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.atl"
            report = torch_atalla.save_loadable(torch.export.export(Model(), given), path)
            self.assertIn("conv_tbc", report.kernels)  # and no product of matrices
            loaded = torch_atalla.load_loadable(path)
            self.assertEqual(loaded(*(t.to("atalla") for t in given)).cpu(), Model()(*given))

    def test_division(self) -> None:
        """Along time, a part reads the steps that its windows reach; sequences and channels are divided as well."""
        for sizes, columns, dim in (((90, 1, 16), 32, 0), ((2, 50, 16), 32, 1), ((2, 1, 16), 96, 2)):
            shapes = ((*sizes[:2], columns), sizes, (3, sizes[2], columns), (columns,))
            operands = [Operand(k, 0, s, contiguous_strides(s), torch.float32) for k, s in enumerate(shapes)]
            launch = Launch("conv_tbc", tuple(operands[:1]), tuple(operands[1:]), torch.float32).with_parameters(
                padding=1
            )
            parts = divide(launch, 3).parts
            self.assertEqual(len(parts), 3)
            self.assertEqual(sum(part.outputs[0].sizes[dim] for part in parts), launch.outputs[0].sizes[dim])
            if dim == 0:
                self.assertEqual([part.inputs[0].sizes[0] for part in parts], [31, 32, 31])
                self.assertEqual([part.parameter("padding") for part in parts], [1, 0, 0])


if __name__ == "__main__":
    run_tests()
