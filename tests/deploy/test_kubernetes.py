"""The Kubernetes manifests: built by kustomize, valid by its schemas, and true."""

import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from deuz_proxy.cli import make_parser
from deuz_proxy.config.load import TOKEN_VARIABLE, load_config
from deuz_proxy.config.model import Config

FORMS = ("beside", "central")
Resource = dict[str, Any]
# No Debian package carries a kubectl that knows components, so CI cannot install one.
NEEDS_KUBECTL = pytest.mark.skipif(
    shutil.which("kubectl") is None, reason="no kubectl on PATH"
)
DIFFERS = {"restartPolicy", "ports", "lifecycle", "resources"}
"""What the two containers may differ in; all else is kept equal by a test."""


def pod(manifest: Resource) -> Resource:
    found: Resource = manifest["spec"]["template"]["spec"]
    return found


def container_of(deploy: Path, form: str) -> Resource:
    """Return the sidecar's container as it is written, before kustomize."""
    if form == "beside":
        text = (deploy / "kubernetes/sidecar/beside.yaml").read_text()
        written: Resource = pod(yaml.safe_load(text))["initContainers"][0]
    else:
        text = (deploy / "kubernetes/central/deployment.yaml").read_text()
        written = pod(yaml.safe_load(text))["containers"][0]
    return written


def pod_of(deploy: Path, form: str) -> Resource:
    names = {"beside": "sidecar/beside.yaml", "central": "central/deployment.yaml"}
    return pod(yaml.safe_load((deploy / "kubernetes" / names[form]).read_text()))


def config_of(deploy: Path, form: str) -> Config:
    folder = {"beside": "sidecar", "central": "central"}[form]
    return load_config(deploy / "kubernetes" / folder / "deuz.yaml", {})


def build(folder: Path) -> list[Resource]:
    done = subprocess.run(
        ["kubectl", "kustomize", str(folder)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return list(yaml.safe_load_all(done.stdout))


def validate(path: Path) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "kubernetes_validate", "--strict", str(path)],
        check=False,
        capture_output=True,
        text=True,
    )


def of_kind(resources: list[Resource], kind: str) -> Resource:
    return next(resource for resource in resources if resource["kind"] == kind)


@NEEDS_KUBECTL
@pytest.mark.parametrize("form", FORMS)
def test_what_kustomize_builds_is_valid(
    deploy: Path, tmp_path: Path, form: str
) -> None:
    built = tmp_path / "built.yaml"
    built.write_text(yaml.safe_dump_all(build(deploy / "kubernetes" / form)))

    done = validate(built)

    assert done.returncode == 0, done.stdout + done.stderr


def test_central_resources_are_valid_as_they_are_written(deploy: Path) -> None:
    for name in ("deployment", "service", "network-policy"):
        done = validate(deploy / "kubernetes/central" / f"{name}.yaml")

        assert done.returncode == 0, done.stdout + done.stderr


def test_validation_finds_a_key_that_does_not_exist(
    deploy: Path, tmp_path: Path
) -> None:
    text = (deploy / "kubernetes/central/deployment.yaml").read_text()
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(text.replace("livenessProbe", "livelinessProbe"))

    assert validate(wrong).returncode != 0


@NEEDS_KUBECTL
@pytest.mark.parametrize("form", FORMS)
def test_config_map_holds_the_file_under_a_name_that_stays(
    deploy: Path, tmp_path: Path, form: str
) -> None:
    found = of_kind(build(deploy / "kubernetes" / form), "ConfigMap")
    (tmp_path / "deuz.yaml").write_text(found["data"]["deuz.yaml"])

    assert found["metadata"]["name"] == "deuz-sidecar"
    assert load_config(tmp_path / "deuz.yaml", {}) == config_of(deploy, form)


@NEEDS_KUBECTL
def test_only_deployments_that_ask_for_it_get_a_sidecar(
    deploy: Path, tmp_path: Path
) -> None:
    shutil.copytree(deploy / "kubernetes", tmp_path / "kubernetes")
    app = tmp_path / "kubernetes/beside/app.yaml"
    without = app.read_text().replace(", deuz-sidecar: beside", "")
    other = without.replace("name: app\n", "name: other\n", 1)
    app.write_text(f"{app.read_text()}---\n{other}")

    found = build(tmp_path / "kubernetes/beside")

    with_sidecar = {
        resource["metadata"]["name"]: "initContainers" in pod(resource)
        for resource in found
        if resource["kind"] == "Deployment"
    }
    assert with_sidecar == {"app": True, "other": False}


@NEEDS_KUBECTL
@pytest.mark.parametrize("form", FORMS)
def test_image_has_the_version_of_the_project(
    root: Path, deploy: Path, form: str
) -> None:
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    built = pod(of_kind(build(deploy / "kubernetes" / form), "Deployment"))

    images = [
        container["image"]
        for container in built.get("initContainers", []) + built["containers"]
        if container["name"] == "deuz-sidecar"
    ]

    assert images == [f"deuz-sidecar:{version}"]


