"""The schematic drawings of the labs in Chromium: no words on each other, none cut off, none tiny, on a desk and on a telephone.

The letters are those of a wide font, as some systems have.
"""

import pytest

from privlab.notebook import drawings

pytest.importorskip("selenium")
PAGE = "<!doctype html><meta charset='utf-8'><style>body{{margin:20px;font-family:'DejaVu Sans',Verdana,sans-serif}}</style><main>{}</main>"
DRAWN = sorted(f"{path.parent.name[4:]}.{path.stem}" for path in drawings.COURSE.glob("lab_*/*.svg"))
FAULTS = """
const faults = [];
for (const svg of document.querySelectorAll('svg.privlab-sketch')) {
  const of = e => e.getBoundingClientRect(), sheet = of(svg), scale = svg.getScreenCTM().a, name = svg.parentElement.id;
  const wide = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left);
  const high = (a, b) => Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
  if (sheet.right > innerWidth) faults.push([name, 'wider than the page']);
  const texts = [...svg.querySelectorAll('text')];
  texts.forEach((text, i) => {
    const t = of(text), says = what => faults.push([name, text.textContent, what]);
    if (t.left < sheet.left - 1 || t.right > sheet.right + 1 || t.top < sheet.top - 1 || t.bottom > sheet.bottom + 1) says('cut off');
    if (parseFloat(getComputedStyle(text).fontSize) * scale < 10) says('tiny');
    for (const other of texts.slice(i + 1)) if (wide(t, of(other)) > 1 && high(t, of(other)) > 4) says('on ' + other.textContent);
    for (const box of svg.querySelectorAll('rect[rx="6"]')) {
      const b = of(box), inside = t.left >= b.left && t.right <= b.right && t.top >= b.top - 2 && t.bottom <= b.bottom + 2;
      if (wide(t, b) > 1 && high(t, b) > 3 && !inside) says('across a box');
    }
    for (const line of svg.querySelectorAll('polyline')) {
      const points = [...line.points].map(p => p.matrixTransform(line.getScreenCTM()));
      for (let k = 1; k < points.length; k++) for (let s = 0; s <= 1; s += 0.02) {
        const x = points[k - 1].x + (points[k].x - points[k - 1].x) * s, y = points[k - 1].y + (points[k].y - points[k - 1].y) * s;
        if (x > t.left + 1 && x < t.right - 1 && y > t.top + 4 && y < t.bottom - 4) { says('under a line'); s = 2; k = 99; }
      }
    }
  });
}
return faults;
"""


@pytest.mark.parametrize("width", [1280, 390])
def test_words_have_room(reader, tmp_path, width):
    drawn = "".join(f'<div id="{name}">{drawings.show(name).html}</div>' for name in DRAWN)
    (tmp_path / "page.html").write_text(PAGE.format(drawn), encoding="utf-8")
    reader.resize(width)
    reader.driver.get((tmp_path / "page.html").as_uri())
    assert reader.js("return document.querySelectorAll('svg.privlab-sketch').length") == len(DRAWN)
    assert reader.js(FAULTS) == []
    assert reader.barriers("svg-img-alt", "duplicate-id") == []
