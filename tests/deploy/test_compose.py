"""The Compose example: valid, wired up, and its application really runs."""

import http.client
import json
import os
import subprocess
import sys
import tomllib
import urllib.request
from pathlib import Path
from typing import Any

import pytest
import yaml

from deuz_proxy.cli import make_parser
from deuz_proxy.config.load import load_config
from deuz_proxy.demo.provider import FakeProvider
from deuz_testing.provider import provider_in_thread
from deuz_testing.sidecar_process import running_sidecar

CONFIG = "compose/config/deuz.yaml"


@pytest.fixture(scope="module")
def services(deploy: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((deploy / "compose.yaml").read_text())
    return dict(loaded["services"])


def scrape(deploy: Path) -> dict[str, Any]:
    config = yaml.safe_load((deploy / "compose/prometheus.yaml").read_text())
    found: dict[str, Any] = config["scrape_configs"][0]["dns_sd_configs"][0]
    return found


@pytest.mark.needs("docker-compose")
def test_compose_takes_the_file(deploy: Path) -> None:
    done = subprocess.run(
        ["docker-compose", "--file", str(deploy / "compose.yaml"), "config", "-q"],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr


def test_everything_that_is_mounted_is_there(
    deploy: Path, services: dict[str, Any]
) -> None:
    sources = [
        volume.split(":")[0]
        for service in services.values()
        for volume in service.get("volumes", [])
    ]

    assert len(sources) >= 4
    assert [name for name in sources if not (deploy / name).exists()] == []


def test_our_image_is_built_here_and_has_the_version_of_the_project(
    root: Path, deploy: Path, services: dict[str, Any]
) -> None:
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    ours = [s for s in services.values() if s["image"].startswith("deuz-sidecar:")]

    assert len(ours) == 2
    for service in ours:
        build = service["build"]
        assert service["image"] == f"deuz-sidecar:{version}"
        assert (deploy / build["context"] / build["dockerfile"]).is_file()


def test_sidecar_and_provider_are_started_with_commands_that_exist(
    deploy: Path, services: dict[str, Any]
) -> None:
    sidecar = make_parser().parse_args(services["sidecar"]["command"])
    provider = make_parser().parse_args(services["provider"]["command"])

    folder = services["sidecar"]["volumes"][0].split(":")
    inside = sidecar.config.relative_to(folder[1])
    assert (deploy / folder[0] / inside) == deploy / CONFIG
    assert provider.listen.rpartition(":")[2] == "4140"


def test_addresses_fit_together(deploy: Path, services: dict[str, Any]) -> None:
    config = load_config(deploy / CONFIG, {})
    environment = services["app"]["environment"]
    listen_port, admin_port = (
        text.rpartition(":")[2] for text in (config.listen, config.admin.listen)
    )

    assert config.listen.startswith("0.0.0.0:")
    assert environment["OPENAI_BASE_URL"] == f"http://sidecar:{listen_port}/v1"
    assert environment["ANTHROPIC_BASE_URL"] == f"http://sidecar:{listen_port}"
    assert config.upstreams["openai"].url == "http://provider:4140"
    assert services["sidecar"]["ports"] == [f"127.0.0.1:{admin_port}:{admin_port}"]
    assert scrape(deploy)["names"] == ["sidecar"]
    assert scrape(deploy)["port"] == int(admin_port)


def test_application_waits_for_health_and_only_sidecars_use_the_images_check(
    services: dict[str, Any],
) -> None:
    assert services["app"]["depends_on"]["sidecar"]["condition"] == "service_healthy"
    assert "healthcheck" not in services["sidecar"]
    assert services["provider"]["healthcheck"] == {"disable": True}


def test_streams_get_their_grace_before_the_container_is_killed(
    deploy: Path, services: dict[str, Any]
) -> None:
    config = load_config(deploy / CONFIG, {})

    grace = int(services["sidecar"]["stop_grace_period"].removesuffix("s"))

    assert grace >= config.limits.drain_seconds + 5


@pytest.mark.needs("prometheus")
def test_promtool_takes_the_scrape_config_with_the_rules(
    root: Path, deploy: Path, tmp_path: Path
) -> None:
    (tmp_path / "rules").symlink_to(root / "dashboards/rules")
    text = (deploy / "compose/prometheus.yaml").read_text()
    (tmp_path / "prometheus.yml").write_text(text)

    done = subprocess.run(
        ["promtool", "check", "config", str(tmp_path / "prometheus.yml")],
        check=False,
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stderr
    assert "1 rule files found" in done.stdout


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("host", "status"), [("172.18.0.3:4142", 200), ("sidecar:4142", 403)]
)
def test_a_scrape_by_address_is_answered_and_one_by_name_is_not(
    tmp_path: Path, host: str, status: int
) -> None:
    with running_sidecar(tmp_path, "") as sidecar:
        admin = http.client.HTTPConnection(sidecar.admin.removeprefix("http://"))
        admin.request("GET", "/metrics", headers={"Host": host})
        answered = admin.getresponse().status
        admin.close()

    assert answered == status


@pytest.mark.e2e
def test_application_runs_through_the_configured_sidecar(
    deploy: Path, tmp_path: Path
) -> None:
    with provider_in_thread(FakeProvider()) as provider:
        text = (deploy / CONFIG).read_text()
        text = text.replace("http://provider:4140", f"http://127.0.0.1:{provider.port}")
        with running_sidecar(tmp_path, text) as sidecar:
            environ = {
                **os.environ,
                "OPENAI_BASE_URL": f"{sidecar.url}/v1",
                "OPENAI_API_KEY": "fake-key",
                "ASK_TURNS": "3",
                "ASK_SECONDS": "0",
            }
            done = subprocess.run(
                [sys.executable, str(deploy / "compose/ask.py")],
                check=False,
                env=environ,
                capture_output=True,
                text=True,
            )
            with urllib.request.urlopen(f"{sidecar.admin}/metrics") as reply:
                metrics = reply.read().decode()
        bodies = [json.loads(request.body) for request in provider.requests]

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("turn ") == 3
    assert ["Answer in one paragraph." in json.dumps(body) for body in bodies] == [
        True
    ] * 3
    assert 'deuz_requests_total{outcome="ok",route="chat"' in metrics
