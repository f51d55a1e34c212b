"""A lab's notebook is a function of its source, and a small edit makes a small difference."""

from __future__ import annotations

from collections import Counter

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


def write(folder, text, name="01_lab.py"):
    path = folder / name
    path.write_text(text)
    return path


def test_tags_sources_and_metadata_are_carried_over(tmp_path):
    made = pairing.notebook(write(tmp_path, LAB))
    tags = [cell.metadata.get("tags", []) for cell in made.cells]
    assert tags == [[], ["parameters"], ["exercise"], ["solution"], [], []]
    assert made.cells[0].cell_type == "markdown" and made.cells[0].source == "# 01 · title"
    assert made.cells[3].source == "answer = 42"
    assert made.metadata.kernelspec.name == "python3"  # whatever kernel the author's JupyterLab wrote into the source
    assert set(made.metadata) == {"kernelspec", "language_info"}
    assert all(cell.outputs == [] and cell.execution_count is None for cell in made.cells if cell.cell_type == "code")
    nbformat.validate(made)


def test_same_source_same_bytes_and_a_final_newline(tmp_path):
    path = write(tmp_path, LAB)
    assert pairing.text(path) == pairing.text(path)
    assert pairing.text(path).endswith("}\n") and not pairing.text(path).endswith("\n\n")


def test_equal_cells_have_ids_of_their_own(tmp_path):
    made = pairing.notebook(write(tmp_path, LAB))
    assert made.cells[-1].source == made.cells[-2].source
    assert len({cell.id for cell in made.cells}) == len(made.cells)


# Few different texts, so that equal cells are common.
SOURCES = st.lists(st.sampled_from(["a = 1", "b = 2", "c = 3", "d = 4\n\n\ne = 5"]), min_size=1, max_size=8)


def ids(folder, sources):
    text = "".join(f"# %%\n{source}\n\n" for source in sources)
    return [cell.id for cell in pairing.notebook(write(folder, text)).cells]


@settings(max_examples=40, deadline=None)
@given(sources=SOURCES, data=st.data())
def test_an_edit_changes_one_id_and_an_insertion_none(tmp_path_factory, sources, data):
    folder = tmp_path_factory.mktemp("edit")
    before = ids(folder, sources)
    at = data.draw(st.integers(0, len(sources) - 1))
    edited = [*sources[:at], "edited = 1", *sources[at + 1 :]]
    after = ids(folder, edited)
    assert len(set(before) - set(after)) == 1 and len(set(after) - set(before)) == 1
    if (
        Counter(sources)[sources[at]] == 1
    ):  # where the cell is not one of several equal ones, the others stay in place too
        assert [b == a for b, a in zip(before, after, strict=True)] == [i != at for i in range(len(sources))]
    inserted = ids(folder, [*sources[:at], "inserted = 1", *sources[at:]])
    assert set(before) < set(inserted)


def test_pair_writes_what_is_stale_and_nothing_else(tmp_path):
    source = write(tmp_path, LAB)
    made = tmp_path / "01_lab.ipynb"
    assert pairing.stale(tmp_path) == [made]
    assert pairing.pair(tmp_path) == [made]
    assert pairing.stale(tmp_path) == [] and pairing.pair(tmp_path) == []
    source.write_text(LAB.replace("42", "43"))
    assert pairing.stale(tmp_path) == [made]


def test_a_committed_output_is_stale(tmp_path):
    write(tmp_path, LAB)
    pairing.pair(tmp_path)
    made = tmp_path / "01_lab.ipynb"
    notebook = nbformat.read(made, as_version=4)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="42")]
    nbformat.write(notebook, made)
    assert pairing.stale(tmp_path) == [made]


def test_a_notebook_without_a_source_is_named_and_left_alone(tmp_path):
    (tmp_path / "02_left_over.ipynb").write_text("{}")
    assert pairing.stale(tmp_path) == [tmp_path / "02_left_over.ipynb"]
    assert pairing.pair(tmp_path) == []
    assert (tmp_path / "02_left_over.ipynb").read_text() == "{}"


