"""Servers over SSH: what may be entered, what is stored, and what is shown of it."""

from __future__ import annotations

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta

import paramiko
import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import dsa, ec, ed25519, rsa
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from muster.common.clock import database_now
from muster.common.errors import Conflict, Invalid
from muster.common.sealed import Unreadable, seal, unseal
from muster.common.secrets import digest
from muster.events.models import AuditEntry
from muster.fleet.leases import judge_nodes, tick
from muster.fleet.models import Node, NodeLease, Pool, Tick
from muster.fleet.services import retire_node
from muster.jobs.models import Attempt, GpuClaim
from muster.links.keys import fingerprint_of, is_expected, open_private_key, public_line, read_host_key
from muster.links.models import LinkState, Server, Step
from muster.links.progress import Failed, due, failed, linked, take_install
from muster.links.rules import folder_of, require_options
from muster.links.services import Access, add_server, change_server, remove_server
from muster.local.rotation import reencrypt
from scheduler.model.lifecycle import NodeHealth
from tests.db.stories import Other, let_pass
from tests.factories import make_attempt, make_job, make_node, make_pool, make_user, make_vc

pytestmark = pytest.mark.django_db

OPENSSH, PKCS8 = serialization.PrivateFormat.OpenSSH, serialization.PrivateFormat.PKCS8
OLD = serialization.PrivateFormat.TraditionalOpenSSL


def pem(key: object, how: serialization.PrivateFormat = OPENSSH, password: bytes | None = None) -> str:
    lock = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
    return key.private_bytes(serialization.Encoding.PEM, how, lock).decode()  # type: ignore[attr-defined]


KEY = pem(ed25519.Ed25519PrivateKey.generate())
HOST_KEY = public_line(open_private_key(pem(ed25519.Ed25519PrivateKey.generate())))
ACCESS = Access(host="gpu7.example.org", user="muster", private_key=KEY, host_key=HOST_KEY)


def add(name: str = "gpu7", access: Access = ACCESS) -> Server:
    return add_server(pool=make_pool(), name=name, access=access, actor="olga")


def add_with_a_job() -> tuple[Server, Attempt]:
    """A server on which a job holds a GPU."""
    pool = make_pool()
    make_node(pool, "gpu7")
    server = add_server(pool=pool, name="gpu7", access=ACCESS, actor="olga")
    return server, make_attempt(make_job(make_vc(pool=pool)), [server.node])


def release(attempt: Attempt) -> None:
    GpuClaim.objects.update(released_at=timezone.now())
    attempt.allocations.update(released_at=timezone.now(), state="released")


def test_a_server_comes_with_its_node_and_is_due_at_once() -> None:
    server = add()
    server.refresh_from_db()
    node = Node.objects.get(name="gpu7")
    assert server.node == node
    assert (server.step, server.state, server.port) == (Step.INSTALL, LinkState.INSTALLING, 22)
    # The platform itself vouches for the node over the link: no join token is around.
    assert node.credential_digest == digest(unseal(server.sealed_credential))
    assert node.join_digest == ""


def test_what_is_secret_is_stored_encrypted_and_audited_without_itself() -> None:
    server = add()
    row = Server.objects.values().get(pk=server.pk)
    body = "".join(KEY.split("\n")[1:-2])
    assert not [name for name, value in row.items() if isinstance(value, str) and body[80:160] in value]
    assert open_private_key(unseal(server.sealed_key)).get_base64() == open_private_key(KEY).get_base64()
    change_server(server=server, access=replace(ACCESS, port=2222), actor="olga")
    change_server(server=server, access=replace(ACCESS, private_key=""), actor="olga")
    entries = list(AuditEntry.objects.filter(object_type="server").order_by("pk"))
    assert [(entry.action, entry.object_id) for entry in entries] == [
        ("create", "gpu7"),
        ("change", "gpu7"),
        ("change", "gpu7"),
    ]
    assert entries[1].after["port"] == 2222
    assert entries[1].after["private_key"] == "replaced"
    assert "private_key" not in entries[2].after
    told = str([(entry.before, entry.after) for entry in entries])
    assert "PRIVATE KEY" not in told
    assert server.sealed_key not in told
    assert fingerprint_of(server.public_key) in told


