"""The commands about the user: login, logout, whoami, tokens."""

from __future__ import annotations

import platform
import secrets
import sys
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from muster_client.commands.group import Group
from muster_client.commands.options import JsonFlag
from muster_client.errors import ApiError, ConfigError, NotLoggedInError, UnreachableError
from muster_client.local.config import Login, normalise_url, save_config, travels_unencrypted
from muster_client.local.terminal import clean
from muster_client.session import Session, begin
from muster_client.show.account import me_sheet, tokens_table
from muster_client.show.times import utc_now

if TYPE_CHECKING:
    from muster_client.answers.accounts import Me


class Scope(StrEnum):
    """The calls that an API token may make, within the roles of its user."""

    READ = "read"
    SUBMIT = "submit"
    MANAGE = "manage"
    ADMIN = "admin"


tokens_app = typer.Typer(cls=Group, help="Make, list and end API tokens.", no_args_is_help=True)


def login_command(
    ctx: typer.Context,
    *,
    url: Annotated[str | None, typer.Argument(help="The address of the server.", show_default=False)] = None,
    user: Annotated[str | None, typer.Option("--user", "-u", help="Your name there.", show_default=False)] = None,
    password_stdin: Annotated[bool, typer.Option("--password-stdin", help="Read it from standard input.")] = False,
    token: Annotated[
        str | None, typer.Option("--token", help="A token you have; others here may see it.", show_default=False)
    ] = None,
    token_stdin: Annotated[bool, typer.Option("--token-stdin", help="Read a token from standard input.")] = False,
    expires_in: Annotated[str, typer.Option(help="How long the new token lives.")] = "90d",
    scope: Annotated[
        list[Scope] | None, typer.Option(help="What the new token may do; all unless given.", show_default=False)
    ] = None,
    as_json: JsonFlag = False,
) -> None:
    """Log in with a password or a token, and keep a token for the commands to come."""
    session = begin(ctx, as_json=as_json)
    if (token is not None) + token_stdin + password_stdin > 1:
        raise typer.BadParameter("give one of --token, --token-stdin and --password-stdin")
    address = normalise_url(url) if url else session.target().url
    if travels_unencrypted(address):
        session.output.warn(f"{address} is not encrypted; what you type can be read on the way.")
    if token_stdin:
        token = _line_of_stdin("token")
    if token is not None:
        me, login = _login_with_token(session, address, token.strip())
    else:
        me, login = _login_with_password(
            session,
            address,
            user,
            _line_of_stdin("password") if password_stdin else None,
            (expires_in, scope or list(Scope)),
        )
    path = session.config_path
    config = session.config()
    save_config(path, config.with_login(address, login))
    _end_previous(session, address, login, config.logins.get(address))
    session.output.answer(
        {"url": address, "me": me, "config": str(path)}, f"Logged in at {address} as {clean(me['username'])}."
    )
    if session.environ.get("MUSTER_TOKEN"):
        session.output.warn("MUSTER_TOKEN is set and goes before the token that was stored now.")


def logout_command(
    ctx: typer.Context,
    forget: Annotated[bool, typer.Option("--forget", help="Only forget the token here, do not end it.")] = False,
    as_json: JsonFlag = False,
) -> None:
    """End the token that login made, and forget it here."""
    session = begin(ctx, as_json=as_json)
    config, address = session.config(), session.target().url
    login = config.logins.get(address)
    if login is None:
        raise NotLoggedInError(f"There is no stored token for {address}.")
    revoked = False
    if login.token_id is not None and not forget:
        with session.client_for(address, login.token) as client:
            try:
                client.revoke_token(login.token_id)
                revoked = True
            except ApiError as error:
                # Ended already, by the user elsewhere or by its age: that is what was wanted.
                if error.status not in {401, 404}:
                    raise
    save_config(session.config_path, config.without_login(address))
    ended = "and the token ended" if revoked else "but the token was not ended by this"
    session.output.answer({"url": address, "revoked": revoked}, f"Logged out of {address}, {ended}.")


