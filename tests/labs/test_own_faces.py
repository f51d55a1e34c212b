"""A reader's own photographs in the labs that take them, in the layouts of those who collected them."""

import nbformat
import pytest
from PIL import Image

from privlab import data
from privlab.data import attributes, identities, sources


@pytest.fixture
def faces(smoke, tmp_path):
    """A data folder with what is fetched (by the run of all labs) and two sets of a reader's own, in their authors' layouts.

    The pictures are real, CIFAR-10's and ORL's; who and what is on them is made up. Only that the labs run on such files is tested.
    """
    folder, own = tmp_path / "data", tmp_path / "own"
    folder.mkdir()
    for fetched in sources.folder().iterdir():
        (folder / fetched.name).symlink_to(fetched)
    photos, orl = data.load("cifar10", "test"), data.load("orl")
    for k in range(1_700):
        file = own / f"utkface/{20 + k % 50}_{k % 2}_{k // 2 % 4}_{20170116174525000 + k}.jpg.chip.jpg"
        save(photos.pixels[k], file)
    for k in range(400):
        person = f"facescrub/{'actors' if k < 50 else 'actresses'}/faces/P_{k // 10}/{k}.png"
        save(orl.pixels[k], own / (person if k < 100 else f"ffhq/thumbnails128x128/00000/{k - 100:05d}.png"))
    attributes.prepare("utkface", own / "utkface", to=folder, progress=False)
    for name in ("facescrub", "ffhq"):
        identities.prepare(name, own / name, 32, to=folder, progress=False)
    return folder


def save(pixels, file):
    file.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels.expand(3, -1, -1).permute(1, 2, 0).numpy()).save(file)


@pytest.mark.check
@pytest.mark.parametrize(
    ("name", "labs"), [("utkface", ["03"]), pytest.param("facescrub", ["11", "12"], marks=pytest.mark.weekly)]
)
def test_a_lab_takes_the_readers_own_faces(faces, run_labs, tmp_path, name, labs):
    done = run_labs(tmp_path / "out", *labs, "-p", "faces", name, PRIVLAB_DATA=str(faces))
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-1000:]
    for lab in labs:  # it says so, in what it records, draws or prints
        (page,) = (tmp_path / "out").glob(f"{lab}_*.ipynb")
        outputs = [o for cell in nbformat.read(page, as_version=4).cells for o in cell.get("outputs", [])]
        assert name in "".join(map(str, outputs)), lab
