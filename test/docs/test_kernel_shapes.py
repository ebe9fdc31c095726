# SPDX-License-Identifier: BSD-3-Clause
"""The shapes of kernels.yaml: what the language means, and how a wrong shape is reported."""

from __future__ import annotations

import pytest

from tools.codegen import kernels
from tools.codegen.contract import kernel_shapes, kernel_shapes_cpp

TABLE = kernels.load(kernels.ROOT / kernels.TABLE)
PARAMETERS = {"dim": (), "mode": ("sum", "mean", "max"), "flag": ()}
KERNEL = 'Section:\n- name: k\n  meaning: text\n  operands:\n  - {{name: out, role: out, shape: "{shape}"}}\n'


def terms(text: str) -> list[str]:
    ((_, form),) = kernel_shapes.parse(text, PARAMETERS).forms
    return [type(term).__name__ + " " + term.text for term in form.terms or ()]


def test_forms() -> None:
    assert terms("[]") == []
    assert terms("[b, ceil(n / 32), min(m, n)]") == ["Size b", "Size ceil(n / 32)", "Size min(m, n)"]
    assert terms("[*before, n@dim, *after]") == ["Group *before", "Size n", "Group *after"]
    assert terms("[*_o, _]") == ["Group *_o", "Size _"]
    assert kernel_shapes.parse("one value", PARAMETERS).forms[0][1].terms is None
    conditions = [condition for condition, _ in kernel_shapes.parse("[n] if mode == max else [m]", PARAMETERS).forms]
    assert conditions == ["mode == max", ""]
    assert kernel_shapes.condition("mode in (sum, max)", PARAMETERS) == ("mode", (0, 2))
    assert kernel_shapes.condition("flag", PARAMETERS) == ("flag", ())


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("n, m", "expected `[a, b]`"),
        ("[n] if flag", "expected `[a, b]`"),
        ("[n] else [m]", "expected `[a, b]`"),
        ("[n] if speed else [m]", "expected a parameter, `mode == sum`"),
        ("[n] if mode == least else [m]", "mode has the values sum, mean, max"),
        ("[n@axis]", "the place `axis` is not an integer parameter; those are dim, mode, flag"),
        ("[*a, *b]", "expected at most one `*name`"),
        ("[n +]", "is not an expression"),
        ("[sqrt(n)]", "calls a function; expected one of ceil, min, max, rank"),
        ("[n / 2.5]", "has the constant 2.5; expected an integer"),
    ],
)
def test_wrong_shapes(text: str, reason: str) -> None:
    with pytest.raises(kernel_shapes.ShapeError) as caught:
        kernel_shapes.parse(text, PARAMETERS)
    assert reason in str(caught.value)


def test_a_wrong_shape_names_its_place(tmp_path) -> None:
    path = tmp_path / "kernels.yaml"
    for shape, reason in [("[n +]", "is not an expression"), ("[n / m]", "m, n of the size `n / m` is neither")]:
        path.write_text(KERNEL.format(shape=shape))
        with pytest.raises(kernels.ContractError) as caught:
            kernels.load(path)
        assert "kernels.yaml:2: kernel `k`: operand `out`: " in str(caught.value) and reason in str(caught.value)


def test_checks_are_generated_for_all_kernels() -> None:
    text = kernel_shapes_cpp.generate(TABLE.kernels)
    assert '{"gemm", check_gemm},' in text and '{"softmax", check_softmax},' in text
    named = [k for k in TABLE.kernels if any(o.role != "program" for o in k.operands)]
    for kernel in named:  # each at least knows which operands may be immediate values
        assert f'{{"{kernel.names[0]}", nullptr}},' not in text
