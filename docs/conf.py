# SPDX-License-Identifier: BSD-3-Clause
"""Configuration of the documentation site: make site.

The source folder is the repository, so that README.md is a page and relative links to sources work as on a git host.
Generated sources (examples, stubs of modules) are written below build/.
"""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

project = "torch_atalla"
author = "the torch_atalla authors"
root_doc = "docs/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "docs/**.md", "build/gallery/**.rst", "build/api/**.rst"]
exclude_patterns = [".*", "build/[!ag]*", "csrc", "test", "tools", "torch_atalla"]  # not searched, to save time
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "breathe",
]

html_theme = "furo"
html_title = "torch_atalla"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_copyright = False
templates_path = ["templates"]
html_additional_pages = {"index": "forward.html"}  # to docs/index.html

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3  # links to headings are those of a git host

default_role = "code"  # single backquotes in docstrings are code
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True, "undoc-members": True, "show-inheritance": True}
autosummary_generate = True
autosummary_ignore_module_all = False

# `make site` runs doxygen before.
breathe_projects = {"atalla": str(ROOT / "build/doxygen/xml")}
breathe_default_project = "atalla"
breathe_show_define_initializer = True
breathe_show_enumvalue_initializer = True
breathe_domain_by_extension = {"h": "c", "hpp": "cpp"}

# The gallery runs examples in its own process: those that call sys.exit or read __file__ are shown without output.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "build/gallery",
    "filename_pattern": r"/(ddp_gpt|eager_kernels|explore_fx_graph|export_basics|two_streams)\.py$",
    "image_scrapers": (),
    "within_subsection_order": "FileNameSortKey",
    "reset_modules": (),
    "download_all_examples": False,
    "notebook_extensions": set(),
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,
}


def toctrees(index: str) -> dict[str, list[str]]:
    """Caption -> pages, from the lists of docs/index.md: a heading or a line such as "The device:" starts a group."""
    groups: dict[str, list[str]] = {}
    heading = caption = ""
    for line in index.splitlines():
        if line.startswith("## "):
            heading = caption = line[3:]
        elif found := re.fullmatch(r"The (\w+):|(\w+):", line):
            caption = f"{heading}: {found[1] or found[2].lower()}"
        if heading:
            groups.setdefault(caption, []).extend(re.findall(r"\]\((?!\.\.)([^)#]+)\.md\)", line))
    return {caption: pages for caption, pages in groups.items() if pages}


def prepare_page(app, docname: str, text: list[str]) -> None:
    # Examples have pages on the site.
    up = "../" * docname.count("/")
    text[0] = re.sub(r"\]\((?:\.\./)*examples/(\w+)\.py\)", rf"]({up}build/gallery/\1.rst)", text[0])
    if docname == root_doc:
        trees = {"Start": ["Overview <../README>", "Contributing <../CONTRIBUTING>"], **toctrees(text[0])}
        trees["Tutorials"].insert(0, "../build/gallery/index")
        for caption, pages in trees.items():
            text[0] += "\n".join(["", "```{toctree}", ":hidden:", f":caption: {caption}", "", *pages, "```", ""])


def mark_examples(app, what, name, obj, options, lines: list[str]) -> None:
    """In docstrings an indented paragraph after a blank line is an example, and the path of a page is a link."""
    marked: list[str] = []
    in_code = False
    for before, line in zip(["", *lines], lines):
        if line and not line.startswith("    "):
            in_code = line.endswith("::")
        elif re.match(r" {4}\S", line) and before == "" and not in_code:
            marked += ["::", ""]
            in_code = True
        marked.append(line if in_code else re.sub(r"(?<![\w/`])docs/([\w/-]+)\.md", r":doc:`/docs/\1`", line))
    lines[:] = marked


def hide_anonymous(app, doctree) -> None:
    """The contents of a page omit enums without a name and list their values."""
    from sphinx import addnodes  # imported here: test_site.py reads this file without Sphinx

    for signature in doctree.findall(addnodes.desc_signature):
        if signature.get("_toc_name", "").startswith("@"):
            signature["_toc_name"] = ""


def setup(app) -> None:
    app.connect("doctree-read", hide_anonymous, priority=400)  # before the contents are collected
    app.connect("autodoc-process-docstring", mark_examples, priority=400)  # before napoleon
    app.connect("source-read", prepare_page)
