"""Sources of the control plane's binaries, and their order."""

import gzip
import hashlib
import io
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
import yaml

from hookwright_dev.cluster.assets import (
    MODULE,
    NEWEST,
    OLDEST,
    PARTS,
    VERSION_VARIABLE,
    Releases,
    acquire,
    controlplane_folder,
    download,
)
from hookwright_dev.cluster.stack import ROOT
from hookwright_dev.errors import ToolError

FAKE_GO = r"""#!/bin/sh
echo built >> "$GO_CALLS"
while [ "$1" != -o ]; do shift; done
/bin/sleep 0.3
printf '#!/bin/sh\necho "$@"\n' > "$2"
/bin/chmod +x "$2"
"""
ACQUIRE = """
import sys
from pathlib import Path
from hookwright_dev.cluster.assets import Releases, acquire
acquire(module=Path(sys.argv[1]), releases=Releases("http://127.0.0.1:9", "http://127.0.0.1:9", "linux", "amd64"))
"""
CLOSED_NETWORK = Releases("http://127.0.0.1:9", "http://127.0.0.1:9", "linux", "amd64")


class QuietHandler(SimpleHTTPRequestHandler):
    """File server without log output."""

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.fixture
def module(tmp_path: Path) -> Path:
    """Return a Go module with the source files that the cache key uses."""
    folder = tmp_path / "module"
    folder.mkdir()
    for name in ("main.go", "go.mod", "go.sum", "oldest.mod", "oldest.sum"):
        (folder / name).write_text(f"content of {name}")
    return folder


@pytest.fixture
def site(tmp_path: Path) -> Iterator[tuple[Path, Releases]]:
    """Yield a release server with the folder it serves; each part is a script that prints its own name."""
    root = tmp_path / "site"
    publish_kubernetes(root)
    publish_etcd(root)
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=str(root)))
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    yield root, Releases(kubernetes=f"{url}/kubernetes", etcd=f"{url}/etcd", system="linux", machine="amd64")
    server.shutdown()
    server.server_close()
    thread.join()


def script(part: str) -> bytes:
    """Return an executable that prints the part's name."""
    return f"#!/bin/sh\necho {part} $@\n".encode()


def publish_kubernetes(root: Path) -> None:
    """Write a release of the Kubernetes parts with their checksums."""
    folder = root / "kubernetes" / NEWEST.version / "bin" / "linux" / "amd64"
    folder.mkdir(parents=True)
    for part in PARTS[1:]:
        (folder / part).write_bytes(script(part))
        (folder / f"{part}.sha256").write_text(hashlib.sha256(script(part)).hexdigest())


def publish_etcd(root: Path) -> None:
    """Write a release of etcd: an archive, and the checksums of all archives in one file."""
    folder = root / "etcd" / NEWEST.etcd
    folder.mkdir(parents=True)
    name = f"etcd-{NEWEST.etcd}-linux-amd64"
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w") as tar:
        member = tarfile.TarInfo(f"{name}/etcd")
        member.size = len(script("etcd"))
        tar.addfile(member, io.BytesIO(script("etcd")))
    archive = gzip.compress(raw.getvalue())
    (folder / f"{name}.tar.gz").write_bytes(archive)
    sums = [
        f"{'0' * 64}  etcd-{NEWEST.etcd}-linux-arm64.tar.gz",
        f"{hashlib.sha256(archive).hexdigest()}  {name}.tar.gz",
    ]
    (folder / "SHA256SUMS").write_text("\n".join(sums) + "\n")


def complete_folder(folder: Path) -> Path:
    """Fill a folder with every part."""
    folder.mkdir(parents=True)
    for part in PARTS:
        (folder / part).write_bytes(script(part))
        (folder / part).chmod(0o755)
    return folder


