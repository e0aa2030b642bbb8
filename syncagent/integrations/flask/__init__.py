"""Flask: an extension and a blueprint, with runs that end when their client leaves.

.. code-block:: text

    agents = SyncAgent(make_agent=..., owner_of=..., authorize=...)
    agents.init_app(app)
    app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")
"""

from __future__ import annotations

try:
    import flask as _flask  # noqa: F401, for one clear error
except ImportError as error:
    raise ImportError(
        "syncagent.integrations.flask needs Flask: pip install 'syncagent[flask]'"
    ) from error

from .extension import SyncAgent, cancel_on_disconnect
from .settings import FlaskSettings

__all__ = ["FlaskSettings", "SyncAgent", "cancel_on_disconnect"]
