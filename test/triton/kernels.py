# SPDX-License-Identifier: BSD-3-Clause
"""Kernels of the kinds that Triton's tutorials 01 to 08 teach, written for the tests."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def vector_add(x, y, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, tl.load(x + offsets, mask=inside) + tl.load(y + offsets, mask=inside), mask=inside)


@triton.jit
def softmax_rows(out, x, out_stride, x_stride, rows, columns, BLOCK: tl.constexpr, STAGES: tl.constexpr):
    for row in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        column = tl.arange(0, BLOCK)
        inside = column < columns
        values = tl.load(x + row * x_stride + column, mask=inside, other=-float("inf"))
        powers = tl.exp(values - tl.max(values, axis=0))
        tl.store(out + row * out_stride + column, powers / tl.sum(powers, axis=0), mask=inside)


@triton.jit
def leaky_relu(x):
    return tl.where(x >= 0, x, 0.01 * x)


def matmul_configs():
    return [
        triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 4}, num_stages=s, num_warps=w)
        for m, n, k, s, w in ((64, 64, 32, 3, 4), (32, 64, 64, 4, 2))
    ]


@triton.jit
def matmul(
    a, b, c, M, N, K, a_m, a_k, b_k, b_n, c_m, c_n,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr, GROUP_M: tl.constexpr,
    ACTIVATION: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m, tiles_n = tl.cdiv(M, BLOCK_M), tl.cdiv(N, BLOCK_N)
    group = pid // (GROUP_M * tiles_n)
    first = group * GROUP_M
    rows = min(tiles_m - first, GROUP_M)
    tile_m = first + (pid % (GROUP_M * tiles_n)) % rows
    tile_n = (pid % (GROUP_M * tiles_n)) // rows
    tl.assume(tile_m >= 0)
    m = tile_m * BLOCK_M + tl.arange(0, BLOCK_M)
    n = tile_n * BLOCK_N + tl.arange(0, BLOCK_N)
    k = tl.arange(0, BLOCK_K)
    at_a = a + (m % M)[:, None] * a_m + k[None, :] * a_k
    at_b = b + k[:, None] * b_k + (n % N)[None, :] * b_n
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BLOCK_K)):
        left = K - step * BLOCK_K
        x = tl.load(at_a, mask=k[None, :] < left, other=0.0)
        y = tl.load(at_b, mask=k[:, None] < left, other=0.0)
        total = tl.dot(x, y, total)
        at_a += BLOCK_K * a_k
        at_b += BLOCK_K * b_k
    if ACTIVATION == "leaky_relu":
        total = leaky_relu(total)
    inside = (m[:, None] < M) & (n[None, :] < N)
    tl.store(c + m[:, None] * c_m + n[None, :] * c_n, total.to(c.dtype.element_ty), mask=inside)


@triton.jit
def seeded_dropout(x, out, n, p, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    values = tl.load(x + offsets, mask=inside)
    kept = tl.rand(seed, offsets) > p
    tl.store(out + offsets, tl.where(kept, values / (1 - p), 0.0), mask=inside)


@triton.jit
def layer_norm(x, out, weight, bias, mean, rstd, stride, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        total += tl.load(x + row * stride + column, mask=column < n, other=0.0).to(tl.float32)
    average = tl.sum(total, axis=0) / n
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * stride + column, mask=column < n, other=0.0).to(tl.float32)
        centered = tl.where(column < n, values - average, 0.0)
        total += centered * centered
    scale = 1 / tl.sqrt(tl.sum(total, axis=0) / n + eps)
    tl.store(mean + row, average)
    tl.store(rstd + row, scale)
    for start in range(0, n, BLOCK):
        column = start + tl.arange(0, BLOCK)
        inside = column < n
        values = tl.load(x + row * stride + column, mask=inside, other=0.0).to(tl.float32)
        w = tl.load(weight + column, mask=inside)
        b = tl.load(bias + column, mask=inside)
        tl.store(out + row * stride + column, (values - average) * scale * w + b, mask=inside)


@triton.jit
def layer_norm_backward(
    grad_x, grad_out, grad_weight, grad_bias, x, weight, mean, rstd, locks, stride, n,
    GROUPS: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """Sums of weights and biases by groups of rows, each under a lock."""
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < n
    values = tl.load(x + row * stride + column, mask=inside, other=0).to(tl.float32)
    grad = tl.load(grad_out + row * stride + column, mask=inside, other=0).to(tl.float32)
    w = tl.load(weight + column, mask=inside).to(tl.float32)
    scale = tl.load(rstd + row)
    normal = tl.where(inside, (values - tl.load(mean + row)) * scale, 0.0)
    weighted = tl.where(inside, w * grad, 0.0)
    c1 = tl.sum(normal * weighted, axis=0) / n
    c2 = tl.sum(weighted, axis=0) / n
    tl.store(grad_x + row * stride + column, (weighted - (normal * c1 + c2)) * scale, mask=inside)
    group = row % GROUPS
    lock, count = locks + group, locks + GROUPS + group
    at_w, at_b = grad_weight + group * n + column, grad_bias + group * n + column
    part_w, part_b = (grad * normal).to(w.dtype), grad.to(w.dtype)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    if tl.load(count) == 0:
        tl.atomic_xchg(count, 1)
    else:
        part_w += tl.load(at_w, mask=inside)
        part_b += tl.load(at_b, mask=inside)
    tl.store(at_w, part_w, mask=inside)
    tl.store(at_b, part_b, mask=inside)
    tl.debug_barrier()
    tl.atomic_xchg(lock, 0)


@triton.jit
def sum_groups(parts, out, rows, n, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    column = tl.program_id(0) * BLOCK_N + tl.arange(0, BLOCK_N)
    total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for start in range(0, rows, BLOCK_M):
        row = start + tl.arange(0, BLOCK_M)
        inside = (row[:, None] < rows) & (column[None, :] < n)
        total += tl.load(parts + row[:, None] * n + column[None, :], mask=inside, other=0.0)
    tl.store(out + column, tl.sum(total, axis=0), mask=column < n)


@triton.jit
def attention(
    q, k, v, out, lse, scale, heads_stride, row_stride, length,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Softmax of scaled scores in one pass over the keys, with block pointers."""
    start, head = tl.program_id(0) * BLOCK_M, tl.program_id(1)
    base = head * heads_stride
    queries = tl.make_block_ptr(q + base, (length, WIDTH), (row_stride, 1), (start, 0), (BLOCK_M, WIDTH), (1, 0))
    keys = tl.make_block_ptr(k + base, (WIDTH, length), (1, row_stride), (0, 0), (WIDTH, BLOCK_N), (0, 1))
    values = tl.make_block_ptr(v + base, (length, WIDTH), (row_stride, 1), (0, 0), (BLOCK_N, WIDTH), (1, 0))
    row = start + tl.arange(0, BLOCK_M)
    most = tl.full([BLOCK_M], -float("inf"), tl.float32)
    total = tl.zeros([BLOCK_M], tl.float32)
    sums = tl.zeros([BLOCK_M, WIDTH], tl.float32)
    query = tl.load(queries)
    end = min(start + BLOCK_M, length) if CAUSAL else length
    for first in range(0, end, BLOCK_N):
        score = tl.dot(query, tl.load(keys)) * (scale * 1.44269504)
        if CAUSAL:
            score = tl.where(row[:, None] >= first + tl.arange(0, BLOCK_N)[None, :], score, -1.0e6)
        larger = tl.maximum(most, tl.max(score, 1))
        power = tl.math.exp2(score - larger[:, None])
        shrink = tl.math.exp2(most - larger)
        total = total * shrink + tl.sum(power, 1)
        sums = tl.dot(power.to(v.dtype.element_ty), tl.load(values), sums * shrink[:, None])
        most = larger
        keys = tl.advance(keys, (0, BLOCK_N))
        values = tl.advance(values, (BLOCK_N, 0))
    tl.store(lse + head * length + row, most + tl.math.log2(total))
    target = tl.make_block_ptr(out + base, (length, WIDTH), (row_stride, 1), (start, 0), (BLOCK_M, WIDTH), (1, 0))
    tl.store(target, (sums / total[:, None]).to(out.dtype.element_ty))


