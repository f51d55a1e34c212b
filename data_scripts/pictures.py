"""Take the README's pictures out of executed labs, with the alt texts that the labs gave them.

python data_scripts/pictures.py runs/class             from a run of 04, 05 and 13 at class
python data_scripts/pictures.py runs/a runs/b           from several; a lab is taken from the first that has it

Writes book/_static/readme_*.png, in 256 colours so that each stays below 150 KB. A file carries its alt text, its lab and
the profile; the script prints the lines for the README. Exit status: 1 where a run lacks a lab or its picture.
"""

from __future__ import annotations

import argparse
import base64
import html
import io
import re
import sys
from pathlib import Path

import nbformat
from PIL import Image
from PIL.PngImagePlugin import PngInfo

from privlab.compute.atomic import write_atomic

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "book/_static"
LIMIT = 150_000  # bytes; a README is read on telephones too
# file -> (lab, how the alt text of the picture begins); no faces, and photographs of CIFAR-10 only, 32 pixels wide
PICTURES = {
    "readme_algebra.png": ("05_april_closed_form", "A CIFAR-10 image and two recoveries"),
    "readme_search.png": ("04_gradient_inversion", "A row of reconstructions for each architecture"),
    "readme_defences.png": ("13_defences", "Mean PSNR by defence and attack"),
}
IMG = re.compile(r'<img src="data:image/png;base64,([^"]+)" alt="([^"]*)" style="width:(\d+)px')


def found(notebook: Path, begins: str) -> tuple[bytes, str, int, str]:
    """The first picture of an executed notebook whose alt text begins so: PNG, alt text, width in CSS pixels, and the profile.

    Raises ValueError where there is none.
    """
    executed = nbformat.read(notebook, as_version=4)
    for output in (output for cell in executed.cells for output in cell.get("outputs", [])):
        for data, alt, width in IMG.findall(output.get("data", {}).get("text/html", "")):
            if html.unescape(alt).startswith(begins):
                profile = executed.metadata.papermill.parameters.profile
                return base64.b64decode(data), html.unescape(alt), int(width), profile
    raise ValueError(f"{notebook} has no picture whose alt text begins with {begins!r}; run the lab to its end")


def small(png: bytes, alt: str, source: str) -> bytes:
    """The picture in as few colours as LIMIT asks for, 256 at most, with its description and source inside.

    Raises ValueError where 16 colours are still too many bytes.
    """
    about = PngInfo()
    about.add_itxt("Description", alt)
    about.add_itxt("Source", source)
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    for colours in (256, 64, 16):
        buffer = io.BytesIO()
        picture.quantize(colours, dither=Image.Dither.NONE).save(buffer, "PNG", optimize=True, pnginfo=about)
        if buffer.tell() < LIMIT:
            return buffer.getvalue()
    raise ValueError(f"{source}: {buffer.tell()} bytes in 16 colours; the limit is {LIMIT}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a folder of `python -m privlab run`")
    parser.add_argument("--to", type=Path, default=FOLDER, metavar="FOLDER", help="default: book/_static")
    options = parser.parse_args()
    try:
        for name, (lab, begins) in PICTURES.items():
            places = [run / f"{lab}.ipynb" for run in options.runs]
            notebook = next((path for path in places if path.exists()), None)
            if notebook is None:
                raise ValueError(f"{', '.join(map(str, options.runs))}: no {lab}.ipynb; run that lab first")
            png, alt, width, profile = found(notebook, begins)
            write_atomic(options.to / name, small(png, alt, f"lab {lab} at {profile}"))
            print(f'<img src="book/_static/{name}" alt="{html.escape(alt)}" width="{min(width, 560)}">')
    except (ValueError, OSError) as error:
        print(f"pictures: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