def environment(tmp_path: Path, go: str | None = None) -> dict[str, str]:
    """Return an environment with its own cache and with ``go`` as the only Go."""
    tools = tmp_path / "tools"
    tools.mkdir(exist_ok=True)
    if go is not None:
        (tools / "go").write_text(go)
        (tools / "go").chmod(0o755)
    return {"XDG_CACHE_HOME": str(tmp_path / "cache"), "PATH": str(tools), "GO_CALLS": str(tmp_path / "go-calls")}


def output(*argv: str | Path) -> str:
    """Return the output of a program."""
    return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()


def cached(environ: dict[str, str]) -> list[str]:
    """Return the names in the cache, except locks."""
    folder = Path(environ["XDG_CACHE_HOME"]) / "hookwright"
    return [path.name for path in folder.iterdir() if path.suffix != ".lock"]


def test_a_folder_named_by_the_environment_comes_first(tmp_path: Path, module: Path) -> None:
    """HOOKWRIGHT_KUBE_ASSETS overrides the cache."""
    environ = environment(tmp_path)
    complete_folder(controlplane_folder(environ, module) / "bin")
    folder = complete_folder(tmp_path / "ours")
    assets = acquire({**environ, "HOOKWRIGHT_KUBE_ASSETS": str(folder)}, module=module)
    assert assets == tuple(folder / part for part in PARTS)


def test_an_incomplete_folder_is_refused_by_name(tmp_path: Path, module: Path) -> None:
    """A folder that HOOKWRIGHT_KUBE_ASSETS names must be complete; the error names the missing parts."""
    variable = "HOOKWRIGHT_KUBE_ASSETS"
    environ = environment(tmp_path)
    complete_folder(controlplane_folder(environ, module) / "bin")
    folder = complete_folder(tmp_path / "gaps")
    (folder / "kube-controller-manager").unlink()
    (folder / "kubectl").chmod(0o644)
    with pytest.raises(ToolError, match=rf"{variable}: \S+ lacks kube-controller-manager, kubectl;"):
        acquire({**environ, variable: str(folder)}, module=module)


def test_official_releases_come_before_a_build(tmp_path: Path, module: Path, site: tuple[Path, Releases]) -> None:
    """If releases can be reached, all four parts are fetched and executable, and Go is not called."""
    environ = environment(tmp_path, FAKE_GO)
    assets = acquire(environ, module=module, releases=site[1])
    assert output(assets.etcd, "--version") == "etcd --version"
    assert output(assets.kube_apiserver) == "kube-apiserver"
    assert output(assets.kube_controller_manager) == "kube-controller-manager"
    assert output(assets.kubectl, "get") == "kubectl get"
    assert not Path(environ["GO_CALLS"]).exists()
    assert cached(environ) == [controlplane_folder(environ, module).name]


def test_without_releases_go_builds_one_binary_for_all(tmp_path: Path, module: Path) -> None:
    """Each part is a script that calls the built binary with the part's name, also through a symbolic link."""
    environ = environment(tmp_path, FAKE_GO)
    assets = acquire(environ, module=module, releases=CLOSED_NETWORK)
    assert output(assets.etcd, "--data-dir", "a b") == "etcd --data-dir a b"
    assert output(assets.kubectl, "get", "pods") == "kubectl get pods"
    (tmp_path / "link").symlink_to(assets.kubectl)
    assert output(tmp_path / "link", "get") == "kubectl get"
    assert acquire(environ, module=module, releases=CLOSED_NETWORK) == assets
    assert Path(environ["GO_CALLS"]).read_text() == "built\n"


def test_two_at_once_build_once(tmp_path: Path, module: Path) -> None:
    """The second process waits for the first and uses its build."""
    environ = environment(tmp_path, FAKE_GO)
    callers = [subprocess.Popen([sys.executable, "-c", ACQUIRE, module], env=environ) for _ in range(2)]
    assert [caller.wait(30) for caller in callers] == [0, 0]
    assert Path(environ["GO_CALLS"]).read_text() == "built\n"