@triton.jit
def attention_backward(
    q, k, v, grad_out, lse, delta, grad_q, grad_k, grad_v, scale, heads_stride, row_stride, length,
    BLOCK: tl.constexpr, WIDTH: tl.constexpr, CAUSAL: tl.constexpr,
):  # fmt: skip
    """Gradients of the keys and values of one block of rows, then of its queries."""
    start, head = tl.program_id(0) * BLOCK, tl.program_id(1)
    base = head * heads_stride
    lse += head * length
    delta += head * length
    column = tl.arange(0, WIDTH)
    mine = start + tl.arange(0, BLOCK)
    at = mine[:, None] * row_stride + column[None, :]
    key, value = tl.load(k + base + at), tl.load(v + base + at)
    dk = tl.zeros([BLOCK, WIDTH], tl.float32)
    dv = tl.zeros([BLOCK, WIDTH], tl.float32)
    for first in range(start if CAUSAL else 0, length, BLOCK):
        row = first + tl.arange(0, BLOCK)
        other = row[:, None] * row_stride + column[None, :]
        query, grad = tl.load(q + base + other), tl.load(grad_out + base + other)
        power = tl.math.exp2(tl.dot(query, tl.trans(key)) * (scale * 1.44269504) - tl.load(lse + row)[:, None])
        if CAUSAL:
            power = tl.where(row[:, None] >= mine[None, :], power, 0.0)
        dv += tl.dot(tl.trans(power).to(grad.dtype), grad)
        ds = power * (tl.dot(grad, tl.trans(value)) - tl.load(delta + row)[:, None]) * scale
        dk += tl.dot(tl.trans(ds).to(query.dtype), query)
    tl.store(grad_k + base + at, dk.to(grad_k.dtype.element_ty))
    tl.store(grad_v + base + at, dv.to(grad_v.dtype.element_ty))
    query, grad = tl.load(q + base + at), tl.load(grad_out + base + at)
    dq = tl.zeros([BLOCK, WIDTH], tl.float32)
    for first in range(0, start + BLOCK if CAUSAL else length, BLOCK):
        row = first + tl.arange(0, BLOCK)
        other = row[:, None] * row_stride + column[None, :]
        key, value = tl.load(k + base + other), tl.load(v + base + other)
        power = tl.math.exp2(tl.dot(query, tl.trans(key)) * (scale * 1.44269504) - tl.load(lse + mine)[:, None])
        if CAUSAL:
            power = tl.where(mine[:, None] >= row[None, :], power, 0.0)
        ds = power * (tl.dot(grad, tl.trans(value)) - tl.load(delta + mine)[:, None]) * scale
        dq += tl.dot(ds.to(key.dtype), key)
    tl.store(grad_q + base + at, dq.to(grad_q.dtype.element_ty))


