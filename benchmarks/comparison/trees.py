# SPDX-License-Identifier: BSD-3-Clause
"""Worktrees of commits below build/compare, built from the object files of this tree where they are up to date."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build/compare"
BUILT = ("build/release", *(f"torch_atalla/{name}" for name in ("lib", "bin", "include", "share", "_generated")))


def _git(*arguments: str, cwd: Path = ROOT) -> str:
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout


def full_name(commit: str) -> str:
    """The hash of a commit. Raises ValueError for a name that git does not know."""
    try:
        return _git("rev-parse", "--verify", "--quiet", f"{commit}^{{commit}}").strip()
    except subprocess.CalledProcessError:
        raise ValueError(f"{commit!r} is no commit of this repository; expected a hash, a branch or a tag") from None


def checkout(commit: str) -> Path:
    """The worktree of a commit, by its full name. Files that are as in this tree keep their times, so that ninja
    compiles only what differs."""
    tree = FOLDER / commit[:12]
    if (tree / ".git").exists():
        return tree
    _git("worktree", "prune")
    FOLDER.mkdir(parents=True, exist_ok=True)
    _git("worktree", "add", "--detach", "--no-checkout", str(tree), commit)
    for name in _git("ls-files", "-z").split("\0"):
        if name and (ROOT / name).is_file():
            (tree / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, tree / name)
    for name in BUILT:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, tree / name, symlinks=True, dirs_exist_ok=True)
    _git("read-tree", commit, cwd=tree)
    subprocess.run(["git", "update-index", "-q", "--refresh"], cwd=tree, capture_output=True)  # 1: some files differ
    _git("checkout-index", "--all", "--force", cwd=tree)
    _git("clean", "-fdq", cwd=tree)
    return tree


def build(commit: str) -> Path:
    """Builds a commit; gives the folder for PYTHONPATH, which has nothing but its package."""
    tree = checkout(commit)
    command = [sys.executable, "tools/build.py", "sim", "runtime", "ext"]
    subprocess.run(command, cwd=tree, check=True, stdout=sys.stderr)
    path = FOLDER / "packages" / tree.name
    path.mkdir(parents=True, exist_ok=True)
    package = path / "torch_atalla"
    if not package.is_symlink():
        package.symlink_to(tree / "torch_atalla")
    return path
