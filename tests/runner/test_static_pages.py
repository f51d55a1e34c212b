"""What a run leaves of widgets, as a page without a kernel has it."""

from nbformat.v4 import new_code_cell, new_notebook, new_output

from privlab.runner import static_pages

VIEW = {static_pages.VIEW: {"model_id": "one"}}


def test_a_widget_is_its_html_and_one_without_goes():
    outputs = [
        new_output("display_data", VIEW | {"text/html": "<p>frames</p>", "text/plain": "Controls"}),
        new_output("display_data", VIEW | {"text/plain": "a bar of progress"}),
        new_output("display_data", {"text/plain": "a number"}),
        new_output("stream", text="words"),
    ]
    about = {"widgets": {"state": {}}, "papermill": {"version": "2"}}
    injected = new_code_cell("seed = 1", metadata={"tags": ["injected-parameters"]})
    notebook = new_notebook(cells=[injected, new_code_cell("...", outputs=outputs)], metadata=about)
    static_pages.rest(notebook)
    (cell,) = notebook.cells
    assert [dict(o.get("data", {})) for o in cell.outputs] == [
        {"text/html": "<p>frames</p>", "text/plain": "Controls"},
        {"text/plain": "a number"},
        {},
    ]
    assert not notebook.metadata
