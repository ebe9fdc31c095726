# SPDX-License-Identifier: BSD-3-Clause
"""One kernel a part of Triton's language."""

import triton
import triton.language as tl

# Text of an expression -> kernel. Triton reads the source of kernels, so each is written out by `elementwise`.
TEMPLATE = """
import triton
import triton.language as tl
from triton.language.extra import libdevice

@triton.jit
def kernel(x, y, out, N: tl.constexpr):
    i = tl.arange(0, N)
    a = tl.load(x + i)
    b = tl.load(y + i)
    tl.store(out + i, {expression})
"""


@triton.jit
def reduce_rows(x, out, index, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, KIND: tl.constexpr):
    m, n = tl.arange(0, M), tl.arange(0, N)
    values = tl.load(x + m[:, None] * N + n[None, :])
    kept = n if AXIS == 0 else m
    if KIND == "sum":
        tl.store(out + kept, tl.sum(values, AXIS))
    elif KIND == "max":
        tl.store(out + kept, tl.max(values, AXIS))
    elif KIND == "min":
        tl.store(out + kept, tl.min(values, AXIS))
    elif KIND == "xor":
        tl.store(out + kept, tl.xor_sum(values, AXIS))
    elif KIND == "argmax":
        tl.store(index + kept, tl.argmax(values, AXIS))
    else:
        tl.store(index + kept, tl.argmin(values, AXIS))


@triton.jit
def scan(x, out, M: tl.constexpr, N: tl.constexpr, AXIS: tl.constexpr, REVERSE: tl.constexpr, KIND: tl.constexpr):
    at = tl.arange(0, M)[:, None] * N + tl.arange(0, N)[None, :]
    values = tl.load(x + at)
    if KIND == "sum":
        found = tl.cumsum(values, AXIS, reverse=REVERSE)
    else:
        found = tl.cumprod(values, AXIS, reverse=REVERSE)
    tl.store(out + at, found)


@triton.jit
def _later(value_a, place_a, value_b, place_b):
    take = place_b > place_a
    return tl.where(take, value_b, value_a), tl.where(take, place_b, place_a)


@triton.jit
def scan_in_order(x, out, N: tl.constexpr):
    """The last of the elements so far: an order that is not kept shows."""
    i = tl.arange(0, N)
    values, places = tl.associative_scan((tl.load(x + i), i), 0, _later)
    tl.store(out + i, values + 0 * places)


