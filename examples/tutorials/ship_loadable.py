# SPDX-License-Identifier: BSD-3-Clause
"""Shipping a model to a C++ program: how to export it to one file and run it without Python and PyTorch.

python examples/tutorials/ship_loadable.py

The C++ program is examples/cpp/run_model.cpp. Its headers and libraries are part of
the package.
"""

import subprocess
import tempfile
from pathlib import Path

import torch

import torch_atalla

torch.manual_seed(0)
folder = Path(tempfile.mkdtemp())
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.Linear(16, 4)).eval()

# 1. Export, and save a loadable. fallback="error" refuses a model with an op that the chip does not have.
program = torch.export.export(model, (torch.ones(2, 8),))
path = folder / "model.atl"
torch_atalla.save_loadable(program, path, fallback="error")

# 2. Check it in Python: the file gives the model's values.
x = torch.randn(2, 8)
loaded = torch_atalla.load_loadable(path, device="atalla")
print("equal to the model:", torch.allclose(loaded(x.to("atalla")).cpu(), model(x), atol=1e-6))

# 3. Compile the C++ program against the package, and run the file with it.
package = Path(torch_atalla.__file__).parent
library = package / "lib"
source = Path(__file__).resolve().parents[1] / "cpp/run_model.cpp"
words = ["g++", "-std=c++17", str(source), f"-I{package / 'include'}", f"-L{library}", "-latalla_runtime"]
subprocess.run([*words, f"-Wl,-rpath,{library}", "-o", str(folder / "run_model")], check=True)
print(subprocess.run([folder / "run_model", path], check=True, capture_output=True, text=True).stdout.strip())
