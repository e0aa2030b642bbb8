"""The web application of a Django site."""

import django

django.setup()

from syncagent.integrations.django.conf import get_runs  # noqa: E402

store = get_runs().store
