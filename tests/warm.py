"""Fill the cache of compiled kernels, so that parallel workers need not compile the same ones at once."""

import torch

import regard

for dtype in (torch.float32, torch.float64):
    for name, entry in regard.MAPS.items():
        scores = torch.randn(3, 40, dtype=dtype, requires_grad=True)
        if entry.acts_on == "row":
            (entry(scores) * torch.randn(3, 40, dtype=dtype)).sum().backward()
        x = torch.randn(2, 160, 8, dtype=dtype, requires_grad=True)  # large enough for the sparse road
        regard.attend(x, x, map=name).context.sum().backward()
    scores, alpha = torch.randn(3, 40, dtype=dtype, requires_grad=True), torch.tensor(1.3, requires_grad=True)
    regard.maps.entmax(scores, alpha).square().sum().backward()
