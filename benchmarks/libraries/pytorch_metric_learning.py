# SPDX-License-Identifier: BSD-3-Clause
"""Its README: a miner of hard triplets and a triplet loss, then a contrastive loss and ArcFace, with gradients"""

import torch
from pytorch_metric_learning import losses, miners

DISTRIBUTION = "pytorch-metric-learning"


def run(device: str) -> list[torch.Tensor]:
    network = torch.nn.Linear(16, 8).to(device)
    data, labels = torch.randn(32, 16).to(device), torch.randint(4, (32,)).to(device)
    miner, triplet = miners.TripletMarginMiner(margin=0.2), losses.TripletMarginLoss()
    arcface = losses.ArcFaceLoss(num_classes=4, embedding_size=8).to(device)
    embeddings = network(data)
    found = [
        triplet(embeddings, labels, miner(embeddings, labels)), losses.NTXentLoss()(embeddings, labels),
        arcface(embeddings, labels),
    ]  # fmt: skip
    sum(found).backward()
    return [torch.stack(found).detach(), network.weight.grad, arcface.W.grad]
