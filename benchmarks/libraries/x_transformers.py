# SPDX-License-Identifier: BSD-3-Clause
"""Its README: a decoder with rotary positions and RMSNorm, its autoregressive loss and greedy generation"""

import torch
from x_transformers import AutoregressiveWrapper, Decoder, TransformerWrapper

from benchmarks.libraries import joined

DISTRIBUTION = "x-transformers"


def run(device: str) -> list[torch.Tensor]:
    layers = Decoder(dim=64, depth=2, heads=4, rotary_pos_emb=True, use_rmsnorm=True, ff_glu=True)
    model = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers)).to(device)
    tokens = torch.randint(64, (2, 24)).to(device)
    loss = model(tokens)
    loss.backward()
    gradients = joined(p.grad for p in model.parameters())
    model.eval()
    return [loss.detach(), gradients, model.generate(tokens[:, :4], 6, temperature=0.0)]