@triton.jit
def arcsine(x, out, n, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    tl.store(out + offsets, libdevice.asin(tl.load(x + offsets, mask=inside)), mask=inside)


@triton.jit
def grouped_matmul(
    a_addresses, b_addresses, c_addresses, sizes, strides, groups, PROGRAMS: tl.constexpr,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    """Products of several sizes, whose addresses are in memory. Programs take tiles in turns."""
    tile = tl.program_id(0)
    done = 0
    for g in range(groups):
        M, N, K = tl.load(sizes + g * 3), tl.load(sizes + g * 3 + 1), tl.load(sizes + g * 3 + 2)
        across = tl.cdiv(N, BLOCK_N)
        tiles = tl.cdiv(M, BLOCK_M) * across
        while tile >= done and tile < done + tiles:
            lda, ldb, ldc = tl.load(strides + g * 3), tl.load(strides + g * 3 + 1), tl.load(strides + g * 3 + 2)
            a = tl.load(a_addresses + g).to(tl.pointer_type(tl.float16))
            b = tl.load(b_addresses + g).to(tl.pointer_type(tl.float16))
            c = tl.load(c_addresses + g).to(tl.pointer_type(tl.float16))
            m = (tile - done) // across * BLOCK_M + tl.arange(0, BLOCK_M)
            n = (tile - done) % across * BLOCK_N + tl.arange(0, BLOCK_N)
            total = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
            for start in range(0, K, BLOCK_K):
                k = start + tl.arange(0, BLOCK_K)
                x = tl.load(a + m[:, None] * lda + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
                y = tl.load(b + k[:, None] * ldb + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
                total += tl.dot(x, y)
            inside = (m[:, None] < M) & (n[None, :] < N)
            tl.store(c + m[:, None] * ldc + n[None, :], total.to(tl.float16), mask=inside)
            tile += PROGRAMS
        done += tiles
