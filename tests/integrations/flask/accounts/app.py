"""A site with accounts, of Flask-Login, whose model says what it is told.

Its users have numbers.
"""

from flask import Flask, redirect, request
from flask_login import LoginManager, UserMixin, current_user, login_user, logout_user

from syncagent import Agent
from syncagent.integrations.flask import SyncAgent
from syncagent.testing import ScriptedModel

FORM = '<form method="post"><button name="user" value="7">Log in</button></form>'


class User(UserMixin):
    def __init__(self, id):
        self.id = id


def owner_of(request):
    return current_user.id if current_user.is_authenticated else None


def authorize(request, run):
    return run.owner == str(owner_of(request))


app = Flask(__name__)
app.config.from_prefixed_env()
login_manager = LoginManager(app)
login_manager.login_view = "login"
login_manager.user_loader(lambda id: User(int(id)))
agents = SyncAgent(
    app,
    make_agent=lambda request, start: Agent(ScriptedModel([start.prompt])),
    owner_of=owner_of,
    authorize=authorize,
    login_url="login",
)
app.register_blueprint(agents.create_blueprint(), url_prefix="/agent")


@app.route("/login", methods=["GET", "POST"])
def login():
    if request.method == "GET":
        return FORM
    login_user(User(int(request.form["user"])))
    return redirect(request.args.get("next", "/agent/"))


@app.get("/logout")
def logout():
    logout_user()
    return "Bye."
