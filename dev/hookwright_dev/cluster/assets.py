"""Sources of the control plane's binaries.

In order: a folder that the environment names, the cache, the official releases, and a build of ``dev/controlplane``.
Downloads and builds are stored in the cache, completely or not at all.
"""

import hashlib
import os
import platform
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from hookwright_dev.errors import AssetsError, BuildError, ChecksumError, DownloadError, IncompleteAssetsError
from hookwright_dev.exclusion import exclusive
from hookwright_dev.processes import ChildProcess
from hookwright_dev.progress import Show, progress

GO_VERSION = "1.26"
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
FOLDER_VARIABLES = ("HOOKWRIGHT_KUBE_ASSETS", "KUBEBUILDER_ASSETS")
MODULE = Path(__file__).resolve().parents[2] / "controlplane"
"""The Go module that bundles every part, with a file of requirements for each version of Kubernetes."""

VERSION_VARIABLE = "HOOKWRIGHT_KUBERNETES"
_VERSION_PACKAGE = "k8s.io/component-base/version"
_SHIM = """#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/../controlplane" {part} "$@"
"""
_TIMEOUT = httpx.Timeout(20.0, connect=3.0)  # a closed network must fail fast, so that the build follows
_MEGABYTE = 1_000_000


@dataclass(frozen=True)
class Kubernetes:
    """A version of Kubernetes that Hookwright is tested on.

    Attributes:
        version: of kube-apiserver, kube-controller-manager and kubectl.
        etcd: the version of etcd.
        module_file: the file of `MODULE` that requires these versions, in the form of a go.mod.
    """

    version: str
    etcd: str
    module_file: str

    @property
    def ldflags(self) -> str:
        """The linker's flags, which keep the version that kubectl and Helm compare."""
        major, minor, _ = self.version.removeprefix("v").split(".")
        values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean"}
        return " ".join(["-s", "-w", *(f"-X {_VERSION_PACKAGE}.{name}={value}" for name, value in values.items())])


NEWEST = Kubernetes("v1.36.3", "v3.6.8", "go.mod")
OLDEST = Kubernetes("v1.31.4", "v3.5.21", "oldest.mod")
"""The oldest minor version that the chart allows."""


def kubernetes(environ: Mapping[str, str] = os.environ) -> Kubernetes:
    """Return the version that ``HOOKWRIGHT_KUBERNETES`` chooses: ``newest``, which is the default, or ``oldest``.

    Raises `AssetsError` if it has another value.
    """
    version = environ.get(VERSION_VARIABLE) or "newest"
    try:
        return {"newest": NEWEST, "oldest": OLDEST}[version]
    except KeyError:
        raise AssetsError(f'{VERSION_VARIABLE} is "{version}"; it must be newest or oldest') from None


@dataclass(frozen=True)
class Assets:
    """The binaries, each as the words that start it; a part's own arguments follow."""

    etcd: tuple[str, ...]
    kube_apiserver: tuple[str, ...]
    kube_controller_manager: tuple[str, ...]
    kubectl: Path

    @classmethod
    def in_folder(cls, folder: Path, origin: str = "the folder") -> Self:
        """Return the binaries in ``folder``; raises `IncompleteAssetsError` if some are missing or not executable."""
        missing = [part for part in PARTS if not os.access(folder / part, os.X_OK)]
        if missing:
            raise IncompleteAssetsError(
                f"{origin} {folder} lacks {', '.join(missing)}; it must contain the executables {', '.join(PARTS)}"
            )
        etcd, apiserver, controllers = ((str(folder.resolve() / part),) for part in PARTS[:3])
        return cls(etcd, apiserver, controllers, folder.resolve() / "kubectl")


@dataclass(frozen=True)
class Releases:
    """URLs of official releases, and the machine that they are for (Go's names)."""

    kubernetes: str = "https://dl.k8s.io/release"
    etcd: str = "https://github.com/etcd-io/etcd/releases/download"
    system: str = platform.system().lower()
    machine: str = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())


def acquire(
    environ: Mapping[str, str] = os.environ, *, module: Path = MODULE, releases: Releases | None = None
) -> Assets:
    """Return the binaries; fetch or build them first if needed (minutes, with a progress display).

    Raises `IncompleteAssetsError` if the folder named by HOOKWRIGHT_KUBE_ASSETS lacks some. Raises `AssetsError`, with
    the error of each source, if no source works.
    """
    ours, envtest = FOLDER_VARIABLES
    if folder := environ.get(ours):
        return Assets.in_folder(Path(folder).expanduser(), f"{ours}:")
    if folder := environ.get(envtest):
        try:
            return Assets.in_folder(Path(folder).expanduser(), f"{envtest}:")
        except IncompleteAssetsError as error:
            # The variable was set for other projects: envtest's own downloads have no kube-controller-manager.
            print(f"{error}; ignoring it", file=sys.stderr)
    cache = cache_folder(environ, module)
    if not _complete(cache):
        cache.parent.mkdir(parents=True, exist_ok=True)
        with exclusive(cache.parent / f"{cache.name}.lock", "the control plane"):
            if not _complete(cache):  # another process may have filled it while this one waited
                _fill(cache, environ, module, releases or Releases())
    return Assets.in_folder(cache / "bin")


def cache_folder(environ: Mapping[str, str], module: Path = MODULE) -> Path:
    """Return the cache folder, whose name changes with the Kubernetes version and with the Go module's sources."""
    release = kubernetes(environ)
    digest = hashlib.sha256(release.ldflags.encode())
    for path in (Path("main.go"), Path(release.module_file), Path(release.module_file).with_suffix(".sum")):
        digest.update((module / path).read_bytes())
    home = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "hookwright" / f"controlplane-{release.version}-{digest.hexdigest()[:8]}"


