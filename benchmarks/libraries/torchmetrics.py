# SPDX-License-Identifier: BSD-3-Clause
"""Module metrics over batches: a collection of classification metrics, regression, image and retrieval metrics"""

import torch
from torchmetrics import MeanSquaredError, MetricCollection, PearsonCorrCoef, R2Score
from torchmetrics.classification import (
    MulticlassAccuracy,
    MulticlassAUROC,
    MulticlassConfusionMatrix,
    MulticlassF1Score,
    MulticlassPrecision,
    MulticlassRecall,
)
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure
from torchmetrics.retrieval import RetrievalMAP

DISTRIBUTION = "torchmetrics"


def run(device: str) -> list[torch.Tensor]:
    classes = [
        MulticlassAccuracy(5),
        MulticlassPrecision(5),
        MulticlassRecall(5),
        MulticlassF1Score(5),
        MulticlassAUROC(5),
    ]
    of_classes = MetricCollection([*classes, MulticlassConfusionMatrix(5)]).to(device)
    of_numbers = MetricCollection([MeanSquaredError(), PearsonCorrCoef(), R2Score()]).to(device)
    of_images = MetricCollection([PeakSignalNoiseRatio(data_range=1.0), StructuralSimilarityIndexMeasure()]).to(device)
    of_searches = RetrievalMAP().to(device)
    for _ in range(4):
        of_classes.update(torch.randn(20, 5).softmax(-1).to(device), torch.randint(5, (20,)).to(device))
        of_numbers.update(torch.randn(20).to(device), torch.randn(20).to(device))
        of_images.update(torch.rand(2, 3, 24, 24).to(device), torch.rand(2, 3, 24, 24).to(device))
        found, right = torch.rand(20).to(device), torch.randint(2, (20,)).to(device)
        of_searches.update(found, right, indexes=torch.arange(20).to(device) // 5)
    computed = of_classes.compute() | of_numbers.compute() | of_images.compute()
    return [*computed.values(), of_searches.compute()]
