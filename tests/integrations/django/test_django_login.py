"""A new project, with what docs/django.rst says: its visitors log in, and chat."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.processes import script_environment

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[3]
#: Follows a visitor from the page to the login and back, and into a conversation.
VISIT = """
import json, os, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "shop.settings"
import django
django.setup()
from django.contrib.auth.models import User
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import Client
call_command("migrate", verbosity=0)
User.objects.create_superuser("anna", password="secret")
client = Client(SERVER_NAME="localhost")
said = {"checks": [each.id for each in run_checks()]}
said["sent to"] = client.get("/agent/").headers["Location"]
form = client.get(said["sent to"])
said["form"] = form.status_code
if form.status_code == 200:
    login = {"username": "anna", "password": "secret", "next": "/agent/"}
    said["back to"] = client.post(said["sent to"], login).headers["Location"]
    said["page"] = client.get("/agent/").status_code
    start = {"prompt": "Hello?", "conversation": "c"}
    begun = client.post("/agent/runs", start, content_type="application/json")
    id = begun.json()["id"]
    stream = client.get(f"/agent/runs/{id}/events")
    said["text"] = b"Hello." in b"".join(stream.streaming_content)
    said["kept"] = len(client.get("/agent/conversations/c").json()["messages"])
    stranger = Client(SERVER_NAME="localhost")
    said["stranger"] = stranger.get(f"/agent/runs/{id}").status_code
    from syncagent.integrations.django.conf import get_runs
    get_runs().close()
print(json.dumps(said))
"""


def blocks(heading):
    """Return the blocks of code below a heading of the page."""
    text = (ROOT / "docs" / "django.rst").read_text()
    section = re.split(r"\n(.+)\n-{4,}\n", text)
    section = section[section.index(heading) + 1]
    found = re.findall(r"\.\. (?:testcode|code-block).*\n\n((?:    .*\n|\n)+)", section)
    lines = [[line[4:] for line in block.splitlines()] for block in found]
    # What the project has already takes the place of the dots.
    return [
        "\n".join(each).replace("= [\n    # ...", "+= [").rstrip() for each in lines
    ]


@pytest.fixture
def project(tmp_path):
    """A project as ``django-admin startproject`` makes it, with the page."""
    subprocess.run(
        [sys.executable, "-m", "django", "startproject", "shop", str(tmp_path)],
        env=script_environment(),
        check=True,
    )
    settings, urls, agents = blocks("In your site")
    shop = tmp_path / "shop"
    add(shop / "settings.py", settings)
    add(shop / "urls.py", urls)
    (shop / "agents.py").write_text(agents)
    return shop


def add(path, text):
    path.write_text(f"{path.read_text()}\n{text}\n")


def visit(project):
    done = subprocess.run(
        [sys.executable, "-c", VISIT],
        env=script_environment(),
        cwd=project.parent,
        stdout=subprocess.PIPE,
        check=True,
    )
    return json.loads(done.stdout)


CHATS = {
    "form": 200,
    "back to": "/agent/",
    "page": 200,
    "text": True,
    "kept": 2,
    "stranger": 404,
}


def test_without_a_login(project):
    """A17: a new project has no login, and the check says so."""
    assert visit(project) == {
        "checks": ["syncagent.W005"],
        "sent to": "/accounts/login/?next=%2Fagent%2F",
        "form": 404,
    }


def test_the_login_of_the_admin(project):
    """A17: one line of the settings makes it a chat for the staff."""
    add(project / "settings.py", blocks("Logging in")[0])
    said = visit(project)
    assert said == {
        **CHATS,
        "checks": [],
        "sent to": "/admin/login/?next=%2Fagent%2F",
    }


def test_a_login_for_everyone(project):
    """A17: Django's own views need a path and a template."""
    _, urls, template = blocks("Logging in")
    add(project / "urls.py", urls)
    add(project / "settings.py", 'INSTALLED_APPS += ["shop"]')
    (project / "templates" / "registration").mkdir(parents=True)
    (project / "templates" / "registration" / "login.html").write_text(template)
    said = visit(project)
    assert said == {
        **CHATS,
        "checks": [],
        "sent to": "/accounts/login/?next=%2Fagent%2F",
    }