def _complete(cache: Path) -> bool:
    return all(os.access(cache / "bin" / part, os.X_OK) for part in PARTS)


def _fill(cache: Path, environ: Mapping[str, str], module: Path, releases: Releases) -> None:
    """Try each source into a scratch folder; the first that succeeds becomes the cache."""
    sources: tuple[Callable[[Path], None], ...] = (
        lambda scratch: download(scratch, releases, kubernetes(environ)),
        lambda scratch: build(scratch, environ, module),
    )
    scratch = cache.parent / f"{cache.name}.part"
    faults: list[str] = []
    for source in sources:
        shutil.rmtree(scratch, ignore_errors=True)
        (scratch / "bin").mkdir(parents=True)
        try:
            source(scratch)
        except AssetsError as fault:
            faults.append(str(fault))
            print(fault, file=sys.stderr)
        else:
            shutil.rmtree(cache, ignore_errors=True)
            scratch.rename(cache)
            return
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
    advice = f"or let {FOLDER_VARIABLES[0]} name a folder with {', '.join(PARTS)}"
    raise AssetsError("\n".join(["no control plane binaries:", *faults, advice]))


def download(scratch: Path, releases: Releases, release: Kubernetes = NEWEST) -> None:
    """Fetch every part's official release into ``scratch/bin``, verified by its published SHA-256.

    Raises `DownloadError` if a release cannot be fetched, and `ChecksumError` if its checksum is not the published one.
    """
    if releases.system != "linux":
        raise DownloadError(f"download: official control plane releases exist for linux, not {releases.system}")
    with (
        httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client,
        progress(f"downloading Kubernetes {release.version} and etcd {release.etcd}") as show,
    ):
        for part in PARTS[1:]:
            url = f"{releases.kubernetes}/{release.version}/bin/linux/{releases.machine}/{part}"
            _download_kubernetes(client, url, scratch / "bin" / part, show)
        _download_etcd(client, scratch, releases, release.etcd, show)


def _download_kubernetes(client: httpx.Client, url: str, target: Path, show: Show) -> None:
    checksum = _text(client, f"{url}.sha256").split()[:1]
    _fetch(client, url, target, "".join(checksum), show)
    target.chmod(0o755)


def _download_etcd(client: httpx.Client, scratch: Path, releases: Releases, version: str, show: Show) -> None:
    name = f"etcd-{version}-linux-{releases.machine}"
    url = f"{releases.etcd}/{version}"
    rows = [line.split() for line in _text(client, f"{url}/SHA256SUMS").splitlines()]
    checksum = "".join(row[0] for row in rows if row[1:] == [f"{name}.tar.gz"])
    archive = scratch / "etcd.tar.gz"
    _fetch(client, f"{url}/{name}.tar.gz", archive, checksum, show)
    with tarfile.open(archive) as tar:
        member = tar.extractfile(f"{name}/etcd")
        assert member is not None
        with member, (scratch / "bin" / "etcd").open("wb") as target:
            shutil.copyfileobj(member, target)
    (scratch / "bin" / "etcd").chmod(0o755)
    archive.unlink()


def _text(client: httpx.Client, url: str) -> str:
    try:
        return client.get(url).raise_for_status().text
    except httpx.HTTPError as fault:
        raise DownloadError(f"download: {url}: {fault}") from fault


def _fetch(client: httpx.Client, url: str, target: Path, checksum: str, show: Show) -> None:
    digest = hashlib.sha256()
    size = 0
    try:
        with client.stream("GET", url) as response, target.open("wb") as output:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                digest.update(chunk)
                size += output.write(chunk)
                show(f"{target.name}: {size // _MEGABYTE} MB")
    except httpx.HTTPError as fault:
        raise DownloadError(f"download: {url}: {fault}") from fault
    if digest.hexdigest() != checksum:
        target.unlink()
        raise ChecksumError(f"download: {url} has SHA-256 {digest.hexdigest()}, published is {checksum or 'none'}")


def build(scratch: Path, environ: Mapping[str, str], module: Path) -> None:
    """Build the Go module into ``scratch``, with one small script for each part in ``scratch/bin``.

    The first build compiles some 1,700 packages. Later builds only link, because of Go's own cache. Raises `BuildError`
    if Go is missing or the build fails.
    """
    go = shutil.which("go", path=environ.get("PATH"))
    if go is None:
        raise BuildError(f"build: there is no `go` on the PATH; install Go {GO_VERSION} or later (https://go.dev/dl)")
    release = kubernetes(environ)
    flags = ("-v", "-trimpath", "-buildvcs=false", f"-modfile={release.module_file}", "-ldflags", release.ldflags)
    with (
        progress(f"building Kubernetes {release.version}, some minutes the first time") as show,
        ChildProcess.start(
            "go build",
            [go, "build", *flags, "-o", scratch / "controlplane", "."],
            log=scratch / "build.log",
            env={**environ, "CGO_ENABLED": "0", "GOWORK": "off"},
            cwd=module,
        ) as compiler,
    ):
        while compiler.running:
            show(f"{len(compiler.log.read_bytes().splitlines())} packages")
            time.sleep(0.2)
    if compiler.returncode != 0:
        raise BuildError(f"build: go build failed:\n{compiler.tail(10)}")
    for part in PARTS:
        shim = scratch / "bin" / part
        shim.write_text(_SHIM.format(part=part))
        shim.chmod(0o755)
