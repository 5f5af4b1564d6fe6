# SPDX-License-Identifier: Apache-2.0
"""What the code of panel and agent never does, and what every page, form and answer of the panel has in common."""

from __future__ import annotations

import ast
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from evenkeel_api.interface import METHODS
from evenkeel_panel import gunicorn_conf
from evenkeel_panel.account.views import LIVE
from evenkeel_panel.testing import BASE, COMPONENT, Browser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from evenkeel_panel.fake_agent import FakeAgent
    from flask import Flask

TOP = COMPONENT.parent
PANEL = COMPONENT / "src/evenkeel_panel"
SYSTEMD = COMPONENT / "data/systemd"
FOR_DEVELOPERS = {"dev.py", "fake_agent.py", "testing.py", "reference.py"}
SOURCES = [
    path
    for folder in ("webui/src", "recipes/agent/src", "recipes/history/src")
    for path in sorted((TOP / folder).rglob("*.py"))
    if path.name not in FOR_DEVELOPERS
]
TEMPLATES = sorted(PANEL.rglob("*.html"))
SCRIPTS = [*sorted(PANEL.rglob("*.js")), COMPONENT / "src/static/theme.js"]


def calls(path: Path) -> Iterator[tuple[str, ast.Call]]:
    """Each call in a file, with the name of the function, such as `re.compile`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Call):
            yield ast.unparse(node.func), node


# ---- the code ----


# modules that load a library in C
LOADERS = {
    ("evenkeel_history", "library.py"),
    ("evenkeel_history", "zstd.py"),
    ("evenkeel_agent", "journal_library.py"),
}


def test_no_dangerous_calls() -> None:
    """No code or template from text, no shell, no format that can hold code, no XML.

    Only the history's service and ek-journal load a library in C, and neither the panel nor the agent imports these modules.
    """
    modules = {"pickle", "marshal", "shelve", "yaml", "xml", "lxml", "code", "ctypes"}
    names = {"eval", "exec", "compile", "os.system", "os.popen", "render_template_string", "Markup"}
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        for node in ast.walk(tree):
            imported = []
            if isinstance(node, ast.Import):
                imported = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                imported = [node.module or ""]
            allowed = {"ctypes"} if path.parts[-2:] in LOADERS else set()
            assert not {name.partition(".")[0] for name in imported} & modules - allowed, path
        for name, call in calls(path):
            assert name not in names, (path, name)
            assert not name.endswith(".from_string"), path
            assert "shell" not in [keyword.arg for keyword in call.keywords], path
            if name in ("subprocess.run", "subprocess.Popen"):
                assert not isinstance(call.args[0], ast.Constant | ast.JoinedStr), (path, "not a list")
    # Neither the panel nor the agent: only programs of their own. support_bundle.py and time_limit.py are parts of ek-journal.
    starts = re.compile(r"^(import subprocess|from evenkeel_common\.command import)", re.MULTILINE)
    starters = {path.name for path in SOURCES if starts.search(path.read_text())}
    known = {"command.py", "firstboot.py", "support_bundle.py", "time_limit.py"}
    assert {name for name in starters if not name.endswith("_helper.py")} == known


def test_sql_statements_contain_no_values() -> None:
    """A statement is a constant, or has only constants of the module and the names of tables in it."""
    constant = re.compile(
        r"TABLES|SCHEMA|CREATE|DATA|PAGE|CHECKPOINT_PAGES|WAIT_MS|BRIEF_MS|self\._limit // size|step|table"
        r"|(one|tier|finer|TIERS\[0\])\.table"
    )
    seen = 0
    for path in SOURCES:
        for name, call in calls(path):
            if name.rpartition(".")[2] not in ("execute", "executemany", "executescript"):
                continue
            seen += 1
            for node in ast.walk(call.args[0]):
                if isinstance(node, ast.FormattedValue):
                    assert constant.fullmatch(ast.unparse(node.value)), (path, ast.unparse(call))
                assert not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mod)), (
                    path,
                    ast.unparse(call),
                )
    assert seen > 40


def test_patterns_are_constants() -> None:
    """No input becomes a part of a regular expression."""
    seen = 0
    for path in SOURCES:
        for name, call in calls(path):
            if re.fullmatch(r"re\.(compile|match|fullmatch|search|sub|split|findall|finditer)", name):
                seen += 1
                pattern = call.args[0]
                named = isinstance(pattern, ast.Name) and pattern.id.isupper()
                assert named or isinstance(pattern, ast.Constant), (path, ast.unparse(call))
    assert seen > 10


def test_no_route_mixes_the_sources_of_values() -> None:
    """request.values would take a value from the address or from the form."""
    for path in PANEL.rglob("*.py"):
        assert "request.values" not in path.read_text(), path


def test_templates_escape_everything(app: Flask) -> None:
    assert app.jinja_env.autoescape("page.html")  # type: ignore[operator]
    for template in TEMPLATES:
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", template.read_text()), template


def test_no_page_links_to_an_address_from_data() -> None:
    """Each link begins with a path of the panel, or the code makes it with url_for(). An empty one loads the page again.

    The page of the network links to the addresses of this board, which the agent has from the kernel. A link that begins with
    otpauth: opens an app of the device, and no page. `back` is one of the
    paths in system.views.BACK.
    """
    made = re.compile(
        r"$|/(?!/)|#|\{\{ (url_for\(|static\(|([\w.]|\[\d\])*\burl\b|earlier|later|wider|before|change\.effect)"
        r"|otpauth://totp/|https://\{\{ (network\.)?host \}\}/|\{\{ back \}\}$"
    )
    for template in TEMPLATES:
        for link in re.findall(
            r'(?<![\w-])(?:href|src|action|hx-get|hx-post)="([^"]*)', template.read_text()
        ):
            assert made.match(link), (template, link)


def test_polls_do_not_extend_a_session(app: Flask) -> None:
    """A page that stays open requests its figures by itself. The session must end all the same."""
    paths = {path for one in TEMPLATES for path in re.findall(r'hx-get="([^"{]*)"', one.read_text())}
    assert {"/cache/live", "/update/state", "/validation/progress", "/recorder/live"} <= paths
    urls = app.url_map.bind("board")
    assert {urls.match(path)[0] for path in paths} <= LIVE


def test_scripts_insert_no_text_as_html() -> None:
    for script in SCRIPTS:
        text = script.read_text()
        for value in re.findall(r"(?:inner|outer)HTML = (.*)", text):
            assert re.fullmatch(r"'[^'$]*';", value), (script, value)
        assert not re.search(r"insertAdjacentHTML|document\.write|new Function|postMessage|\beval\b", text), (
            script
        )


def test_scripts_copy_no_foreign_keys() -> None:
    """A key such as __proto__ from elsewhere would change all objects of a page."""
    for script in SCRIPTS:
        text = script.read_text()
        assert not re.search(r"__proto__|\.prototype|Object\.assign|for \(\w+ \w+ in ", text), script
        assert not re.search(r"\w\[[a-z_]\w*\]\s*=[^=]", text), script


def test_the_browser_stores_the_theme_only() -> None:
    stored = [line for script in SCRIPTS for line in script.read_text().splitlines() if "Storage" in line]
    assert len(stored) == 2
    assert all(re.search(r"localStorage\.(get|set)Item\(key", line) for line in stored)
    assert not [
        script for script in SCRIPTS if re.search(r"indexedDB|document\.cookie|caches\.", script.read_text())
    ]


def test_every_message_is_in_the_catalogue() -> None:
    """What a user reads about an error comes from texts.py, so that it is in one place and can be translated."""
    answers = {
        "abort",
        "problem",
        "redirect_to",
        "_refused",
        "_page",
        "_form",
        "page_with",
        "whole_page",
        "MethodNotAllowed",
    }
    shows = {*answers, "jsonify", "render_template"}  # the first argument of a template is its name
    seen = 0
    for path in PANEL.rglob("*.py"):
        if path.name in FOR_DEVELOPERS:
            continue
        for name, call in calls(path):
            short = name.rpartition(".")[2]
            given = call.args if short in answers else []
            named = [keyword.value for keyword in call.keywords] if short in shows else []
            seen += len(given)
            for value in [*given, *named]:
                nodes = [] if isinstance(value, ast.Call) else ast.walk(value)
                words = [node.value for node in nodes if isinstance(node, ast.Constant)]
                assert not [word for word in words if isinstance(word, str) and " " in word], ast.unparse(
                    call
                )
    assert seen > 60


# ---- pages and forms ----


def pages(app: Flask) -> list[str]:
    """The addresses that need no argument."""
    return sorted(
        rule.rule for rule in app.url_map.iter_rules() if "GET" in (rule.methods or ()) and not rule.arguments
    )


def test_get_changes_nothing(
    app: Flask, admin: Browser, agent: FakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    real = agent.call

    def call(method: str, *rest: str) -> object:
        asked.append(method)
        return real(method, *rest)

    monkeypatch.setattr(agent, "call", call)
    for path in pages(app):
        admin.get(path)
    for name, method in METHODS.items():
        status = admin.get(f"/api/v1/{name}").status_code
        assert status in (404, 405) or not method.changes, (name, status)
    assert {"CheckSession", "GetSnapshot", "ListAudit", "ListUsers", "GetUpdate"} <= set(asked)
    assert [name for name in asked if METHODS[name].changes] == []
    for rule in app.url_map.iter_rules():
        both = {"GET", "POST"} <= (rule.methods or set())
        assert not both or rule.rule in ("/login", "/password", "/api/v1/<name>"), rule


def test_every_answer_names_its_type(app: Flask, admin: Browser) -> None:
    for path in [*pages(app), "/nowhere"]:
        answer = admin.get(path)
        if answer.data:
            kind = answer.headers["Content-Type"]
            assert re.fullmatch(
                r"text/\w+; charset=utf-8|application/(?!openmetrics)[\w.+-]+|application/openmetrics-text; .*utf-8",
                kind,
            ), (path, kind)


def test_no_answer_allows_another_origin(app: Flask, admin: Browser) -> None:
    for path in pages(app):
        answer = admin.get(path, Origin="https://elsewhere.example")
        assert not [name for name in answer.headers.keys() if name.startswith("Access-Control-")], path  # noqa: SIM118


def test_redirects_stay_on_the_board(app: Flask, admin: Browser, browser: Browser) -> None:
    found = set()
    for path in pages(app):
        for asked in (path, f"{path}?next=//elsewhere.example&url=https://elsewhere.example"):
            for client in (admin.client, app.test_client()):
                answer = client.get(asked, base_url=BASE)
                if answer.location:
                    found.add(answer.location)
    assert found
    assert all(re.match(r"/(?![/\\])", place) for place in found), found


def test_no_page_contains_the_secret_of_the_session(app: Flask, admin: Browser) -> None:
    with admin.client.session_transaction(base_url=BASE) as session:
        secret = session["token"]
    assert len(secret) == 32
    for path in pages(app):
        assert secret not in admin.get(path).text, path


def test_every_page_has_a_way_to_log_out(app: Flask, admin: Browser) -> None:
    seen = 0
    for path in pages(app):
        answer = admin.get(path)
        if answer.status_code == 200 and "<!doctype html>" in answer.text:
            assert 'action="/logout"' in answer.text, path
            seen += 1
    assert seen >= 10


def test_fields_for_passwords() -> None:
    """They hide what is typed, and tell a password manager what they are for. No script keeps it from pasting."""
    fields = [
        tag
        for template in TEMPLATES
        for tag in re.findall(r"<input\b[^>]*>", template.read_text())
        if 'type="checkbox"' not in tag
        and (re.search(r'name="[^"]*password|name="(current|new|confirm)"', tag) or "{{ complete }}" in tag)
    ]
    assert len(fields) >= 5
    for tag in fields:
        assert 'type="password"' in tag, tag
        assert "autocomplete=" in tag, tag
    for script in SCRIPTS:
        assert not re.search(r"paste|clipboard", script.read_text()), script


def test_forms_with_secrets_use_post() -> None:
    seen = 0
    for template in TEMPLATES:
        for form in re.findall(r"<form\b.*?</form>", template.read_text(), re.DOTALL):
            if re.search(r'type="password"|\{\{ input\(|name="code"|name="webhook"', form):
                assert 'method="post"' in form, (template, form[:80])
                seen += 1
    assert seen >= 5


def test_the_log_in_asks_for_name_password_and_code(browser: Browser) -> None:
    template = (PANEL / "account/templates/account/login.html").read_text()
    names = re.findall(r'name="(\w+)"', template)
    # "to" names the page after the log-in
    assert names == ["to", "csrf_token", "username", "password", "code"]
    assert "admin" in browser.get("/login").text


# ---- the board ----


def test_only_nginx_reaches_the_panel() -> None:
    socket = (SYSTEMD / "evenkeel-panel.socket").read_text()
    assert "ListenStream=/run/evenkeel-panel/panel.sock\n" in socket
    assert "SocketUser=root\nSocketGroup=www-data\nSocketMode=0660\n" in socket
    nginx = (COMPONENT / "data/nginx/evenkeel.conf").read_text()
    assert set(re.findall(r"proxy_pass (\w+://[^/;]+)", nginx)) == {"http://evenkeel_panel"}
    assert re.findall(r"^\s*server (unix:[^;]+);", nginx, re.MULTILINE) == [
        "unix:/run/evenkeel-panel/panel.sock"
    ]


def test_the_panel_has_no_network() -> None:
    unit = (SYSTEMD / "evenkeel-panel.service").read_text().splitlines()
    assert {
        "PrivateNetwork=yes",
        "IPAddressDeny=any",
        "RestrictAddressFamilies=AF_UNIX",
        "CapabilityBoundingSet=",
    } <= set(unit)


def test_nginx_has_few_privileges() -> None:
    """It runs as root until its workers change their user. So the drop-in takes from it what it does not need."""
    drop_in = (SYSTEMD / "nginx-evenkeel.conf").read_text().splitlines()
    assert {
        "CapabilityBoundingSet=CAP_NET_BIND_SERVICE CAP_SETUID CAP_SETGID CAP_CHOWN CAP_KILL",
        "NoNewPrivileges=yes",
        "ProtectSystem=strict",
        "ReadWritePaths=/run /var/lib/nginx /var/log/nginx",
        "RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6",
        "SystemCallFilter=@system-service",
        "MemoryDenyWriteExecute=yes",
        "DevicePolicy=closed",
        "TasksMax=64",
        "MemoryMax=128M",
    } <= set(drop_in)
    installed = (COMPONENT / "meson.build").read_text()
    assert (
        "nginx-evenkeel.conf', rename: 'evenkeel.conf', install_dir: units / 'nginx.service.d'" in installed
    )


@pytest.mark.parametrize(("name", "most"), [("evenkeel-panel.service", 15), ("nginx-evenkeel.conf", 26)])
def test_systemd_rates_a_service_safe(tmp_path: Path, name: str, most: int) -> None:
    """MOST: the exposure in tenths. nginx has more, because it needs root and the network."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not installed")
    text = re.sub(
        r"^(ExecStart|Requires|After|Wants)=.*", "", (SYSTEMD / name).read_text(), flags=re.MULTILINE
    )
    unit = tmp_path / "rated.service"
    unit.write_text(text.replace("[Service]", "[Service]\nExecStart=/bin/true"))
    rated = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", f"--threshold={most}", str(unit)],
        capture_output=True,
        text=True,
    )
    assert rated.returncode == 0, rated.stdout + rated.stderr


