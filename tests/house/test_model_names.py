"""Names of models stand in one place: the examples of the endpoints."""

import re

from source import MODULES, PAGES, ROOT, listed, strings_of, text_of

from syncagent.models.endpoints import ENDPOINTS

#: Names that stand for any other.
PLACEHOLDERS = {"NAME", "name", "DEPLOYMENT"}
#: Names of models of the big makers, wherever they stand.
MAKERS = re.compile(
    r"\b(?:gpt-\d|claude-[a-z]+-\d|gemini-\d|grok-\d|deepseek-[a-z]|llama-\d)[\w.-]*\w"
)
PROVIDERS = "|".join(sorted(ENDPOINTS, key=len, reverse=True))
STRING = re.compile(rf"(?<![\w.-])({PROVIDERS}):(?!:)([A-Za-z][\w./:@-]*[\w])")
#: Rooms and modules with names of models that are not examples.
DATA = (
    *("syncagent.models.clouds", "syncagent.models.compatible"),
    *("syncagent.models.endpoints", "syncagent.models.prices"),
    "syncagent.providers.",
    "syncagent.testing.providers.",
)


def texts():
    """Yield each text that users read, with the place where it stands."""
    examples = sorted((ROOT / "examples").rglob("*.py"))
    for path in [ROOT / "README.rst", *PAGES, *examples]:
        for number, line in enumerate(text_of(path).splitlines(), start=1):
            yield f"{path.relative_to(ROOT)}:{number}", line
    for name in MODULES:
        if not name.startswith(DATA):
            yield from ((f"{name}:{line}", text) for line, text in strings_of(name))


def is_example(provider, name):
    """Return whether *name* is the provider's example, with or without a tag.

    A provider with several faces has the examples of all of them.
    """
    faces = (provider, *ENDPOINTS[provider].faces.values())
    examples = {ENDPOINTS[face].example for face in faces}
    examples |= {example.partition(":")[0] for example in examples}
    return name in PLACEHOLDERS | examples


def test_models_are_named_as_in_the_examples_of_their_endpoints():
    """``provider:name`` is an example of endpoints.py, which lives in one place."""
    offenders = [
        (place, match[0])
        for place, text in texts()
        for match in STRING.finditer(text)
        if not is_example(*match.groups())
    ]
    assert not offenders, listed(offenders)


def test_no_other_model_of_a_big_maker_is_named():
    """Names die within a year; those of the examples are kept alive."""
    examples = " ".join(endpoint.example for endpoint in ENDPOINTS.values())
    alive = tuple(MAKERS.findall(examples))
    offenders = [
        (place, match[0])
        for place, text in texts()
        for match in MAKERS.finditer(text)
        if not match[0].startswith(alive)
    ]
    assert not offenders, listed(offenders)
