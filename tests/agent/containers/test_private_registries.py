"""Private images: which tenants get one from a node, and where the password must not appear."""

from __future__ import annotations

import base64
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import docker
import pytest

from nodeagent.protocol.messages import EndReason, RegistryLogin
from nodeagent.runtime.container.images import registry_of, without_secret
from nodeagent.runtime.port import LaunchError
from tests import engines
from tests.agent.conftest import KeptForker, RuntimeUnderTest, runtime_under_test, stop_everything
from tests.agent.registry import Registry, busybox_layer, layer_of, running_registry

PASSWORD = "s3cret:of/ada+"


@pytest.fixture(params=["basic", "bearer"])
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    with running_registry(request.param) as made:
        made.users = {"ada": PASSWORD, "bob": "of bob"}
        yield made


@pytest.fixture(params=["docker", "podman"])
def under_test(
    request: pytest.FixtureRequest, tmp_path: Path, forkers: Callable[[str], KeptForker]
) -> Iterator[RuntimeUnderTest]:
    made = runtime_under_test(request.param, tmp_path / "state", forkers)
    yield made
    stop_everything(made.runtime)


def login_of(registry: Registry, user: str = "ada", password: str = PASSWORD) -> RegistryLogin:
    return RegistryLogin(registry.address, user, password)


def fetch(under_test: RuntimeUnderTest, image: str, login: RegistryLogin | None) -> list[str]:
    """Messages while the registry is asked for the image; it is asked, whatever the node has."""
    told: list[str] = []
    spec = under_test.spec("true", image=image, ask_registry=True)
    assert under_test.runtime.lacks(spec)
    under_test.runtime.fetch(spec, login, told.append, lambda: True)
    return told


def refusal(under_test: RuntimeUnderTest, image: str, login: RegistryLogin | None) -> LaunchError:
    with pytest.raises(LaunchError) as caught:
        fetch(under_test, image, login)
    assert caught.value.__cause__ is None
    return caught.value


def image_of(under_test: RuntimeUnderTest, registry: Registry) -> str:
    """An image that no other test has brought to the engine."""
    return registry.add(f"team/{under_test.name}", busybox_layer(), layer_of("data", os.urandom(64)))


def digest_of(under_test: RuntimeUnderTest, registry: Registry, image: str) -> str:
    """The same image, named by its content."""
    name = image.removeprefix(f"{registry.address}/").rpartition(":")[0]
    return f"{registry.address}/{name}@{registry.digest(name)}"


def test_an_image_is_pulled_with_the_tenants_login(under_test: RuntimeUnderTest, registry: Registry) -> None:
    image = image_of(under_test, registry)
    told = fetch(under_test, image, login_of(registry))
    assert told[-1].startswith(f"pulled {image} in ")
    assert under_test.run("echo run", image=image)[1] == b"run\n"


def test_an_image_on_the_node_is_nobodys_who_may_not_have_it(under_test: RuntimeUnderTest, registry: Registry) -> None:
    image = image_of(under_test, registry)
    by_digest = digest_of(under_test, registry, image)
    for name in (image, by_digest):
        fetch(under_test, name, login_of(registry))
    for name in (image, by_digest):
        for login in (None, login_of(registry, "ada", "a guess"), login_of(registry, "eve", PASSWORD)):
            assert refusal(under_test, name, login).reason is EndReason.IMAGE_DENIED
    fetch(under_test, by_digest, login_of(registry))


def test_of_two_who_sign_in_only_the_one_who_may_gets_it(under_test: RuntimeUnderTest, registry: Registry) -> None:
    image = image_of(under_test, registry)
    registry.readers[f"team/{under_test.name}"] = {"ada"}
    fetch(under_test, image, login_of(registry))
    error = refusal(under_test, image, login_of(registry, "bob", "of bob"))
    assert error.reason is EndReason.IMAGE_DENIED
    assert error.detail.endswith(f"(asked with the tenant's credentials for {registry.address})")
    assert refusal(under_test, image, None).detail.endswith(
        f"(asked without credentials of the tenant for {registry.address})"
    )


def test_no_other_name_leads_to_an_image_on_the_node(under_test: RuntimeUnderTest, registry: Registry) -> None:
    image = image_of(under_test, registry)
    fetch(under_test, image, login_of(registry))
    name = image.removeprefix(f"{registry.address}/")
    number = id_of(under_test, image)
    # Podman takes the end of a name for the whole, and both engines the beginning of an id.
    for other in (name, name.removeprefix("team/"), number[:12], f"sha256:{number}"):
        assert under_test.runtime.lacks(under_test.spec("true", image=other)), other


