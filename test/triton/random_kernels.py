# SPDX-License-Identifier: BSD-3-Clause
"""Random Triton kernels with affine addresses, as sources: tiles of one or two dimensions, masks, loops, reductions."""

import random

_HEAD = "import triton\nimport triton.language as tl\n"
_UNARY = ("{0} * 0.5", "1.0 - {0}", "tl.exp(-tl.abs({0}))", "tl.where({0} > 0.25, {0}, -0.5)", "{0} + s", "tl.abs({0})")
_BINARY = ("{0} + {1}", "{0} - {1}", "{0} * {1}", "tl.maximum({0}, {1})", "tl.minimum({0}, {1})",
           "tl.where({0} < {1}, {0}, {1} * 2)")  # fmt: skip


class Kernel:
    """`source` defines kernel(x, y, out, rows, columns, s); `grid`, and the sizes of x and y, and of out."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        choose = self.random.choice
        self.high, self.wide = choose((1, 2, 8, 32, 64)), choose((16, 32, 64, 128))
        self.rows = self.random.randint(1, 2 * self.high)
        self.columns = self.random.randint(1, 2 * self.wide)
        self.grid = (-(-self.rows // self.high), -(-self.columns // self.wide))
        self.source = _HEAD + "\n\n@triton.jit\n" + "\n    ".join(self.lines()) + "\n"

    def expression(self, values: list[str], depth: int) -> str:
        if depth == 0 or (depth < 3 and self.random.random() < 0.2):
            return self.random.choice(values)
        if self.random.random() < 0.4:
            return self.random.choice(_UNARY).format(f"({self.expression(values, depth - 1)})")
        left, right = (f"({self.expression(values, depth - 1)})" for _ in range(2))
        return self.random.choice(_BINARY).format(left, right)

    def lines(self) -> list[str]:
        choose = self.random.choice
        other = choose(("", ", other=0.0", ", other=-1.5"))
        yield_rows, again = choose((True, False)), choose((True, False))
        body = [
            "def kernel(x, y, out, rows, columns, s):",
            f"i = tl.program_id(0) * {self.high} + tl.arange(0, {self.high})",
            f"j = tl.program_id(1) * {self.wide} + tl.arange(0, {self.wide})",
            "inside = (i < rows)[:, None] & (j < columns)[None, :]",
            f"a = tl.load(x + i[:, None] * columns + j[None, :], mask=inside{other or ', other=0.0'}).to(tl.float32)",
            f"b = tl.load(y + j, mask=j < columns{other or ', other=0.0'})[None, :].to(tl.float32)",
            f"c = tl.load(y + columns + i, mask=i < rows{other or ', other=0.0'})[:, None].to(tl.float32)",
        ]
        if again:
            body += [
                "for k in range(3):",
                f"    a = {self.expression(['a', 'b', 'c'], 2)} + a * 0",
                "    c = c * 0.5 + k",
            ]
        body.append(f"d = {self.expression(['a', 'b', 'c'], 3)} + a * 0")
        if yield_rows:
            kind = choose(("sum", "max", "min"))
            d = "tl.where(inside, d, 0.0)"
            if choose((True, False)):
                body.append(f"d = d - tl.{kind}({d}, axis=1)[:, None] * 0.125")
            else:
                body.append(f"d = d - tl.{kind}({d}, axis=0)[None, :] * 0.125")
        body.append("tl.store(out + i[:, None] * columns + j[None, :], d.to(tl.bfloat16), mask=inside)")
        return body
