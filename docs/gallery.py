"""Draw every example and write docs/gallery.md, the page that shows them. Run it with `make images`.

The first sentence of an example is its question, its last line what to change; both stand on the page.
"""

import ast
import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parent
PAGE, IMAGES = DOCS / "gallery.md", DOCS / "images"
EXAMPLES = sorted((DOCS.parent / "examples").glob("plot_*.py"))
FIRST = ["heat_map", "alignment_lines", "words_by_weight", "all_heads", "decoding_steps"]
BEGINNING = """# Gallery

Every picture here is drawn by a short script in `examples/`. Run one, and it leaves its picture behind:

```sh
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


def draw() -> None:
    """Run every example in the folder of pictures."""
    IMAGES.mkdir(exist_ok=True)
    for example in EXAMPLES:
        subprocess.run([sys.executable, example], cwd=IMAGES, check=True)


if __name__ == "__main__":
    draw()
    PAGE.write_text(page(), encoding="utf-8")
    print(PAGE.name)