def test_an_edit_begins_anew_and_keeps_a_key_that_is_not_replaced() -> None:
    server = add()
    Server.objects.update(step=Step.LINK, state=LinkState.HOST_KEY_CHANGED, reason="it changed", tries=7)
    change_server(server=server, access=replace(ACCESS, private_key="", port=2022), actor="olga")
    row = Server.objects.get()
    assert (row.step, row.state, row.reason, row.tries) == (Step.INSTALL, LinkState.INSTALLING, "", 0)
    assert (row.sealed_key, row.port, row.version) == (server.sealed_key, 2022, 2)


@pytest.mark.django_db(transaction=True)
def test_how_a_link_gets_on_is_written_without_the_node_that_an_edit_locks_first() -> None:
    server = Server.objects.select_related("node").get(pk=add().pk)
    with transaction.atomic():
        Node.objects.select_for_update(no_key=True).get(pk=server.pk)
        assert Other(lambda: linked(server)).result()
    assert Server.objects.get().state == LinkState.UP


ELSEWHERE: dict[str, tuple[dict[str, object], list[str]]] = {
    "another host": ({"host": "gpu8.example.org"}, ["host"]),
    "another port": ({"port": 2222}, ["port"]),
    "another user": ({"user": "ada"}, ["user"]),
    "another folder": ({"folder": "/srv/agent"}, ["folder"]),
    "a host and a folder": ({"host": "10.0.0.8", "folder": "agent"}, ["host", "folder"]),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_where_an_agent_is_does_not_change_under_its_jobs(case: str) -> None:
    changes, named = ELSEWHERE[case]
    server, attempt = add_with_a_job()
    stored, epoch = Server.objects.values().get(), NodeLease.objects.get().epoch
    with pytest.raises(Conflict, match="drain it first") as refusal:
        change_server(server=server, access=replace(ACCESS, **changes), actor="olga")  # type: ignore[arg-type]
    assert [error.field for error in refusal.value.errors] == named
    assert all(name in refusal.value.detail for name in named)
    assert (Server.objects.values().get(), NodeLease.objects.get().epoch) == (stored, epoch)
    assert not AuditEntry.objects.filter(object_type="server", action="change").exists()
    release(attempt)
    change_server(server=server, access=replace(ACCESS, **changes), actor="olga")  # type: ignore[arg-type]
    assert Server.objects.filter(**changes).exists()
    # Until the link has heard of it the agent there speaks on; nothing that comes now is its own.
    assert NodeLease.objects.get().epoch == epoch + 1


@pytest.mark.parametrize("field", ["private_key", "host_key", "options", "folder"])
def test_keys_options_and_another_word_for_the_same_folder_change_under_jobs(field: str) -> None:
    values = {
        "private_key": pem(ed25519.Ed25519PrivateKey.generate()),
        "host_key": fingerprint_of(HOST_KEY),
        "options": "--cpus=4",
        "folder": ".muster-agent",
    }
    server, _ = add_with_a_job()
    epoch = NodeLease.objects.get().epoch
    change_server(server=server, access=replace(ACCESS, **{field: values[field]}), actor="olga")  # type: ignore[arg-type]
    assert (Server.objects.get().version, NodeLease.objects.get().epoch) == (2, epoch)


PAUSE_LIMITS: dict[str, tuple[float | None, float]] = {
    "nothing runs there": (None, 300),
    "jobs run there": (600, 60),
    "jobs run there that stop soon": (30, 5),
    "jobs run there that stop late": (86_400, 300),
}


@pytest.mark.parametrize("case", PAUSE_LIMITS)
def test_what_fails_again_and_again_is_tried_often_enough_for_the_jobs_there(case: str) -> None:
    stop_after_s, max_s = PAUSE_LIMITS[case]
    _, attempt = add_with_a_job()
    if stop_after_s is None:
        release(attempt)
    else:
        Pool.objects.update(stop_after_s=stop_after_s)
    Server.objects.update(tries=1000)
    before = database_now()
    failed(Server.objects.get(), Failed(LinkState.UNREACHABLE, "nothing answers"))
    row = Server.objects.get()
    assert row.tries == 1001
    longest = timedelta(seconds=max_s)
    # Half of it is left to chance.
    assert before + longest / 2 <= row.due_at <= database_now() + longest


WRONG = {
    "an option as host": ("host", "-oProxyCommand=evil"),
    "a shell's character in the host": ("host", "gpu7;reboot"),
    "a space in the host": ("host", "gpu7 "),
    "a line end in the host": ("host", "gpu7\n"),
    "an empty host": ("host", ""),
    "a control character in the host": ("host", "gpu\x007"),
    "an option as user": ("user", "-l"),
    "a shell's character in the user": ("user", "root`id`"),
    "a line end in the user": ("user", "root\n"),
    "a space in the user": ("user", "ro ot"),
    "an empty user": ("user", ""),
    "port zero": ("port", 0),
    "a port that is too large": ("port", 65_536),
    "a folder that leaves its place": ("folder", "a/../../etc"),
    "a folder with a shell's character": ("folder", "/srv/$(id)"),
    "an option as folder": ("folder", "-x"),
    "an option that is ours": ("options", "--state=/etc"),
    "the beginning of an option that is ours": ("options", "--sta /etc"),
    "an option that takes another as its value": ("options", "--gpus --linked"),
    "a stray word": ("options", "reboot"),
    "an option with a shell's character": ("options", "--address=$(id)"),
    "a quote that is not closed": ("options", '--gpus="none'),
    "a host key that is cut off": ("host_key", HOST_KEY[:-12]),
    "a host key of another kind than it says": ("host_key", HOST_KEY.replace("ssh-ed25519", "ssh-rsa")),
    "a host key in words": ("host_key", "the usual one"),
    "two host keys": ("host_key", f"{HOST_KEY}\n{HOST_KEY}"),
    "a fingerprint that is cut off": ("host_key", "SHA256:abcdef"),
    "no private key": ("private_key", ""),
    "a public key as private key": ("private_key", HOST_KEY),
    "a private key that is cut off": ("private_key", KEY[:150] + KEY[-40:]),
    "a private key that is too long": ("private_key", "-----BEGIN " + "x" * 20_000),
}
# Made when they are needed: to make a key of RSA or DSA takes a good part of a second.
WRONG_KEYS: dict[str, Callable[[], str]] = {
    "a small RSA key": lambda: pem(rsa.generate_private_key(65537, 1024), OLD),
    "a DSA key": lambda: pem(dsa.generate_private_key(1024), PKCS8),
    "a key with a passphrase": lambda: pem(ed25519.Ed25519PrivateKey.generate(), password=b"secret"),
    "a PEM key with a passphrase": lambda: pem(ec.generate_private_key(ec.SECP256R1()), PKCS8, b"secret"),
    "an old PEM key with a passphrase": lambda: pem(rsa.generate_private_key(65537, 2048), OLD, b"secret"),
}
RIGHT_KEYS: dict[str, Callable[[], str]] = {
    "ed25519": lambda: KEY,
    "CR LF": lambda: KEY.replace("\n", "\r\n"),
    "blank lines": lambda: f"\n\n{KEY}\n",
    "ecdsa": lambda: pem(ec.generate_private_key(ec.SECP256R1())),
    "ecdsa in PEM": lambda: pem(ec.generate_private_key(ec.SECP521R1()), OLD),
    "rsa in PEM": lambda: pem(rsa.generate_private_key(65537, 2048), OLD),
    "rsa in PKCS 8": lambda: pem(rsa.generate_private_key(65537, 3072), PKCS8),
    "ed25519 in PKCS 8": lambda: pem(ed25519.Ed25519PrivateKey.generate(), PKCS8),
}


@pytest.mark.parametrize("case", [*WRONG, *WRONG_KEYS])
def test_it_refuses(case: str) -> None:
    field, value = WRONG[case] if case in WRONG else ("private_key", WRONG_KEYS[case]())
    with pytest.raises(Invalid) as refusal:
        add(access=replace(ACCESS, **{field: value}))  # type: ignore[arg-type]
    assert [error.field for error in refusal.value.errors] == [field]
    if "passphrase" in case:
        assert "without one" in refusal.value.detail
    assert not Node.objects.exists()


@pytest.mark.parametrize("case", RIGHT_KEYS)
def test_it_takes_private_keys(case: str) -> None:
    key = RIGHT_KEYS[case]()
    server = add(access=replace(ACCESS, private_key=key))
    assert public_line(open_private_key(unseal(server.sealed_key))) == server.public_key


@pytest.mark.parametrize(
    "text",
    [
        HOST_KEY,
        f"{HOST_KEY} root@gpu7\n",
        f"# gpu7:22 SSH-2.0-OpenSSH_9.2\ngpu7 {HOST_KEY}\n",
        f"[gpu7]:2222,10.0.0.7 {HOST_KEY}",
        fingerprint_of(HOST_KEY),
        f"256 {fingerprint_of(HOST_KEY)} root@gpu7 (ED25519)",
    ],
    ids=["plain", "of a .pub file", "of ssh-keyscan", "of known_hosts", "fingerprint", "of ssh-keygen -l"],
)
def test_it_takes_host_keys_as_tools_write_them(text: str) -> None:
    kind, data = HOST_KEY.split()
    stored = read_host_key(text)
    assert fingerprint_of(stored) == fingerprint_of(HOST_KEY)
    assert is_expected(paramiko.PKey.from_type_string(kind, base64.b64decode(data)), stored)
    assert not is_expected(open_private_key(KEY), stored)


def test_the_agents_options_have_one_form() -> None:
    assert require_options("--gpus emulated:A100:4@nvswitch  --read-only-root --cpus=4") == (
        "--gpus=emulated:A100:4@nvswitch --read-only-root --cpus=4"
    )


def test_roots_agent_lives_where_its_jobs_can_pass() -> None:
    assert folder_of("", "root") == "/var/lib/muster-agent"
    assert folder_of("", "ada") == ".muster-agent"
    assert folder_of("/srv/agent", "root") == "/srv/agent"


def test_the_database_refuses_what_ssh_or_a_shell_would_take_for_something_else() -> None:
    add()
    for column, value in (("host", "-oX"), ("host", "a b"), ("user", "-l"), ("user", "a;b"), ("port", 0)):
        with pytest.raises(IntegrityError), transaction.atomic():
            Server.objects.update(**{column: value})


def test_a_node_with_an_agent_of_its_own_or_with_a_server_gets_none() -> None:
    pool = make_pool()
    make_node(pool, "installed", credential="c" * 40)
    make_node(pool, "new")
    with pytest.raises(Conflict, match="by itself"):
        add_server(pool=pool, name="installed", access=ACCESS, actor="olga")
    add_server(pool=pool, name="new", access=ACCESS, actor="olga")
    with pytest.raises(Conflict, match="over SSH already"):
        add_server(pool=pool, name="new", access=ACCESS, actor="olga")
    with pytest.raises(Conflict, match="another pool"):
        add_server(pool=make_pool(), name="new", access=ACCESS, actor="olga")


def test_a_server_is_removed_only_when_nothing_runs_there_and_its_credential_with_it() -> None:
    server, attempt = add_with_a_job()
    with pytest.raises(Conflict, match="drain it first"):
        remove_server(server=server, actor="olga")
    release(attempt)
    remove_server(server=server, actor="olga")
    assert Node.objects.get(name="gpu7").credential_digest == ""
    assert AuditEntry.objects.filter(object_type="server", action="delete").exists()


def test_a_new_encryption_key_takes_over_and_the_old_one_can_go(settings: object) -> None:
    server = add()
    old, new = settings.ENCRYPTION_KEYS[0], Fernet.generate_key().decode()  # type: ignore[attr-defined]
    settings.ENCRYPTION_KEYS = [new, old]  # type: ignore[attr-defined]
    assert "PRIVATE KEY" in unseal(server.sealed_key)
    assert reencrypt() == 1
    settings.ENCRYPTION_KEYS = [new]  # type: ignore[attr-defined]
    assert "PRIVATE KEY" in unseal(Server.objects.get().sealed_key)
    with pytest.raises(Unreadable, match="MUSTER_ENCRYPTION_KEYS"):
        unseal(server.sealed_key)


def test_sealing_twice_gives_two_texts() -> None:
    assert seal("same") != seal("same")


@pytest.fixture
def browser(client: Client) -> Client:
    client.force_login(make_user("olga", operator=True))
    return client


def fields(**changes: object) -> dict[str, object]:
    pool = make_pool()
    return {
        "name": "gpu7",
        "pool": pool.pk,
        "host": "gpu7.example.org",
        "port": 22,
        "user": "muster",
        "private_key": KEY,
        "host_key": HOST_KEY,
        **changes,
    }


def test_an_operator_adds_and_edits_a_server_in_the_admin_and_never_sees_its_key_again(browser: Client) -> None:
    answer = browser.post(reverse("admin:links_server_add"), fields())
    assert answer.status_code == 302, answer.content.decode()
    server = Server.objects.get()
    page = reverse("admin:links_server_change", args=[server.pk])
    shown = browser.get(page).content.decode()
    assert server.public_key.split()[1] in shown.replace("&#x2B;", "+").replace("&#43;", "+")
    assert "PRIVATE KEY" not in shown
    assert server.sealed_key not in shown
    assert server.sealed_credential not in shown
    answer = browser.post(page, {"host": "other.example.org", "port": 2222, "user": "ada", "host_key": HOST_KEY})
    assert answer.status_code == 302, answer.content.decode()
    row = Server.objects.get()
    assert (row.host, row.port, row.user, row.sealed_key) == ("other.example.org", 2222, "ada", server.sealed_key)
    assert "Over" in browser.get(reverse("admin:fleet_node_change", args=[server.pk])).content.decode()


def test_a_mistake_is_told_at_its_field_and_the_key_does_not_come_back(browser: Client) -> None:
    answer = browser.post(reverse("admin:links_server_add"), fields(host="-oProxyCommand=x", port=70_000))
    page = answer.content.decode()
    assert answer.status_code == 200
    assert set(answer.context["adminform"].form.errors) == {"host", "port"}
    assert KEY.split("\n")[1] not in page
    assert not Server.objects.exists()


def test_a_conflict_is_told_in_the_admin(browser: Client) -> None:
    data = fields()
    make_node(None, "gpu7")
    answer = browser.post(reverse("admin:links_server_add"), data, follow=True)
    assert "belongs to another pool" in answer.content.decode()
    assert not Server.objects.exists()


def test_that_an_agent_stays_where_its_jobs_are_is_told_in_the_admin(browser: Client) -> None:
    server, _ = add_with_a_job()
    page = reverse("admin:links_server_change", args=[server.pk])
    data = {"host": "other.example.org", "port": 22, "user": "muster", "host_key": HOST_KEY}
    answer = browser.post(page, data, follow=True)
    assert "host: jobs still hold GPUs of node gpu7" in answer.content.decode()
    assert Server.objects.get().host == "gpu7.example.org"


def test_a_server_is_removed_and_tried_again_in_the_admin(browser: Client) -> None:
    server = add()
    Server.objects.update(state=LinkState.UNREACHABLE, reason="no", tries=9)
    changelist = reverse("admin:links_server_changelist")
    assert "unreachable" in browser.get(changelist).content.decode()
    browser.post(changelist, {"action": "try_again", "_selected_action": [server.pk]})
    assert Server.objects.get().tries == 0
    browser.post(reverse("admin:links_server_delete", args=[server.pk]), {"post": "yes"})
    assert not Server.objects.exists()


def test_only_operators_see_servers(client: Client) -> None:
    client.force_login(make_user("ada"))
    assert client.get(reverse("admin:links_server_changelist")).status_code in {302, 403}


def test_the_command_adds_a_server(tmp_path: object) -> None:
    pool = make_pool()
    path = tmp_path / "key"  # type: ignore[operator]
    path.write_text(KEY)
    call_command(
        *("add_server", "gpu7", "--pool", pool.name, "--host", "10.0.0.7", "--user", "root"),
        *("--key-file", str(path), "--host-key", HOST_KEY),
    )
    assert Server.objects.get().host == "10.0.0.7"
    call_command("reencrypt")


def test_a_retired_node_is_not_linked() -> None:
    server = add()
    assert [row.pk for row in due(Step.INSTALL)] == [server.pk]
    node = Node.objects.get()
    Node.objects.update(admin="cordoned")
    retire_node(node=node, reason="old", actor="olga")
    assert list(due(Step.INSTALL)) == []
    assert take_install(server.pk) is None


def test_a_node_is_not_given_up_while_the_links_are_out_but_gets_nothing_new() -> None:
    linked = add().node
    pool = linked.pool
    direct = make_node(pool, "direct", credential="d" * 40)
    Node.objects.update(health=NodeHealth.READY)
    for part in ("web", "reaper", "links"):
        tick(part)
        let_pass(3600, Tick.objects.get(name=part), "answering_since")
    for node in (linked, direct):
        let_pass(120, NodeLease.objects.get(node=node), "seen_at")
    let_pass(60, Tick.objects.get(name="links"), "at")
    judge_nodes(pool)
    health = dict(Node.objects.values_list("name", "health"))
    assert health == {"gpu7": NodeHealth.SUSPECT, "direct": NodeHealth.DOWN}
    tick("links")
    let_pass(31, Tick.objects.get(name="links"), "answering_since")
    judge_nodes(pool)
    assert Node.objects.get(name="gpu7").health == NodeHealth.DOWN
