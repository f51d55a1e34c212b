"""A lab's notebook is a function of its source, and a small edit makes a small difference."""

import nbformat
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from privlab.runner import launch_buttons, pairing

LAB = """\
# ---
# jupyter:
#   kernelspec: {display_name: Mine, language: python, name: mine}
# ---

# %% [markdown]
# # 01 · title

# %% tags=["parameters"]
profile = "smoke"

# %% tags=["exercise"]
answer = ...

# %% tags=["solution"]
answer = 42

# %%
answer

# %%
answer
"""
PLACE = launch_buttons.Repository("https://github.com/someone/a-fork")


@pytest.fixture
def labs(tmp_path):
    """A folder of one lab and one that goes deeper."""
    for name in ("labs/01_lab.py", "labs/deeper/01_more.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(LAB)
    return tmp_path / "labs"


def test_tags_sources_and_metadata_are_carried_over(labs):
    made = pairing.notebook(labs / "01_lab.py")
    tags = [cell.metadata.get("tags", []) for cell in made.cells]
    assert tags == [[], ["parameters"], ["exercise"], ["solution"], [], []]
    assert made.cells[0].cell_type == "markdown" and made.cells[0].source == "# 01 · title"
    assert made.metadata.kernelspec.name == "python3"  # whatever kernel the author's JupyterLab wrote into the source
    assert set(made.metadata) == {"kernelspec", "language_info"}
    assert len({cell.id for cell in made.cells}) == len(made.cells)  # two are equal
    assert pairing.as_bytes(made) == pairing.as_bytes(pairing.notebook(labs / "01_lab.py"))
    nbformat.validate(made)


# Few different texts, so that equal cells are common.
SOURCES = st.lists(st.sampled_from(["a = 1", "b = 2", "c = 3", "d = 4\n\n\ne = 5"]), min_size=1, max_size=8)


def ids(folder, sources):
    source = folder / "01_lab.py"
    source.write_text("".join(f"# %%\n{source}\n\n" for source in sources))
    return {cell.id for cell in pairing.notebook(source).cells}


@settings(max_examples=30, deadline=None)
@given(sources=SOURCES, data=st.data())
def test_an_edit_changes_one_id_and_an_insertion_none(tmp_path_factory, sources, data):
    folder = tmp_path_factory.mktemp("edit")
    before = ids(folder, sources)
    at = data.draw(st.integers(0, len(sources) - 1))
    after = ids(folder, [*sources[:at], "edited = 1", *sources[at + 1 :]])
    assert len(before - after) == 1 == len(after - before)
    assert before < ids(folder, [*sources[:at], "inserted = 1", *sources[at:]])


def stale(labs):
    return pairing.pair(labs, check=True)


def test_pair_writes_what_is_stale_and_nothing_else(labs):
    lab, more = labs / "01_lab.ipynb", labs / "deeper/01_more.ipynb"
    assert stale(labs) == [lab, more] == pairing.pair(labs)
    assert stale(labs) == [] == pairing.pair(labs)
    (labs / "01_lab.py").write_text(LAB.replace("42", "43"))
    assert stale(labs) == [lab] == pairing.pair(labs)
    notebook = nbformat.read(more, as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="42")]  # a committed output
    nbformat.write(notebook, more)
    (labs / "02_left_over.ipynb").write_text("{}")
    assert stale(labs) == [more, labs / "02_left_over.ipynb"]
    assert pairing.pair(labs) == [more] and (labs / "02_left_over.ipynb").read_text() == "{}"


def test_with_an_address_it_begins_with_links_and_is_set_up_before_its_first_code(labs):
    plain, made = pairing.notebook(labs / "01_lab.py"), pairing.published(labs / "01_lab.py", PLACE)
    assert "/a-fork/blob/main/labs/01_lab.ipynb" in made.cells[0].source
    assert made.cells[2].source == launch_buttons.setup(PLACE) and made.cells[2].metadata.tags == ["setup"]
    assert [c for i, c in enumerate(made.cells) if i not in (0, 2)] == plain.cells  # ids included
    assert len({cell.id for cell in made.cells}) == len(made.cells)
    nbformat.validate(made)
    assert "labs/deeper/01_more.ipynb" in pairing.published(labs / "deeper/01_more.py", PLACE).cells[0].source
