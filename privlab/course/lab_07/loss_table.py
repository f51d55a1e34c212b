"""The terms of a loss as a table: value, weight and product of each, and the sums of GradViT's equations 7 and 1."""

from collections.abc import Mapping

import pandas as pd
from pandas.io.formats.style import Styler

AUXILIARY, WHOLE = "auxiliary terms, eq. 7", "the whole, eq. 1"


def loss_table(values: Mapping[str, float], weights: Mapping[str, float], auxiliary: int) -> Styler:
    """A row for each term, and two for the sums.

    values: term -> its value, such as {"gradients, eq. 3": 9.4}.  weights: the same terms -> their weights at this part of the run.
    auxiliary: how many of the terms, the last ones, belong to eq. 7.
    """
    table = pd.DataFrame({"value": values, "weight": weights}).astype(float)
    product = table["product"] = table.value * table.weight
    table.loc[AUXILIARY, "product"] = product.iloc[-auxiliary:].sum()
    table.loc[WHOLE, "product"] = product.sum()
    return table.style.format("{:.3g}", na_rep="")
