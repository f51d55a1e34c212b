# ---
# jupyter:
#   kernelspec: {display_name: Python 3, language: python, name: python3}
# ---

# %% [markdown]
# # 13, deeper · Is it enough to change a design?
#
# You come from [lab 13](../13_defences.ipynb). Zhang et al. advise to swap designs that leak for older ones.
# Does that hold here?
#
# After this notebook you can
# - compare a design before and after a swap: gradient inversion, membership, and accuracy.
#
# | profile | minutes | peak memory |
# |---|---|---|
# | smoke | 0.2 | 1.2 GB |
# | class | 1 | 1.5 GB |
#
# (Smoke measured, class estimated, on two CPU cores.)

# %% [markdown]
# *About 15 minutes. You need* labs 09 and 13.

# %%
from privlab import compute, experiments
from privlab.notebook import plots, text, widgets

import numpy as np
import pandas as pd

# %% tags=["parameters"]
profile = "class"
seed = 0
device = "auto"

# %%
profile = experiments.profile(profile)
device = compute.device(device)

# %% [markdown]
# ## Back to older designs
#
# This advice costs no noise (Figure 11). Take step 12 of lab 09, a ConvNeXt in all except the name. Go back to three ReLUs a block, to BatchNorm, to
# the stem of a ResNet, or to all three (at `class` the first and the last). A search that is best for one design is bad for another (lab 10), so the better of two searches counts.
#
# ### Predict

# %%
YES, NO = "weaker", "no weaker"
swap = widgets.choose("All three swaps make membership inference", [YES, NO])
swap

# %%
kept_swaps = experiments.load("defences.design_swaps")
mine_swaps = experiments.run("defences.design_swaps", profile, device=device)
swaps = kept_swaps or mine_swaps
names = [
    n[11:-1] for n in swaps.table if n.startswith("psnr[swap, ") and "mean" not in n
]
rows = {name.replace("_", " "): f"psnr[swap, {name}]" for name in names}
rows |= {"baseline": "psnr[swap, mean_photograph]"}
plots.evidence(kept_swaps, mine_swaps, rows, xlabel="PSNR in dB")

# %%
columns = {"task accuracy": "task_acc", "membership AUC": "auc", "PSNR, dB": "psnr"}
table = {
    name.replace("_", " "): {
        what: f"{np.mean(swaps[f'{metric}[swap, {name}]']):.1f}"
        for what, metric in columns.items()
    }
    for name in names
}
pd.DataFrame(table).T

# %%
change = swaps.mean("auc[swap, all_three] - auc[swap, as_it_is]")
swap.against(YES if change < 0 else NO)

# %%
text(
    "All three swaps together change the accuracy by {:+.1f} points, the AUC of "
    "membership by {:+.1f} points, and the search by {:+.1f} dB.",
    swaps.mean("task_acc[swap, all_three] - task_acc[swap, as_it_is]"),
    change,
    swaps.mean("psnr[swap, all_three] - psnr[swap, as_it_is]"),
)

# %% [markdown]
# A low PSNR after a swap is only good news if the search sees something before it. Compare with the *baseline*, the mean of public photographs.

# %% [markdown]
# At `night` the swaps do not pull together. A ResNet's stem weakens both attacks, and the task gains. Three ReLUs stop the search, and membership inference
# gains a little.

# %% [markdown]
# BatchNorm *helps* the search. A fresh network in eval mode has no use for it, so nothing stands in LayerNorm's place. That this is the reason is a conjecture.

# %% [markdown]
# ## Read on
#
# Zhang et al. 2024, section 7.1 and Figure 11. Lab 10 has the designs one by one.
