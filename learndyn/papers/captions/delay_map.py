"""What is told of the map of the delay."""

from learndyn.papers.captions.delayed_features import REFERENCE, SHARED
from learndyn.papers.figure_facts import FigureFacts

FACTS = {
    "grokking-map": FigureFacts(
        "grokking-map",
        "The delay of the test loss over output scale and activation",
        f"{SHARED} Theory, 2 × 256 samples, γ = 3, A₀ = ±0.3, time 25/ε (alignments grow as exp(3εt/2) at first). "
        "Numbers: time at which the test loss drops over that of the train loss. (a) Below 10 % of the first loss; (b) "
        "below 10 % of ½⟨y²⟩ = 0.375, the same level for all cells. Hatched: the test loss does not drop within the "
        "time. Sampling errors are about 10 %: four cells changed by 3 to 18 % with another draw of the samples, and "
        "by up to 12 % with 8 times as many. The paper has no such map, and says that the delay grows with α. In (a) "
        "it does above α = 0.5; but there the first loss grows as well, from 0.35 to 1.5, by the initial output of the "
        "network, and the train loss passes a tenth of it early. At a fixed level, (b), the delay changes little "
        "there, and below α = 0.3 it grows as α falls. Networks at α = 0.1, 0.5, 2 and ε = 0.3 are in grokking-2.",
        REFERENCE,
        2.2,
    )
}
"""By the name of the picture."""
