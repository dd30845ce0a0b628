"""Train the runs that pictures show, draw every picture of the documentation, and write docs/gallery.md.

Run it with `make images`: a few minutes, most of them for `regard demo`; runs that are there are used. The
first sentence of an example is its question, its last line what to change; both stand on the page. The page
in use and the verdict of an audit are photographed in Chromium, where there is one.
"""

import ast
import json
import re
import shutil
import subprocess
import sys
from itertools import islice
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
PAGE, IMAGES = DOCS / "gallery.md", DOCS / "images"
EXAMPLES = sorted((DOCS.parent / "examples").glob("plot_*.py"))
FIRST = ["heat_map", "alignment_lines", "words_by_weight", "all_heads", "decoding_steps"]
BEGINNING = """# Gallery

Every picture here is drawn by a short script in `examples/`. Run one, and it leaves its picture behind. Some
need the translator that `make demo` trains; `make images` trains all that is needed and draws them all.

```sh
make demo
python examples/plot_heat_map.py
```
"""


def page() -> str:
    """The page: pictures of weights first, then the others, by name."""
    names = {example.stem.removeprefix("plot_"): example for example in EXAMPLES}
    order = [name for name in FIRST if name in names] + [name for name in names if name not in FIRST]
    return "\n".join([BEGINNING, *(section(name, names[name]) for name in order)]).rstrip() + "\n"


def section(name: str, example: Path) -> str:
    """Question, picture, what there is to see, and what to change."""
    text = example.read_text(encoding="utf-8")
    says = ast.get_docstring(ast.parse(text)) or ""
    first, _, rest = says.partition("\n\n")
    change = text.rstrip().splitlines()[-1].removeprefix("# ")
    parts = [
        f"## {name.replace('_', ' ').capitalize()}",
        first,
        f"![{first.partition('?')[0]}?](images/{name}.png)",
        rest,
        f"*{change}* [`examples/{example.name}`](../examples/{example.name})",
    ]
    return "\n\n".join(filter(None, parts)) + "\n"


def train() -> None:
    """The translator of the demo, a classifier of generated texts, and the audit of the latter."""
    regard("demo")
    if not (ROOT / "runs" / "sentiment").exists():
        regard(
            "train", "classification", "--corpus", "sentiment", "--model", "attentive_bilstm",
            "--steps", "300", "--set", "data.texts=4000", "--out", "runs/sentiment",
        )  # fmt: skip
    from regard.data.corpora.sentiment import sentiment

    texts = (f"{' '.join(one.text.split())}\t{one.label}\n" for one in islice(sentiment(split="test"), 400))
    (ROOT / "runs" / "sentiment.tsv").write_text("".join(texts), encoding="utf-8")
    regard(
        "audit", "runs/sentiment", "--data", "runs/sentiment.tsv", "--quick", "--overwrite",
        "--html", "runs/sentiment.html",
    )  # fmt: skip


def regard(*arguments: str) -> None:
    """Run a command of regard in the root of the project."""
    subprocess.run([sys.executable, "-m", "regard", *arguments], cwd=ROOT, check=True)


def draw() -> None:
    """Run every example beside the runs, and keep its picture."""
    IMAGES.mkdir(exist_ok=True)
    for example in EXAMPLES:
        subprocess.run([sys.executable, example], cwd=ROOT, check=True)
        name = example.stem.removeprefix("plot_")
        shrink(ROOT / f"{name}.png", IMAGES / f"{name}.png")


def draw_measured() -> None:
    """The pictures of docs/certified_decoding.md, from the rows that `make bench KEYS=FILE` left, and of
    docs/mechanisms.md, measured anew."""
    from regard.bench.speed_report import curves
    from regard.views import growth

    rows = json.loads((DOCS / "benchmarks" / "certified.json").read_text(encoding="utf-8"))
    growth(**curves(rows)).save(ROOT / "certified_decoding.png")
    shrink(ROOT / "certified_decoding.png", IMAGES / "certified_decoding.png")
    regard("bench", "growth", "--plot", "growth.png")
    shrink(ROOT / "growth.png", IMAGES / "growth.png", 0.6)


def photograph() -> None:
    """The page of `regard serve` with a sentence and a click, and the verdict of the audit."""
    from playwright.sync_api import expect, sync_playwright

    browser = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if browser is None:
        print("no Chromium: the pictures of the page and of the verdict stay as they are (make browser)")
        return
    command = [sys.executable, "-m", "regard", "serve", "runs/demo", "--port", "0"]
    server = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        assert server.stdout is not None
        found = filter(None, (re.search(r"http://\S+", line) for line in server.stdout))
        address = next(found)[0]
        with sync_playwright() as playwright:
            chromium = playwright.chromium.launch(executable_path=browser, args=["--no-sandbox"])
            page = chromium.new_page(viewport={"width": 1000, "height": 1170}, device_scale_factor=2)
            page.goto(f"{address}#text=the red car costs two euros&word=2")  # as after a click on "red"
            expect(page.locator(".card")).to_have_count(3, timeout=60_000)
            expect(page.locator("[aria-busy]")).to_have_count(0, timeout=60_000)
            page.mouse.move(0, 0)
            page.screenshot(path=ROOT / "page.png")
            page.set_viewport_size({"width": 860, "height": 452})
            page.goto((ROOT / "runs" / "sentiment.html").as_uri())
            page.screenshot(path=ROOT / "verdict.png")
            chromium.close()
    finally:
        server.terminate()
        server.wait()
    for name in ("page", "verdict"):
        shrink(ROOT / f"{name}.png", IMAGES / f"{name}.png")


def shrink(drawn: Path, kept: Path, size: float = 1.0) -> None:
    """Move a picture, on white paper, in at most 128 colours and this share of its width and height."""
    from PIL import Image

    with Image.open(drawn) as picture:
        seen = picture.convert("RGBA")
        paper = Image.new("RGBA", seen.size, "white")
        paper.alpha_composite(seen)
        plain = paper.convert("RGB").resize((round(paper.width * size), round(paper.height * size)))
        plain.quantize(128).save(kept, optimize=True)
    drawn.unlink()


if __name__ == "__main__":
    train()
    draw()
    draw_measured()
    photograph()
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.name)
