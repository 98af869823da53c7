"""Logging in and out, and tokens."""

from __future__ import annotations

import json
from pathlib import Path

import httpx

from muster_client.local.config import Config, Login, load_config, save_config
from tests.unit.client.fake_server import TOKEN, URL, FakeServer, Run, problem

ME = {
    "username": "ada",
    "email": "ada@example.org",
    "is_operator": False,
    "tenants": [{"name": "acme", "role": "member"}],
    "vcs": ["vision"],
    "default_vc": "vision",
}
NEW_TOKEN = {
    "id": 5,
    "name": "muster",
    "prefix": "mst_ab",
    "created_at": "2026-11-21T00:00:00Z",
    "expires_at": None,
    "last_used_at": None,
    "scopes": ["read", "submit"],
    "survives_password_change": False,
    "token": "mst_new",
}


def answer_login(server: FakeServer) -> None:
    server.on("GET /login", httpx.Response(204, headers={"Set-Cookie": "csrftoken=first; Path=/"}))
    server.on(
        "POST /login",
        httpx.Response(
            200, json=ME, headers=[("Set-Cookie", "csrftoken=second; Path=/"), ("Set-Cookie", "sessionid=s")]
        ),
    )
    server.on("POST /tokens", httpx.Response(201, json=NEW_TOKEN))
    server.on("POST /logout", httpx.Response(204))


def test_login_turns_a_password_into_a_token_and_keeps_only_that(server: FakeServer, run: Run, tmp_path: Path) -> None:
    answer_login(server)
    result = run("login", URL, "--user", "ada", stdin="hunter2\n", token=None)
    assert result.exit_code == 0, result.output
    path = tmp_path / "home" / "config.json"
    assert load_config(path) == Config(current=URL, logins={URL: Login("mst_new", "ada", 5)})
    assert path.stat().st_mode & 0o777 == 0o600
    assert "hunter2" not in path.read_text() + result.output
    assert "mst_new" not in result.output


def test_login_sends_the_csrf_token_that_is_valid_at_each_step(server: FakeServer, run: Run) -> None:
    answer_login(server)
    run("login", URL, "--user", "ada", "--password-stdin", stdin="hunter2\n", token=None)
    sent = [(request.method, request.url.path, request.headers.get("X-CSRFToken")) for request in server.requests]
    assert sent == [
        ("GET", "/api/v1/login", None),
        ("POST", "/api/v1/login", "first"),
        ("POST", "/api/v1/tokens", "second"),
        ("POST", "/api/v1/logout", "second"),
    ]
    assert json.loads(server.sent("POST /login")[0].content) == {"username": "ada", "password": "hunter2"}
    assert json.loads(server.sent("POST /tokens")[0].content)["expires_in"] == "90d"
    assert server.requests[1].headers["Referer"] == f"{URL}/"


def test_a_wrong_password_is_said_so_and_nothing_is_stored(server: FakeServer, run: Run, tmp_path: Path) -> None:
    answer_login(server)
    server.on("POST /login", problem(401, "Unauthorized", detail="The user or the password is wrong."))
    result = run("login", URL, "--user", "ada", stdin="x\n", token=None)
    assert result.exit_code == 3
    assert "password is wrong" in result.stderr
    assert not (tmp_path / "home").exists()


def test_too_many_wrong_passwords_are_told_at_once(server: FakeServer, run: Run) -> None:
    answer_login(server)
    server.on("POST /login", httpx.Response(429, headers={"Retry-After": "60"}))
    assert run("login", URL, "--user", "ada", stdin="x\n", token=None).exit_code == 1
    assert server.slept_s == []


def test_each_login_makes_a_token_with_a_name_of_its_own_and_ends_the_one_before(
    server: FakeServer, run: Run, tmp_path: Path
) -> None:
    answer_login(server)
    server.on("DELETE /tokens/5", httpx.Response(204))
    run("login", URL, "--user", "ada", stdin="x\n", token=None)
    server.on("POST /tokens", httpx.Response(201, json={**NEW_TOKEN, "id": 6, "token": "mst_newer"}))
    run("login", URL, "--user", "ada", stdin="x\n", token=None)
    first, second = (json.loads(request.content)["name"] for request in server.sent("POST /tokens"))
    assert first != second
    assert len(first) <= 100
    assert [request.headers["Authorization"] for request in server.sent("DELETE /tokens/5")] == ["Bearer mst_newer"]
    assert load_config(tmp_path / "home" / "config.json").logins[URL].token_id == 6


