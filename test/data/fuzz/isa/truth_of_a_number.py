# A number that fills a tensor of truth values is true; chip code kept 3 and 5 as they are.
import torch

CHECKS = ("isa", "code")


class M(torch.nn.Module):
    def forward(self, x):
        truth = x == x
        filled = truth.masked_fill(x > 3, 3)
        return torch.sigmoid(filled), torch.sigmoid(torch.full_like(truth, 5)), torch.sigmoid(filled | truth)


args = (torch.arange(8),)
