# SPDX-License-Identifier: BSD-3-Clause
"""torch.save and torch.load in every direction, and safetensors."""

import io
import tempfile
from collections import OrderedDict
from pathlib import Path

import torch
from torch import nn
from torch.testing._internal.common_device_type import dtypes, instantiate_device_type_tests
from torch.testing._internal.common_dtype import all_types_and_complex_and
from torch.testing._internal.common_utils import TestCase, parametrize, subtest

SAVED = all_types_and_complex_and(
    torch.half, torch.bfloat16, torch.bool, torch.uint16, torch.uint32, torch.uint64, torch.complex32,
    torch.float8_e4m3fn, torch.float8_e5m2,
)  # fmt: skip
FORMATS = [subtest(True, name="zip"), subtest(False, name="legacy")]
SAFETY = [subtest(True, name="weights_only"), subtest(False, name="pickle")]


class Model(nn.Module):
    """Stands at module level, so that whole models can be pickled."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(4, 4)
        self.decoder = nn.Linear(4, 4, bias=False)
        self.decoder.weight = self.encoder.weight
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x):
        return self.decoder(self.encoder(x).relu())


def saved(obj, **kwargs):
    buffer = io.BytesIO()
    torch.save(obj, buffer, **kwargs)
    buffer.seek(0)
    return buffer


def through(obj, *, zip_format=True, **kwargs):
    return torch.load(saved(obj, _use_new_zipfile_serialization=zip_format), **kwargs)


def bits(t):
    """Bytes of a tensor: also for dtypes that have no comparison."""
    return t.detach().cpu().contiguous().reshape(-1).view(torch.uint8).tolist() if t.numel() else []


class TestSaveLoad(TestCase):
    @dtypes(*SAVED)
    @parametrize("zip_format", FORMATS)
    @parametrize("weights_only", SAFETY)
    def test_dtypes(self, device, dtype, zip_format, weights_only):
        if not zip_format and dtype not in torch.storage._dtype_to_storage_type_map():
            self.skipTest("the legacy format has no such storage, on any device")
        x = torch.arange(6).to(dtype).reshape(2, 3)
        for y in (x, x.t(), x[:, 1:]):
            found = through(y.to(device), zip_format=zip_format, weights_only=weights_only)
            self.assertEqual((found.dtype, found.device, found.shape), (dtype, torch.device(device), y.shape))
            self.assertEqual(bits(found), bits(y))

    @parametrize("zip_format", FORMATS)
    @parametrize("weights_only", SAFETY)
    def test_map_location(self, device, zip_format, weights_only):
        def to_one(storage, location):
            seen.append((storage.device.type, location))
            return storage.atalla(1)

        for source in ("cpu", "atalla:0", "atalla:1"):
            x = torch.arange(5.0, device=source)
            seen = []
            for where, expected in (
                (None, source), ("cpu", "cpu"), ("atalla", "atalla:0"), ("atalla:1", "atalla:1"),
                (torch.device("cpu"), "cpu"), (torch.device("atalla:1"), "atalla:1"),
                ({source: "atalla:1"}, "atalla:1"), ({source: "cpu"}, "cpu"), ({"elsewhere": "cpu"}, source),
                (to_one, "atalla:1"), (lambda storage, location: None, source), ("meta", "meta"),
            ):  # fmt: skip
                found = through(x, zip_format=zip_format, map_location=where, weights_only=weights_only)
                self.assertEqual(found.device, torch.device(expected), msg=f"{source} with {where}")
                if expected != "meta":
                    self.assertEqual(found.cpu(), x.cpu())
            self.assertEqual(seen, [("cpu", source)])

    def test_current_device(self, device):
        with torch.atalla.device(1):
            self.assertEqual(through(torch.ones(2), map_location="atalla").device.index, 1)
            self.assertEqual(through(torch.ones(2, device="atalla:0")).device.index, 0)

    def test_default_device(self, device):
        with torch.device("atalla:1"):
            self.assertEqual(through(torch.ones(2)).device, torch.device("atalla:1"))

    @parametrize("zip_format", FORMATS)
    def test_shared_storages(self, device, zip_format):
        base = torch.arange(12.0, device=device)
        obj = {"base": base, "view": base[3:7], "again": base, "matrix": base.view(3, 4).t(), "other": base.clone()}
        for where in (None, "cpu", "atalla:1"):
            found = through(obj, zip_format=zip_format, map_location=where)
            cdata = {k: v.untyped_storage()._cdata for k, v in found.items()}
            self.assertEqual(len({cdata[k] for k in ("base", "view", "again", "matrix")}), 1)
            self.assertNotEqual(cdata["other"], cdata["base"])
            found["base"].zero_()
            self.assertEqual(found["view"].cpu(), torch.zeros(4))
            self.assertEqual(found["matrix"].stride(), (1, 4))

    @parametrize("zip_format", FORMATS)
    def test_storages(self, device, zip_format):
        """Typed ones: upstream does not read an untyped storage back as one, on any device."""
        t = torch.arange(4, dtype=torch.int16, device=device)
        for where in (None, "cpu", "atalla:1"):
            typed = through(t._typed_storage(), zip_format=zip_format, map_location=where, weights_only=False)
            self.assertEqual((typed.dtype, typed.device), (torch.int16, torch.device(where or device)))
            self.assertEqual(typed._untyped_storage.tolist(), t.untyped_storage().tolist())

    def test_lazy_bits(self, device):
        z = torch.tensor([1 + 2j, 3 - 1j], device=device)
        for x in (z.conj(), z.imag._neg_view(), z.conj().imag):
            found = through(x)
            self.assertEqual((found.is_conj(), found.is_neg()), (x.is_conj(), x.is_neg()))
            self.assertEqual(found.cpu(), x.cpu())

    def test_requires_grad_and_state(self, device):
        p = nn.Parameter(torch.ones(2, device=device))
        found = through({"p": p, "ordered": OrderedDict(a=p.detach())})
        self.assertEqual((type(found["p"]), found["p"].requires_grad), (nn.Parameter, True))
        self.assertEqual(found["p"].data_ptr(), found["ordered"]["a"].data_ptr())
        empty = through(torch.empty(0, 3, device=device))
        self.assertEqual((empty.shape, empty.device), ((0, 3), torch.device(device)))

    def test_mmap(self, device):
        x = torch.arange(10_000.0, device=device)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.pt"
            torch.save({"x": x, "y": x[5:]}, path)
            for where in (None, "cpu", "atalla:1"):
                found = torch.load(path, map_location=where, mmap=True)
                self.assertEqual(found["x"].device, torch.device(where or device))
                self.assertEqual(found["y"].cpu(), torch.arange(5.0, 10_000.0))
                del found

    def test_missing_device(self, device):
        with self.assertRaisesRegex(
            RuntimeError,
            r"Attempting to deserialize object on ATALLA device 7 but torch.atalla.device_count\(\) is 2. Please use "
            r"torch.load with map_location to map your storages to an existing device.",
        ):
            through(torch.ones(2), map_location="atalla:7")
        with self.assertRaisesRegex(RuntimeError, "ATALLA device 2"):
            through(torch.ones(2, device=device), map_location={device: "atalla:2"})

    def test_location_tags(self, device):
        for there in ("atalla:0", "atalla:1"):
            s = torch.UntypedStorage(2, device=there)
            self.assertEqual(torch.serialization.location_tag(s), there)
            host = torch.UntypedStorage(2)
            self.assertEqual(torch.serialization.default_restore_location(host, there).device, torch.device(there))

    def test_register_package(self, device):
        registry = torch.serialization._package_registry
        before = list(registry)
        try:
            torch.serialization.register_package(
                5,
                lambda s: "vault" if s.device.type == "atalla" else None,
                lambda s, location: s.atalla(1) if location == "vault" else None,
            )
            self.assertEqual(through(torch.ones(2, device="atalla:0")).device.index, 1)
        finally:
            registry[:] = before

    def test_skip_data(self, device):
        x = torch.arange(4.0, device=device)
        with torch.serialization.skip_data():
            buffer = saved({"x": x})
        found = torch.load(buffer)["x"]
        self.assertEqual((found.shape, found.device), (x.shape, x.device))

    def test_set_default_mmap(self, device):
        with torch.serialization.safe_globals([Model]):
            self.assertEqual(type(through(Model().to(device), weights_only=False)), Model)


class TestModels(TestCase):
    @parametrize("where", [None, "cpu", "atalla:1"])
    def test_state_dict(self, device, where):
        model = Model().to(device)
        state = through(model.state_dict(), map_location=where)
        self.assertEqual(state["encoder.weight"].data_ptr(), state["decoder.weight"].data_ptr())
        other = Model().to(device)
        self.assertTrue(other.load_state_dict(state))
        for a, b in zip(model.state_dict().values(), other.state_dict().values()):
            self.assertEqual((a.device, a), (b.device, b))

    def test_assign(self, device):
        state = through(Model().to(device).state_dict())
        with torch.device("meta"):
            model = Model()
        model.load_state_dict(state, assign=True)
        self.assertEqual(model.encoder.weight.device, torch.device(device))
        self.assertEqual(model.encoder.weight.data_ptr(), state["encoder.weight"].data_ptr())
        model.decoder.weight = model.encoder.weight
        self.assertEqual(model(torch.ones(1, 4, device=device)).shape, (1, 4))

    @parametrize("zip_format", FORMATS)
    def test_whole_model(self, device, zip_format):
        model = Model().to(device)
        x = torch.randn(3, 4)
        for where in (None, "cpu", "atalla:1"):
            found = through(model, zip_format=zip_format, map_location=where, weights_only=False)
            self.assertIs(found.decoder.weight, found.encoder.weight)
            self.assertEqual(found(x.to(where or device)).cpu(), model(x.to(device)).cpu())
        with self.assertRaisesRegex(Exception, "Weights only load failed"):
            through(model, weights_only=True)

    def test_checkpoint(self, device):
        """Training goes on from a checkpoint as it would have gone on without."""

        def made():
            torch.manual_seed(0)
            model = Model().to(device)
            return model, torch.optim.AdamW(model.parameters(), lr=0.1)

        def train(model, optimizer, steps):
            for k in range(steps):
                optimizer.zero_grad()
                model(torch.full((2, 4), 1.0 + k, device=device)).square().sum().backward()
                optimizer.step()

        model, optimizer = made()
        train(model, optimizer, 2)
        checkpoint = saved(
            {"model": model.state_dict(), "optimizer": optimizer.state_dict(), "rng": torch.atalla.get_rng_state()}
        )
        train(model, optimizer, 2)
        for where in (device, "cpu"):
            checkpoint.seek(0)
            state = torch.load(checkpoint, map_location=where)
            again, its = made()
            again.load_state_dict(state["model"])
            its.load_state_dict(state["optimizer"])
            torch.atalla.set_rng_state(state["rng"].cpu())
            for p in its.state.values():
                self.assertEqual(p["exp_avg"].device, torch.device(device))
            train(again, its, 2)
            for a, b in zip(model.parameters(), again.parameters()):
                self.assertEqual(a, b, atol=0, rtol=0)


class TestSafetensors(TestCase):
    def setUp(self):
        super().setUp()
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = Path(self.folder.name) / "model.safetensors"

    @parametrize("there", ["cpu", 0, 1])
    def test_save_and_load(self, device, there):
        """An integer is a device of torch's accelerator."""
        from safetensors.torch import load_file, save_file

        state = {
            str(dtype): torch.arange(3000).remainder(2 if dtype == torch.bool else 100).to(dtype).reshape(30, 100)
            for dtype in (
                torch.float32, torch.float64, torch.half, torch.bfloat16, torch.int64, torch.int8, torch.uint8,
                torch.bool,
            )
        }  # fmt: skip
        state["scalar"], state["empty"] = torch.tensor(2.5), torch.empty(0, 3)
        save_file({k: v.to(device) for k, v in state.items()}, self.path, metadata={"made": "here"})
        found = load_file(self.path, device=there)
        self.assertEqual(set(found), set(state))
        for name, value in state.items():
            self.assertEqual((found[name].device, found[name].dtype), (torch.device(there), value.dtype))
            self.assertEqual(found[name].cpu(), value)

    def test_names_of_devices(self, device):
        """safetensors itself refuses "atalla"."""
        from safetensors import SafetensorError, safe_open
        from safetensors.torch import load_file, load_model, save_file

        save_file({"weight": torch.arange(6.0).reshape(2, 3), "bias": torch.ones(2)}, self.path)
        for name, index in (("atalla", 0), ("atalla:1", 1), (torch.device("atalla", 1), 1)):
            found = load_file(self.path, device=name)["weight"]
            self.assertEqual((found.device, found.cpu().sum()), (torch.device("atalla", index), torch.tensor(15.0)))
            with safe_open(self.path, "pt", name) as f:
                self.assertEqual(f.get_slice("weight")[1:].device, torch.device("atalla", index))
        with torch.atalla.device(1):
            self.assertEqual(load_file(self.path, device="atalla")["bias"].device, torch.device("atalla", 1))
        self.assertEqual(
            load_model(torch.nn.Linear(3, 2, device="atalla:1"), self.path, device="atalla:1"), (set(), [])
        )
        with self.assertRaisesRegex(SafetensorError, "device nodevice is invalid"):
            load_file(self.path, device="nodevice")
        with self.assertRaisesRegex(Exception, "9"):
            load_file(self.path, device=9)

    def test_slices(self, device):
        from safetensors import safe_open
        from safetensors.torch import save_file

        x = torch.randn(64, 40)
        save_file({"x": x.to(device)}, self.path, metadata={"made": "here"})
        with safe_open(self.path, framework="pt", device=1) as f:
            self.assertEqual((list(f.keys()), f.metadata()), (["x"], {"made": "here"}))
            part = f.get_slice("x")[3:9, ::1]
            self.assertEqual((part.device.index, part.cpu(), f.get_tensor("x").cpu()), (1, x[3:9], x))

    def test_model(self, device):
        from safetensors.torch import load_model, save_model

        model, other = Model().to(device), Model().to("atalla:1")
        save_model(model, self.path)
        self.assertEqual(load_model(other, self.path, device=1), (set(), []))
        self.assertEqual(other.encoder.weight.cpu(), model.encoder.weight.cpu())
        self.assertEqual(other.decoder.weight.data_ptr(), other.encoder.weight.data_ptr())

    def test_bytes(self, device):
        from safetensors.torch import load, save

        x = torch.arange(7.0, device=device)
        self.assertEqual(load(save({"x": x}))["x"], x.cpu())

    def test_errors(self, device):
        from safetensors.torch import save_file

        x = torch.ones(4, device=device)
        with self.assertRaisesRegex(RuntimeError, "share memory"):
            save_file({"x": x, "y": x[:2]}, self.path)


class TestInstantiated(TestCase):
    def test_least_number(self):
        names = [n for c in SUITES for n in dir(c) if n.startswith("test_")]
        self.assertGreaterEqual(len(names), 100)


for suite in (TestSaveLoad, TestModels, TestSafetensors):
    instantiate_device_type_tests(suite, globals(), only_for=("atalla",))
SUITES = [c for n, c in list(globals().items()) if n.startswith(("TestSaveLoad", "TestModels", "TestSafetensors"))]
