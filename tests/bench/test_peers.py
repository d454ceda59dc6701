import subprocess
import sys
from pathlib import Path

import pytest
from tests.bench.peers import PEERS, plan_peers

ROOT = Path(__file__).resolve().parents[2]


def install(home: Path, *names: str) -> None:
    for peer in PEERS:
        if peer.name in names:
            program = home / peer.program
            program.parent.mkdir(parents=True)
            program.touch()


def test_a_peer_that_is_not_installed_is_left_out_and_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    install(tmp_path, "portkey", "litellm")
    own = tmp_path / "run"
    own.mkdir()

    planned = {name: command for name, command, _ in plan_peers(own, tmp_path, 9000)}

    assert list(planned) == ["litellm", "portkey"]
    assert str(tmp_path / PEERS[2].program) in planned["portkey"]
    assert "9000" in (own / "litellm/litellm.json").read_text()
    told = capsys.readouterr().err
    assert "vllm-router: not installed" in told
    assert "headroom: not installed" in told


@pytest.mark.e2e
def test_without_peers_the_sidecar_is_measured_beside_the_floor(tmp_path: Path) -> None:
    module = [sys.executable, "-m", "tests.bench.peers", str(tmp_path)]

    done = subprocess.run(
        [*module, "--rounds", "1"],
        check=False,
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    _, burst = done.stdout.split("\nburst of 4 streams")
    named: dict[str, list[str]] = {}
    for line in burst.splitlines()[1:]:
        name, *figures = line.split() or [""]
        named.setdefault(name, figures)
    assert named["aio-floor"][2] == "1.00"
    # Every answer was a stream of a thousand events, though nobody asked the upstream.
    assert float(named["observe"][6].replace(",", "")) > 0
    assert "listens after" in done.stdout