@triton.jit
def shapes(x, transposed, joined, split, sorted_, flipped, N: tl.constexpr):
    i = tl.arange(0, N)
    at = i[:, None] * N + i[None, :]
    values = tl.load(x + at)
    tl.store(transposed + at, tl.trans(values))
    row = tl.load(x + i)
    pairs = tl.join(row, row * 2)
    tl.store(joined + i[:, None] * 2 + tl.arange(0, 2)[None, :], pairs)
    first, second = tl.split(tl.reshape(row, (N // 2, 2)))
    half = tl.arange(0, N // 2)
    tl.store(split + half, first)
    tl.store(split + N // 2 + half, second)
    tl.store(sorted_ + i, tl.sort(row))
    tl.store(flipped + i, tl.flip(row, 0))


@triton.jit
def gathered(x, index, out, counts, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    values = tl.load(x + m[:, None] * N + n[None, :])
    at = m[:, None] * K + k[None, :]
    places = tl.load(index + at)
    tl.store(out + at, tl.gather(values, places, axis=1))
    tl.store(counts + n, tl.histogram(tl.reshape(places, (M * K,)), N))


@triton.jit
def control(x, out, n, limit, N: tl.constexpr):
    i = tl.arange(0, N)
    values = tl.load(x + i)
    rounds = 0
    while rounds < n:
        if tl.sum(values, 0) > limit:
            values = values - 1
        else:
            values = values + 2
        rounds += 1
    a, b = values, values * 10
    for k in range(n):
        a, b = b, a + k
    for k in range(n, 0, -1):
        a += k
    tl.store(out + i, a + b * 100)
    if n > 3:
        return
    tl.store(out + i, tl.zeros([N], tl.float32))


@triton.jit
def stepped(x, up):
    """Returns from two places."""
    if up > 0:
        return x + 1
    else:
        return x * 2


@triton.jit
def early(flag, x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    up = tl.load(flag)
    values = tl.load(x + i)
    if tl.program_id(0) == 0:
        values = stepped(values, up)
    tl.store(out + i, values)
    if up == 2:  # both ends store, and the front end joins them
        tl.store(out, 5)
        return
    tl.store(out, 6)


@triton.jit
def atomics(x, out, old, N: tl.constexpr, KIND: tl.constexpr):
    i = tl.arange(0, N)
    value = tl.load(x + i)
    place = i % 4
    if KIND == "add":
        before = tl.atomic_add(out + place, value, mask=i < N - 1)
    elif KIND == "max":
        before = tl.atomic_max(out + place, value, mask=i < N - 1)
    elif KIND == "min":
        before = tl.atomic_min(out + place, value, mask=i < N - 1)
    elif KIND == "and":
        before = tl.atomic_and(out + place, value, mask=i < N - 1)
    elif KIND == "or":
        before = tl.atomic_or(out + place, value, mask=i < N - 1)
    elif KIND == "xor":
        before = tl.atomic_xor(out + place, value, mask=i < N - 1)
    else:
        before = tl.atomic_xchg(out + place, value, mask=i < N - 1)
    tl.store(old + i, before)


@triton.jit
def batched_dot(a, b, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    p, m, n, k = tl.arange(0, B), tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    x = tl.load(a + p[:, None, None] * M * K + m[None, :, None] * K + k[None, None, :])
    y = tl.load(b + p[:, None, None] * K * N + k[None, :, None] * N + n[None, None, :])
    at = p[:, None, None] * M * N + m[None, :, None] * N + n[None, None, :]
    tl.store(out + at, tl.dot(x, y, out_dtype=out.dtype.element_ty))


@triton.jit
def descriptor(x, out, M, N, BLOCK: tl.constexpr):
    source = tl.make_tensor_descriptor(x, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    target = tl.make_tensor_descriptor(out, shape=[M, N], strides=[N, 1], block_shape=[BLOCK, BLOCK])
    at = [tl.program_id(0) * BLOCK, tl.program_id(1) * BLOCK]
    target.store(at, source.load(at) + 1)


@triton.jit
def widened(x, out, N: tl.constexpr):
    i = tl.arange(0, N)
    tl.store(out + i, tl.load(x + i).to(tl.int32))


@triton.jit
def grid(out):
    x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    width, height = tl.num_programs(0), tl.num_programs(1)
    tl.store(out + (z * height + y) * width + x, x + 10 * y + 100 * z)


@triton.jit
def outside(x, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, i.to(tl.float32))


@triton.jit
def checked(x, n):
    tl.device_assert(n > 3, "n is too small")
    tl.device_print("n", n)


@triton.jit
def with_assembly(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    value = tl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [i], dtype=tl.int32, is_pure=True, pack=1)
    tl.store(x + i, value)


@triton.jit
def moved_offsets(x, out, n, BLOCK: tl.constexpr):
    """Addresses that are made before the loop moves what they are made of."""
    offsets, start = tl.arange(0, BLOCK), x
    for i in range(n):
        first, second = x + offsets, start + tl.arange(0, BLOCK)
        offsets += BLOCK
        start += BLOCK
        tl.store(out + i * BLOCK + tl.arange(0, BLOCK), tl.load(first) + tl.load(second))


@triton.jit
def tile_of_rows(
    x, out, rows, columns, x_row, x_column, out_row, OTHER: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr
):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, COLUMNS)
    inside = (r[:, None] < rows) & (c[None, :] < columns)
    if OTHER == "none":
        values = tl.load(x + r[:, None] * x_row + c[None, :] * x_column)
    elif OTHER == "rows":
        values = tl.load(x + r[:, None] * x_row + c[None, :] * x_column, mask=r[:, None] < rows, other=-1.0)
    elif OTHER == "odd":
        values = tl.load(x + r[:, None] * x_row + c[None, :] * x_column, mask=inside & (c[None, :] % 2 == 1), other=5)
    else:
        values = tl.load(x + (r[:, None] * x_row + c[None, :] * x_column), mask=inside, other=2.0)
    shape: tl.constexpr = (ROWS, COLUMNS)
    tl.store(out + r[:, None] * out_row + c[None, :] + tl.zeros(shape, tl.int32), values, mask=r[:, None] >= 0)


@triton.jit
def scaled_dot(
    a, a_scale, b, b_scale, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    m, n = tl.arange(0, M), tl.arange(0, N)
    a_k: tl.constexpr = K // 2 if A == "e2m1" else K
    b_k: tl.constexpr = K // 2 if B == "e2m1" else K
    groups: tl.constexpr = K // 32
    x = tl.load(a + m[:, None] * a_k + tl.arange(0, a_k)[None, :])
    y = tl.load(b + tl.arange(0, b_k)[:, None] * N + n[None, :])
    x_scale = tl.load(a_scale + m[:, None] * groups + tl.arange(0, groups)[None, :])
    if b_scale is None:
        product = tl.dot_scaled(x, x_scale, A, y, None, B)
    else:
        product = tl.dot_scaled(
            x, x_scale, A, y, tl.load(b_scale + n[:, None] * groups + tl.arange(0, groups)[None, :]), B
        )
    tl.store(out + m[:, None] * N + n[None, :], product)