def whoami_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """Tell who you are, where, and in which tenants."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        me = client.me()
        session.output.answer(me, me_sheet(me, client.url))


@tokens_app.command("ls")
def tokens_ls_command(ctx: typer.Context, as_json: JsonFlag = False) -> None:
    """List your tokens."""
    session = begin(ctx, as_json=as_json)
    tokens = session.ask(lambda client: client.tokens())
    session.output.answer({"results": tokens}, tokens_table(tokens, utc_now()))


@tokens_app.command("create")
def tokens_create_command(
    ctx: typer.Context,
    *,
    name: Annotated[str, typer.Argument(help="What it is for.")],
    expires_in: Annotated[str, typer.Option(help="How long it lives.")] = "90d",
    scope: Annotated[
        list[Scope] | None,
        typer.Option(help="What it may do, read and submit unless given; repeatable.", show_default=False),
    ] = None,
    survives: Annotated[
        bool, typer.Option("--survives-password-change", help="Keep it when your password changes.")
    ] = False,
    as_json: JsonFlag = False,
) -> None:
    """Make a token and print it, this once."""
    session = begin(ctx, as_json=as_json)
    with session.client() as client:
        token = client.create_token(name, expires_in=expires_in, scopes=scope, survives_password_change=survives)
    # The secret alone on standard output, so that a script can catch it.
    session.output.answer(token, clean(token["token"]))
    session.output.note(f"Token {token['id']} ({token['name']}); it is not shown again.")


@tokens_app.command("revoke")
def tokens_revoke_command(
    ctx: typer.Context,
    token_id: Annotated[int, typer.Argument(metavar="ID", help="The number that tokens ls shows.")],
    as_json: JsonFlag = False,
) -> None:
    """End a token for good."""
    session = begin(ctx, as_json=as_json)
    session.ask(lambda client: client.revoke_token(token_id))
    session.output.answer({"id": token_id, "revoked": True}, f"Token {token_id} is ended.")


def _login_with_token(session: Session, address: str, token: str) -> tuple[Me, Login]:
    with session.client_for(address, token) as client:
        me = client.me()
    return me, Login(token=token, username=me["username"])


def _login_with_password(
    session: Session, address: str, user: str | None, password: str | None, wanted: tuple[str, list[Scope]]
) -> tuple[Me, Login]:
    if user is None and password is not None:
        raise ConfigError("--password-stdin needs --user.")
    name = user or str(typer.prompt("User", err=True))
    secret = password if password is not None else str(typer.prompt("Password", hide_input=True, err=True))
    with session.client_for(address, None) as client:
        try:
            expires_in, scopes = wanted
            sign_in = client.sign_in(name, secret, token_name=_token_name(), expires_in=expires_in, scopes=scopes)
        except ApiError as error:
            # A login that fails is about the password, whichever of these a server answers with.
            if error.status in {400, 401, 403, 422} and not error.errors:
                raise NotLoggedInError(error.problem()["detail"] or "The user or the password is wrong.") from error
            raise
    me, token = sign_in.me, sign_in.token
    return me, Login(token=token["token"], username=me["username"], token_id=token["id"])


def _token_name() -> str:
    """Return a name that tells the user's machines apart; the server refuses a name that is taken."""
    at = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    return f"muster on {platform.node()[:40]}, {at} {secrets.token_hex(2)}"


def _end_previous(session: Session, address: str, login: Login, previous: Login | None) -> None:
    """Revoke the token of the previous login, which is no longer stored."""
    if previous is None or previous.token_id is None or previous.token == login.token:
        return
    with session.client_for(address, login.token) as client:
        try:
            client.revoke_token(previous.token_id)
        except ApiError as error:
            # 404: ended already, or it was another user's.
            if error.status != 404:
                session.output.warn(f"the token of the last login was not ended: {error}")
        except UnreachableError as error:
            session.output.warn(f"the token of the last login was not ended: {error}")


def _line_of_stdin(what: str) -> str:
    line = sys.stdin.readline().rstrip("\r\n")
    if not line:
        raise ConfigError(f"There is no {what} on standard input.")
    return line
