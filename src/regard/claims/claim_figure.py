"""A picture of a claim: every figure that decides, a dot for each seed, and the thresholds it must clear."""

from typing import TYPE_CHECKING

from regard.claims.stored_figures import Record
from regard.claims.verdict_of_claim import measured
from regard.views.picture import captioned, figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MET, MISSED = "#1b7837", "#b2182b"


def claim_figure(record: Record) -> "Figure":
    """Draw the conditions of a claim one below the other, each on its own scale."""
    claim, runs = record.claim, measured([run.figures for run in record.of()])
    if not runs:
        raise ValueError(
            f"{claim.number} has no figures of single seeds to draw: regard claims run {claim.number}."
        )
    conditions = claim.conditions
    picture = figure(8, 1.2 + 0.62 * len(conditions))
    panels = picture.subplots(len(conditions), 1, squeeze=False)[:, 0]
    for panel, condition in zip(panels, conditions, strict=True):
        values = condition.values(runs)
        colour = MET if condition.met(runs) else MISSED
        panel.axvline(condition.bound, color="#555555", linewidth=1, linestyle="--")
        panel.plot(values, [0] * len(values), "o", color=colour, alpha=0.6, markersize=6)
        panel.plot([values.mean()], [0], "|", color=colour, markersize=22, markeredgewidth=2)
        panel.set_yticks([])
        panel.set_ylim(-1, 1)
        panel.margins(x=0.15)
        for side in ("left", "right", "top"):
            panel.spines[side].set_visible(False)
        panel.set_title(("control: " if condition.control else "") + str(condition), loc="left", fontsize=8)
        panel.tick_params(labelsize=7)
    caption = f"{record.verdict}. A dot for each seed, a bar for their mean, dashed the threshold."
    return captioned(picture, f"{claim.number}: {claim.says}", caption)
