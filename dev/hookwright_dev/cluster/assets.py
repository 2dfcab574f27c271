"""Sources of the control plane's binaries.

In order: a folder that the environment names, the cache, the official releases, and a build of ``dev/controlplane``.
Downloads and builds are stored in the cache, completely or not at all.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Self

import httpx

from hookwright_dev.errors import AssetsError, BuildError, ChecksumError, DownloadError, IncompleteAssetsError
from hookwright_dev.processes import ChildProcess
from hookwright_dev.progress import Show, progress

KUBERNETES_VERSION = "v1.36.3"
ETCD_VERSION = "v3.6.8"
GO_VERSION = "1.26"
PARTS = ("etcd", "kube-apiserver", "kube-controller-manager", "kubectl")
FOLDER_VARIABLES = ("HOOKWRIGHT_KUBE_ASSETS", "KUBEBUILDER_ASSETS")
MODULE = Path(__file__).resolve().parents[2] / "controlplane"
"""The Go module that bundles every part."""

_VERSION_PACKAGE = "k8s.io/component-base/version"
_LDFLAGS = (
    f"-s -w -X {_VERSION_PACKAGE}.gitVersion={KUBERNETES_VERSION} -X {_VERSION_PACKAGE}.gitMajor=1 "
    f"-X {_VERSION_PACKAGE}.gitMinor=36 -X {_VERSION_PACKAGE}.gitTreeState=clean"
)
_SHIM = """#!/bin/sh
exec "$(dirname "$(readlink -f "$0")")/../controlplane" {part} "$@"
"""
_TIMEOUT = httpx.Timeout(20.0, connect=3.0)  # a closed network must fail fast, so that the build follows
_MEGABYTE = 1_000_000


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
        with _locked(cache.parent / f"{cache.name}.lock"):
            if not _complete(cache):  # another process may have filled it while this one waited
                _fill(cache, environ, module, releases or Releases())
    return Assets.in_folder(cache / "bin")


def cache_folder(environ: Mapping[str, str], module: Path = MODULE) -> Path:
    """Return the cache folder, whose name changes with the Kubernetes version and with the Go module's sources."""
    digest = hashlib.sha256(_LDFLAGS.encode())
    for name in ("main.go", "go.mod", "go.sum"):
        digest.update((module / name).read_bytes())
    home = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return home / "hookwright" / f"controlplane-{KUBERNETES_VERSION}-{digest.hexdigest()[:8]}"


def _complete(cache: Path) -> bool:
    return all(os.access(cache / "bin" / part, os.X_OK) for part in PARTS)


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        with progress("waiting for another process that prepares the control plane"):
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _fill(cache: Path, environ: Mapping[str, str], module: Path, releases: Releases) -> None:
    """Try each source into a scratch folder; the first that succeeds becomes the cache."""
    sources: tuple[Callable[[Path], None], ...] = (
        lambda scratch: download(scratch, releases),
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


def download(scratch: Path, releases: Releases) -> None:
    """Fetch every part's official release into ``scratch/bin``, verified by its published SHA-256.

    Raises `DownloadError` if a release cannot be fetched, and `ChecksumError` if its checksum is not the published one.
    """
    if releases.system != "linux":
        raise DownloadError(f"download: official control plane releases exist for linux, not {releases.system}")
    with (
        httpx.Client(timeout=_TIMEOUT, follow_redirects=True) as client,
        progress(f"downloading Kubernetes {KUBERNETES_VERSION} and etcd {ETCD_VERSION}") as show,
    ):
        for part in PARTS[1:]:
            _download_kubernetes(client, part, scratch, releases, show)
        _download_etcd(client, scratch, releases, show)


def _download_kubernetes(client: httpx.Client, part: str, scratch: Path, releases: Releases, show: Show) -> None:
    url = f"{releases.kubernetes}/{KUBERNETES_VERSION}/bin/linux/{releases.machine}/{part}"
    checksum = _text(client, f"{url}.sha256").split()[:1]
    target = scratch / "bin" / part
    _fetch(client, url, target, "".join(checksum), show)
    target.chmod(0o755)


def _download_etcd(client: httpx.Client, scratch: Path, releases: Releases, show: Show) -> None:
    name = f"etcd-{ETCD_VERSION}-linux-{releases.machine}"
    url = f"{releases.etcd}/{ETCD_VERSION}"
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
    received = 0
    try:
        with client.stream("GET", url) as response, target.open("wb") as output:
            response.raise_for_status()
            for chunk in response.iter_bytes():
                digest.update(chunk)
                received += output.write(chunk)
                show(f"{target.name}: {received // _MEGABYTE} MB")
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
    flags = ("-v", "-trimpath", "-buildvcs=false", "-ldflags", _LDFLAGS)
    with (
        progress(f"building Kubernetes {KUBERNETES_VERSION}, some minutes the first time") as show,
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
