# SPDX-License-Identifier: BSD-3-Clause
"""The graph networks of its introduction: GCN, GAT and SAGE layers, pooling of a batch of graphs, training"""

import torch
from torch.nn import functional as F
from torch_geometric.data import Batch, Data
from torch_geometric.nn import GATConv, GCNConv, SAGEConv, global_max_pool, global_mean_pool

DISTRIBUTION = "torch_geometric"


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.third = GCNConv(8, 16), GATConv(16, 8, heads=2), SAGEConv(16, 16)
        self.head = torch.nn.Linear(32, 3)

    def forward(self, data: Data) -> torch.Tensor:
        x = F.relu(self.first(data.x, data.edge_index))
        x = F.elu(self.second(x, data.edge_index))
        x = self.third(x, data.edge_index)
        return self.head(torch.cat([global_mean_pool(x, data.batch), global_max_pool(x, data.batch)], 1))


def run(device: str) -> list[torch.Tensor]:
    graphs = [Data(x=torch.randn(n, 8), edge_index=torch.randint(n, (2, 4 * n)), y=n % 3) for n in range(8, 16)]
    data, model = Batch.from_data_list(graphs).to(device), Net().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
    losses = []
    for _ in range(5):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(data), data.y)
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [torch.stack(losses), model(data).detach()]
