# SPDX-License-Identifier: BSD-3-Clause
"""Choosing temporaries that stay in scratchpad 0 instead of DRAM, above the rows that the calls meanwhile use."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch_atalla.isa.geometry import LANES

from .image import Address, Call
from .kernels.common import Kernel
from .kernels.kept import Transfer
from .kernels.tiling import ROW_BYTES, SCRATCH_ROWS
from .selection import Selection


@dataclass
class _Temporary:
    region: str
    rows: int
    uses: list[tuple[int, str]] = field(default_factory=list)  # calls, and the words that name it
    start: int = 0

    @property
    def first(self) -> int:
        return self.uses[0][0]

    @property
    def last(self) -> int:
        return self.uses[-1][0]


def keep_temporaries(s: Selection) -> None:
    """Changes the calls of temporaries that fit, most used ones first."""
    calls = s.image.calls
    rows = [_rows(call) if call.core == 0 else 0 for call in calls]  # of the scratchpads of core 0
    for index in s.network.scalar_calls:
        rows[index] = 0
    placed: list[_Temporary] = []
    for temporary in sorted(_candidates(s), key=lambda t: (-len(t.uses) / (t.last - t.first + 1), t.rows)):
        used = max(rows[temporary.first : temporary.last + 1])
        others = [t for t in placed if t.first <= temporary.last and temporary.first <= t.last]
        for top in sorted({SCRATCH_ROWS, *(t.start for t in others)}, reverse=True):
            start = top - temporary.rows
            if start >= used and not any(t.start < top and start < t.start + t.rows for t in others):
                temporary.start = start
                placed.append(temporary)
                break
    kept: dict[int, list[str]] = {}
    for temporary in placed:
        s.network.kept[temporary.region] = temporary.start
        for index, word in temporary.uses:
            kept.setdefault(index, []).append(word)
    for index, words in kept.items():
        _change(s, calls[index], sorted(words))
    s.image.drop_unused()


def _candidates(s: Selection) -> list[_Temporary]:
    """Temporaries that only known transfers touch, in whole scratchpad rows."""
    found = {name: _Temporary(name, -(-s.sizes[name] // ROW_BYTES)) for name, whole in s.whole_lines.items() if whole}
    for index, call in enumerate(s.image.calls):
        for word, value in call.words.items():
            if isinstance(value, Address) and value.region in found:
                if _keeps(call, word, value):
                    found[value.region].uses.append((index, word))
                else:
                    del found[value.region]
    return [temporary for temporary in found.values() if temporary.uses]


def _kernel(call: Call) -> type[Kernel] | None:
    owner = getattr(call.kernel, "__self__", None)
    return owner if isinstance(owner, type) and issubclass(owner, Kernel) else None


def _rows(call: Call) -> int:
    """Of scratchpad 0 that the call uses."""
    kernel = _kernel(call)
    return SCRATCH_ROWS if kernel is None else kernel.scratch_rows(call.variant, call.words)


def _keeps(call: Call, word: str, address: Address) -> bool:
    kernel = _kernel(call) if call.core == 0 else None
    transfer = kernel.transfers(call.variant).get(word) if kernel is not None else None
    return transfer is not None and address.offset % ROW_BYTES == 0 and all(map(_is_line, _metas(call, transfer)))


def _metas(call: Call, transfer: Transfer) -> list[int]:
    values = (call.words.get(name) for name in transfer.metas)
    return [value for value in values if isinstance(value, int)]


def _is_line(meta: int) -> bool:
    cols, length = (meta >> 20 & 31) + 1, meta & 0xFFFFF
    return cols == LANES and (length == 0 or (length + 1) % LANES == 0)


def _change(s: Selection, call: Call, kept: list[str]) -> None:
    """The call with these operands in the scratchpad. A tile's row length is given also where rows are neighbours."""
    kernel = _kernel(call)
    assert kernel is not None
    transfers = kernel.transfers(call.variant)
    for word in kept:
        address = call.words[word]
        assert isinstance(address, Address)
        call.words[word] = s.network.kept[address.region] * ROW_BYTES + address.offset
        for name, meta in ((name, call.words.get(name)) for name in transfers[word].metas):
            if isinstance(meta, int) and not meta & 0xFFFFF:
                call.words[name] = meta | LANES - 1
    call.function = s.image.function(kernel.build(call.variant, kept))