@pytest.mark.parametrize("form", FORMS)
def test_command_exists_and_reads_the_mounted_config(deploy: Path, form: str) -> None:
    container = container_of(deploy, form)

    options = make_parser().parse_args(container["args"])

    mounts = {mount["name"]: mount for mount in container["volumeMounts"]}
    mount = mounts["deuz-sidecar-config"]
    assert options.config == Path(mount["mountPath"]) / "deuz.yaml"
    # A file mounted by subPath never changes.
    assert "subPath" not in mount
    assert set(mounts) == {v["name"] for v in pod_of(deploy, form)["volumes"]}


@pytest.mark.parametrize("form", FORMS)
def test_probes_and_scrapes_go_to_the_admin_port(deploy: Path, form: str) -> None:
    container = container_of(deploy, form)
    host, _, admin_port = config_of(deploy, form).admin.listen.rpartition(":")
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    paths = {
        kind: container[f"{kind}Probe"]["httpGet"]
        for kind in ("startup", "liveness", "readiness")
    }

    assert host == "0.0.0.0"
    assert ports["deuz-admin"] == int(admin_port)
    assert {kind: get["path"] for kind, get in paths.items()} == {
        "startup": "/readyz",
        "liveness": "/healthz",
        "readiness": "/readyz",
    }
    assert {get["port"] for get in paths.values()} == {"deuz-admin"}


@pytest.mark.parametrize("name", ["sidecar/beside.yaml", "central/deployment.yaml"])
def test_annotations_lead_prometheus_to_the_metrics(deploy: Path, name: str) -> None:
    manifest = yaml.safe_load((deploy / "kubernetes" / name).read_text())

    assert manifest["spec"]["template"]["metadata"]["annotations"] == {
        "prometheus.io/scrape": "true",
        "prometheus.io/port": Config().admin.listen.rpartition(":")[2],
        "prometheus.io/path": "/metrics",
    }


def test_sidecar_starts_before_the_application_and_only_its_pod_reaches_it(
    deploy: Path,
) -> None:
    container = container_of(deploy, "beside")
    app = yaml.safe_load((deploy / "kubernetes/beside/app.yaml").read_text())
    variables = {v["name"]: v["value"] for v in pod(app)["containers"][0]["env"]}
    listen = config_of(deploy, "beside").listen

    assert container["restartPolicy"] == "Always"
    assert listen.startswith("127.0.0.1:")
    assert variables == {
        "OPENAI_BASE_URL": f"http://{listen}/v1",
        "ANTHROPIC_BASE_URL": f"http://{listen}",
    }


def test_service_leads_to_the_port_that_the_central_one_listens_on(
    deploy: Path,
) -> None:
    folder = deploy / "kubernetes/central"
    port = yaml.safe_load((folder / "service.yaml").read_text())["spec"]["ports"][0]
    host, _, listen_port = config_of(deploy, "central").listen.rpartition(":")
    ports = container_of(deploy, "central")["ports"]

    assert host == "0.0.0.0"
    assert port["port"] == int(listen_port)
    assert {"name": port["targetPort"], "containerPort": int(listen_port)} in ports


def test_there_is_one_replica_as_long_as_the_ledger_is_in_the_process(
    deploy: Path,
) -> None:
    text = (deploy / "kubernetes/central/deployment.yaml").read_text()

    assert config_of(deploy, "central").ledger.url == "memory://"
    assert yaml.safe_load(text)["spec"]["replicas"] == 1


@pytest.mark.parametrize("form", FORMS)
def test_streams_get_their_grace_before_the_pod_is_killed(
    deploy: Path, form: str
) -> None:
    stop = container_of(deploy, form).get("lifecycle", {}).get("preStop", {})
    pause = int(stop["exec"]["command"][1]) if stop else 0

    grace = pod_of(deploy, form)["terminationGracePeriodSeconds"]

    assert grace >= config_of(deploy, form).limits.drain_seconds + pause + 5


@pytest.mark.parametrize("form", FORMS)
def test_memory_limit_leaves_room_beside_a_full_ledger(deploy: Path, form: str) -> None:
    units = {"Mi": 2**20, "Gi": 2**30}
    text = container_of(deploy, form)["resources"]["limits"]["memory"]

    limit_bytes = int(text[:-2]) * units[text[-2:]]

    assert limit_bytes >= 2 * config_of(deploy, form).ledger.max_bytes


def test_both_forms_run_the_same_container(deploy: Path) -> None:
    beside, central = (container_of(deploy, form) for form in FORMS)

    differing = {
        key for key in {**beside, **central} if beside.get(key) != central.get(key)
    }

    assert differing == DIFFERS


def test_container_has_no_rights_and_takes_the_token_from_a_secret(
    deploy: Path,
) -> None:
    container = container_of(deploy, "central")
    security, token = container["securityContext"], container["env"][0]

    assert security["runAsNonRoot"] is True
    assert security["readOnlyRootFilesystem"] is True
    assert security["allowPrivilegeEscalation"] is False
    assert security["capabilities"] == {"drop": ["ALL"]}
    assert f"USER {security['runAsUser']}:" in (deploy / "Dockerfile").read_text()
    assert token["name"] == TOKEN_VARIABLE
    assert token["valueFrom"]["secretKeyRef"]["optional"] is True
