# SPDX-License-Identifier: BSD-3-Clause
"""The operators that a host call may run, and the arguments that it may give them.

A file is data: its author chooses the operators. So a host call runs only operators whose sole effect is their result
(or an error), unless the caller of load_loadable names them. The rule reads the operator's schema and its tags, and
holds for operators that later versions of PyTorch add.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from typing import Any

import torch

from .errors import LoadableError

# Values of string parameters, by the parameter's name. A string for another parameter (a file name, an equation) is no
# enumeration, and its operator is refused. None: a text that only appears in an error.
ENUMERATIONS: dict[str, frozenset[str] | None] = {
    "rounding_mode": frozenset(("trunc", "floor")),
    "reduce": frozenset(("add", "multiply", "sum", "prod", "mean", "amax", "amin", "max", "min")),
    "approximate": frozenset(("none", "tanh")),
    "norm": frozenset(("forward", "backward", "ortho")),
    "ord": frozenset(("fro", "nuc")),
    "p": frozenset(("fro", "nuc")),
    "padding": frozenset(("same", "valid")),
    "padding_side": frozenset(("left", "right")),
    "pad_mode": frozenset(("constant", "reflect", "replicate", "circular")),
    "mode": frozenset(("constant", "reflect", "replicate", "circular", "reduced", "complete", "r")),
    "UPLO": frozenset(("L", "U", "l", "u")),
    "driver": frozenset(("gels", "gelsy", "gelsd", "gelss", "gesvd", "gesvdj", "gesvda")),
    "side": frozenset(("left", "right")),
    "interpolation": frozenset(("linear", "lower", "higher", "midpoint", "nearest")),
    "indexing": frozenset(("ij", "xy")),
    "assert_msg": None,
}

# Operators without a result: they raise an error or do nothing.
ASSERTIONS = frozenset(
    (
        *("aten::_assert_async", "aten::_assert_async.msg", "aten::_assert_scalar", "aten::_assert_tensor_metadata"),
        *("aten::sym_constrain_range", "aten::sym_constrain_range_for_size"),
    )
)

# Operators that PyTorch names as internal (with a leading underscore), and that exported graphs contain.
INTERNAL = frozenset(
    """
    __and__ __lshift__ __or__ __rshift__ __xor__ _adaptive_avg_pool2d _adaptive_avg_pool2d_backward
    _adaptive_avg_pool3d _adaptive_avg_pool3d_backward _add_relu _addmm_activation _aminmax _batch_norm_no_update
    _batch_norm_with_update_functional _cast_Byte _cast_Char _cast_Double _cast_Float _cast_Half _cast_Int
    _cast_Long _cast_Short _cdist_backward _cdist_forward _cholesky_solve_helper _chunk_cat
    _compute_linear_combination _conj _conj_copy _conj_physical _convolution _convolution_mode _ctc_loss
    _ctc_loss_backward _dirichlet_grad _embedding_bag _embedding_bag_dense_backward _embedding_bag_forward_only
    _embedding_bag_per_sample_weights_backward _euclidean_dist _fake_quantize_learnable_per_channel_affine
    _fake_quantize_learnable_per_channel_affine_backward _fake_quantize_learnable_per_tensor_affine
    _fake_quantize_learnable_per_tensor_affine_backward _fake_quantize_per_tensor_affine_cachemask_tensor_qparams
    _fft_c2c _fft_c2r _fft_r2c _functional_assert_async _functional_assert_scalar _functional_sym_constrain_range
    _functional_sym_constrain_range_for_size _fused_adagrad _fused_adam _fused_adamw _fused_rms_norm
    _fused_rms_norm_backward _fused_sgd _grouped_mm _histogramdd_bin_edges _histogramdd_from_bin_cts
    _histogramdd_from_bin_tensors _int_mm _is_all_true _is_any_true _jagged_to_padded_dense_forward _linalg_det
    _linalg_eigh _linalg_eigvals _linalg_slogdet _linalg_solve_ex _linalg_svd _local_scalar_dense _log_softmax
    _log_softmax_backward_data _logcumsumexp _lu_with_info _make_dep_token _masked_scale _masked_softmax
    _masked_softmax_backward _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _neg_view _neg_view_copy _pad_circular _pad_enum
    _padded_dense_to_jagged_forward _pdist_backward _pdist_forward _prelu_kernel _prelu_kernel_backward
    _reshape_alias _reshape_alias_copy _reshape_copy _safe_softmax _scaled_dot_product_flash_attention_for_cpu
    _scaled_dot_product_flash_attention_for_cpu_backward _scaled_mm _segment_reduce_backward _shape_as_tensor
    _slow_conv2d_backward _slow_conv2d_forward _softmax _softmax_backward_data _stack _standard_gamma_grad _to_copy
    _trilinear _unique _unique2 _unsafe_index _unsafe_index_put _unsafe_masked_index
    _unsafe_masked_index_put_accumulate _unsafe_view _upsample_bicubic2d_aa _upsample_bicubic2d_aa_backward
    _upsample_bilinear2d_aa _upsample_bilinear2d_aa_backward _upsample_lanczos2d_aa _upsample_lanczos2d_aa_backward
    _upsample_nearest_exact1d _upsample_nearest_exact1d_backward _upsample_nearest_exact2d
    _upsample_nearest_exact2d_backward _upsample_nearest_exact3d _upsample_nearest_exact3d_backward _weight_norm
    _weight_norm_interface _weight_norm_interface_backward
    """.split()
)  # fmt: skip

# Parts of names of operators whose tensors are more than elements, sizes and strides: packed weights that hold
# addresses, layouts whose indices their kernels do not check again, tensors of other libraries.
_OPAQUE = ("fbgemm", "mkldnn", "quantized", "sparse", "nested", "vulkan", "cudnn", "miopen", "mps")

# Functional forms of what changes a tensor's storage, and pinned memory.
_STORAGE = ("set", "resize", "resize_as", "pin_memory", "is_pinned")

# Their results are memory as it is found; a host call gives zeros.
UNINITIALIZED = ("empty", "empty_like", "empty_permuted", "empty_strided", "new_empty", "new_empty_strided")

_VALUES = ("Tensor", "int", "float", "bool", "number", "SymInt", "SymFloat", "SymBool", "str", "Device")


def refusal(op: torch._ops.OpOverload, operators: Sequence[str] = ()) -> str | None:
    """Why a host call may not run the operator; None if it may.

    operators: patterns of names ("mylib::*", "aten::binomial") that the caller allows.
    """
    name = op.name()
    if named(name, operators) or name in ASSERTIONS:
        return None
    namespace, _, rest = name.partition("::")
    base, schema = rest.partition(".")[0], op._schema
    if namespace != "aten":
        return "is not an operator of PyTorch"
    if schema.is_mutable or not schema.returns:
        return "changes its arguments" if schema.is_mutable else "has no result"
    if torch.Tag.nondeterministic_seeded in op.tags:
        return "draws from the random generator of the process"
    public = not base.startswith("_") or base.startswith("_foreach") or base in INTERNAL
    if not public or base in _STORAGE or any(part in base for part in _OPAQUE):
        return "is internal to PyTorch"
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(name, "CPU"):
        return "has no kernel for the CPU"
    for argument in schema.arguments:
        if _element(argument.type) == "str" and argument.name not in ENUMERATIONS:
            return f"takes free text ({argument.name})"
    if unknown := {_element(item.type) for item in (*schema.arguments, *schema.returns)} - set(_VALUES):
        return f"takes or gives values of type {', '.join(sorted(unknown))}"
    return None


def named(name: str, operators: Sequence[str]) -> bool:
    """Whether a pattern names the operator, with or without its overload."""
    names = (name, name.partition(".")[0])
    return any(fnmatch.fnmatchcase(each, pattern) for each in names for pattern in operators)


def check_argument(op: torch._ops.OpOverload, parameter: str, value: Any, operators: Sequence[str] = ()) -> None:
    """Raises LoadableError for a text that is none of the parameter's values."""
    if isinstance(value, (list, tuple)):
        for item in value:
            check_argument(op, parameter, item, operators)
    elif isinstance(value, str) and not named(op.name(), operators):
        values = ENUMERATIONS.get(parameter, frozenset())
        if values is not None and value not in values:
            raise LoadableError(
                f"{op.name()}: {parameter} is {value[:60]!r}, expected {', '.join(sorted(values)) or 'no text'}"
            )
    elif parameter == "pin_memory" and value:
        raise LoadableError(f"{op.name()}: pin_memory is {value!r}, expected False")


def _element(kind: Any) -> str:
    """The type without List and Optional around it. A Generator stays None: no text of a host call gives one."""
    while isinstance(kind, (torch.ListType, torch.OptionalType)):
        kind = kind.getElementType()
    return "int" if str(kind) == "Generator" else str(kind)
