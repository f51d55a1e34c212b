"""A lab that was run, for pages without a kernel: explorers as flipbooks, other controls at rest where they stood, and what they showed.

The run drew an explorer's frames beforehand (`notebook.frames`); they become a `notebook.flipbook` here, which moves without Python.

A saved slider that moves and changes nothing is worse than none. No other widget of the labs does anything by the widget manager
alone: each asks Python for a picture. So the saved state of the *controls* goes into the page, disabled, 10 to 70 KB a lab, and
the manager draws them as the notebook does. What they showed stays plain HTML: it is in the page once, and is read, printed
and searched without a script. Where scripts are off, or the manager was not to be had, a list says where the controls stood.

A prediction becomes an HTML form: book/_static/book.js hides what follows it until a guess was made.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_output

from privlab.compute import reading
from privlab.ledger import lab_notes
from privlab.runner import catalogue

VIEW, STATE = "application/vnd.jupyter.widget-view+json", "application/vnd.jupyter.widget-state+json"
Models = dict[str, dict[str, Any]]

_NOTE = "Live in the notebook. Here the controls rest where they stood."
_PICTURE = re.compile(r"<(img|svg|figure|canvas)\b")


def executed(lab: catalogue.Lab, run: Path) -> NotebookNode | None:
    """The notebook that a run left of a lab, if it is green and of the source as it stands."""
    if not (note := run / f"{lab.name}.json").exists():
        return None
    result = lab_notes.read(note)
    fits = result["status"] == "ok" and result.get("source") == lab.digest
    if not fits:
        return None
    with reading.guarded(
        path := run / f"{lab.name}.ipynb", "is no notebook that can be read here", "run the lab again"
    ):
        notebook = nbformat.read(path, as_version=4)
        nbformat.validate(notebook)
        return notebook


def rest(notebook: NotebookNode) -> Models:
    """Take out of a notebook, in place, what needs a kernel or is the runner's; the models that its controls at rest need."""
    saved = notebook.metadata.pop("widgets", {}).get(STATE, {}).get("state", {})
    notebook.metadata.pop("papermill", None)
    notebook.cells = [cell for cell in notebook.cells if "injected-parameters" not in cell.metadata.get("tags", [])]
    controls: Models = {}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            outputs: list[NotebookNode] = []
            for output in cell.outputs:
                pieces, models = still(output, saved)
                outputs, controls = outputs + pieces, controls | models
            cell.outputs = outputs
    return controls | _looks(controls, saved)


def still(output: NotebookNode, saved: Models) -> tuple[list[NotebookNode], Models]:
    """An output as a page shows it, and the models that the widget manager needs for its controls.

    saved: the widget state of the notebook, model id -> model.
    """
    data = output.get("data", {})
    if str(form := data.get("text/html", "")).startswith('<form class="privlab-prediction"'):
        return [new_output("display_data", {"text/html": form, "text/plain": "A prediction"})], {}
    if about := output.get("metadata", {}).get("text/markdown", {}).get("privlab"):
        return [_answer(about)], {}
    if VIEW not in data:
        return [output], {}
    root = data[VIEW]["model_id"]
    frames = saved.get(root, {}).get("state", {}).get("frames") or {}
    if len(frames.get("frames", ())) > 1:
        return [flipped(frames)], {}
    models = {name: json.loads(json.dumps(saved[name])) for name in _reach(root, saved)}
    inside, stood = [], []
    for model in models.values():
        state = model["state"]
        inside += [nbformat.from_dict(output) for output in state.get("outputs") or []]
        if _pictured(model):  # the frame of a player
            inside.append(new_output("display_data", {"text/html": state["value"]}))
        if "disabled" in state:
            state["disabled"] = True
        stood += [text] if (text := _stood(state)) else []
    if not any("disabled" in model["state"] for model in models.values()):
        return inside, {}  # no control, such as a bar of progress, which has long come to its end
    controls = _controls(root, models)
    view = {"model_id": root, "version_major": 2, "version_minor": 0}
    script = f'<script type="{VIEW}">{json.dumps(view)}</script>' if controls else ""
    items = "".join(f"<li>{text}</li>" for text in stood)
    block = (
        f'<div class="privlab-controls" role="group" aria-label="Controls, at rest">{script}'
        f'<ul class="privlab-stood">{items}</ul><p class="privlab-live">{_NOTE}</p></div>'
    )
    return [new_output("display_data", {"text/html": block, "text/plain": _NOTE}), *inside], controls


