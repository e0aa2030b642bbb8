"""Markdown of models on the page: as elements, never as markup of the model's own."""

import json

import pytest
from flask_page import wrong
from flask_serving import Served
from support.browser import CHROMIUM

pytestmark = [
    pytest.mark.browser,
    pytest.mark.timeout(180),
    pytest.mark.skipif(
        CHROMIUM is None, reason="there is no chromium: apt-get install chromium"
    ),
]

LINK = 'target="_blank" rel="noopener noreferrer"'
TICKS = "```"
WHOLE = f"""# A title

Some *text* with `code`,
on two lines.
- one
- two with **bold**
  1. deeper
  2. and on

- three, after a space

  with a paragraph, and code:

  {TICKS}sh
  ls

    -l
  {TICKS}

1. first

2. second
10) other

> quoted
> - with a list

| a | b |
|:--|--:|
| 1 | `x` |

{TICKS}python
def f():

    return "# no title"
{TICKS}
After it.

- last
"""
CASES = [
    ("plain\ntext", "<p>plain\ntext</p>"),
    ("  indented\n    more", "<p>  indented\n    more</p>"),
    ("## T #\ntext", "<h4>T</h4><p>text</p>"),
    ("#hashtag", "<p>#hashtag</p>"),
    ("- a\n- b", "<ul><li>a</li><li>b</li></ul>"),
    ("- a\n  - b\n- c", "<ul><li>a<ul><li>b</li></ul></li><li>c</li></ul>"),
    ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
    ("- a\n1. b", '<ul><li>a</li></ul><ol start="1"><li>b</li></ol>'),
    ("- a\nlazy\n\nafter", "<ul><li>a\nlazy</li></ul><p>after</p>"),
    ("a\n---\nb", "<p>a</p><hr><p>b</p>"),
    ("> a\n> b", "<blockquote><p>a\nb</p></blockquote>"),
    (
        "|a|b|\n|-|:-:|\n|1\\|2|\nend",
        '<div class="table"><table><thead><tr><th>a</th><th class="center">b</th></tr>'
        '</thead><tbody><tr><td>1|2</td><td class="center"></td></tr></tbody></table>'
        "</div><p>end</p>",
    ),
    ("a | b, no table", "<p>a | b, no table</p>"),
    ("**a *b* c** _d_", "<p><strong>a <em>b</em> c</strong> <em>d</em></p>"),
    ("2 * 3 * 4, a_b_c, 5*6*7", "<p>2 * 3 * 4, a_b_c, 5*6*7</p>"),
    (r"\*not\* \`this\`", "<p>*not* `this`</p>"),
    ("`` a`b `` and `**c**`", "<p><code> a`b </code> and <code>**c**</code></p>"),
    ("**open and `open", "<p>**open and `open</p>"),
    (
        "[a](https://b.example/c_(d)) https://e.example/f.",
        f'<p><a href="https://b.example/c_(d)" title="https://b.example/c_(d)" {LINK}>a'
        '</a> <a href="https://e.example/f" title="https://e.example/f" '
        f"{LINK}>https://e.example/f</a>.</p>",
    ),
    ("[a](javascript:alert(1))", "<p>[a](javascript:alert(1))</p>"),
    ("[a](//evil.example) [b](x)", "<p>[a](//evil.example) [b](x)</p>"),
    ("![a](https://b.example/c.png)", None),
    ("<b>x</b> <script>1</script>", "<p>&lt;b&gt;x&lt;/b&gt; &lt;script&gt;1"),
    ("# <i>t</i>\n\n- <u>", "<h3>&lt;i&gt;t&lt;/i&gt;</h3><ul><li>&lt;u&gt;</li></ul>"),
]
#: Draws text as it is streamed, piece by piece, and once more at its end.
STREAMED = """
import('./markdown.js').then(({ blocks, settledAt }) => {
  const text = %s;
  const html = (made) => made.map((each) => each.outerHTML).join('');
  for (const size of [1, 7]) {
    let settled = 0, drawn = '';
    for (let end = size; end < text.length + size; end += size) {
      const so_far = text.slice(0, end);
      const next = settledAt(so_far, settled);
      drawn += html(blocks(so_far.slice(settled, next)));
      settled = next;
    }
    if (!settled) return 'nothing settled';
    drawn += html(blocks(text.slice(settled)));
    if (drawn != html(blocks(text))) return [drawn, html(blocks(text))];
  }
  return 'same';
})
"""


@pytest.fixture(scope="module")
def served():
    with Served("gunicorn") as running:
        yield running


@pytest.fixture
def page(visit, served):
    return visit(served)


def draw(page, text):
    """Return the elements of a text, as HTML."""
    return page.evaluate(
        "import('./markdown.js').then(({ blocks }) => "
        f"blocks({json.dumps(text)}).map((each) => each.outerHTML).join(''))"
    )


def test_elements(page):
    """Each form becomes its element, and what is none stays as it is."""
    for text, expected in CASES:
        found = draw(page, text)
        if expected is None:  # an image: its address is a link at most
            assert "<img" not in found
        elif expected.endswith(">"):
            assert found == expected, text
        else:
            assert found.startswith(expected), text
    assert wrong(page) == []


def test_code(page):
    """Code is exactly that: markers, blank lines and indents are kept."""
    pres = (
        "import('./markdown.js').then(({{ blocks }}) => blocks({}).flatMap((each) => "
        "[...each.querySelectorAll('pre')].map((pre) => pre.textContent)))"
    )
    text = (
        f"{TICKS}js\na\n\n  - b\n{TICKS}\n1. x:\n   {TICKS}\n   c\n     d\n   {TICKS}"
    )
    assert page.evaluate(pres.format(json.dumps(text))) == ["a\n\n  - b", "c\n  d"]
    nested = f"~~~\n{TICKS}\n~~~~\n{TICKS}\nopen"
    assert page.evaluate(pres.format(json.dumps(nested))) == [TICKS, "open"]


@pytest.mark.parametrize("text", [WHOLE, WHOLE * 3], ids=["once", "thrice"])
def test_the_same_when_it_is_streamed(page, text):
    """However the text arrives, it looks as if it had come at once."""
    assert page.evaluate(STREAMED % json.dumps(text)) == "same"


LARGE = [
    *("*", "`", "[", "_", "- ", "> ", "**a ", "`a ", "[a ", "[a](b(", "_a "),
    *("http://..", "|", "|-", "a\n- ", "1. a\n\n", "# ", "```\n", "> - "),
]


def test_large_texts_take_no_time(page):
    """Nothing that a model writes makes the page hang, or fail."""
    for part in LARGE:
        took = page.evaluate(
            "import('./markdown.js').then(({ blocks, settledAt }) => { "
            f"const text = {json.dumps(part)}.repeat(20000); "
            "const begin = performance.now(); "
            "blocks(text); settledAt(text, 0); return performance.now() - begin; })"
        )
        assert took < 4000, part
