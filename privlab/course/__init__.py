"""All that belongs to one lab and is not read there, a folder a lab: lab_04 is that of labs/04_gradient_inversion.py.

    claims.yaml     what it puts to the test: a sentence of a paper, or of this book, and the comparison that decides
    experiments.py  what it measures, an experiment a function of one repeat
    checks.py       the checks of its exercises, on the kit of privlab.notebook.kit

and its own widgets. papers/ has what the four papers print, the eighteen questions, and why claims did not reproduce.

The engines find the parts of a lab here by its number, and name no lab.
"""
