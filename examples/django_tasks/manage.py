"""A chat in a Django site: workers of django.tasks do its runs, its database has all.

It needs Python 3.12 or newer, for Django 6. Install it, and start a worker:

    cd examples/django_tasks && python3.12 -m venv .venv &&
        .venv/bin/pip install --quiet -r requirements.txt &&
        .venv/bin/python manage.py migrate &&
        .venv/bin/python manage.py db_worker --queue-name agents --no-reload

Start the web server, in another terminal:

    cd examples/django_tasks && .venv/bin/python manage.py runserver

Then open http://127.0.0.1:8000/ and say "help". Stop ends a run in the worker. Kill the
worker with kill -9 and start it again: its runs go on. Restart both: the conversation
goes on, too. A worker does one run at a time; start several. After manage.py
createsuperuser, http://127.0.0.1:8000/admin/ shows all runs and questions.
The database is SQLite; with PGDATABASE it is PostgreSQL, as libpq finds it.
With a real model: set SYNCAGENT_MODEL=openai:gpt-6-luna, and its key, for the worker.
"""

import os
import sys

from django.core.management import execute_from_command_line

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "chat.settings")
if __name__ == "__main__":
    execute_from_command_line(sys.argv)