@pytest.mark.parametrize(
    "unit",
    [
        "webui/data/systemd/evenkeel-panel.service",
        "webui/data/systemd/nginx-evenkeel.conf",
        "recipes/agent/data/evenkeeld.service",
        "recipes/history/data/evenkeel-history.service",
    ],
)
def test_systemd_restarts_a_service_however_often_it_fails(unit: str) -> None:
    """With a limit of starts, a service that fails often would stay down until the next boot."""
    lines = set((TOP / unit).read_text().splitlines())
    assert {
        "StartLimitIntervalSec=0",
        "Restart=always",
        "RestartSec=1",
        "RestartSteps=5",
        "RestartMaxDelaySec=30",
    } <= lines


def test_debug_is_off(app: Flask) -> None:
    assert not app.debug
    assert not app.testing
    assert not getattr(gunicorn_conf, "reload", False)
    assert gunicorn_conf.loglevel == "warning"


def test_logs_go_to_the_journal_only() -> None:
    nginx = (COMPONENT / "data/nginx/evenkeel.conf").read_text()
    assert set(re.findall(r"access_log ([^;]+);", nginx)) == {"off"}
    assert set(re.findall(r"error_log ([^;]+);", nginx)) == {"stderr warn"}
    assert (gunicorn_conf.accesslog, gunicorn_conf.errorlog) == (None, "-")
    journald = (TOP / "conf/systemd/journald.conf.d/60-evenkeel.conf").read_text()
    assert {"ForwardToSyslog=no", "ForwardToWall=no"} <= set(journald.splitlines())


def test_a_board_has_no_files_for_developers() -> None:
    build = (COMPONENT / "src/meson.build").read_text()
    assert "exclude_files: ['dev.py', 'fake_agent.py', 'testing.py']" in build
    installed = re.findall(r"'([^']+)'", (COMPONENT / "meson.build").read_text())
    assert not [name for name in installed if name.startswith(("tests", ".git"))]