def test_login_with_a_token_checks_it_first(server: FakeServer, run: Run, tmp_path: Path) -> None:
    server.on("GET /me", httpx.Response(200, json=ME))
    assert run("login", URL, "--token-stdin", stdin="mst_given\n", token=None).exit_code == 0
    assert server.requests[0].headers["Authorization"] == "Bearer mst_given"
    assert load_config(tmp_path / "home" / "config.json").logins[URL].token == "mst_given"
    server.on("GET /me", problem(401, "Unauthorized"))
    assert run("login", URL, "--token", "mst_bad", token=None).exit_code == 3
    assert load_config(tmp_path / "home" / "config.json").logins[URL].token == "mst_given"


def test_login_takes_one_source_only(run: Run) -> None:
    assert run("login", URL, "--token", "a", "--token-stdin").exit_code == 2
    assert run("login", URL, "--password-stdin", stdin="x\n").exit_code == 2


def test_login_warns_when_the_password_travels_in_the_open(server: FakeServer, run: Run) -> None:
    answer_login(server)
    assert "not encrypted" in run("login", URL, "--user", "ada", stdin="x\n", token=None).stderr


def test_logout_ends_the_token_and_forgets_it(server: FakeServer, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "home" / "config.json"
    save_config(path, Config().with_login(URL, Login("mst_new", "ada", 5)))
    server.on("DELETE /tokens/5", httpx.Response(204))
    assert run("logout", token=None).exit_code == 0
    assert server.requests[0].headers["Authorization"] == "Bearer mst_new"
    assert load_config(path).logins == {}
    assert run("logout", token=None).exit_code == 3


def test_logout_keeps_the_token_when_it_could_not_be_ended(server: FakeServer, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "home" / "config.json"
    save_config(path, Config().with_login(URL, Login("mst_new", "ada", 5)))
    server.on("DELETE /tokens/5", httpx.ConnectError("refused"))
    assert run("logout", token=None).exit_code == 69
    assert URL in load_config(path).logins
    assert run("logout", "--forget", token=None).exit_code == 0
    assert load_config(path).logins == {}


def test_a_configuration_that_others_can_read_is_warned_about(server: FakeServer, run: Run, tmp_path: Path) -> None:
    path = tmp_path / "home" / "config.json"
    save_config(path, Config().with_login(URL, Login("mst_new", "ada", 5)))
    path.chmod(0o644)
    server.on("GET /me", httpx.Response(200, json=ME))
    assert "chmod 600" in run("whoami", token=None).stderr


def test_whoami_tells_the_user_and_the_server(server: FakeServer, run: Run) -> None:
    server.on("GET /me", httpx.Response(200, json=ME))
    result = run("whoami")
    assert "ada <ada@example.org>" in result.stdout
    assert URL in result.stdout
    assert json.loads(run("whoami", "--json").stdout) == ME
    assert server.requests[0].headers["Authorization"] == f"Bearer {TOKEN}"


def test_a_new_token_is_alone_on_standard_output(server: FakeServer, run: Run) -> None:
    server.on("POST /tokens", httpx.Response(201, json=NEW_TOKEN))
    result = run("tokens", "create", "ci", "--expires-in", "30d")
    assert result.stdout == "mst_new\n"
    assert json.loads(server.requests[0].content) == {"name": "ci", "expires_in": "30d"}


def test_a_token_is_made_with_the_scopes_that_are_named(server: FakeServer, run: Run) -> None:
    server.on("POST /tokens", httpx.Response(201, json=NEW_TOKEN))
    run("tokens", "create", "ci", "--scope", "read", "--scope", "manage", "--survives-password-change")
    sent = json.loads(server.requests[0].content)
    assert (sent["scopes"], sent["survives_password_change"]) == (["read", "manage"], True)
    assert run("tokens", "create", "ci", "--scope", "root").exit_code == 2


def test_login_asks_for_all_scopes_or_for_those_that_are_named(server: FakeServer, run: Run) -> None:
    answer_login(server)
    run("login", URL, "--user", "ada", stdin="hunter2\n", token=None)
    run("login", URL, "--user", "ada", "--scope", "submit", stdin="hunter2\n", token=None)
    asked = [json.loads(request.content)["scopes"] for request in server.sent("POST /tokens")]
    assert asked == [["read", "submit", "manage", "admin"], ["submit"]]


def test_tokens_are_listed_and_ended(server: FakeServer, run: Run) -> None:
    server.on("GET /tokens", httpx.Response(200, json={"results": [NEW_TOKEN], "next": None}))
    server.on("DELETE /tokens/5", httpx.Response(204))
    assert "read submit" in run("tokens", "ls").stdout
    assert run("tokens", "revoke", "5").stdout == "Token 5 is ended.\n"
    assert run("tokens", "revoke", "6").exit_code == 4