def _answer(about: dict[str, Any]) -> NotebookNode:
    """What the run found, and a place below it where the page says how a guess compares.  about: as a `Comparison` has it."""
    name, right = html.escape(about["name"]), html.escape(json.dumps(about["right"]))
    place = f'<div class="privlab-answer" data-name="{name}" data-right="{right}"></div>'
    return new_output("display_data", {"text/markdown": f"{about['result']}\n\n{place}", "text/plain": about["result"]})


def flipped(frames: dict[str, Any]) -> NotebookNode:
    """What `notebook.frames` saved of an explorer, a game or a race, as a flipbook."""
    from privlab.notebook.flipbook import Control, Flipbook  # it imports torch

    controls = tuple(
        Control(one["label"], tuple(one["options"]), one["rest"], one["kind"]) for one in frames["controls"]
    )
    shown = {tuple(setting): "".join(map(_html, bundles)) for setting, bundles in frames["frames"]}
    notes = [frames.get("note", "")]
    if len(shown) < frames["grid"]:
        notes += [f"Here are {len(shown)} of {frames['grid']:,} settings, drawn beforehand. The notebook draws all."]
        notes += ["One control moves at a time: the others go back."] * frames["alone"]
    book = Flipbook(controls, shown, note=" ".join(filter(None, notes)))
    return new_output("display_data", book._repr_mimebundle_())


def _html(bundle: dict[str, Any]) -> str:
    """What a thing shows, which has one media type, as HTML."""
    ((kind, data),) = bundle.items()
    if kind in ("text/html", "image/svg+xml"):
        return str(data)
    if kind == "image/png":
        return f'<img src="data:image/png;base64,{html.escape(data)}" alt="">'
    if kind == "text/markdown":
        from nbconvert.filters import markdown2html  # it takes half a second to import

        return str(markdown2html(data))
    return f"<pre>{html.escape(str(data))}</pre>"


def _reach(root: str, saved: Models) -> Iterator[str]:
    """A model's id and those of all inside it, in the order of the page; not those of layouts and styles."""
    if root in saved:
        yield root
        for child in _children(saved[root]):
            yield from _reach(child, saved)


def _children(model: dict[str, Any]) -> list[str]:
    return [child.removeprefix("IPY_MODEL_") for child in model["state"].get("children") or []]


def _pictured(model: dict[str, Any]) -> bool:
    return model.get("model_name") == "HTMLModel" and bool(_PICTURE.search(str(model["state"].get("value"))))


def _controls(root: str, models: Models) -> Models:
    """The models without outputs, pictures, and boxes that hold nothing else; empty where nothing is left."""
    if root not in models:
        return {}
    model = models[root]
    if model.get("model_name") == "OutputModel" or _pictured(model):
        return {}
    controls: Models = {}
    if "children" in model["state"]:
        inside = [within for child in _children(model) if (within := _controls(child, models))]
        if not inside:
            return {}
        for within in inside:
            controls |= within
        model["state"]["children"] = [f"IPY_MODEL_{c}" for c in _children(model) if c in controls]
    return {root: model} | controls


def _looks(models: Models, saved: Models) -> Models:
    """The layouts and styles that these models name, without what they leave open, which is most of what was saved of them."""
    named = {name for model in models.values() for name in re.findall(r"IPY_MODEL_(\w+)", json.dumps(model["state"]))}
    look = {name: saved[name] for name in named - models.keys() if name in saved}
    return {
        name: {**model, "state": {key: value for key, value in model["state"].items() if value is not None}}
        for name, model in look.items()
    }


def _stood(state: dict[str, Any]) -> str:
    """Where a control stood, as HTML; the question of a prediction as it is; empty for what is neither."""
    name = html.escape(state.get("description") or "")
    if "_options_labels" in state and state.get("index") is not None:
        return f"{name}: {html.escape(str(state['_options_labels'][state['index']]))}"
    if "max" in state and "min" in state:  # a guess: where its slider stood says nothing
        return f"{name}, from {state['min']:g} to {state['max']:g}" if name else ""
    if isinstance(state.get("value"), bool):
        return f"{name}: {'yes' if state['value'] else 'no'}"
    if state.get("_model_name") == "TextareaModel":  # a drawing, letter by letter
        return name
    if "disabled" in state and name:
        return f"{name}: {html.escape(str(state['value']))}" if state.get("value") else name
    text = re.sub(r"<(br|/p|/div|/li|/h\d)\b[^>]*>", r"\g<0> ", str(state.get("value") or "")).strip()
    return html.escape(re.sub(r"<[^>]+>", "", text)) if not _PICTURE.search(text) else ""