def test_the_environment_chooses_the_oldest_version(tmp_path: Path, module: Path) -> None:
    """Each version has a cache, and is built from its own file of requirements."""
    environ = {**environment(tmp_path, FAKE_GO.replace("built", "$*")), VERSION_VARIABLE: "oldest"}
    acquire(environ, module=module, releases=CLOSED_NETWORK)
    (name,) = cached(environ)
    assert name.startswith(f"controlplane-{OLDEST.version}-")
    called = Path(environ["GO_CALLS"]).read_text()
    assert "-modfile=oldest.mod" in called
    assert f"gitVersion={OLDEST.version}" in called
    with pytest.raises(ToolError, match=r'is "1\.31"; it must be newest or oldest'):
        acquire({**environ, VERSION_VARIABLE: "1.31"}, module=module)


def test_the_chart_allows_the_oldest_tested_version_and_none_before_it() -> None:
    """A version that no test runs on is not promised."""
    chart = yaml.safe_load((ROOT / "charts" / "hookwright" / "Chart.yaml").read_text())
    minor = OLDEST.version.removeprefix("v").rpartition(".")[0]
    assert chart["kubeVersion"] == f">={minor}.0-0"
    for release in (NEWEST, OLDEST):
        required = (MODULE / release.module_file).read_text()
        assert f"k8s.io/kubernetes {release.version}\n" in required
        assert f"go.etcd.io/etcd/server/v3 {release.etcd}\n" in required


def test_what_an_interrupted_run_left_is_replaced(tmp_path: Path, module: Path) -> None:
    """An incomplete download or build is never used."""
    environ = environment(tmp_path, FAKE_GO)
    cache = controlplane_folder(environ, module)
    leftover = cache.with_name(f"{cache.name}.part") / "bin"
    leftover.mkdir(parents=True)
    (leftover / "etcd").touch(mode=0o755)
    assert output(acquire(environ, module=module, releases=CLOSED_NETWORK).kubectl, "x") == "kubectl x"
    assert cached(environ) == [cache.name]


def test_without_any_way_the_error_tells_what_each_failed_on(tmp_path: Path, module: Path) -> None:
    """The error without network and Go names both, and the cache stays empty."""
    environ = environment(tmp_path)
    with pytest.raises(ToolError) as error:
        acquire(environ, module=module, releases=CLOSED_NETWORK)
    for reason in ("http://127.0.0.1:9/", "install Go 1.26", "HOOKWRIGHT_KUBE_ASSETS"):
        assert reason in str(error.value)
    assert cached(environ) == []


@pytest.mark.parametrize(
    "path",
    [
        f"kubernetes/{NEWEST.version}/bin/linux/amd64/kube-apiserver",
        f"etcd/{NEWEST.etcd}/etcd-{NEWEST.etcd}-linux-amd64.tar.gz",
    ],
)
def test_a_wrong_checksum_is_refused_and_leaves_nothing(
    tmp_path: Path, module: Path, site: tuple[Path, Releases], path: str
) -> None:
    """A file that differs from the published one is neither kept nor used, and the error names it."""
    root, releases = site
    (root / path).write_bytes((root / path).read_bytes() + b"# tampered")
    (tmp_path / "scratch" / "bin").mkdir(parents=True)
    with pytest.raises(ToolError, match=f"{path} has SHA-256"):
        download(tmp_path / "scratch", releases)
    environ = environment(tmp_path)
    with pytest.raises(ToolError, match=f"{path} has SHA-256"):
        acquire(environ, module=module, releases=releases)
    assert cached(environ) == []


def test_the_policy_names_the_versions_of_the_tests() -> None:
    """Both tested minor versions of Kubernetes are in docs/policy.md."""
    page = (ROOT / "docs" / "policy.md").read_text()
    (row,) = [line for line in page.splitlines() if line.startswith("| Kubernetes |")]
    for tested in (NEWEST, OLDEST):
        assert f" {tested.version.removeprefix('v').rpartition('.')[0]}" in row
