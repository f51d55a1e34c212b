"""All that belongs to one lab and is not read there, a folder a lab: lab_04 is that of labs/04_gradient_inversion.py.

    checks.py    the checks of its exercises, on the kit of privlab.notebook.kit

The engines find the parts of a lab here by its number, and name no lab.
"""
