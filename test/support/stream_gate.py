# SPDX-License-Identifier: BSD-3-Clause
"""Keeps a stream busy for as long as a test needs it, independent of time."""

import os
import threading
import unittest

from torch_atalla.device.streams import host_call


class Gate:
    """Holds a stream up from its creation until `open` or the end of the with block."""

    def __init__(self, stream):
        if os.environ.get("ATALLA_LAUNCH") == "inline":
            raise unittest.SkipTest("with ATALLA_LAUNCH=inline the caller itself would stand at the gate")
        self._open = threading.Event()
        self._entered = threading.Event()
        host_call(stream, self._stand)

    def _stand(self):
        self._entered.set()
        self._open.wait()

    def wait_entered(self):
        """Until the stream has come to the gate."""
        self._entered.wait()

    def open(self):
        self._open.set()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.open()
