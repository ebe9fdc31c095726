# SPDX-License-Identifier: BSD-3-Clause
"""`torch_atalla.report`."""

from __future__ import annotations

import html
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch_atalla.driver.files import write_whole
from torch_atalla.loadable.program import LoadedProgram
from torch_atalla.telemetry import Recording

from .document import Document, of_program, of_recording
from .page import REPORT, SNAPSHOT, page
from .snapshot import Snapshot, of_snapshot


class Report:
    """A report. `document` has its data (reports.document.Document, reports.snapshot.Snapshot). A notebook shows the
    page."""

    def __init__(self, document: Document | Snapshot):
        self.document = document

    def html(self) -> str:
        """Return the page: one HTML text that needs no network and no other file."""
        return page(self.document.to_dict(), REPORT if isinstance(self.document, Document) else SNAPSHOT)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page. The file appears only when it is complete."""
        write_whole(Path(path), self.html().encode())

    def _repr_html_(self) -> str:
        source = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{source}" width="100%" height="720" style="border:0" title="Report"></iframe>'


def report(
    program: LoadedProgram | Recording | dict[str, Any] | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    inputs: Sequence[Any] | None = None,
    method: str | None = None,
) -> Report:
    """Return the report of a loadable, of a recorded run or of device memory, and write it as a page.

    Args:
        program: a loaded program, or the path of a loadable, of which one method is run once; or a
            `telemetry.Recording` with work of one device; or a snapshot (`torch.atalla.memory._snapshot()`).
        path: the HTML file to write; None: none.
        inputs: positional arguments of the method (default: normally distributed random numbers, and 0 for integers).
        method: name of the method (default: the first).

    Raises ValueError for `inputs` or `method` without a program to run, for a recording with work of no or several
    devices, and for a dict that is not a snapshot; KeyError for an unknown method; LoadableError for a file that is
    not a loadable.

        torch_atalla.report("model.atl", "report.html")
    """
    document: Document | Snapshot
    if isinstance(program, (Recording, dict)):
        if inputs is not None or method is not None:
            raise ValueError("report: recordings and snapshots are not run; expected neither inputs nor method")
        document = of_recording(program) if isinstance(program, Recording) else of_snapshot(program)
    else:
        document = of_program(program, inputs, method)
    result = Report(document)
    if path is not None:
        result.save(path)
    return result
