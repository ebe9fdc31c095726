# SPDX-License-Identifier: BSD-3-Clause
"""The pages of the documentation site in Chromium: nothing is cut off in narrow and in wide windows, no errors.

ATALLA_WRITE_SCREENSHOTS=1 writes the pictures of docs/guides/testing.md.
"""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from browser import CHROMIUM, Browser

ROOT = Path(__file__).resolve().parents[2]
SITE = ROOT / "build/site/docs"
PICTURES = {"index": "site-index", "tutorials/port-cuda": "site-tutorial"}
PAGES = [*PICTURES, "reference/kernels", "reference/python-api", "reference/c-api"]

pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium (apt-get install chromium)"),
    pytest.mark.skipif(not (SITE / "index.html").exists(), reason="needs the site (make site)"),
]


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    made = Browser(tmp_path_factory.mktemp("profile"))
    yield made
    made.close()


@pytest.mark.parametrize("width", [390, 800, 1200, 1400])
@pytest.mark.parametrize("page", PAGES)
def test_page_fits_its_window(browser: Browser, page: str, width: int, tmp_path: Path) -> None:
    browser.window(width, 820)
    browser.open(SITE / f"{page}.html", "document.readyState === 'complete'")
    browser.paint()
    assert browser.evaluate("document.documentElement.scrollWidth") <= width
    assert browser.evaluate("document.querySelector('article').textContent.length") > 1000
    assert browser.errors == []
    write = os.environ.get("ATALLA_WRITE_SCREENSHOTS") == "1" and width == 1200 and page in PICTURES
    browser.screenshot(ROOT / f"docs/static/{PICTURES[page]}.png" if write else tmp_path / "page.png")
