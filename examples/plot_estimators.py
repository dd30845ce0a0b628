"""Which way past a hard choice is right on average, and which is steady? Bias and spread of each estimator.

One key of six is drawn, its value goes through a small network, and the gradient of the scores is wanted.
With six keys it can be written out, so each estimator can be held against it: how far off is the mean of
50,000 gradients, how far does a single one stray, and does the mean at least point the right way?
"""

import torch
from matplotlib.figure import Figure

from regard.losses import expected_loss
from regard.maps import Hard, softmax
from regard.maps import estimators as by
from regard.views import save

ESTIMATORS = {
    "Exact()": by.Exact(),
    "Reinforce()": by.Reinforce(),
    "Reinforce(None)": by.Reinforce(None),
    "StraightThrough()": by.StraightThrough(),
    "StraightThrough(softmax)": by.StraightThrough(softmax),
    "GumbelSoftmax(1.0)": by.GumbelSoftmax(1.0),
    "GumbelSoftmax(0.2)": by.GumbelSoftmax(0.2),
    "GumbelSoftmax(0.2, hard=True)": by.GumbelSoftmax(0.2, hard=True),
    "PerturbAndMap(1)": by.PerturbAndMap(1),
    "PerturbAndMap(10)": by.PerturbAndMap(10),
    "Spigot()": by.Spigot(),
}
torch.manual_seed(0)
theta, values, read = torch.randn(6).double(), torch.randn(6, 4).double(), torch.randn(4, 3).double()


def gradients(estimator, count=50_000):  # one of the scores for each sample: (count, 6)
    map, scores = Hard(estimator), theta.repeat(count, 1).requires_grad_()

    def losses():
        return -(torch.tanh(2 * map(scores) @ values) @ read).log_softmax(-1)[:, 0]

    expected_loss(losses)  # the second time Reinforce() has something to compare with
    return count * torch.autograd.grad(expected_loss(losses), scores)[0]


true = gradients(ESTIMATORS["Exact()"])[0]
panels = (figure := Figure(figsize=(9, 3.6), layout="constrained")).subplots(1, 3, sharey=True)
panels[0].invert_yaxis()
for name, estimator in ESTIMATORS.items():
    found = gradients(estimator) / true.norm()
    off, strayed = found.mean(0) - true / true.norm(), found - found.mean(0)
    row = off.norm(), strayed.norm() / len(found) ** 0.5, torch.cosine_similarity(found.mean(0), true, 0)
    print("| `{}` | {:.2f} | {:.2f} | {:.2f} |".format(name, *row))
    for panel, what, number in zip(panels, ("bias", "spread", "cosine of the mean"), row, strict=True):
        panel.barh(name, number, color="#2f6690")
        panel.set_title(what)
print(save(figure, "estimators.png"))

# Now change tanh(2 * …) to tanh(0.1 * …): the loss hardly bends. Whose bias goes, and whose stays?
