"""A lab's notebook is a function of its source, and a small edit makes a small difference."""

import nbformat
import pytest

from privlab.runner import pairing

LAB = """\
# ---
# jupyter:
#   kernelspec: {display_name: Mine, language: python, name: mine}
# ---

# %% [markdown]
# # 01 · title

# %% tags=["parameters"]
profile = "smoke"

# %% tags=["solution"]
answer = 42

# %%
answer

# %%
answer
"""


@pytest.fixture
def labs(tmp_path):
    """A folder of one lab and one that goes deeper."""
    for name in ("labs/01_lab.py", "labs/deeper/01_more.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LAB)
    return tmp_path / "labs"


def test_tags_and_sources_are_carried_over_and_no_kernel_of_the_author_s_is(labs):
    made = pairing.notebook(labs / "01_lab.py")
    assert [cell.metadata.get("tags", []) for cell in made.cells] == [[], ["parameters"], ["solution"], [], []]
    assert made.cells[0].cell_type == "markdown" and made.cells[0].source == "# 01 · title"
    assert made.metadata.kernelspec.name == "python3" and {*made.metadata} == {"kernelspec", "language_info"}
    nbformat.validate(made)


def test_an_edit_changes_one_id_and_an_insertion_none(tmp_path):
    def ids(*sources):
        (tmp_path / "01_lab.py").write_text("".join(f"# %%\n{source}\n\n" for source in sources))
        return {cell.id for cell in pairing.notebook(tmp_path / "01_lab.py").cells}

    before, after = ids("a = 1", "b = 2", "a = 1", "c\n\n\nd"), ids("a = 1", "edited", "a = 1", "c\n\n\nd")
    assert len(before) == 4 and len(before - after) == 1 == len(after - before)  # two are equal
    assert before < ids("inserted", "a = 1", "b = 2", "a = 1", "c\n\n\nd")


def test_pair_writes_what_is_stale_and_nothing_else(labs):
    def stale():
        return pairing.pair(labs, check=True)

    lab, more = labs / "01_lab.ipynb", labs / "deeper/01_more.ipynb"
    assert stale() == [lab, more] == pairing.pair(labs)
    assert stale() == [] == pairing.pair(labs)
    (labs / "01_lab.py").write_text(LAB.replace("42", "43"))
    assert stale() == [lab] == pairing.pair(labs)
    more.write_text(more.read_text().replace('"outputs": []', '"outputs": [{}]'))  # a committed output
    (labs / "02_left_over.ipynb").write_text("{}")
    assert stale() == [more, labs / "02_left_over.ipynb"]
    assert pairing.pair(labs) == [more] and (labs / "02_left_over.ipynb").read_text() == "{}"
