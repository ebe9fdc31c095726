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
from .page import page


class Report:
    """A report. `document` has its data (reports.document.Document); in a notebook, it shows the page."""

    def __init__(self, document: Document):
        self.document = document

    def html(self) -> str:
        """Return the page: one HTML text that needs no network and no other file."""
        return page(self.document.to_dict())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page. The file appears only when it is complete."""
        write_whole(Path(path), self.html().encode())

    def _repr_html_(self) -> str:
        source = html.escape(self.html(), quote=True)
        return f'<iframe srcdoc="{source}" width="100%" height="720" style="border:0" title="Report"></iframe>'


def report(
    program: LoadedProgram | Recording | str | os.PathLike[str],
    path: str | os.PathLike[str] | None = None,
    *,
    inputs: Sequence[Any] | None = None,
    method: str | None = None,
) -> Report:
    """Return the report of a loadable or of a recorded run, and write it as a page.

    Args:
        program: a loaded program, or the path of a loadable, of which one method is run once; or a
            `telemetry.Recording` with work of one device.
        path: the HTML file to write; None: none.
        inputs: positional arguments of the method (default: normally distributed random numbers, and 0 for integers).
        method: name of the method (default: the first).

    Raises ValueError for `inputs` or `method` of a recording, and for a recording with work of no or several devices;
    KeyError for an unknown method; LoadableError for a file that is not a loadable.

        torch_atalla.report("model.atl", "report.html")
    """
    if isinstance(program, Recording):
        if inputs is not None or method is not None:
            raise ValueError("report: a recording is not run again; expected neither inputs nor method")
        result = Report(of_recording(program))
    else:
        result = Report(of_program(program, inputs, method))
    if path is not None:
        result.save(path)
    return result