def test_what_goes_deeper_is_paired_too_and_links_to_where_it_stands(tmp_path):
    (tmp_path / "deeper").mkdir()
    source = write(tmp_path / "deeper", LAB)
    assert pairing.stale(tmp_path) == [source.with_suffix(".ipynb")] == pairing.pair(tmp_path)
    assert pairing.stale(tmp_path) == []
    (tmp_path / "deeper/02_left_over.ipynb").write_text("{}")
    assert pairing.stale(tmp_path) == [tmp_path / "deeper/02_left_over.ipynb"]
    assert "/a-fork/blob/main/labs/deeper/01_lab.ipynb" in pairing.published(source, PLACE).cells[0].source


def test_a_file_without_cells_is_named(tmp_path):
    with pytest.raises(ValueError, match=r"notes\.py has no cell"):
        pairing.notebook(write(tmp_path, "x = 1\n", "notes.py"))


PLACE = launch_buttons.Repository("https://github.com/someone/a-fork")
SETTING = '[tool.privlab]\nrepository = "{}"\n'


@pytest.fixture
def labs(tmp_path, monkeypatch):
    """A folder of one lab beside a pyproject.toml without an address, and no address in the environment."""
    monkeypatch.delenv("PRIVLAB_REPOSITORY", raising=False)
    (tmp_path / "pyproject.toml").write_text(SETTING.format(""))
    (tmp_path / "labs").mkdir()
    write(tmp_path / "labs", LAB)
    return tmp_path / "labs"


def test_without_an_address_a_notebook_has_the_cells_of_its_source_and_no_more(labs):
    source = labs / "01_lab.py"
    assert pairing.published(source, None) == pairing.notebook(source)
    pairing.pair(labs)
    assert "Colab" not in (labs / "01_lab.ipynb").read_text()


def test_with_an_address_it_begins_with_links_and_is_set_up_before_its_first_code(labs):
    plain, made = pairing.notebook(labs / "01_lab.py"), pairing.published(labs / "01_lab.py", PLACE)
    assert "/a-fork/blob/main/labs/01_lab.ipynb" in made.cells[0].source
    assert made.cells[1].source == "# 01 · title"
    assert made.cells[2].source == launch_buttons.setup(PLACE) and made.cells[2].metadata.tags == ["setup"]
    assert [c for i, c in enumerate(made.cells) if i not in (0, 2)] == plain.cells  # ids included
    assert len({cell.id for cell in made.cells}) == len(made.cells)
    nbformat.validate(made)


def test_the_runner_never_sees_the_setup_cell(labs, monkeypatch):
    (labs.parent / "pyproject.toml").write_text(SETTING.format(PLACE.address))
    pairing.pair(labs)
    assert "google.colab" in (labs / "01_lab.ipynb").read_text()
    assert "google.colab" not in nbformat.writes(pairing.notebook(labs / "01_lab.py"))


def test_setting_the_address_makes_every_notebook_stale_until_it_is_paired(labs):
    pairing.pair(labs)
    (labs.parent / "pyproject.toml").write_text(SETTING.format(PLACE.address))
    assert pairing.stale(labs) == [labs / "01_lab.ipynb"]
    assert pairing.pair(labs) == [labs / "01_lab.ipynb"] and pairing.stale(labs) == []


def test_a_fork_may_build_with_its_own_address_before_or_after_pairing_with_it(labs, monkeypatch):
    pairing.pair(labs)
    monkeypatch.setenv("PRIVLAB_REPOSITORY", PLACE.address)
    assert pairing.stale(labs) == []  # what is committed is still what the sources make
    assert pairing.pair(labs) == [labs / "01_lab.ipynb"]
    assert "a-fork" in (labs / "01_lab.ipynb").read_text() and pairing.stale(labs) == []
    (labs / "01_lab.py").write_text(LAB.replace("42", "43"))
    assert pairing.stale(labs) == [labs / "01_lab.ipynb"]
