# SPDX-License-Identifier: BSD-3-Clause
"""Mutable buffers, several methods in one file, parameters replaced at run time."""

import copy
import threading
import warnings

import pytest
import torch
from torch import nn
from torch.testing._internal.common_utils import TestCase

import torch_atalla
from torch_atalla.__main__ import main
from torch_atalla.loadable.description import describe
from torch_atalla.loadable.errors import ExportError


class Counter(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.tensor([1.0, 2.0, 3.0]))
        self.register_buffer("calls", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        old = self.total * 1
        self.total.add_(x)
        self.calls += 1
        return old, self.total + 0, self.calls * 10


class Sums(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.register_buffer("k", k)

    def forward(self, x):
        self.k += x.sum().to(self.k.dtype)
        return self.k * 1


class Scaled(nn.Module):
    def __init__(self, k):
        super().__init__()
        self.register_buffer("k", k)

    def forward(self, x):
        return x * self.k


class Twice(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner.k * 2 + x


class Norm(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)

    def forward(self, x):
        return self.norm(x)


class Cached(nn.Module):
    """One layer of attention over a cache; `prefill` and `decode` share weights and cache."""

    def __init__(self, width=16, length=12, vocabulary=20):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.head = nn.Linear(width, vocabulary, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("k", torch.zeros(1, 2, length, width // 2))
        self.register_buffer("v", torch.zeros(1, 2, length, width // 2))

    def forward(self, ids, position):
        x = self.embed(ids)
        b, t, c = x.shape
        q, k, v = (part.view(b, t, 2, c // 2).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        self.k[:, :, position] = k
        self.v[:, :, position] = v
        mask = torch.arange(self.k.shape[2])[None, :] <= position[:, None]
        y = nn.functional.scaled_dot_product_attention(q, self.k, self.v, attn_mask=mask)
        return self.head(x + y.transpose(1, 2).reshape(b, t, c))


def cached_methods(module):
    prefill = torch.export.export(module, (torch.zeros(1, 4, dtype=torch.int64), torch.arange(4)))
    decode = torch.export.export(module, (torch.zeros(1, 1, dtype=torch.int64), torch.tensor([4])))
    return {"prefill": prefill, "decode": decode}


class TestState(TestCase):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.path = tmp_path / "model.atl"

    def load(self, program, **options):
        self.report = torch_atalla.save_loadable(program, self.path, **{"fallback": "error", **options})
        return torch_atalla.load_loadable(self.path)

    def test_buffers_persist(self):
        module = Counter()
        x = torch.tensor([0.5, 1.0, -1.0])
        program = self.load(torch.export.export(Counter(), (x,)))
        self.assertEqual(program.states, ("total", "calls"))
        for _ in range(3):
            for found, expected in zip(program(x.to("atalla")), module(x), strict=True):
                self.assertEqual(found.cpu(), expected)
            self.assertEqual(program.read_state("total"), module.total)
            self.assertEqual(program.read_state("calls"), module.calls)
        program.reset_state()
        self.assertEqual(program.read_state("total"), torch.tensor([1.0, 2.0, 3.0]))
        self.assertEqual(program.read_state("calls"), torch.tensor(0))
        program.load_state_dict({"total": torch.tensor([7.0, 8.0, 9.0])})
        self.assertEqual(program(x.to("atalla"))[0].cpu(), torch.tensor([7.0, 8.0, 9.0]))
        with self.assertRaisesRegex(KeyError, "no mutable buffer 'tot'; the program has 'total', 'calls'"):
            program.read_state("tot")

    def test_every_load_begins_anew(self):
        x = torch.ones(3)
        first = self.load(torch.export.export(Counter(), (x,)))
        first(x.to("atalla"))
        second = torch_atalla.load_loadable(self.path)
        self.assertEqual(second.read_state("total"), torch.tensor([1.0, 2.0, 3.0]))
        self.assertEqual(first.read_state("total"), torch.tensor([2.0, 3.0, 4.0]))

    def test_zeros_are_not_stored(self):
        class Large(nn.Module):
            def __init__(self):
                super().__init__()
                self.register_buffer("cache", torch.zeros(1 << 16))

            def forward(self, x):
                self.cache[:4] = x
                return self.cache.sum()

        program = self.load(torch.export.export(Large(), (torch.ones(4),)))
        self.assertLess(self.report.file_bytes, 1 << 14)
        self.assertEqual(self.report.state_bytes, 4 << 16)
        self.assertEqual(program(torch.ones(4, device="atalla")).item(), 4)

    def test_updates_are_made_in_place(self):
        """A step writes the cache at its positions only: no copy of the cache, however large it is."""
        methods = cached_methods(Cached().eval())
        self.load(methods)
        data = describe(str(self.path))
        names = [kernel["name"] for kernel in data["kernels"]]
        states = {k for k, storage in enumerate(data["storages"]) if storage["space"] == "state"}
        writers = [names[inst["kernel"]] for inst in data["instructions"] if inst["operands"][0]["storage"] in states]
        self.assertEqual(set(writers), {"index_put"})

    def test_batch_norm_statistics(self):
        torch.manual_seed(0)
        module, reference = Norm().train(), Norm().train()
        program = self.load(torch.export.export(module, (torch.randn(6, 4),)))
        for _ in range(3):
            x = torch.randn(6, 4) * 2 + 1
            self.assertEqual(program(x.to("atalla")).cpu(), reference(x), rtol=1e-4, atol=1e-5)
            for name, value in reference.named_buffers():
                self.assertEqual(program.read_state(name), value, rtol=1e-5, atol=1e-6)

    def test_methods_share_weights_and_state(self):
        torch.manual_seed(0)
        module = Cached().eval()
        program = self.load(cached_methods(module))
        self.assertEqual(list(program.methods), ["prefill", "decode"])
        stored = [(s["offset"], s["bytes"]) for s in describe(str(self.path))["storages"] if s["space"] == "weights"]
        parameters = (20 * 16 + 3 * 16 * 16) * 4  # tied and shared: once
        # The positions, two numbers of the mask, and the words of the launch that makes it.
        self.assertEqual(sum(size for _, size in set(stored)), parameters + 12 * 8 + 2 * 4 + 88)
        self.assertEqual(self.report.methods, ["prefill", "decode"])
        prompt = torch.tensor([[3, 1, 4, 1]])
        expected, found, ids = [], [], prompt
        with torch.no_grad():
            logits = module(prompt, torch.arange(4))
            for step in range(7):
                expected.append(int(logits[0, -1].argmax()))
                logits = module(torch.tensor([[expected[-1]]]), torch.tensor([4 + step]))
        logits = program["prefill"](prompt.to("atalla"), torch.arange(4).to("atalla"))
        for step in range(7):
            found.append(int(logits[0, -1].argmax()))
            ids = torch.tensor([[found[-1]]]).to("atalla")
            logits = program["decode"](ids, torch.tensor([4 + step]).to("atalla"))
        self.assertEqual(found, expected)
        self.assertEqual(program.read_state("k"), module.k, rtol=1e-4, atol=1e-5)
        with self.assertRaisesRegex(KeyError, "no method 'forward'; the program has 'prefill', 'decode'"):
            program["forward"]

    def assert_methods_are_modules(self, modules, calls=3, **options):
        """Methods from copies of the modules, called in turns, against the modules."""
        given = {name: copy.deepcopy(module) for name, module in modules.items()}
        programs = {name: torch.export.export(module, (torch.ones(3),)) for name, module in given.items()}
        program = self.load(programs, **options)
        for i in range(calls):
            for name, module in modules.items():
                x = torch.full((3,), float(i + 1))
                self.assertEqual(program[name](x.to("atalla")), module(x), exact_device=False)
        return program

    def test_buffers_of_one_name_are_several(self):
        """Of other values, sizes, dtypes and strides, of a parameter's name, or the same ones in another tensor."""
        others = [Sums(torch.zeros(8)), Sums(torch.zeros(3, dtype=torch.int32)), Sums(torch.full((3,), 5.0))]
        others += [
            Sums(torch.zeros(3, dtype=torch.float64)),
            Sums(torch.zeros(2, 3).t()),
            Scaled(torch.full((3,), 2.0)),
        ]
        for other in others:
            for golden in (True, False):
                program = self.assert_methods_are_modules({"a": Sums(torch.zeros(3)), "b": other}, golden=golden)
                self.assertEqual(program.states[0], "k")
                self.assertEqual(program.read_state("k"), torch.full((3,), 18.0))
            self.assert_methods_are_modules({"b": other, "a": Sums(torch.zeros(3))})
        with self.assertWarnsRegex(UserWarning, r"buffer 'k' of method 'b' .*state_dict\['k'\] = first"):
            program = self.assert_methods_are_modules({"a": Sums(torch.zeros(3)), "b": Sums(torch.zeros(3))})
        self.assertEqual(program.states, ("k", "b:k"))
        program.load_state_dict({"b:k": torch.ones(3)})
        self.assertEqual((program.read_state("k")[0], program.read_state("b:k")[0]), (18.0, 1.0))

    def test_one_buffer_of_several_names(self):
        """A method of the module, and one of a wrapper that only reads the buffer, or writes it."""
        for kind in (Twice, nn.Sequential):
            module = Sums(torch.zeros(3))
            program = self.load({"inner": module, "outer": kind(module)}, args=(torch.ones(3),))
            self.assertEqual(program.states, ("k",))
            again = copy.deepcopy(module)
            outer = kind(again)
            for _ in range(2):
                x = torch.ones(3)
                self.assertEqual(program["inner"](x.to("atalla")), again(x), exact_device=False)
                self.assertEqual(program["outer"](x.to("atalla")), outer(x), exact_device=False)
            name = "0.k" if kind is nn.Sequential else "inner.k"
            self.assertEqual(program.read_state(name), again.k)
            program.load_state_dict({name: torch.zeros(3)})
            self.assertEqual(program.read_state("k"), torch.zeros(3))

    def test_parameters_of_one_name(self):
        torch.manual_seed(0)
        a, b = nn.Linear(3, 3), nn.Linear(3, 3)
        program = self.assert_methods_are_modules({"a": a, "b": b}, optimize="none")
        self.assertEqual(set(program.parameters()), {"weight", "bias", "b:weight", "b:bias"})
        program.load_state_dict({"b:bias": torch.zeros(3), "b:weight": torch.eye(3)})
        x = torch.ones(3)
        self.assertEqual(program["b"](x.to("atalla")), x, exact_device=False)
        self.assertEqual(program["a"](x.to("atalla")), a(x), exact_device=False)
        program = self.assert_methods_are_modules({"a": a, "b": copy.deepcopy(a)}, optimize="none")
        self.assertEqual(set(program.parameters()), {"weight", "bias"})

    def test_buffers_that_share_memory(self):
        for second in ("k", "k[1:]"):
            module = Sums(torch.zeros(3))
            module.register_buffer("other", eval(second, {"k": module.k}))
            with self.assertRaisesRegex(ExportError, "buffer 'k' .* and buffer 'other' .* share memory"):
                self.load(torch.export.export(module, (torch.ones(3),)))
        first, second = Sums(torch.zeros(4)), Scaled(torch.zeros(3))
        second.k = first.k[1:]
        with self.assertRaisesRegex(ExportError, "buffer 'k' of method 'a' and buffer 'k' of method 'b' share memory"):
            self.load({"a": first, "b": second}, args=(torch.ones(3),))

    def test_programs_from_files_of_their_own(self):
        """The command shares equal tensors of one name, which files cannot."""
        module, names = Cached().eval(), []
        for name, program in cached_methods(module).items():
            torch.export.save(program, self.path.with_name(name + ".pt2"))
            names.append(f"{name}={self.path.with_name(name + '.pt2')}")
        with warnings.catch_warnings():
            warnings.simplefilter("error", UserWarning)
            self.assertEqual(main(["compile", *names, "-o", str(self.path)]), 0)
        self.assertEqual(torch_atalla.load_loadable(self.path).states, ("k", "v"))

    def test_mutated_inputs_are_refused(self):
        class Writes(nn.Module):
            def forward(self, x):
                x.add_(1)
                return x * 2

        with self.assertRaisesRegex(ExportError, "the program writes to 'x' "):
            self.load(torch.export.export(Writes(), (torch.ones(2),)))

    def test_methods_need_names(self):
        with self.assertRaisesRegex(ExportError, "expected methods by name"):
            self.load({})


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(8, 8), nn.Linear(8, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x):
        return self.b(torch.relu(self.a(x))) * self.scale


class TestReplacement(TestCase):
    @pytest.fixture(autouse=True)
    def folder(self, tmp_path):
        self.path = tmp_path / "model.atl"

    def load(self, module, *args):
        torch_atalla.save_loadable(torch.export.export(module.eval(), args), self.path, fallback="error")
        return torch_atalla.load_loadable(self.path)

    def test_named_parameters(self):
        torch.manual_seed(0)
        x = torch.randn(3, 8)
        program = self.load(Net(), x)
        self.assertEqual(set(program.parameters()), set(Net().state_dict()))
        for _ in range(3):
            other = Net().eval()
            program.load_state_dict(other.state_dict())
            with torch.no_grad():
                self.assertEqual(program(x.to("atalla")).cpu(), other(x), rtol=1e-4, atol=1e-5)

    def test_packed_convolution(self):
        program = self.load(nn.Conv2d(3, 64, (3, 5)), torch.randn(2, 3, 9, 9))
        self.assertIn("convolution_packed", {kernel["name"] for kernel in describe(str(self.path))["kernels"]})
        self.assertEqual(program.parameters()["weight"], (torch.float32, (64, 3, 3, 5)))
        other, x = nn.Conv2d(3, 64, (3, 5)).eval(), torch.randn(2, 3, 9, 9)
        program.load_state_dict(other.state_dict())
        with torch.no_grad():
            self.assertEqual(program(x.to("atalla")).cpu(), other(x), rtol=1e-4, atol=1e-5)
        with self.assertRaisesRegex(ValueError, "expected float32"):
            program.load_state_dict({"weight": torch.zeros(64, 45)})

    def test_packed_matrices(self):
        """Matrices wide enough that the file holds them as panels, one of them transposed, one tied to an embedding."""

        class Wide(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(96, 64)
                self.a = nn.Linear(64, 128)
                self.turned = nn.Parameter(torch.randn(128, 64))
                self.head = nn.Linear(64, 96, bias=False)
                self.head.weight = self.embed.weight

            def forward(self, ids):
                return self.head(torch.relu(self.a(self.embed(ids))) @ self.turned)

        torch.manual_seed(0)
        ids = torch.randint(0, 96, (1, 40))
        program = self.load(Wide(), ids)
        kernels = {kernel["name"] for kernel in describe(str(self.path))["kernels"]}
        self.assertIn("gemm_packed", kernels)
        self.assertEqual(program.parameters()["turned"], (torch.float32, (128, 64)))
        other = Wide().eval()
        given = {name: value for name, value in other.state_dict().items() if name in program.parameters()}
        given.pop("head.weight", None) if "embed.weight" in given else None
        program.load_state_dict(given)
        with torch.no_grad():
            self.assertEqual(program(ids.to("atalla")).cpu(), other(ids), rtol=1e-3, atol=1e-3)

    def test_wrong_replacements_change_nothing(self):
        x = torch.randn(3, 8)
        program = self.load(Net(), x)
        before = program(x.to("atalla")).cpu()
        for given, text in (
            ({"a.weight": torch.zeros(8, 7)}, r"a.weight: expected float32\[8, 8\], found float32\[8, 7\]"),
            ({"a.weight": torch.zeros(8, 8).double()}, r"found float64\[8, 8\]"),
            ({"a.weight": torch.zeros(8, 8), "c": torch.zeros(1)}, "no parameter or buffer is named 'c'"),
        ):
            with self.assertRaisesRegex(ValueError, text):
                program.load_state_dict(given)
        self.assertEqual(program(x.to("atalla")).cpu(), before)

    def test_folded_parameters_say_so(self):
        class Folded(nn.Module):
            def __init__(self):
                super().__init__()
                self.weight = nn.Parameter(torch.randn(4))
                self.used = nn.Parameter(torch.randn(4))

            def forward(self, x):
                return x * (self.weight * 2 + self.used) + self.used

        program = self.load(Folded(), torch.randn(2, 4))
        for name in ("weight", "used"):
            with self.assertRaisesRegex(ValueError, f"'{name}' was folded into other constants"):
                program.load_state_dict({name: torch.ones(4)})

    def test_calls_see_all_or_nothing(self):
        class Sum(nn.Module):
            def __init__(self, value):
                super().__init__()
                self.a, self.b = (nn.Parameter(torch.full((64,), value)) for _ in range(2))

            def forward(self, x):
                return (x + self.a) + self.b

        program = self.load(Sum(1.0), torch.zeros(64))
        stop = threading.Event()
        failures = []

        def replace():
            for value in range(2, 60):
                program.load_state_dict(Sum(float(value)).state_dict())
            stop.set()

        thread = threading.Thread(target=replace)
        thread.start()
        x = torch.zeros(64, device="atalla")
        while not stop.is_set():
            found = program(x).cpu()
            if found.unique().numel() != 1 or found[0].item() % 2:
                failures.append(found)
        thread.join()
        self.assertEqual(failures, [])
        self.assertEqual(program(x).cpu(), torch.full((64,), 118.0))
