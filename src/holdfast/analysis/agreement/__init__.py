"""How far judges agree with one another, or with people; `docs/metrics.md` has the formulas.

Every figure is computed exactly and rounded once, so it does not depend on the order of trials or judges.
"""

from holdfast.analysis.agreement.alpha import Level, krippendorff_alpha
from holdfast.analysis.agreement.kappa import Kappa, cohen_kappa
from holdfast.analysis.agreement.panel import effective_judges, mean_spread
from holdfast.analysis.agreement.ratings import Ratings

__all__ = ["Kappa", "Level", "Ratings", "cohen_kappa", "effective_judges", "krippendorff_alpha", "mean_spread"]