def id_of(under_test: RuntimeUnderTest, image: str) -> str:
    if type(under_test.runtime).__name__ == "PodmanRuntime":
        command = ["podman", "image", "inspect", "--format", "{{.Id}}", image]
        done = subprocess.run(command, env=engines.podman_environment(), capture_output=True, text=True, check=True)
        return done.stdout.strip()
    client = docker.APIClient(base_url=f"unix://{engines.docker_socket()}", version="auto")
    try:
        return str(client.inspect_image(image)["Id"]).removeprefix("sha256:")
    finally:
        client.close()


def test_an_image_that_was_made_on_the_node_is_asked_for_nowhere(under_test: RuntimeUnderTest) -> None:
    spec = under_test.spec("true", image=engines.IMAGE, ask_registry=True)
    assert not under_test.runtime.lacks(spec)


def test_what_is_told_and_what_is_left_has_no_password(
    under_test: RuntimeUnderTest, registry: Registry, caplog: pytest.LogCaptureFixture
) -> None:
    image, login = image_of(under_test, registry), login_of(registry)
    told = fetch(under_test, image, login)
    missing = refusal(under_test, f"{registry.address}/team/none:latest", login)
    assert missing.reason is EndReason.IMAGE_NOT_FOUND
    spec = under_test.spec("env; echo done", image=image, registry_login=login)
    under_test.runtime.prepare(spec)
    under_test.runtime.launch(spec)
    under_test.exit(spec.allocation_id)
    output = under_test.output(spec.allocation_id)
    texts = [*told, missing.detail, caplog.text, repr(spec), output.decode()]
    texts += [path.read_bytes().decode(errors="replace") for path in under_test.state.rglob("*") if path.is_file()]
    for secret in (PASSWORD, base64.b64encode(f"ada:{PASSWORD}".encode()).decode()):
        assert [text for text in texts if secret in text] == []


def test_while_an_image_is_pulled_no_command_line_has_the_password(
    under_test: RuntimeUnderTest, registry: Registry
) -> None:
    seen: list[bytes] = []

    def look() -> None:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                seen.extend((path.read_bytes(), path.with_name("environ").read_bytes()))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue

    registry.before_answer = look
    fetch(under_test, image_of(under_test, registry), login_of(registry))
    if type(under_test.runtime).__name__ == "PodmanRuntime":
        assert any(b"--authfile=/proc/self/fd/" in words for words in seen)
    word = base64.b64encode(f"ada:{PASSWORD}".encode())
    assert [words for words in seen if PASSWORD.encode() in words or word in words] == []


def test_a_login_goes_to_no_other_registry(under_test: RuntimeUnderTest, registry: Registry) -> None:
    login = RegistryLogin("registry.example.org", "ada", PASSWORD)
    error = refusal(under_test, image_of(under_test, registry), login)
    assert error.reason is EndReason.SPEC_REFUSED
    assert registry.asked == []


def test_a_registry_out_of_reach_is_told_apart_from_one_that_refuses(under_test: RuntimeUnderTest) -> None:
    error = refusal(under_test, "127.0.0.1:1/team/x:latest", RegistryLogin("127.0.0.1:1", "ada", PASSWORD))
    assert error.reason is EndReason.IMAGE_UNREACHABLE


def test_a_password_that_an_engine_repeats_is_taken_out() -> None:
    login = RegistryLogin("r", "ada", PASSWORD)
    word = base64.b64encode(f"ada:{PASSWORD}".encode()).decode()
    assert without_secret(f"denied {PASSWORD} Basic {word}.", login) == "denied … Basic …."
    assert without_secret("denied", None) == "denied"


@pytest.mark.parametrize(
    ("image", "registry"),
    [
        ("pytorch", "docker.io"),
        ("pytorch/pytorch:2.9", "docker.io"),
        ("index.docker.io/a/b", "docker.io"),
        ("GHCR.io/a/b@sha256:" + "a" * 64, "ghcr.io"),
        ("reg:5000/x", "reg:5000"),
        ("localhost/x", "localhost"),
    ],
)
def test_the_registry_of_an_image_is_its_first_part(image: str, registry: str) -> None:
    assert registry_of(image) == registry
